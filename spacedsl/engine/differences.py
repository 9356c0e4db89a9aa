"""Comparisons of counters that contradict each other in a circle, whatever is decided.

In: the propagators of a space and the static tests of an instance. Out: comparisons like `a + 1 <= b` and
`b <= a`, which hold unconditionally and leave no values at all, in the order of their circle. Intervals alone
would have to climb to their ends to find this out, and come to rest before: see `FOLLOWED_BITS`. Counters are
the vertices of a graph, `a + w <= b` is an edge from a to b of weight w, and a circle of positive weight is a
contradiction (Bellman and Ford).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from spacedsl.compiler import CompiledSpace
from spacedsl.compiler.ir import AtMost, IntegerEquality, Linear, Make, Propagator, Statement
from spacedsl.engine.quantities.sites import bindings
from spacedsl.engine.static import Statics
from spacedsl.language.space import Counter, Space


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """The counter at `target` is at least that at `source` and `weight`, by a propagator on objects."""

    source: int
    target: int
    weight: int
    propagator: Propagator
    binding: Mapping[str, int]
    """By variable: the object's number."""


def contradictory_circle(compiled: CompiledSpace, statics: Statics) -> tuple[Difference, ...]:
    """Each starts where the one before it ends, and the first where the last one does; empty: no circle."""
    edges: list[Difference] = []
    for propagator in compiled.module.propagators:
        pairs = [pair for s in propagator.body for pair in _compared(compiled.complete, s)]
        if len(propagator.body) == 1 and pairs:
            for environment in bindings(statics, propagator.loops, {}):
                edges += (_difference(propagator, pair, statics, environment) for pair in pairs)
    return _positive_circle(edges)


def _compared(space: Space, statement: Statement) -> Iterator[tuple[Linear, Linear]]:
    """left <= right of two counters with one factor."""
    match statement:
        case Make(AtMost(left, right)):
            found = [(left, right)]
        case Make(IntegerEquality(left, right, True)):
            found = [(left, right), (right, left)]
        case _:
            return
    for left, right in found:
        uses = [side.use for side in (left, right) if side.use is not None]
        are_counters = all(isinstance(space.choices[use.choice], Counter) for use in uses)
        factor, other = left.factor, right.factor
        if len(uses) == 2 and are_counters and isinstance(factor, int) and factor == other and factor > 0:
            yield left, right


def _difference(
    propagator: Propagator,
    pair: tuple[Linear, Linear],
    statics: Statics,
    environment: Mapping[str, int],
) -> Difference:
    left, right = pair
    assert left.use is not None
    assert right.use is not None
    assert isinstance(left.factor, int)
    cells = [
        statics.layout.cells[use.choice][tuple(environment[a] for a in use.args)]
        for use in (left.use, right.use)
    ]
    more = statics.offset(left, environment) - statics.offset(right, environment)
    return Difference(cells[0], cells[1], -(-more // left.factor), propagator, environment)


def _positive_circle(edges: Sequence[Difference]) -> tuple[Difference, ...]:
    """Lower bounds along the edges still grow after as many rounds as there are vertices: why."""
    low = {cell: 0 for edge in edges for cell in (edge.source, edge.target)}
    raised_by: dict[int, Difference] = {}
    grown: list[int] = []
    for _ in range(len(low) + 1):
        grown = []
        for edge in edges:
            if low[edge.source] + edge.weight > low[edge.target]:
                low[edge.target] = low[edge.source] + edge.weight
                raised_by[edge.target] = edge
                grown.append(edge.target)
        if not grown:
            return ()
    return _circle_behind(grown[-1], raised_by)


def _circle_behind(cell: int, raised_by: Mapping[int, Difference]) -> tuple[Difference, ...]:
    """Going back from a vertex that grew too often leads into a circle; it is told from its least cell."""
    for _ in raised_by:
        cell = raised_by[cell].source
    circle = [raised_by[cell]]
    while circle[-1].source != cell:
        circle.append(raised_by[circle[-1].source])
    circle.reverse()
    first = min(range(len(circle)), key=lambda at: circle[at].source)
    return (*circle[first:], *circle[:first])
