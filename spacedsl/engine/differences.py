"""Comparisons of counters that contradict each other in a circle, whatever is decided.

In: the propagators of a space and the static tests of an instance. Out: whether `a + 1 <= b`, `b <= a` and
the like, which hold unconditionally, leave no values at all. Intervals alone would have to climb to their
ends to find this out, and come to rest before: see `FOLLOWED_BITS`. Counters are the vertices of a graph, `a
+ w <= b` is an edge from a to b of weight w, and a circle of positive weight is a contradiction (Bellman and
Ford).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from spacedsl.compiler import CompiledSpace
from spacedsl.compiler.ir import AtMost, IntegerEquality, Linear, Make, Statement
from spacedsl.engine.quantities.sites import bindings
from spacedsl.engine.static import Statics
from spacedsl.language.space import Counter, Space

Edge = tuple[int, int, int]
"""From the cell of one counter to that of another, with the weight."""


def contradict(compiled: CompiledSpace, statics: Statics) -> bool:
    edges: list[Edge] = []
    for propagator in compiled.module.propagators:
        pairs = [pair for s in propagator.body for pair in _compared(compiled.complete, s)]
        if len(propagator.body) == 1 and pairs:
            for environment in bindings(statics, propagator.loops, {}):
                edges += (_edge(pair, statics, environment) for pair in pairs)
    return _has_positive_circle(edges)


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


def _edge(pair: tuple[Linear, Linear], statics: Statics, environment: Mapping[str, int]) -> Edge:
    left, right = pair
    assert left.use is not None
    assert right.use is not None
    assert isinstance(left.factor, int)
    cells = [
        statics.layout.cells[use.choice][tuple(environment[a] for a in use.args)]
        for use in (left.use, right.use)
    ]
    more = statics.offset(left, environment) - statics.offset(right, environment)
    return cells[0], cells[1], -(-more // left.factor)


def _has_positive_circle(edges: Sequence[Edge]) -> bool:
    """Whether lower bounds along the edges still grow after as many rounds as there are vertices."""
    low = {cell: 0 for edge in edges for cell in edge[:2]}
    for _ in range(len(low) + 1):
        grown = False
        for source, target, weight in edges:
            if low[source] + weight > low[target]:
                low[target] = low[source] + weight
                grown = True
        if not grown:
            return False
    return True
