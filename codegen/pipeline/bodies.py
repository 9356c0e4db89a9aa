"""What a step computes of its box without loops of a level: rows, vectors along them, and what is left over.

In: a step, the spans of its box, the arrays that there are. Out: statements. Neighbours along the innermost
dimension are computed as vectors, where reads of them lie beside each other away from the edges of images.
Where a box is small and all of it is there, its points are unrolled, and share what they read; sums over
ranges are kept in registers. Where sums go along rows, lanes have partial results. Where even and odd points
read neighbours each, they are computed apart, and woven. Which box it is has been decided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from spacedsl.codegen.pipeline.arithmetic import Value, alike, constant
from spacedsl.codegen.pipeline.blocks import Array, Block, Lanes, Point, with_lets
from spacedsl.codegen.pipeline.edges import by_parity, decides, is_woven, middle_conditions
from spacedsl.codegen.pipeline.partials import together
from spacedsl.codegen.pipeline.placement import Span, Spans
from spacedsl.codegen.pipeline.values import Values
from spacedsl.codegen.program import (
    Assign,
    Broadcast,
    Lane,
    Let,
    Register,
    Select,
    Statement,
    Sweep,
    Type,
    When,
    type_of,
)
from spacedsl.codegen.ranges import Ranges
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.affine import (
    Linear,
    Opaque,
    atoms,
    compared,
    extreme,
    is_parity,
    linear,
    quotient,
    substituted,
    variable,
)
from spacedsl.kernels.pipeline.algorithm import (
    Binary,
    Expression,
    Operator,
    Read,
    Stage,
    Update,
    Variable,
    operands,
)
from spacedsl.kernels.pipeline.backbone import MOST_UNROLLED, MOST_WRITTEN_OUT, Step
from spacedsl.kernels.pipeline.lanes import SUMS, Layouts, innermost, summed_along, varies

Ahead = tuple[Linear, ...]
"""Positions that are not negative where something holds."""


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


def body(step: Step, spans: Spans, ranges: Ranges, setting: Setting) -> tuple[Statement, ...]:
    return _Body(step, spans, setting).statements(ranges)


@dataclass(frozen=True, slots=True)
class _Body:
    step: Step
    spans: Spans
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

    @property
    def summed(self) -> tuple[str, int] | None:
        """The range along which lanes have partial results of their own, and how many of them."""
        dim = None if self.setting.is_added else summed_along(self.step, self.setting.layouts)
        lanes = 1 if dim is None else self.lanes(self.spans[dim].most, dim)
        return None if dim is None or lanes == 1 else (dim, lanes)

    # ---- Loops -------------------------------------------------------------------------------------------

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
        return (When(holds, statements, rolled),) if holds else statements

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

    @property
    def is_woven(self) -> bool:
        """Whether even and odd points of a row are computed apart."""
        definition = self.step.definition
        return (
            isinstance(definition, Stage)
            and self.along is not None
            and is_woven(definition, self.setting.inlined, self.setting.layouts, self.whole({}), self.along)
        )

    def is_written_out(self, dim: str) -> bool:
        """Whether what is decided by the number along a dimension is decided here: of colours, which one."""
        span = self.spans[dim]
        if span.most > MOST_WRITTEN_OUT or not span.is_full or span.first.terms:
            return False
        return decides(self.step.definition, self.setting.inlined, self.whole({}), dim)

    def row(self, dim: str, lanes: int, half: int, point: Point, ranges: Ranges) -> tuple[Statement, ...]:
        """Vectors in the middle, where lanes read neighbours; single points beside it.

        `half`: lanes of vectors of even points, and of odd ones, where these are better computed apart.
        """
        span = self.spans[dim]
        if lanes == 1 and half < 2:
            return (self.single(dim, point, ranges, span.first, span.last),)
        middle = _Middle.of(span, dim, self.edges(dim, point, ranges), self.setting.fresh)
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
        self, dim: str, half: int, point: Point, middle: _Middle, ranges: Ranges
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

        def vectors(wanted: str, begin: Linear) -> Sweep:
            name = self.setting.fresh(wanted)
            within = ranges.with_loop(name, begin, end)
            return Sweep(name, begin, end, half, self.pairs(dim, Lanes(name, half), point, within))

        all_of_them = vectors(f"{self.stage.name}_{dim}_pair", begin)
        if not all_of_them.body:
            return ()
        is_long = end + begin * -1
        left = pairs + begin * -1 + Linear(1)
        rest = left + quotient(left, half) * -half + Linear(-1)
        last_one = single(extreme("max", first, pairs * 2 + Linear(2)), last)
        return (
            single(first, extreme("min", begin * 2 + Linear(-1), last)),
            all_of_them,
            When((is_long, rest), (vectors("last", extreme("max", begin, end)),), ()),
            When((is_long,), (last_one,), (single(begin * 2, last),)),
        )

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
        self, dim: str, lanes: int, point: Point, middle: _Middle, ranges: Ranges
    ) -> Iterator[Statement]:
        """The middle; what is left of it is the last one again, shifted; of an update, single points."""
        first, last = middle.first, middle.last
        end = last + Linear(1 - lanes)

        def vectors(wanted: str, begin: Linear) -> Sweep:
            name = self.setting.fresh(wanted)
            within = ranges.with_loop(name, begin, end)
            cells = self.cells(
                [{**point, dim: variable(name)}], Lanes(name, lanes) if lanes > 1 else None, within
            )
            return Sweep(name, begin, end, lanes, cells)

        yield vectors(f"{self.stage.name}_{dim}", first)
        if middle.is_whole and middle.most % lanes == 0:
            return
        start = first + extreme("max", quotient(last + first * -1 + Linear(1), lanes), Linear(0)) * lanes
        alone = self.single(dim, point, ranges, start, last)
        if self.update is not None:
            yield alone
            return
        is_long = end + first * -1
        shifted = vectors("last", extreme("max", first, end))
        otherwise = () if ranges.is_natural(is_long) else (alone,)
        yield When((is_long, last + start * -1), (shifted,), otherwise)

    def unrolled(self, dim: str, lanes: int, ranges: Ranges) -> tuple[Ahead, tuple[Statement, ...]] | None:
        """All points of a full box away from edges: what has to hold for it, and statements."""
        copies = math.prod(self.spans[row].most for row in self.rows) * self.spans[dim].most // lanes
        if self.spans[dim].most % lanes or not 1 < copies <= MOST_UNROLLED:
            return None
        dims = (*self.rows, dim)
        names = {d: self.setting.fresh(f"{self.stage.name}_{d}") for d in dims}
        name = names[dim]
        points = [
            {d: variable(names[d]) + Linear(n) for d, n in zip(dims, at, strict=True)}
            for at in product(*(range(0, self.spans[d].most, lanes if d == dim else 1) for d in dims))
        ]
        begins: dict[str, tuple[Linear, Linear]] = {}
        for d in dims:
            span = self.spans[d]
            end = span.first if span.is_full else span.last + Linear(1 - span.most)
            begins[d] = (span.first, end)
            ranges = ranges.with_loop(names[d], span.first, end)
        edges = [e for point in points for e in self.conditions(dim, point, ranges, name)]
        edges += [substituted(e, {name: variable(name) + Linear(lanes - 1)}) for e in edges]
        edges = [edge for edge in _strictest(edges) if not ranges.is_natural(edge)]
        begins[dim] = _between(*begins[dim], edges, name)
        within = ranges.with_loop(name, *begins[dim])
        statements = self.cells(points, Lanes(name, lanes) if lanes > 1 else None, within)
        for d in reversed(dims):
            first, last = begins[d]
            if first == last:
                statements = (Let(names[d], first), *statements)
            else:
                statements = (Sweep(names[d], first, last, self.spans[d].most, statements),)
        firsts = {names[d]: self.spans[d].first for d in dims}
        holds = [last + first * -1 for first, last in begins.values() if first != last]
        return tuple(substituted(position, firsts) for position in holds), statements

    # ---- Edges -------------------------------------------------------------------------------------------

    def edges(self, dim: str, point: Point, ranges: Ranges) -> list[Linear]:
        """The conditions of the middle of a row, as positions of the stage."""
        name = "along"
        here = {**point, dim: variable(name)}
        span = self.spans[dim]
        within = ranges.with_loop(name, span.first, span.last)
        return [c for c in self.conditions(dim, here, within, name) if not within.is_natural(c)]

    def conditions(self, dim: str, point: Point, ranges: Ranges, name: str) -> list[Linear]:
        """Those that leave most of all points along a row."""
        whole = self.step.box(dim, "ROOT").reads
        first = min(r.least for r in whole)
        last = max(r.least + r.more for r in whole)
        found = []
        for each in dict.fromkeys(self.all_conditions(point, name)):
            number = next(n for atom, n in each.terms if atom == Variable(name))
            rest = each + variable(name) * -number
            low, high = ranges.least(rest), ranges.greatest(rest)
            if low is None or high is None:
                continue
            lost = -(low // number) - first if number > 0 else last - low // -number
            if 4 * lost <= last - first + 1:
                found.append(each)
        return found

    def all_conditions(self, point: Point, name: str) -> Iterator[Linear]:
        return middle_conditions(self.step.definition, self.setting.inlined, self.whole(point), name)

    def whole(self, point: Point) -> Point:
        """With variables where nothing else is said."""
        return {**{v: variable(v) for v in self.spans}, **point}

    # ---- Points ------------------------------------------------------------------------------------------

    def lanes(self, most: int, along: str | None = None, *, is_woven: bool = False) -> int:
        """So many that vectors of the widest values are as wide as those of the machine.

        `along`: the range that they go along, if it is one.
        """
        definition, inlined = self.step.definition, self.setting.inlined
        widest = max(widths(self.stage, definition, inlined, along, is_woven=is_woven))
        lanes = max(1, min(self.setting.vector_bytes // widest, most))
        return 1 << lanes.bit_length() - 1

    def cells(self, points: Sequence[Point], lanes: Lanes | None, ranges: Ranges) -> tuple[Statement, ...]:
        """These points, and of each the lanes beside it."""
        block = Block(ranges)
        update = self.update
        if update is None:
            values = self.values(lanes, frozenset())
            for point in points:
                made = [values.value(v, point, block) for v in self.stage.values]
                where = [point[v] for v in self.stage.variables]
                values.store(self.array, where, made, block)
            return tuple(block.statements)
        if self.step.is_accumulation:
            self.accumulate(update, points, lanes, block)
        else:
            self.ranges(update, points, block, lambda given, inner: self.turn(update, given, lanes, inner))
        return tuple(block.statements)

    def values(self, lanes: Lanes | None, written: frozenset[str]) -> Values:
        setting = self.setting
        return Values(
            fresh=setting.fresh,
            lanes=lanes,
            arrays=setting.arrays,
            written=written,
            inlined=setting.inlined,
        )

    def ranges(
        self,
        update: Update,
        points: Sequence[Point],
        block: Block,
        inner: Callable[[Sequence[Point], Block], None],
    ) -> None:
        """Loops over the ranges of an update, the first one innermost, around its points."""
        dims = [r.name for r in reversed(update.ranges)]

        def loops(at: Point, ranges: Ranges) -> tuple[Statement, ...]:
            within = block.inner(ranges)
            inner([{**point, **at} for point in points], within)
            return tuple(within.statements)

        block.statements += self.over(dims, {}, block.ranges, loops)

    def accumulate(self, update: Update, points: Sequence[Point], lanes: Lanes | None, block: Block) -> None:
        """Points whose values are in registers while the ranges are gone through."""
        values = self.values(lanes, frozenset({self.stage.name}))
        starts = self.step.neutral if self.setting.is_added else None
        if (sums := self.setting.sums) is None:
            own = [self.begun(starts or self.stored, point, values, block) for point in points]
        else:
            assert len(points) == 1
            own = [sums]

        def turn(given: Sequence[Point], inner: Block) -> None:
            for point, results in zip(given, own, strict=True):
                self.turn_of(update, point, results, values, inner)

        self.ranges(update, points, block, turn)
        values.own = {}
        for point, results in zip(points, own, strict=True) if sums is None else ():
            put = values.store if starts is None else values.add
            put(self.array, [point[v] for v in self.stage.variables], results, block)

    @property
    def stored(self) -> Sequence[Expression]:
        """What the stage has at a point so far."""
        at, dtypes = tuple(Variable(v) for v in self.stage.variables), self.stage.dtypes
        return [Read(self.stage.name, at, dtype, element) for element, dtype in enumerate(dtypes)]

    def begun(
        self, starts: Sequence[Expression], point: Point, values: Values, block: Block
    ) -> tuple[Register, ...]:
        """Registers that results begin with these values in."""
        found = []
        for start in starts:
            given = values.value(start, point, block)
            found.append(Register(self.setting.fresh("sum"), type_of(given)))
            block.statements.append(Assign(found[-1], given))
        return tuple(found)

    def turn_of(
        self, update: Update, point: Point, sums: Sequence[Register], values: Values, block: Block
    ) -> None:
        """One point of the ranges, of which the results are in registers."""
        values.own = {self.stage.name: tuple(sums)}
        made = [values.value(v, point, block) for v in update.values]
        if update.condition is not None:
            holds = values.value(update.condition, point, block)
            made = [Select(*alike(holds, *pair)) for pair in zip(made, sums, strict=True)]
        made = [_as(m, r.type) for m, r in zip(made, sums, strict=True)]
        if len(made) > 1:
            made = [values.copied(m, block) for m in made]
        block.statements += [Assign(r, m) for r, m in zip(sums, made, strict=True)]

    def sums(self, dim: str, lanes: int, point: Point, ranges: Ranges) -> tuple[Statement, ...]:
        """A point that goes through vectors along a range, several side by side since each waits for itself;
        then through what is left one by one. In the end, lanes are combined.
        """
        update, starts = self.update, self.step.neutral
        assert update is not None and starts is not None
        block, span = Block(ranges), self.spans[dim]
        written = frozenset({self.stage.name})
        single, fresh = self.values(None, written), self.setting.fresh
        count = min(SUMS, span.most // lanes)
        own = self.begun(self.stored, point, single, block)
        wide = [
            tuple(Register(fresh("lanes"), Type(start.dtype, lanes)) for start in starts)
            for _ in range(count)
        ]
        for registers in wide:
            for register, start in zip(registers, starts, strict=True):
                nothing = Broadcast(constant(start.value, start.dtype), lanes)
                block.statements.append(Assign(register, nothing))

        def along(at: Point, within: Ranges) -> tuple[Statement, ...]:
            found, first = list[Statement](), span.first
            several = [(lanes * count, wide)] if count > 1 else []
            for step, sums in [*several, (lanes, wide[:1]), (1, [own])]:
                name, last = fresh(f"{self.stage.name}_{dim}"), span.last + Linear(1 - step)
                inner = Block(within.with_loop(name, first, last))
                values = single if step == 1 else self.values(Lanes(name, lanes), written)
                for number, registers in enumerate(sums):
                    there = {**point, **at, dim: variable(name) + Linear(number * lanes)}
                    self.turn_of(update, there, registers, values, inner)
                found.append(Sweep(name, first, last, step, tuple(inner.statements)))
                left = span.last + first * -1 + Linear(1)
                first += extreme("max", quotient(left, step), Linear(0)) * step
                if span.is_full and span.most % step == 0:
                    break
            return tuple(found)

        around = [r.name for r in reversed(update.ranges) if r.name != dim]
        block.statements += self.over(around, {}, ranges, along)
        single.own = {}
        for element, (register, value) in enumerate(zip(own, update.values, strict=True)):
            assert isinstance(value, Binary)
            first, *others = (registers[element] for registers in wide)
            for other in others:
                block.statements.append(Assign(first, together(value.operator, first, other)))
            each: list[Value] = [register, *(Lane(first, n) for n in range(lanes))]
            block.statements.append(Assign(register, _in_pairs(value.operator, each)))
        single.store(self.array, [point[v] for v in self.stage.variables], own, block)
        return tuple(block.statements)

    def turn(self, update: Update, points: Sequence[Point], lanes: Lanes | None, block: Block) -> None:
        """One point of the ranges."""
        values = self.values(lanes, frozenset({self.stage.name}))
        if self.setting.is_added:
            self.added(update, points, values, block)
            return
        for point in points:
            made: list[Value] = [values.kept(values.value(v, point, block), block) for v in update.values]
            where = [values.position(at, point, block) for at in update.point]
            if update.condition is not None:
                holds = values.value(update.condition, point, block)
                before = [
                    values.value(Read(self.stage.name, update.point, dtype, element), point, block)
                    for element, dtype in enumerate(self.stage.dtypes)
                ]
                made = [Select(*alike(holds, *pair)) for pair in zip(made, before, strict=True)]
            values.store(self.array, where, made, block)

    def added(self, update: Update, points: Sequence[Point], values: Values, block: Block) -> None:
        """The same of what is added to memory: where a condition does not hold, what changes nothing."""
        starts = self.step.neutral
        assert starts is not None
        for point in points:
            terms = [value.right for value in update.values if isinstance(value, Binary)]
            made = [values.kept(values.value(term, point, block), block) for term in terms]
            where = [values.position(at, point, block) for at in update.point]
            if update.condition is not None:
                holds = values.value(update.condition, point, block)
                none = [values.value(start, point, block) for start in starts]
                made = [Select(*alike(holds, *pair)) for pair in zip(made, none, strict=True)]
            values.add(self.array, where, made, block)


def _in_pairs(operator: Operator, values: Sequence[Value]) -> Value:
    """All of them combined, so that few wait for each other."""
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        left = values[len(values) - len(values) % 2 :]
        values = [*(together(operator, a, b) for a, b in pairs), *left]
    return values[0]


def _as(value: Value, kind: Type) -> Value:
    return value if type_of(value) == kind else Broadcast(value, kind.lanes)


def _strictest(forms: Sequence[Linear]) -> list[Linear]:
    """Of those that differ by a number, the least one."""
    found: dict[object, Linear] = {}
    for form in forms:
        known = found.get(form.terms, form)
        found[form.terms] = known if known.constant <= form.constant else form
    return list(found.values())


def _between(first: Linear, last: Linear, edges: Sequence[Linear], name: str) -> tuple[Linear, Linear]:
    """The part of a range in which these positions of a variable are not negative."""
    for edge in edges:
        number = next(n for atom, n in edge.terms if atom == Variable(name))
        rest = edge + variable(name) * -number
        if number > 0:
            first = extreme("max", first, quotient(rest, number) * -1)
        else:
            last = extreme("min", last, quotient(rest, -number))
    return first, last


def widths(
    stage: Stage,
    definition: Stage | Update,
    inlined: Mapping[str, Stage],
    along: str | None = None,
    *,
    is_woven: bool = False,
) -> Iterator[int]:
    """In bytes, of what is stored, and of all else that may differ between lanes, also for positions.

    `along`: the range that lanes go along, if it is one. `is_woven`: lanes are all even, or all odd.
    """
    yield from (dtype.nbytes for dtype in stage.dtypes)
    pending = [(stage, value) for value in definition.values]
    seen: set[str] = set()
    while pending:
        of, node = pending.pop()
        if not varies(of, node, along if of is stage else None) or (
            is_woven and (a := compared(node)) is not None and is_parity(a)
        ):
            # Whether numbers are even is the same for all lanes then.
            continue
        yield 4 if node.dtype is DType.F16 else node.dtype.nbytes
        if not isinstance(node, Read):
            pending += [(of, operand) for operand in operands(node)]
            continue
        found = [a.expression for at in node.point for a in atoms(linear(at)) if isinstance(a, Opaque)]
        pending += [(of, expression) for expression in found]
        if node.source in inlined and node.source not in seen:
            seen.add(node.source)
            source = inlined[node.source]
            updated = [value for update in source.updates for value in update.values]
            pending += [(source, value) for value in (*source.values, *updated)]


@dataclass(frozen=True, slots=True)
class _Middle:
    """Of a row, the part without edges."""

    lets: tuple[Let, ...]
    first: Linear
    last: Linear
    most: int
    has_before: bool
    has_behind: bool
    is_whole: bool
    """Whether it is all of a row that is always as long as it can be."""

    @classmethod
    def of(cls, span: Span, dim: str, edges: Sequence[Linear], fresh: Callable[[str], str]) -> _Middle:
        """`edges`: conditions on where a point is along the row, whose variable is `along`."""
        lets: list[Let] = []

        def named(end: Linear, wanted: str, is_new: bool) -> Linear:
            if not is_new:
                return end
            lets.append(Let(fresh(wanted), end))
            return variable(lets[-1].variable)

        low, high = _between(span.first, span.last, edges, "along")
        has_before, has_behind = low != span.first, high != span.last
        first = named(low, f"{dim}_from", has_before)
        last = named(high, f"{dim}_to", has_behind)
        is_whole = span.is_full and not lets
        return cls(tuple(lets), first, last, span.most, has_before, has_behind, is_whole)
