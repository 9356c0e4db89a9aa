"""Lowering of pipelines, as far as it is the same on every machine: arrays, and what an iteration does.

In: the steps of a pipeline, the decisions of a complete candidate. Out: a `Program`, not yet verified. The
values of a stage lie in an array that is made where the stage has its site. What loops of a slot become, and
in which memory arrays lie, is for `lower.py` and `grids.py`; what a step computes in its innermost box, for
`bodies.py`.
"""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from spacedsl.codegen.pipeline.blocks import Array, with_lets
from spacedsl.codegen.pipeline.bodies import body
from spacedsl.codegen.pipeline.boxes import Setting
from spacedsl.codegen.pipeline.placement import (
    Needed,
    PlacedLevel,
    PlacedNest,
    Placement,
    Span,
    Spans,
    Start,
    Window,
)
from spacedsl.codegen.pipeline.schedule import Decisions, Level, Loop, Nest, schedule
from spacedsl.codegen.tree.errors import LoweringError
from spacedsl.codegen.tree.expressions import Register
from spacedsl.codegen.tree.program import Phase, Program, Statement, Sweep
from spacedsl.codegen.tree.ranges import Ranges
from spacedsl.kernels.pipeline.affine import Linear
from spacedsl.kernels.pipeline.algorithm import Box, Stage
from spacedsl.kernels.pipeline.arguments import arguments, held, parameters, value_names
from spacedsl.kernels.pipeline.backbone import Kernel, Step
from spacedsl.kernels.pipeline.lanes import Layouts
from spacedsl.kernels.pipeline.sites import Sites
from spacedsl.kernels.tensors import Scratch, Tensor, dense_strides
from spacedsl.kernels.unique_names import UniqueNames

Arrays = Mapping[str, Array]
"""Of stages and inputs."""

AGAIN = 16
"""Of so many points along a loop, one may be computed again."""


@dataclass(slots=True)
class Nests(ABC):
    """Of one program, for a kind of machine."""

    sites: Sites
    names: UniqueNames
    arrays: Mapping[str, Sequence[str]]
    """By stage, the names of arrays with its values; by reduction, of those with partial results."""
    vector_bytes: int
    """Of the vectors that a thread computes with; 1 for none."""
    layouts: Layouts
    added: Step | None = field(default=None, init=False)
    """The step of which what it adds up is added to memory, where others add as well."""
    sums: Mapping[Step, tuple[Register, ...]] = field(default_factory=dict, init=False)
    """Of steps whose results are not stored, the registers that they add up in."""
    scratch: list[Tensor] = field(default_factory=list, init=False)
    """Memory of the program's own."""

    @property
    def definitions(self) -> Mapping[str, Step]:
        """By stage."""
        return {step.stage.name: step for step in self.sites.steps if step.update is None}

    @property
    def inlined(self) -> Mapping[str, Stage]:
        return {s.stage.name: s.stage for s in self.sites.steps if self.sites.of[s] == "INLINE"}

    # ---- Machines ----------------------------------------------------------------------------------------

    @abstractmethod
    def root(self, scheduled: Nest, placement: Placement, arrays: Arrays) -> Phase:
        """A nest that is outside of all others."""

    @abstractmethod
    def copied(self, stage: Stage, source: Array, target: Array, wanted: Box) -> tuple[Statement, ...]:
        """What is wanted of an output, of which more has been computed."""

    @abstractmethod
    def memory(self) -> list[Tensor]:
        """Where the arrays of what is computed now lie."""

    @abstractmethod
    def row(self, stage: Stage, extent: int) -> int:
        """How many elements a row of such an array has room for there."""

    @abstractmethod
    def levels(
        self, nest: PlacedNest, levels: Sequence[PlacedLevel], arrays: Arrays, ranges: Ranges
    ) -> tuple[Statement, ...]:
        """What is left of a nest from a level on inwards."""

    @abstractmethod
    def is_repeatable(self, step: Step, level: Level | PlacedLevel) -> bool:
        """Whether an iteration of an innermost level may compute points of the one before once more."""

    # ---- Memory ------------------------------------------------------------------------------------------

    def allocate(self, step: Step, needed: Needed, arrays: dict[str, Array]) -> None:
        """The array of a step's stage, where it has none: the first of its steps comes here then."""
        stage = step.stage
        if stage.name not in arrays:
            arrays[stage.name] = self.array(stage, needed[self.definitions[stage.name]])

    def array(self, stage: Stage, spans: Spans, window: Window | None = None) -> Array:
        """As large as the spans can be, and beginning where they do; along a window, as large as that is."""
        extents = tuple(
            window.size if window is not None and v == window.dim else spans[v].most for v in stage.variables
        )
        inner = self.layouts.get(stage.name, 0)
        order = [d for d in reversed(range(len(extents))) if d != inner] + [inner][: len(extents)]
        shape = tuple(extents[d] for d in order)
        held = dense_strides((*shape[:-1], *(self.row(stage, extent) for extent in shape[-1:])))
        apart = dict(zip(order, held, strict=True))
        strides = tuple(apart[d] for d in range(len(extents)))
        tensors = [
            Tensor(name, dtype, shape, held, True)
            for name, dtype in zip(self.arrays[stage.name], stage.dtypes, strict=True)
        ]
        memory = self.memory()
        # Before the first iteration of a loop, the same arrays are used as in it.
        memory += [tensor for tensor in tensors if tensor not in memory]
        folded = None if window is None else stage.variables.index(window.dim)
        origin = _origin(stage, spans, window)
        return Array(tuple(t.name for t in tensors), origin, extents, strides, inner, folded)

    # ---- Loops -------------------------------------------------------------------------------------------

    def is_shifted(self, nest: Nest, level: Level, loop: Loop, outer: Span) -> bool:
        """So that there is no code for shorter ones: of innermost boxes, where few points are repeated."""
        again = loop.trips * loop.size - outer.most
        is_innermost = level is nest.levels[-1]
        return is_innermost and self.is_repeatable(nest.step, level) and again * AGAIN <= outer.most

    def swept(
        self,
        nest: PlacedNest,
        level: PlacedLevel,
        inner: Sequence[PlacedLevel],
        arrays: Arrays,
        ranges: Ranges,
    ) -> tuple[Statement, ...]:
        """The loops of a level, one iteration after the other."""
        around = ranges
        for loop in level.loops:
            around, ranges = ranges, ranges.with_loop(loop.variable, loop.first, loop.last)
        here, before = dict(arrays), tuple[Statement, ...]()
        if level.start is not None:
            for step, window in level.windows.items():
                here[step.stage.name] = self.array(step.stage, level.needed[step], window)
            start, inside = level.start, with_lets(level.start.lets, around)
            before = (*start.lets, *self.guests(start, level.windows, dict(here), inside))
        statements = self.iteration(nest, level, inner, here, ranges)
        for loop in reversed(level.loops):
            statements = (*before, Sweep(loop.variable, loop.first, loop.last, loop.step, statements))
            before = ()
        return statements

    def iteration(
        self,
        nest: PlacedNest,
        level: PlacedLevel,
        inner: Sequence[PlacedLevel],
        arrays: Arrays,
        ranges: Ranges,
    ) -> tuple[Statement, ...]:
        """What one iteration of a level does: variables, guests, what is further in."""
        here = dict(arrays)
        inside = with_lets(level.lets, ranges)
        guests = self.guests(level, level.windows, here, inside)
        return (*level.lets, *guests, *self.levels(nest, inner, here, inside))

    def guests(
        self,
        part: PlacedLevel | Start,
        windows: Mapping[Step, Window],
        arrays: dict[str, Array],
        ranges: Ranges,
    ) -> tuple[Statement, ...]:
        """The guests behind the variables of a part; their arrays are added to others."""
        statements: list[Statement] = []
        for guest in part.guests:
            stage, window = guest.step.stage, windows.get(guest.step)
            if window is None:
                self.allocate(guest.step, part.needed, arrays)
            else:
                origin = _origin(stage, part.needed[guest.step], window)
                arrays[stage.name] = replace(arrays[stage.name], origin=origin)
            statements += self.levels(guest, guest.levels, arrays, ranges)
        return tuple(statements)

    def body(self, nest: PlacedNest, arrays: Arrays, ranges: Ranges) -> tuple[Statement, ...]:
        """What is inside of all loops of a nest."""
        setting = Setting(
            arrays,
            self.inlined,
            self.names.fresh,
            self.vector_bytes,
            self.layouts,
            nest.step is self.added,
            self.sums.get(nest.step),
        )
        is_repeatable = nest.levels and self.is_repeatable(nest.step, nest.levels[-1])
        return body(nest.step, nest.body, nest.around if is_repeatable else nest.body, ranges, setting)


MakeNests = Callable[[Sites, UniqueNames, Mapping[str, Sequence[str]], int, Layouts], Nests]


MOST_FRAMES = 6000
"""Of calls: what is inlined is computed by what computes what reads it."""


class _Depth:
    """How far calls may be nested: the limit is that of all threads, of which several may be in here."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._inside = 0
        self._usual = 0

    @contextmanager
    def further(self) -> Iterator[None]:
        """Than usual."""
        self._enter()
        try:
            yield
        except RecursionError:
            raise LoweringError("what is inlined into each other is nested too deeply") from None
        finally:
            self._leave()

    def _enter(self) -> None:
        with self._turn:
            if not self._inside:
                self._usual = sys.getrecursionlimit()
                sys.setrecursionlimit(max(self._usual, MOST_FRAMES))
            self._inside += 1

    def _leave(self) -> None:
        with self._turn:
            self._inside -= 1
            if not self._inside:
                sys.setrecursionlimit(self._usual)


_depth = _Depth()


def lowered(kernel: Kernel, decisions: Decisions, vector_bytes: int, nests: MakeNests) -> Program:
    """`nests`: what makes code of loops. Raises `LoweringError`."""
    with _depth.further():
        return _lowered(kernel, decisions, vector_bytes, nests)


def _lowered(kernel: Kernel, decisions: Decisions, vector_bytes: int, nests: MakeNests) -> Program:
    algorithm, boxes = kernel.algorithm, kernel.needed
    tensors, scalars = arguments(algorithm, boxes), parameters(algorithm)
    names = UniqueNames({t.name for t in tensors} | {p.name for p in scalars} | {algorithm.name})
    own = {s.name: [names.fresh(name) for name in value_names(s)] for s in algorithm.stages}
    own |= {s.name: [names.fresh(f"{n}_parts") for n in value_names(s.stage)] for s in kernel.reductions}
    layouts = {s.stage.name: layout for s in kernel.arrangeable if (layout := decisions.layout(s))}
    sites = Sites(kernel.steps, decisions.site)
    lowering = nests(sites, names, own, vector_bytes, layouts)
    placement = Placement(sites, decisions, lowering.is_shifted)
    arrays = dict(_arguments(kernel))
    copied: list[Statement] = []
    for name, wanted in algorithm.outputs.items():
        if wanted != boxes[name]:
            stage = algorithm.stage(name)
            whole = lowering.array(stage, _spans(stage, boxes[name]))
            copied += lowering.copied(stage, whole, arrays[name], wanted)
            arrays[name] = whole
    phases: list[Phase] = []
    for nest in schedule(kernel.steps, decisions):
        lowering.allocate(nest.step, placement.needed, arrays)
        phases.append(lowering.root(nest, placement, arrays))
    statements = [statement for phase in phases for statement in phase.statements]
    return Program(
        algorithm.name,
        tensors,
        scalars,
        (*statements, *copied),
        tuple(Scratch(t, False) for t in lowering.scratch),
        tuple(phases),
    )


def _arguments(kernel: Kernel) -> Arrays:
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
        for name, box in held(algorithm, kernel.needed).items()
    }


def _origin(stage: Stage, spans: Spans, window: Window | None) -> tuple[Linear, ...]:
    return tuple(
        window.first if window is not None and v == window.dim else spans[v].first for v in stage.variables
    )


def _spans(stage: Stage, box: Box) -> Spans:
    return {
        v: Span(Linear(e.low), Linear(e.high), e.size, True)
        for v, e in zip(stage.variables, box, strict=True)
    }
