"""The graph of quantities of an instance, as generated C reads it.

In: the graph that the root without limits gives rise to, and who asks about which of its nodes. Out: the
arrays of `compiler/c/quantities.h`.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacedsl.compiler.ir import Limit
from spacedsl.engine.layout import INTEGER_WORDS, WORD_BITS, Layout
from spacedsl.engine.native.library import NODE_FIELDS
from spacedsl.engine.native.tables import Pool
from spacedsl.engine.objects import Key
from spacedsl.engine.quantities.building import Builder
from spacedsl.engine.quantities.grounding import Grounding
from spacedsl.engine.quantities.nodes import Graph, Node, Op
from spacedsl.engine.quantities.sites import Asking
from spacedsl.engine.static import Statics


@dataclass(slots=True, eq=False)
class NativeGraph:
    """`nodes[comparison][ids]` are nodes; `leaves` has an entry for each word of a vector."""

    instances: Mapping[tuple[str, Key], int]
    """Nodes of quantities on objects."""
    nodes: dict[Limit, dict[Key, int]] = field(default_factory=dict)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    leaves: dict[int, int] = field(default_factory=dict)
    calls: int = 0


def ground(
    found: Sequence[tuple[int, Asking]],
    statics: Statics,
    root: array[int],
    numbers: NDArray[np.int32],
) -> NativeGraph:
    """`root`: after everything that involves no quantity; `numbers`: of objects in C, by id.

    `found`: who asks, each with its number.
    """
    v, layout = list(root), statics.layout
    for cell in layout.wide:
        v[cell] = sum(v[cell + word] << WORD_BITS * word for word in range(INTEGER_WORDS))
    grounding = Grounding(statics, Builder(v, layout.universes))
    grounding.all_instances()
    found_nodes: dict[Limit, dict[Key, int]] = {}
    links = Pool([0])
    calls: dict[tuple[int, Key], int] = {}
    calls_of: dict[int, dict[int, None]] = {}
    for propagator, asking in found:
        condition = grounding.condition(asking.template)
        nodes = found_nodes.setdefault(asking.template, {})
        for key, arguments in asking.sites:
            asked = nodes[key] = condition(key)
            call = calls.setdefault((propagator, arguments), len(calls))
            calls_of.setdefault(asked, {})[call] = None
    graph = grounding.graph()
    result = NativeGraph(graph.instances, found_nodes)
    places = [links.add((number, *(int(numbers[i]) for i in ids))) for number, ids in calls]
    result.calls = len(calls)
    result.arrays["calls"] = np.array(places or [0], np.int32)
    data, nobody = Pool([0]), links.add((0,))
    rows: list[tuple[int, ...]] = []
    for n, node in enumerate(graph.nodes):
        operands, added = _ordered(node)
        users, called = graph.users[n], calls_of.get(n)
        rows.append(
            (
                node.op,
                node.cell,
                links.append(operands),
                len(operands),
                added if node.op is Op.SUM else data.add(tuple(map(_signed, node.data))) if node.data else 0,
                links.append((len(users), *users)) if users else nobody,
                links.add((len(called), *called)) if called else nobody,
            )
        )
    result.arrays["nodes"] = np.array(rows, np.int32).reshape(-1, len(NODE_FIELDS))
    _add_cells(result, graph, layout, links)
    result.arrays["node_data"] = np.array(data.items, np.int64)
    result.arrays["links"] = np.array(links.items, np.int32)
    return result


def _add_cells(result: NativeGraph, graph: Graph, layout: Layout, links: Pool) -> None:
    """By word: the leaves that read its domain."""
    for cell, leaves in graph.leaves.items():
        words = 2 if cell in graph.counters else INTEGER_WORDS if cell in layout.universes else 1
        for word in range(cell, cell + words):
            result.leaves[word] = links.add((len(leaves), *leaves))


def _ordered(node: Node) -> tuple[tuple[int, ...], int]:
    """The operands of a node; of a sum, what is added first, and how many these are."""
    if node.op is not Op.SUM:
        return node.operands, 0
    pairs = list(zip(node.operands, node.data, strict=True))
    added = [n for n, sign in pairs if sign > 0]
    return (*added, *(n for n, sign in pairs if sign < 0)), len(added)


def _signed(value: int) -> int:
    """A mask of 64 bits as the signed number of the same bits."""
    return value - (1 << WORD_BITS) if value >> (WORD_BITS - 1) == 1 else value
