"""From an algorithm to the backbone that a space is about.

In: an algorithm, and what is needed of each stage and input. Out: a `Kernel`: steps with their hosts, boxes,
and what each box has to cover; also of copies of inputs. Relations only: which of them matter for what, the
space says.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from spacedsl.kernels.pipeline.affine import linear
from spacedsl.kernels.pipeline.algorithm import (
    Algorithm,
    Extent,
    Stage,
    Update,
    reads,
)
from spacedsl.kernels.pipeline.algorithm import Box as Region
from spacedsl.kernels.pipeline.backbone import (
    FULL,
    MOST_COPIES,
    PART_BYTES,
    SLOTS,
    Box,
    Kernel,
    Read,
    Slot,
    Step,
    Term,
    Use,
)
from spacedsl.kernels.pipeline.best import best
from spacedsl.kernels.pipeline.bounds import infer
from spacedsl.kernels.pipeline.copies import with_copies
from spacedsl.kernels.pipeline.moves import STILL, Move, Way, along, composed, moved, way
from spacedsl.kernels.pipeline.reductions import is_accumulation, is_associative, neutral, turn_count
from spacedsl.kernels.pipeline.spread import spreads


def build(
    algorithm: Algorithm,
    regions: Mapping[str, Region],
    decided: Mapping[str, Collection[int]] = MappingProxyType({}),
) -> Kernel:
    """`decided`: of boxes, by their names, sizes that tiles may have beside those that are usual."""
    whole, copies = with_copies(algorithm, regions)
    # Of an input, all of it is there; of its copy, there is what is read.
    read = infer(whole.stages, whole.inputs, whole.outputs)[0] if copies else {}
    needed = {**regions, **{copy: read[copy] for copy in copies}}
    builder = _Builder(whole, needed, copies, decided)
    builder.relate()
    builder.cover()
    builder.slide()
    builder.arrange()
    return Kernel(whole, tuple(builder.steps), MappingProxyType(needed))


class _Builder:
    def __init__(
        self,
        algorithm: Algorithm,
        regions: Mapping[str, Region],
        copies: Mapping[str, str],
        decided: Mapping[str, Collection[int]],
    ) -> None:
        self.algorithm = algorithm
        self.regions = regions
        self.decided = decided
        self.copies = copies
        """Inputs, by the stages that copy them."""
        self.steps: list[Step] = []
        self.moves: dict[tuple[Step, str], Move] = {}
        """Of each dimension of a step, with its host."""
        self.last: dict[str, Step] = {}
        """The step after which a stage has its values."""
        count = sum(1 + len(stage.updates) for stage in algorithm.stages)
        for stage in algorithm.stages:
            for update in (None, *range(len(stage.updates))):
                self.steps.append(self.step(stage, update, count - len(self.steps)))
        # No stage can have its name.
        self.exit = Step("*.exit", Stage("", (), ()), None, (), 0)
        self.steps.append(self.exit)

    def step(self, stage: Stage, number: int | None, from_output: int) -> Step:
        update = None if number is None else stage.updates[number]
        if update is None:
            name, dims, kept = stage.name, stage.variables, stage.variables
        else:
            kept = update.variables(stage)
            name, dims = f"{stage.name}.{(number or 0) + 1}", (*(r.name for r in update.ranges), *kept)
        step = Step(name, stage, number, dims, from_output)
        step.is_output = stage.name in self.algorithm.outputs and step.is_last
        step.is_inlinable = stage.name not in self.algorithm.outputs and _is_inlinable(stage)
        step.copied = self.copies.get(name)
        step.before = None if update is None else self.last[stage.name]
        parted = None
        if update is not None and (start := neutral(stage, update)) is not None:
            step.neutral, parted = start, update.ranges[-1].name
            step.best = best(stage, update)
            points = math.prod(extent.size for extent in self.regions[stage.name])
            of_a_line = PART_BYTES // min(dtype.nbytes for dtype in stage.dtypes)
            step.part_points = -(-points // of_a_line) * of_a_line
        is_cut_in_order = update is None or len(update.ranges) < 2 or is_associative(stage, update)
        outer = dict.fromkeys(dims)
        for slot in SLOTS:
            made = Slot(f"{name}.{slot}", step, slot)
            is_parted = {dim: slot == "TASK" and dim == parted and dim not in kept for dim in dims}
            made.boxes = tuple(
                Box(
                    f"{name}.{dim}.{slot}",
                    step,
                    dim,
                    slot,
                    self.sizes(step, dim, slot),
                    outer[dim],
                    dim not in kept,
                    is_parted[dim],
                    not is_cut_in_order and dim not in kept and not is_parted[dim],
                )
                for dim in dims
            )
            outer = dict(zip(dims, made.boxes, strict=True))
            if slot == "ROOT":
                for box in made.boxes:
                    box.reads = (self.all_of(box),)
            step.slots = (*step.slots, made)
        self.last[stage.name] = step
        return step

    def sizes(self, step: Step, dim: str, slot: str) -> tuple[int, ...]:
        """Of tiles, below the extent: powers of two, one and a half times as much, what has been decided."""
        if slot == "ROOT":
            return (FULL,)
        powers = [size for n in range(41) for size in (1 << n, 3 << n)]
        extent = self.extent(step, dim).size
        found = {*powers, *self.decided.get(f"{step.name}.{dim}.{slot}", ())}
        return (*sorted(size for size in found if 0 < size < extent), FULL)

    def extent(self, step: Step, dim: str) -> Extent:
        """Of a dimension of a step, all that it computes."""
        if isinstance(step.definition, Update):
            for each in step.definition.ranges:
                if each.name == dim:
                    return Extent(each.low, each.high - each.low)
        return self.regions[step.stage.name][step.stage.variables.index(dim)]

    def all_of(self, box: Box) -> Read:
        extent = self.extent(box.step, box.dim)
        return Read(f"{box.name}<-all", (), extent.low, 1, extent.size - 1)

    # ---- Who reads whom ----------------------------------------------------------------------------------

    def relate(self) -> None:
        """Readers, and hosts, which are immediate post-dominators (Cooper, Harvey, Kennedy, 2001)."""
        for step in self.steps[:-1]:
            names = dict.fromkeys(read.source for read in reads(step.definition))
            read = [self.last[name] for name in names if name in self.last and name != step.stage.name]
            step.sources = (*read, *(() if step.before is None else (step.before,)))
            for each in step.sources:
                each.readers = (*each.readers, step)
            if step.is_output:
                step.readers = (*step.readers, self.exit)
        for step in self.steps[:-1]:
            step.uses = tuple(_use(step, reader) for reader in step.readers if reader is not self.exit)
        place = {step: at for at, step in enumerate(self.steps)}
        for step in reversed(self.steps[:-1]):
            met = set(step.readers)
            while len(met) > 1:
                first = min(met, key=place.__getitem__)
                met = met - {first} | ({first.host} if first.host is not None else set())
            (step.host,) = met
        for step in self.steps:
            step.guests = tuple(s for s in self.steps if s.host is step)
        for step in self.steps[:-1]:
            between = _between(step)
            step.between = tuple(s for s in self.steps if s in between)
        for step, spread in spreads(self.steps[:-1]).items():
            step.spread = spread

    # ---- What boxes cover --------------------------------------------------------------------------------

    def cover(self) -> None:
        for step in reversed(self.steps[:-1]):
            for dim in step.dims:
                self.moves[step, dim], ways = self.taken(step, dim)
                for slot in SLOTS[1:]:
                    box = step.box(dim, slot)
                    box.reads = (self.all_of(box),) if ways is None else tuple(_reads(box, ways))

    def slide(self) -> None:
        """Which steps a window may slide over, as far as it is the same in all schedules."""
        for step in self.steps[:-1]:
            has_rows = not step.stage.updates and len(step.dims) > 1
            step.is_slidable = has_rows and step.cap != "ROOT" and self.is_straight(step)

    def arrange(self) -> None:
        """In which orders elements of stages may lie."""
        for step in self.steps[:-1]:
            counts = [self.regions[step.stage.name][at].size for at in range(len(step.stage.variables))]
            others = range(1, len(counts))
            step.layouts = (0, *(at for at in others if counts[at] > 1 and max(counts[:at]) > 1))

    def is_straight(self, step: Step) -> bool:
        """Whether each dimension of what encloses it moves one of its own at most, and forwards."""
        while step.host is not None and not step.host.is_exit:
            moved = [self.moves[step, dim].speeds for dim in step.dims]
            names = [name for speeds in moved for name in speeds]
            if len(names) > len({*names}) or any(speed < 0 for speeds in moved for speed in speeds.values()):
                return False
            step = step.host
        return True

    def taken(self, step: Step, dim: str) -> tuple[Move, Taken | None]:
        """How the positions of a dimension move with the host, and what each reader takes of it.

        None where all of it is needed: for a range, for the exit, and where no part of it would do.
        """
        if dim not in step.variables:
            return STILL, None
        found: Taken = []
        canonical: Move | None = None
        for reader in step.readers:
            for taken in self.ways(step, dim, reader):
                if taken is None:
                    return STILL, None
                move = moved(taken, lambda d, r=reader: self.relative(r, d, step.host))  # type: ignore[misc]
                canonical = canonical or move
                if not canonical.is_alike(move):
                    return STILL, None
                less, more = canonical.apart(move)
                least, most = taken.least + less * taken.divisor, taken.most + more * taken.divisor
                found.append((reader, replace(taken, least=least, most=most)))
        assert canonical is not None
        return canonical, found

    def relative(self, step: Step | None, dim: str, host: Step | None) -> Move:
        """How a dimension moves with that of a step that encloses it."""
        if step is None or step is host:
            return along(dim)
        return composed(self.moves[step, dim], lambda d: self.relative(step.host, d, host))

    def ways(self, step: Step, dim: str, reader: Step) -> Iterator[Way | None]:
        """How a reader's positions follow from its own dimensions; None for what does not."""
        if reader is self.exit:
            yield None
        elif reader.before is step:
            yield Way(((dim, 1),), 0, 0) if dim in reader.variables else None
        else:
            at = step.stage.variables.index(dim)
            for read in reads(reader.definition):
                if read.source == step.stage.name:
                    yield way(linear(read.point[at]))


Taken = list[tuple[Step, Way]]
"""Readers, each with a way in which it takes positions."""


def _reads(box: Box, ways: Taken) -> Iterator[Read]:
    """One for all ways of a reader that differ by a constant."""
    alike: dict[tuple[Step, tuple[tuple[str, int], ...], int], list[Way]] = {}
    for reader, each in ways:
        alike.setdefault((reader, each.terms, each.divisor), []).append(each)
    for number, ((reader, terms, divisor), same) in enumerate(alike.items()):
        name = f"{box.name}<-{reader.name}.{number}"
        least = min(each.least for each in same)
        more = max(each.most for each in same) - least
        taken = tuple(
            Term(f"{name}.{dim}", reader.box(dim, box.slot), max(n, 0), max(-n, 0)) for dim, n in terms
        )
        yield Read(name, taken, least, divisor, more)


def _between(step: Step) -> set[Step]:
    """All that is on paths to its host."""
    found: set[Step] = set()
    pending = list(step.readers)
    while pending:
        each = pending.pop()
        if each is not step.host and each not in found:
            found.add(each)
            pending += each.readers
    return found


def _use(step: Step, reader: Step) -> Use:
    found = {read for read in reads(reader.definition) if read.source == step.stage.name}
    row = reader.stage.variables[:1]
    is_along = any(not linear(read.point[0]).names.isdisjoint(row) for read in found if read.point)
    return Use(f"{reader.name}<-{step.name}", reader, max(1, len(found)), reader.turns, int(is_along))


def _is_inlinable(stage: Stage) -> bool:
    """Whether the values of a point follow from others alone, in few turns."""
    return all(is_accumulation(stage, u) and turn_count(u) <= MOST_COPIES for u in stage.updates)
