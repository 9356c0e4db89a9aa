"""Lowering of pipelines for GPUs: a schedule, and where its boxes lie, become a program of grids.

In: the steps of a pipeline, the decisions of a complete candidate. Out: a `Program`, not yet verified. Each
nest at ROOT is a grid: its tasks are blocks, and in a block each nest runs in as many threads as it has
lanes, neighbours along the innermost loop being neighbours. What is computed in a task or a chunk lies
in shared memory, what is in a lane or inside of one in memory of its thread. Threads wait for each other
between nests (`cuda/barriers.py`). Of a reduction, blocks and threads may have parts of its ranges: they add
to its values in memory, have partial results of their own (`grid_partials.py`), or exchange them in a warp
(`grid_shuffles.py`). What is the same on other machines is in `nests.py`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate

from spacedsl.codegen.cuda.barriers import waiting
from spacedsl.codegen.pipeline import grid_shuffles
from spacedsl.codegen.pipeline.blocks import Array, leading_to
from spacedsl.codegen.pipeline.grid_partials import Along, PerPoint, begun, combined
from spacedsl.codegen.pipeline.grid_vectors import joined
from spacedsl.codegen.pipeline.lower import copy
from spacedsl.codegen.pipeline.nests import Arrays, Nests, lowered
from spacedsl.codegen.pipeline.partials import Partials
from spacedsl.codegen.pipeline.placement import PlacedLevel, PlacedLoop, PlacedNest, Placement
from spacedsl.codegen.pipeline.schedule import SHARED, Decisions, Level, Nest
from spacedsl.codegen.tree.expressions import Register, Type
from spacedsl.codegen.tree.parts import loaded, statements, stored
from spacedsl.codegen.tree.program import Coordinate, Grid, Let, PerThread, Phase, Program, Statement, Sweep
from spacedsl.codegen.tree.ranges import Ranges
from spacedsl.kernels.gpu_device import SECTOR_BYTES
from spacedsl.kernels.pipeline.affine import Linear, extreme, substituted, variable
from spacedsl.kernels.pipeline.algorithm import Box, Stage
from spacedsl.kernels.pipeline.backbone import VECTOR, Kernel, Step
from spacedsl.kernels.tensors import Tensor

POINTS = 256
"""Threads of a block that has one for each point."""


def lower_grids(kernel: Kernel, decisions: Decisions) -> Program:
    wide = frozenset(
        step.stage.name for step in kernel.inner if not step.stage.updates and decisions.beside(step) > 1
    )
    return lowered(kernel, decisions, 1, partial(_Grids, wide=wide))


@dataclass(frozen=True, slots=True)
class _Lanes:
    """Loops of which each thread has an iteration."""

    loops: Sequence[PlacedLoop]
    coordinates: Sequence[Coordinate]
    places: Sequence[Let]
    """Where the coordinates lead."""
    within: Ranges
    """With all of these."""
    around: Ranges
    """Without any."""

    def outer(self, names: Mapping[str, str]) -> _Lanes:
        """All but the innermost, whose variables have these names."""
        loops = [replace(loop, variable=names[loop.variable]) for loop in self.loops[:-1]]
        places = [replace(place, variable=names[place.variable]) for place in self.places[:-1]]
        return _Lanes(loops, self.coordinates[:-1], places, self.within, self.around)


@dataclass(slots=True)
class _Grids(Nests):
    wide: frozenset[str]
    """Stages of which some thread stores, or loads, several points beside each other."""
    shared: list[Tensor] | None = field(default=None, init=False)
    """Of the block of a grid, while one is made."""
    private: list[Tensor] = field(default_factory=list, init=False)
    """Of each thread."""
    blocks: list[Coordinate] = field(default_factory=list, init=False)
    in_thread: bool = field(default=False, init=False)
    partials: Partials | None = field(default=None, init=False)
    """Of the nest of which a grid is made."""
    parted: frozenset[str] = field(default=frozenset(), init=False)
    """The variables of loops that have parts of its ranges."""
    exchanged: frozenset[Step] = field(default=frozenset(), init=False)
    """The steps of that nest whose partial results the threads of a warp exchange."""
    part: Linear = field(default=Linear(0), init=False)
    """The number of that of a thread, as far as coordinates around say it."""

    # ---- Grids -------------------------------------------------------------------------------------------

    def root(self, scheduled: Nest, placement: Placement, arrays: Arrays) -> Phase:
        nest = placement.nest(scheduled, self.names.fresh)
        self.shared, self.private, self.blocks = [], [], []
        self.added = nest.step if scheduled.reduce == "ATOMIC" else None
        self.exchanged = frozenset(each.step for each in scheduled.nests if each.reduce == "SHUFFLE")
        self.partials = self.partials_of(scheduled, nest, arrays) if scheduled.reduce == "PARTIAL" else None
        body = self.levels(nest, nest.levels, arrays, Ranges())
        rows = {name: _apart(array.strides) for array in arrays.values() for name in array.tensors}
        rows |= {tensor.name: _apart(tensor.strides) for tensor in self.shared}
        made = self.grid(nest.step.stage.name, joined(body, rows, self.names.fresh))
        self.shared = None
        if self.partials is None:
            return Phase(nest.step.name, (made,))
        before, behind = (
            tuple(self.spread(nest.step.stage.name, each) for each in of(self.partials, self.names.fresh))
            for of in (begun, combined)
        )
        return Phase(nest.step.name, (*before, made, *behind))

    def partials_of(self, scheduled: Nest, nest: PlacedNest, arrays: Arrays) -> Partials:
        """The partial results of all threads, which have room then."""
        step, self.part = nest.step, Linear(0)
        parted: dict[str, int] = {}
        for level, placed in zip(scheduled.levels, nest.levels, strict=True):
            if level.slot in SHARED["gpu"]:
                for loop, at in zip(level.loops, placed.loops, strict=True):
                    if loop.dim not in step.variables:
                        parted[at.variable] = at.trips
        self.parted = frozenset(parted)
        names = tuple(self.arrays[step.name])
        partials = Partials(step, arrays[step.stage.name], tuple(parted.values()), names, 1)
        self.scratch += partials.memory
        return partials

    def grid(self, name: str, body: tuple[Statement, ...]) -> Grid:
        """Of a body in which nobody waits yet."""
        shared = tuple(self.shared or ())
        threads = max(part.threads for part in _parts(body))
        watched = {t.name for t in shared} | _exchanged(body)
        return Grid(
            self.names.fresh(f"{name}_grid"),
            math.prod(c.extent for c in self.blocks),
            threads,
            tuple(self.blocks),
            shared,
            waiting(body, watched, writes_again=True) if threads > 1 else body,
            tuple(self.private),
        )

    def copied(self, stage: Stage, source: Array, target: Array, wanted: Box) -> tuple[Statement, ...]:
        points = [
            Along(self.names.fresh(f"{stage.name}_{v}"), e.low, e.size)
            for v, e in zip(stage.variables, wanted, strict=True)
        ]
        statements = copy(stage, source, target, [variable(p.variable) for p in points])
        return (self.spread(stage.name, PerPoint(points, statements)),)

    def spread(self, name: str, work: PerPoint) -> Grid:
        """A thread for each point: blocks go along the innermost dimension, and through all others."""
        fresh = self.names.fresh
        points = [
            PlacedLoop(p.variable, Linear(p.first), Linear(p.first + p.count - 1), 1, p.count)
            for p in work.dims
        ]
        threads = min(POINTS, points[0].trips) if points else 1
        tiles = [
            replace(p, variable=fresh(f"{p.variable}_tile"), step=threads, trips=-(-p.trips // threads))
            for p in points[:1]
        ]
        self.private = []
        self.blocks, places, ranges = self.counted([*points[:0:-1], *tiles], Ranges(), is_block=True)
        along = [
            replace(p, first=variable(t.variable), trips=threads)
            for p, t in zip(points[:1], tiles, strict=True)
        ]
        coordinates, ahead, within = self.counted(along, ranges, is_block=False)
        body = self.where_there(_Lanes(along, coordinates, ahead, within, ranges), lambda _: work.statements)
        return self.grid(name, (*places, PerThread(tuple(coordinates), body)))

    def memory(self) -> list[Tensor]:
        if self.in_thread:
            return self.private
        return self.scratch if self.shared is None else self.shared

    def row(self, stage: Stage, extent: int) -> int:
        """Where there are vectors, and others see them, rows begin where these may: of a block, at multiples
        of as many elements; in memory of the device, of the bytes that it gives at a time.
        """
        unit = VECTOR if self.shared is not None else SECTOR_BYTES // max(d.nbytes for d in stage.dtypes)
        is_packed = self.in_thread or stage.name in self.layouts or stage.name not in self.wide
        return extent if is_packed or extent < unit else -(-extent // unit) * unit

    # ---- Loops -------------------------------------------------------------------------------------------

    def is_repeatable(self, step: Step, level: Level | PlacedLevel) -> bool:
        """Where a thread has fewer points than others, it must not touch those of its neighbours."""
        return False

    def levels(
        self, nest: PlacedNest, levels: Sequence[PlacedLevel], arrays: Arrays, ranges: Ranges
    ) -> tuple[Statement, ...]:
        if not self.in_thread and (not levels or levels[0].slot in ("LANE", "REG")):
            return (self.threads(nest, levels, arrays, ranges),)
        if not levels:
            return self.body(nest, self.written(nest, arrays), ranges)
        level, *inner = levels
        if level.slot != "TASK":
            return self.swept(nest, level, inner, arrays, ranges)
        self.blocks, places, ranges = self.counted(level.loops, ranges, is_block=True)
        self.take_part(level.loops, self.blocks)
        return (*places, *self.iteration(nest, level, inner, arrays, ranges))

    def take_part(self, loops: Sequence[PlacedLoop], coordinates: Sequence[Coordinate]) -> None:
        """Which part of the ranges these coordinates lead to, of loops in whose place they are."""
        for loop, coordinate in zip(loops, coordinates, strict=True):
            if loop.variable in self.parted:
                self.part = self.part * coordinate.extent + variable(coordinate.variable)

    def written(self, nest: PlacedNest, arrays: Arrays) -> Arrays:
        """With that of the thread's own part in place of the result."""
        if self.partials is None or nest.step is not self.partials.step:
            return arrays
        return {**arrays, nest.step.stage.name: self.partials.array(self.part)}

    def threads(
        self, nest: PlacedNest, levels: Sequence[PlacedLevel], arrays: Arrays, ranges: Ranges
    ) -> PerThread:
        """What is inside of the slots of a block: a thread for each lane."""
        self.in_thread = True
        if not levels or levels[0].slot != "LANE":
            body = self.levels(nest, levels, arrays, ranges)
            self.in_thread = False
            return PerThread((), body)
        level, *inner = levels
        coordinates, places, within = self.counted(level.loops, ranges, is_block=False)
        around = self.part
        self.take_part(level.loops, coordinates)

        def own(there: Ranges) -> tuple[Statement, ...]:
            return self.iteration(nest, level, inner, arrays, there)

        lanes = _Lanes(level.loops, coordinates, places, within, ranges)
        if nest.step in self.exchanged:
            body = self.exchange(nest, levels, arrays, lanes, own)
        else:
            body = self.where_there(lanes, own)
        self.part = around
        self.in_thread = False
        return PerThread(tuple(coordinates), body)

    def exchange(
        self,
        nest: PlacedNest,
        levels: Sequence[PlacedLevel],
        arrays: Arrays,
        lanes: _Lanes,
        own: Callable[[Ranges], tuple[Statement, ...]],
    ) -> tuple[Statement, ...]:
        """Partial results in registers of all threads. Neighbours, along the innermost loop, have parts of
        the same point: the first one of them stores it.
        """
        step = nest.step
        sums = tuple(Register(self.names.fresh("sum"), Type(dtype)) for dtype in step.stage.dtypes)
        self.sums = {step: sums}
        parts = self.where_there(lanes, own)
        self.sums = {}
        first = lanes.coordinates[-1]
        lets = [let for level in levels for let in level.lets]
        said = (*(loop.variable for loop in lanes.loops), *(let.variable for let in lets))
        names = {name: self.names.fresh(name) for name in said}
        again = {name: variable(other) for name, other in names.items()}
        lets = [Let(names[let.variable], substituted(let.position, again)) for let in lets]
        point = [substituted(nest.body[v].first, again) for v in step.stage.variables]

        def put(_: Ranges) -> tuple[Statement, ...]:
            stored = grid_shuffles.stored(step, arrays[step.stage.name], point, sums, self.names.fresh)
            once = Sweep(self.names.fresh("first"), variable(first.variable), Linear(0), 1, stored)
            return (*leading_to(lets, point), once)

        return (
            *grid_shuffles.begun(step, sums),
            *parts,
            *grid_shuffles.exchanged(step, sums, first.extent),
            *self.where_there(lanes.outer(names), put),
        )

    def where_there(
        self, lanes: _Lanes, inner: Callable[[Ranges], tuple[Statement, ...]]
    ) -> tuple[Statement, ...]:
        """In the last tile there may be fewer than threads. What they do where there is one: a loop that has
        at most one iteration, so that both ends are known.
        """
        loops, coordinates, places, ranges = lanes.loops, lanes.coordinates, lanes.places, lanes.around
        within = lanes.within
        ends: list[Linear | None] = []
        for loop, place in zip(loops, places, strict=True):
            is_there = within.is_natural(loop.last + place.position * -1)
            ends.append(None if is_there else extreme("min", place.position, loop.last))
        for coordinate, loop, place, end in zip(coordinates, loops, places, ends, strict=True):
            ranges = ranges.with_loop(coordinate.variable, Linear(0), Linear(coordinate.extent - 1))
            if end is None:
                ranges = ranges.with_position(loop.variable, place.position)
            else:
                ranges = ranges.with_loop(loop.variable, place.position, end)
        body = inner(ranges)
        for place, end in reversed([*zip(places, ends, strict=True)]):
            swept = () if end is None else (Sweep(place.variable, place.position, end, 1, body),)
            body = swept or (place, *body)
        return body

    def counted(
        self, loops: Sequence[PlacedLoop], ranges: Ranges, *, is_block: bool
    ) -> tuple[list[Coordinate], list[Let], Ranges]:
        """Coordinates in place of loops, which count from 0, and where that leads."""
        names = [self.names.fresh(f"{loop.variable}_{'block' if is_block else 'thread'}") for loop in loops]
        places: list[Let] = []
        for name, loop in zip(names, loops, strict=True):
            place = loop.first + variable(name) * loop.step
            places.append(Let(loop.variable, place))
            ranges = ranges.with_loop(name, Linear(0), Linear(loop.trips - 1))
            ranges = ranges.with_position(loop.variable, place)
        return _coordinates(names, [loop.trips for loop in loops], is_block=is_block), places, ranges


def _coordinates(names: Sequence[str], sizes: Sequence[int], *, is_block: bool) -> list[Coordinate]:
    """Outermost first: the last one counts neighbours."""
    strides = list(accumulate(reversed(sizes), lambda a, b: a * b, initial=1))
    return [
        Coordinate(name, is_block, stride, size)
        for name, size, stride in zip(names, sizes, strides[-2::-1], strict=True)
    ]


def _apart(strides: Sequence[int]) -> int:
    """How far rows are apart; 0 where there is one."""
    return sorted(strides)[1] if len(strides) > 1 else 0


def _parts(body: Sequence[Statement]) -> list[PerThread]:
    return [s for s in statements(body) if isinstance(s, PerThread)]


def _exchanged(body: Sequence[Statement]) -> set[str]:
    """Arrays that threads find what others have written in: in one part, each is at its own elements."""
    written, read = Counter[str](), Counter[str]()
    for part in _parts(body):
        written.update(stored(part.body))
        read.update(loaded(part.body) | stored(part.body))
    return {name for name in written if read[name] > 1}
