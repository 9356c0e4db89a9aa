"""What a step computes at points: values that are stored, and updates over their ranges.

In: a box, some of its points, and whether each stands for lanes beside it. Out: statements. Sums over ranges
are kept in registers; where they go along rows, lanes have partial results. Which points there are, and what
loops are around them, is for `bodies.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spacedsl.codegen.pipeline.arithmetic import Value, alike, constant
from spacedsl.codegen.pipeline.blocks import Block, Lanes, Point
from spacedsl.codegen.pipeline.boxes import StepBox
from spacedsl.codegen.pipeline.partials import together
from spacedsl.codegen.pipeline.values import Values
from spacedsl.codegen.tree.expressions import Broadcast, Lane, Register, Select, Type, type_of
from spacedsl.codegen.tree.program import Assign, Statement, Sweep
from spacedsl.codegen.tree.ranges import Ranges
from spacedsl.kernels.pipeline.affine import Linear, extreme, quotient, variable
from spacedsl.kernels.pipeline.algorithm import Binary, Expression, Operator, Read, Update, Variable
from spacedsl.kernels.pipeline.lanes import SUMS


@dataclass(frozen=True, slots=True)
class Points(StepBox):
    """Some points of a box: what is computed of each."""

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
