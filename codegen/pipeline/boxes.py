"""The points that a step computes at a time, and loops over them.

In: a step, the spans of its box, the arrays that there are. Out: loops over some dimensions, around what
somebody else makes of each point; where what a number decides is decided here, points are written out, or
taken in pairs. What a point computes is for `points.py`, rows and vectors are for `bodies.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from spacedsl.codegen.pipeline.blocks import Array, Point
from spacedsl.codegen.pipeline.edges import by_parity, decides
from spacedsl.codegen.pipeline.placement import Spans
from spacedsl.codegen.tree.expressions import Register
from spacedsl.codegen.tree.program import Statement, Sweep
from spacedsl.codegen.tree.ranges import Ranges
from spacedsl.kernels.pipeline.affine import Linear, extreme, quotient, variable
from spacedsl.kernels.pipeline.algorithm import Stage, Update
from spacedsl.kernels.pipeline.backbone import MOST_WRITTEN_OUT, Step
from spacedsl.kernels.pipeline.lanes import Layouts, innermost, widths


@dataclass(frozen=True, slots=True)
class Setting:
    """What bodies are made in."""

    arrays: Mapping[str, Array]
    inlined: Mapping[str, Stage]
    fresh: Callable[[str], str]
    vector_bytes: int
    layouts: Layouts
    is_added: bool = False
    """Whether what an update adds up is added to memory, where others add as well."""
    sums: tuple[Register, ...] | None = None
    """Where the results of a single point are added up, to be stored by others."""


@dataclass(frozen=True, slots=True)
class StepBox:
    """What one iteration of the loops around computes of a step."""

    step: Step
    spans: Spans
    around: Spans
    """Points that it may compute as well, where that is easier: these are part of them."""
    setting: Setting

    @property
    def stage(self) -> Stage:
        return self.step.stage

    @property
    def array(self) -> Array:
        return self.setting.arrays[self.stage.name]

    @property
    def rows(self) -> tuple[str, ...]:
        """The dimensions that are not along vectors, outermost first."""
        kept = [v for v in self.stage.variables if v in self.step.variables]
        return tuple(v for v in reversed(kept) if v != self.along)

    @property
    def along(self) -> str | None:
        """The dimension along which neighbours lie beside each other, where the step goes along it."""
        first = innermost(self.stage, self.setting.layouts)
        return first if first in self.step.variables else None

    @property
    def update(self) -> Update | None:
        return None if self.step.update is None else self.stage.updates[self.step.update]

    def over(
        self,
        dims: Sequence[str],
        point: Point,
        ranges: Ranges,
        inner: Callable[[Point, Ranges], tuple[Statement, ...]],
    ) -> tuple[Statement, ...]:
        """A loop for each dimension, the first one outermost."""
        if not dims:
            return inner(point, ranges)
        dim, *others = dims
        span = self.spans[dim]
        if span.most == 1 and not span.may_be_empty:
            return self.over(others, {**point, dim: span.first}, ranges, inner)
        if self.is_written_out(dim):
            points = ({**point, dim: span.first + Linear(n)} for n in range(span.most))
            return tuple(s for each in points for s in self.over(others, each, ranges, inner))

        def at(place: Linear, within: Ranges) -> tuple[Statement, ...]:
            return self.over(others, {**point, dim: place}, within, inner)

        if self.is_by_parity(dim) and (pairs := self.by_parity(dim, ranges, at)):
            return pairs
        name = self.setting.fresh(f"{self.stage.name}_{dim}")
        statements = at(variable(name), ranges.with_loop(name, span.first, span.last))
        return (Sweep(name, span.first, span.last, 1, statements),)

    def by_parity(
        self, dim: str, ranges: Ranges, at: Callable[[Linear, Ranges], tuple[Statement, ...]]
    ) -> tuple[Statement, ...]:
        """Points in order; of each pair, the even one and the odd one in loops of their own, of one iteration
        or, at an end, of none: so what it decides is decided here. Nothing where one is not plainly inside.
        """
        span = self.spans[dim]
        pair = self.setting.fresh(f"{self.stage.name}_{dim}_pair")
        begin, end = quotient(span.first, 2), quotient(span.last, 2)
        statements: list[Statement] = []
        for odd in (0, 1):
            name = self.setting.fresh(f"{self.stage.name}_{dim}_half")
            first = extreme("max", variable(pair), quotient(span.first + Linear(1 - odd), 2))
            last = extreme("min", variable(pair), quotient(span.last + Linear(-odd), 2))
            place = variable(name) * 2 + Linear(odd)
            within = ranges.with_loop(pair, begin, end).with_loop(name, first, last)
            if not self.is_known_inside(dim, place, within):
                return ()
            statements.append(Sweep(name, first, last, 1, at(place, within)))
        return (Sweep(pair, begin, end, 1, tuple(statements)),)

    def is_known_inside(self, dim: str, at: Linear, ranges: Ranges, count: int = 1) -> bool:
        """Whether so many points from there on are plainly all of what is computed, and nothing beside it."""
        span = self.spans[dim]
        return ranges.is_natural(at + span.first * -1) and ranges.is_natural(
            span.last + at * -1 + Linear(1 - count)
        )

    def is_by_parity(self, dim: str) -> bool:
        """Whether what is decided by a number along a dimension is decided by whether it is even.

        Threads of a GPU have few numbers each, and find out which.
        """
        if self.step.update is not None or self.setting.vector_bytes == 1:
            return False
        return by_parity(self.step.definition, self.setting.inlined, self.whole({}), dim)

    def is_written_out(self, dim: str) -> bool:
        """Whether what is decided by the number along a dimension is decided here: of colours, which one."""
        span = self.spans[dim]
        if span.most > MOST_WRITTEN_OUT or not span.is_full or span.first.terms:
            return False
        return decides(self.step.definition, self.setting.inlined, self.whole({}), dim)

    def whole(self, point: Point) -> Point:
        """With variables where nothing else is said."""
        return {**{v: variable(v) for v in self.spans}, **point}

    def lanes(self, most: int, along: str | None = None, *, is_woven: bool = False) -> int:
        """So many that vectors of the widest values are as wide as those of the machine.

        `along`: the range that they go along, if it is one.
        """
        definition, inlined = self.step.definition, self.setting.inlined
        widest = max(widths(self.stage, definition, inlined, along, is_woven=is_woven))
        lanes = max(1, min(self.setting.vector_bytes // widest, most))
        return 1 << lanes.bit_length() - 1
