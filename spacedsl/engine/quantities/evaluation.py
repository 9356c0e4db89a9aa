"""The intervals of all nodes of a graph for the working vector, kept up to date as domains change.

In: a graph, the working vector, the universes of integers. Out: `low[n]` and `high[n]` after `refresh`.
Nothing here is part of a candidate: when another vector is loaded, the leaves whose words differ are computed
anew, and of the other nodes only those that a change reaches, each once, in order of their numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from spacedsl.compiler.ir import SATURATED
from spacedsl.engine.quantities.intervals import Interval, clamped, computed
from spacedsl.engine.quantities.nodes import INFINITE, LEAVES, Graph, Node, Op


def leaf(node: Node, v: Sequence[int], universes: Mapping[int, tuple[int, ...]]) -> Interval:
    """The interval of a leaf for a working vector."""
    word = v[node.cell]
    match node.op:
        case Op.POSITION:
            return (word & -word).bit_length() - 1, word.bit_length() - 1
        case Op.INTEGER:
            universe = universes[node.cell]
            least = universe[(word & -word).bit_length() - 1]
            return clamped(least), clamped(universe[word.bit_length() - 1])
        case Op.COUNTER:
            low, high = word, v[node.cell + 1]
            return clamped(low), INFINITE if high == SATURATED else clamped(high)
        case Op.IN_MASK:
            mask = node.data[0]
            return int(not word & ~mask), int(bool(word & mask))
    raise TypeError(f"no leaf: {node}")


@dataclass(slots=True, eq=False)
class Evaluation:
    """One mutable state, of the working vector `v`; `changed` takes note of cells, `refresh` computes."""

    graph: Graph
    v: Sequence[int]
    universes: Mapping[int, tuple[int, ...]]
    low: list[int] = field(default_factory=list)
    high: list[int] = field(default_factory=list)
    _read: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By cell: the words that the intervals are of."""
    _dirty: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        for node in self.graph.nodes:
            low, high = (
                leaf(node, self.v, self.universes)
                if node.op in LEAVES
                else computed(node, self.low, self.high)
            )
            self.low.append(low)
            self.high.append(high)
        for cell in self.graph.leaves:
            self._read[cell] = self._words(cell)

    def load(self) -> None:
        """Another vector has been written over the working one."""
        self._dirty.update(cell for cell, words in self._read.items() if words != self._words(cell))
        self.refresh()

    def _words(self, cell: int) -> tuple[int, int]:
        """Both ends of a counter, or the one mask."""
        return self.v[cell], self.v[cell + 1] if cell in self.graph.counters else 0

    def changed(self, cell: int) -> None:
        if cell in self._read:
            self._dirty.add(cell)

    def refresh(self) -> None:
        if not self._dirty:
            return
        changes: list[tuple[int, Interval]] = []
        for cell in self._dirty:
            self._read[cell] = self._words(cell)
            nodes = self.graph.leaves[cell]
            changes += [(n, leaf(self.graph.nodes[n], self.v, self.universes)) for n in nodes]
        self._dirty.clear()
        self._spread(changes)

    def _spread(self, changes: Sequence[tuple[int, Interval]]) -> None:
        """Writes new ends of leaves, and all that follows."""
        users, lows, highs = self.graph.users, self.low, self.high
        pending: list[int] = []
        queued: set[int] = set()

        def write(n: int, low: int, high: int) -> None:
            if low == lows[n] and high == highs[n]:
                return
            lows[n], highs[n] = low, high
            for user in users[n]:
                if user not in queued:
                    queued.add(user)
                    heappush(pending, user)

        for n, (low, high) in changes:
            write(n, low, high)
        while pending:
            n = heappop(pending)
            write(n, *computed(self.graph.nodes[n], lows, highs))
