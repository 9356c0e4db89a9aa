"""Lowering of pipelines for CPUs: a schedule, and where its boxes lie, become a program tree.

In: the steps of a pipeline, what is needed of each stage, the decisions of a complete candidate. Out: a
`Program`, not yet verified. Loops of the outermost slot are parallel. The values of a stage lie in an array
that is made where the stage has its site: an argument, memory of the program, or of each thread. What a step
computes in its innermost box is for `bodies.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spacedsl.codegen.pipeline.bodies import Setting, body
from spacedsl.codegen.pipeline.placement import Needed, PlacedLevel, PlacedNest, Span, Spans, place
from spacedsl.codegen.pipeline.schedule import Decisions, schedule
from spacedsl.codegen.pipeline.values import Array, index
from spacedsl.codegen.program import Let, Load, ParallelLoop, Program, Statement, Store, Sweep, Type
from spacedsl.codegen.ranges import Ranges
from spacedsl.kernels.pipeline.affine import Linear, variable
from spacedsl.kernels.pipeline.algorithm import Box, Stage
from spacedsl.kernels.pipeline.arguments import arguments, held, parameters, value_names
from spacedsl.kernels.pipeline.backbone import Kernel, Step
from spacedsl.kernels.pipeline.sites import Sites
from spacedsl.kernels.tensors import Scratch, Tensor, dense_strides
from spacedsl.kernels.unique_names import UniqueNames

Arrays = Mapping[str, Array]
"""Of stages and inputs."""


def lower(kernel: Kernel, boxes: Mapping[str, Box], decisions: Decisions, vector_bytes: int) -> Program:
    """`boxes`: what is needed of each stage and input. `vector_bytes`: of the machine."""
    algorithm = kernel.algorithm
    tensors, scalars = arguments(algorithm, boxes), parameters(algorithm)
    names = UniqueNames({t.name for t in tensors} | {p.name for p in scalars})
    placement = place(schedule(kernel.steps, decisions), kernel.steps, decisions, names.fresh)
    lowering = _Lowering(Sites(kernel.steps, decisions.site), names, vector_bytes)
    arrays = dict(_arguments(kernel, boxes))
    statements: list[Statement] = []
    copied: list[Statement] = []
    for name, wanted in algorithm.outputs.items():
        if wanted != boxes[name]:
            stage = algorithm.stage(name)
            whole = lowering.array(stage, _spans(stage, boxes[name]))
            copied += _copy(stage, whole, arrays[name], wanted, names)
            arrays[name] = whole
    for nest in placement.nests:
        lowering.allocate(nest, placement.needed, arrays)
        statements += lowering.nest(nest, arrays, Ranges())
    return Program(
        algorithm.name,
        tensors,
        scalars,
        (*statements, *copied),
        tuple(Scratch(t, False) for t in lowering.scratch),
    )


def _arguments(kernel: Kernel, boxes: Mapping[str, Box]) -> Mapping[str, Array]:
    algorithm = kernel.algorithm
    names: dict[str, tuple[str, ...]] = {i.name: (i.name,) for i in algorithm.inputs}
    names |= {output: value_names(algorithm.stage(output)) for output in algorithm.outputs}
    return {
        name: Array(
            names[name],
            tuple(Linear(e.low) for e in box),
            tuple(e.size for e in box),
            dense_strides([e.size for e in reversed(box)])[::-1],
        )
        for name, box in held(algorithm, boxes).items()
    }


@dataclass(slots=True)
class _Lowering:
    sites: Sites
    names: UniqueNames
    vector_bytes: int
    scratch: list[Tensor] = field(default_factory=list)
    """Memory of the program's own."""
    private: list[Tensor] | None = None
    """The same of each thread, within a parallel loop."""

    @property
    def definitions(self) -> Mapping[str, Step]:
        """By stage."""
        return {step.stage.name: step for step in self.sites.steps if step.update is None}

    @property
    def inlined(self) -> Mapping[str, Stage]:
        return {s.stage.name: s.stage for s in self.sites.steps if self.sites.of[s] == "INLINE"}

    # ---- Memory ------------------------------------------------------------------------------------------

    def allocate(self, nest: PlacedNest, needed: Needed, arrays: dict[str, Array]) -> None:
        """The array of the nest's stage, where it has none: the first of its steps comes here then."""
        stage = nest.step.stage
        if stage.name not in arrays:
            arrays[stage.name] = self.array(stage, needed[self.definitions[stage.name]])

    def array(self, stage: Stage, spans: Spans) -> Array:
        """As large as the spans can be, and beginning where they do."""
        extents = tuple(spans[v].most for v in stage.variables)
        strides = dense_strides(extents[::-1])
        tensors = [
            Tensor(self.names.fresh(name), dtype, extents[::-1], strides, True)
            for name, dtype in zip(value_names(stage), stage.dtypes, strict=True)
        ]
        memory = self.scratch if self.private is None else self.private
        memory += tensors
        origin = tuple(spans[v].first for v in stage.variables)
        return Array(tuple(t.name for t in tensors), origin, extents, strides[::-1])

    # ---- Loops -------------------------------------------------------------------------------------------

    def nest(self, nest: PlacedNest, arrays: Arrays, ranges: Ranges) -> tuple[Statement, ...]:
        return self.levels(nest, nest.levels, arrays, ranges)

    def levels(
        self, nest: PlacedNest, levels: Sequence[PlacedLevel], arrays: Arrays, ranges: Ranges
    ) -> tuple[Statement, ...]:
        if not levels:
            setting = Setting(arrays, self.inlined, self.names.fresh, self.vector_bytes)
            return body(nest.step, nest.body, ranges, setting)
        level, *inner = levels
        if level.slot == "TASK" and level.loops:
            return (self.shared_out(nest, level, inner, arrays, ranges),)
        for loop in level.loops:
            ranges = ranges.with_loop(loop.variable, loop.first, loop.last)
        statements = self.iteration(nest, level, inner, arrays, ranges)
        for loop in reversed(level.loops):
            statements = (Sweep(loop.variable, loop.first, loop.last, loop.step, statements),)
        return statements

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
        for loop in level.loops:
            counter = self.names.fresh(f"{loop.variable}_task")
            place = loop.first + variable(counter) * loop.step
            counters.append((counter, loop.trips))
            places.append(Let(loop.variable, place))
            ranges = ranges.with_loop(counter, Linear(0), Linear(loop.trips - 1))
            ranges = ranges.with_position(loop.variable, place)
        self.private = []
        body = (*places, *self.iteration(nest, level, inner, arrays, ranges))
        (outermost, trips), *others = counters
        for counter, count in reversed(others):
            body = (ParallelLoop(counter, count, body),)
        private, self.private = tuple(self.private), None
        return ParallelLoop(outermost, trips, body, private=private)

    def iteration(
        self,
        nest: PlacedNest,
        level: PlacedLevel,
        inner: Sequence[PlacedLevel],
        arrays: Arrays,
        ranges: Ranges,
    ) -> tuple[Statement, ...]:
        """What one iteration of a level does: variables, guests, what is further in."""
        statements: list[Statement] = [*level.lets]
        for let in level.lets:
            ranges = ranges.with_position(let.variable, let.position)
        here = dict(arrays)
        for guest in level.guests:
            self.allocate(guest, level.needed, here)
            statements += self.nest(guest, here, ranges)
        return (*statements, *self.levels(nest, inner, here, ranges))


def _spans(stage: Stage, box: Box) -> Spans:
    return {
        v: Span(Linear(e.low), Linear(e.high), e.size, True)
        for v, e in zip(stage.variables, box, strict=True)
    }


def _copy(
    stage: Stage, source: Array, target: Array, wanted: Box, names: UniqueNames
) -> tuple[Statement, ...]:
    """What is wanted of an output, of which more has been computed."""
    variables = [names.fresh(f"{stage.name}_{v}") for v in stage.variables]
    positions = [variable(v) for v in variables]
    given, put = (index(array.index(positions)) for array in (source, target))
    statements: tuple[Statement, ...] = tuple(
        Store(to, put, Load(of, given, Type(dtype)))
        for to, of, dtype in zip(target.tensors, source.tensors, stage.dtypes, strict=True)
    )
    for name, extent in zip(variables, wanted, strict=True):
        statements = (Sweep(name, Linear(extent.low), Linear(extent.high), 1, statements),)
    return statements
