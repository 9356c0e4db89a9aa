"""Lowering of pipelines for CPUs: a schedule, and where its boxes lie, become a program tree.

In: the steps of a pipeline, the decisions of a complete candidate. Out: a `Program`, not yet verified. Loops
of the outermost slot are parallel; arrays are memory of the program, or of each thread. Where tasks have
parts of a range, what they make is combined behind them (`partials.py`). What is the same on other machines
is in `nests.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from spacedsl.codegen.pipeline.blocks import Array, index
from spacedsl.codegen.pipeline.nests import Arrays, Nests, lowered
from spacedsl.codegen.pipeline.partials import Partials
from spacedsl.codegen.pipeline.placement import PlacedLevel, PlacedNest, Placement, spelled
from spacedsl.codegen.pipeline.schedule import Decisions, Level, Nest
from spacedsl.codegen.tree.expressions import Load, Type
from spacedsl.codegen.tree.program import Let, ParallelLoop, Phase, Program, Statement, Store, Sweep
from spacedsl.codegen.tree.ranges import Ranges
from spacedsl.kernels.pipeline.affine import Linear, variable
from spacedsl.kernels.pipeline.algorithm import Box, Stage
from spacedsl.kernels.pipeline.backbone import Kernel, Step
from spacedsl.kernels.tensors import Tensor
from spacedsl.kernels.unique_names import UniqueNames

Made = dict[tuple[Nest, frozenset[Step], frozenset[tuple[str, int]]], Phase]
"""By loops, by what is inlined in them, and by how what they read or write lies: parallel nests of programs
for the same pipeline and machine.
"""

KEPT = 2000
"""Nests that are not made again."""


def lower(kernel: Kernel, decisions: Decisions, vector_bytes: int, made: Made | None = None) -> Program:
    """`vector_bytes`: of the machine. `made`: what was made before and need not be made again; what is new
    is put there.
    """
    known = {} if made is None else made
    return lowered(kernel, decisions, vector_bytes, partial(_Loops, made=known))


@dataclass(slots=True)
class _Loops(Nests):
    made: Made = field(default_factory=dict)
    private: list[Tensor] | None = field(default=None, init=False)
    """Memory of each thread, within a parallel loop."""
    counters: tuple[str, ...] = field(default=(), init=False)
    """Of the loops of the parallel nest that is made, outermost first."""
    partials: tuple[Partials, int] | None = field(default=None, init=False)
    """Of the parallel loop that is made, and which of its loops shares them out."""
    tasks: dict[tuple[Step, str], str] = field(default_factory=dict, init=False)
    """By step and dimension, what counts tasks: functions are called after them, no two alike."""
    taken: frozenset[str] = field(init=False)
    """Names of arguments, arrays and tasks, which are the same in all programs for a pipeline."""

    def __post_init__(self) -> None:
        for step in self.sites.steps:
            for dim in step.dims:
                self.tasks[step, dim] = self.names.fresh(f"{spelled(step)}_{dim}_task")
        self.taken = frozenset(self.names.taken)

    def root(self, scheduled: Nest, placement: Placement, arrays: Arrays) -> Phase:
        step = scheduled.step
        if not _is_parallel(scheduled):
            nest = placement.nest(scheduled, self.names.fresh)
            return Phase(step.name, self.levels(nest, nest.levels, arrays, Ranges()))
        self.partials = self.parts_of(scheduled, arrays)
        steps = [each.step for each in scheduled.nests]
        inlined = frozenset[Step]().union(*map(self.sites.inlined_in, steps))
        near = {each.stage.name for step in (*steps, *inlined) for each in (step, *step.sources)}
        layouts = frozenset((name, layout) for name, layout in self.layouts.items() if name in near)
        key = scheduled, inlined, layouts
        known = self.made.get(key)
        if known is None:
            if len(self.made) >= KEPT:
                self.made.clear()
            # It is a function of its own in C: names that it alone has do not depend on other nests.
            names, self.names = self.names, UniqueNames({*self.taken})
            nest = placement.nest(scheduled, self.names.fresh)
            self.counters = tuple(self.tasks[step, loop.dim] for loop in scheduled.levels[0].loops)
            statements = self.levels(nest, nest.levels, arrays, Ranges())
            if self.partials is not None:
                statements = (*statements, self.partials[0].combined(self.names.fresh))
            known = self.made[key] = Phase(step.name, statements)
            self.names = names
        return known

    def parts_of(self, nest: Nest, arrays: Arrays) -> tuple[Partials, int] | None:
        """Where tasks of a nest have parts of a range: their partial results, which have room then, and which
        of its loops that is.
        """
        loop, step = nest.parted, nest.step
        if loop is None:
            return None
        result, names = arrays[step.stage.name], tuple(self.arrays[step.name])
        partials = Partials(step, result, (loop.trips,), names, self.vector_bytes)
        self.scratch += partials.memory
        return partials, nest.levels[0].loops.index(loop)

    def memory(self) -> list[Tensor]:
        return self.scratch if self.private is None else self.private

    def row(self, stage: Stage, extent: int) -> int:
        return extent

    def is_repeatable(self, step: Step, level: Level | PlacedLevel) -> bool:
        return step.update is None and not level.guests and not _is_shared_out(level)

    def levels(
        self, nest: PlacedNest, levels: Sequence[PlacedLevel], arrays: Arrays, ranges: Ranges
    ) -> tuple[Statement, ...]:
        if not levels:
            return self.body(nest, arrays, ranges)
        level, *inner = levels
        if _is_shared_out(level):
            return (self.shared_out(nest, level, inner, arrays, ranges),)
        return self.swept(nest, level, inner, arrays, ranges)

    def shared_out(
        self,
        nest: PlacedNest,
        level: PlacedLevel,
        inner: Sequence[PlacedLevel],
        arrays: Arrays,
        ranges: Ranges,
    ) -> ParallelLoop:
        """The loops of a level as parallel ones, which count from 0."""
        counters: list[tuple[str, int]] = []
        places: list[Let] = []
        for loop, counter in zip(level.loops, self.counters, strict=True):
            place = loop.first + variable(counter) * loop.step
            counters.append((counter, loop.trips))
            places.append(Let(loop.variable, place))
            ranges = ranges.with_loop(counter, Linear(0), Linear(loop.trips - 1))
            ranges = ranges.with_position(loop.variable, place)
        self.private = []
        numbers = [variable(counter) for counter, _ in counters]
        body = (*places, *self.task(nest, level, inner, arrays, ranges, numbers))
        (outermost, trips), *others = counters
        for counter, count in reversed(others):
            body = (ParallelLoop(counter, count, body),)
        private, self.private = tuple(self.private), None
        return ParallelLoop(outermost, trips, body, private=private)

    def task(
        self,
        nest: PlacedNest,
        level: PlacedLevel,
        inner: Sequence[PlacedLevel],
        arrays: Arrays,
        ranges: Ranges,
        numbers: Sequence[Linear],
    ) -> tuple[Statement, ...]:
        """What a task does, into partial results of its own where it has a part of a range.

        `numbers`: of the iterations of each loop.
        """
        if self.partials is None:
            return self.iteration(nest, level, inner, arrays, ranges)
        partials, number = self.partials
        part, name, named = numbers[number], nest.step.stage.name, len(level.lets)
        found = self.iteration(nest, level, inner, {**arrays, name: partials.array(part)}, ranges)
        begun = partials.begun(part, level.needed[nest.step], self.names.fresh)
        return (*found[:named], *begun, *found[named:])

    def copied(self, stage: Stage, source: Array, target: Array, wanted: Box) -> tuple[Statement, ...]:
        variables = [self.names.fresh(f"{stage.name}_{v}") for v in stage.variables]
        statements = copy(stage, source, target, [variable(v) for v in variables])
        for name, extent in zip(variables, wanted, strict=True):
            statements = (Sweep(name, Linear(extent.low), Linear(extent.high), 1, statements),)
        return statements


def _is_shared_out(level: Level | PlacedLevel) -> bool:
    return level.slot == "TASK" and bool(level.loops)


def _is_parallel(nest: Nest) -> bool:
    """Whether all of it is one parallel loop."""
    return bool(nest.levels) and _is_shared_out(nest.levels[0])


def copy(stage: Stage, source: Array, target: Array, point: Sequence[Linear]) -> tuple[Statement, ...]:
    """Of one point, all values."""
    given, put = (index(array.index(point)) for array in (source, target))
    return tuple(
        Store(to, put, Load(of, given, Type(dtype)))
        for to, of, dtype in zip(target.tensors, source.tensors, stage.dtypes, strict=True)
    )
