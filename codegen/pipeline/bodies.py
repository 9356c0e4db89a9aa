"""What a step computes of its box without loops of a level: rows, vectors along them, and what is left over.

In: a step, the spans of its box, the arrays that there are. Out: statements. Neighbours along the innermost
dimension are computed as vectors, where reads of them lie beside each other away from edges of images; one
that would go beyond the end begins earlier. Small boxes are for `small_boxes.py`. Where sums go along rows,
lanes have partial results. Where even and odd points read neighbours each, they are computed apart, and
woven. Which box it is has been decided.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from spacedsl.codegen.pipeline.blocks import Block, Lanes, Point, with_lets
from spacedsl.codegen.pipeline.boxes import Setting
from spacedsl.codegen.pipeline.edges import is_woven
from spacedsl.codegen.pipeline.middles import Middle, edges
from spacedsl.codegen.pipeline.placement import Spans
from spacedsl.codegen.pipeline.small_boxes import Ahead, SmallBoxes
from spacedsl.codegen.tree.program import Statement, Sweep, When
from spacedsl.codegen.tree.ranges import Ranges
from spacedsl.kernels.pipeline.affine import Linear, extreme, quotient, variable
from spacedsl.kernels.pipeline.algorithm import Stage
from spacedsl.kernels.pipeline.backbone import Step
from spacedsl.kernels.pipeline.lanes import summed_along


def body(step: Step, spans: Spans, around: Spans, ranges: Ranges, setting: Setting) -> tuple[Statement, ...]:
    """`around`: points that may be computed as well, of which the spans are part."""
    return _Body(step, spans, around, setting).statements(ranges)


@dataclass(frozen=True, slots=True)
class _Body(SmallBoxes):
    """All of a box, in rows and vectors."""

    @property
    def summed(self) -> tuple[str, int] | None:
        """The range along which lanes have partial results of their own, and how many of them."""
        dim = None if self.setting.is_added else summed_along(self.step, self.setting.layouts)
        lanes = 1 if dim is None else self.lanes(self.spans[dim].most, dim)
        return None if dim is None or lanes == 1 else (dim, lanes)

    def statements(self, ranges: Ranges) -> tuple[Statement, ...]:
        if (summed := self.summed) is not None:
            dims = [v for v in reversed(self.stage.variables) if v in self.step.variables]
            return self.over(dims, {}, ranges, lambda point, inner: self.sums(*summed, point, inner))
        if self.along is None:
            return self.over(self.rows, {}, ranges, lambda point, inner: self.cells([point], None, inner))
        along, most = self.along, self.spans[self.along].most
        lanes = self.lanes(most)
        half = self.lanes(most, is_woven=True) // 2 if self.is_woven else 0
        rolled = self.over(
            self.rows, {}, ranges, lambda point, inner: self.row(along, lanes, half, point, inner)
        )
        if half > 1:
            return rolled
        unrolled = self.unrolled(along, lanes, ranges)
        if unrolled is None:
            return rolled
        holds, statements = unrolled
        return _where(holds, statements, rolled)

    @property
    def is_woven(self) -> bool:
        """Whether even and odd points of a row are computed apart."""
        definition = self.step.definition
        return (
            isinstance(definition, Stage)
            and self.along is not None
            and is_woven(
                definition,
                self.setting.inlined,
                self.setting.layouts,
                self.whole({}),
                self.along,
            )
        )

    def row(self, dim: str, lanes: int, half: int, point: Point, ranges: Ranges) -> tuple[Statement, ...]:
        """Vectors in the middle, where lanes read neighbours; single points beside it.

        `half`: lanes of vectors of even points, and of odd ones, where these are better computed apart.
        """
        span = self.spans[dim]
        if span.most == 1 and not span.may_be_empty:
            return self.cells([{**point, dim: span.first}], None, ranges)
        if lanes == 1 and half < 2:
            return (self.single(dim, point, ranges, span.first, span.last),)
        middle = Middle.of(span, dim, edges(self, dim, point, ranges), self.setting.fresh)
        ranges = with_lets(middle.lets, ranges)
        single = partial(self.single, dim, point, ranges)
        inner = self.woven(dim, half, point, middle, ranges) if half > 1 else ()
        found: list[Statement] = [*middle.lets]
        if middle.has_before:
            found.append(single(span.first, extreme("min", middle.first + Linear(-1), span.last)))
        found += inner or self.vectors(dim, lanes, point, middle, ranges)
        if middle.has_behind:
            found.append(single(extreme("max", middle.last + Linear(1), middle.first), span.last))
        return tuple(found)

    def single(self, dim: str, point: Point, ranges: Ranges, first: Linear, last: Linear) -> Sweep:
        """Points of a row, one by one."""
        name = self.setting.fresh(f"{self.stage.name}_{dim}")
        within = ranges.with_loop(name, first, last)
        return Sweep(name, first, last, 1, self.cells([{**point, dim: variable(name)}], None, within))

    def woven(
        self, dim: str, half: int, point: Point, middle: Middle, ranges: Ranges
    ) -> tuple[Statement, ...]:
        """The middle, of which vectors of even and of odd points are computed, and stored in turns.

        Nothing where one of them, or what it reads, is not plainly inside.
        """
        first, last = middle.first, middle.last
        begin, pairs = quotient(first + Linear(1), 2), quotient(last + Linear(-1), 2)
        end = pairs + Linear(1 - half)
        if not self.is_known_inside(
            dim, variable("pair") * 2, ranges.with_loop("pair", begin, end), 2 * half
        ):
            return ()
        single = partial(self.single, dim, point, ranges)
        vectors = self.held_back(
            dim,
            (begin, pairs),
            half,
            begin,
            ranges,
            lambda name, within: self.pairs(dim, Lanes(name, half), point, within),
        )
        if vectors is None:
            return ()
        beside = single(first, extreme("min", begin * 2 + Linear(-1), last))
        behind = single(extreme("max", first, pairs * 2 + Linear(2)), last)
        is_long, loop = vectors
        return (beside, *_where(is_long, (loop, behind), (single(begin * 2, last),)))

    def pairs(self, dim: str, lanes: Lanes, point: Point, ranges: Ranges) -> tuple[Statement, ...]:
        """Lanes of even points, and of odd ones; all of them lie beside each other.

        Nothing where something is read that is not plainly inside of its array.
        """
        block, values = Block(ranges), self.values(lanes, frozenset())
        place = variable(lanes.variable) * 2
        even, odd = (
            [values.value(v, {**point, dim: place + Linear(n)}, block) for v in self.stage.values]
            for n in (0, 1)
        )
        where = [{**point, dim: place}[v] for v in self.stage.variables]
        values.weave(self.array, where, even, odd, block)
        return tuple(block.statements) if values.is_plain(block) else ()

    def vectors(
        self, dim: str, lanes: int, point: Point, middle: Middle, ranges: Ranges
    ) -> tuple[Statement, ...]:
        """The middle; what would go beyond its end begins earlier; of an update, single points are left."""
        first, last = middle.first, middle.last
        wanted, end = f"{self.stage.name}_{dim}", last + Linear(1 - lanes)

        def cells(at: str, within: Ranges) -> tuple[Statement, ...]:
            return self.cells([{**point, dim: variable(at)}], Lanes(at, lanes) if lanes > 1 else None, within)

        is_even = middle.is_whole and middle.most % lanes == 0
        if is_even or self.update is not None:
            name = self.setting.fresh(wanted)
            loop = Sweep(name, first, end, lanes, cells(name, ranges.with_loop(name, first, end)))
            if is_even:
                return (loop,)
            start = first + extreme("max", quotient(last + first * -1 + Linear(1), lanes), Linear(0)) * lanes
            return (loop, self.single(dim, point, ranges, start, last))
        earliest = first if middle.has_before else self.around[dim].first
        held = self.held_back(dim, (first, last), lanes, earliest, ranges, cells)
        assert held is not None, "a point has a value"
        is_long, loop = held
        return _where(is_long, (loop,), (self.single(dim, point, ranges, first, last),))

    def held_back(
        self,
        dim: str,
        ends: tuple[Linear, Linear],
        count: int,
        earliest: Linear,
        ranges: Ranges,
        cells: Callable[[str, Ranges], tuple[Statement, ...]],
    ) -> tuple[Ahead, Sweep] | None:
        """A loop from a first position to a last one, so many at a time: those that would go beyond the last
        one begin earlier. It is right where what comes with it holds: nothing has to, where there always is
        room for that from the earliest position on. None where nothing is made of it.
        """
        first, last = ends
        wanted = f"{self.stage.name}_{dim}"
        name, turn = self.setting.fresh(wanted), self.setting.fresh(f"{wanted}_turn")
        end, length = last + Linear(1 - count), last + first * -1 + Linear(1)
        # From the first one on; then, where something is left, from where it ends with the last one.
        whole = quotient(length, count)
        turns = extreme("min", extreme("min", Linear(1), length + whole * -count), whole)
        begin, holds = extreme("min", end, first + variable(turn) * self.spans[dim].most), Ahead()
        if not ranges.is_natural(end + earliest * -1):
            begin, holds = extreme("max", first, begin), (end + first * -1,)
        inner = cells(name, ranges.with_loop(turn, Linear(0), turns).with_loop(name, begin, end))
        loop = Sweep(turn, Linear(0), turns, 1, (Sweep(name, begin, end, count, inner),))
        return (holds, loop) if inner else None


def _where(
    holds: Ahead, body: tuple[Statement, ...], otherwise: tuple[Statement, ...]
) -> tuple[Statement, ...]:
    """`otherwise`: where there is anything that may not hold."""
    return (When(holds, body, otherwise),) if holds else body
