"""Bounds inference: which part of each stage, and of each input, is needed.

In: stages in order, and the boxes of the outputs. Out: a box for each stage and input that is needed, or what
cannot be bounded. By interval analysis, from the outputs backwards: exact where positions are affine in
variables that vary by themselves, and never too small. How a part of it is computed when is for a schedule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.affine import linear
from spacedsl.kernels.pipeline.algorithm import (
    Binary,
    Box,
    Extent,
    Input,
    Read,
    Stage,
    Unary,
    Update,
    reads,
    walk,
)
from spacedsl.kernels.pipeline.intervals import (
    UNKNOWN,
    Interval,
    Known,
    Variables,
    interval,
    is_held,
    of_type,
    whole,
)

POSITIONS = Interval(DType.I32.least, DType.I32.greatest)
"""Where points can be, since variables are of i32."""


@dataclass(frozen=True, slots=True)
class Unbounded:
    """A definition, and the position in it that no number of points is enough for."""

    stage: str
    update: int | None
    read: Read
    position: int


@dataclass(frozen=True, slots=True)
class Outside:
    """A definition, and a read in it that leaves an input."""

    stage: str
    update: int | None
    read: Read
    position: int
    region: Interval


@dataclass(frozen=True, slots=True)
class Overflowing:
    """A definition, and a position in it that is computed from one that 32 bits do not hold."""

    stage: str
    update: int | None
    read: Read
    position: int


Problem = Unbounded | Outside | Overflowing


def values_known(stages: Sequence[Stage], inputs: Sequence[Input]) -> Known:
    """What is known of values wherever they are read; found out once somebody asks."""
    found = {(i.name, 0): UNKNOWN if i.values is None else Interval(*i.values) for i in inputs}
    pending = iter(stages)

    def known(read: Read) -> Interval:
        # Stages come behind those that they read, so that one at a time is enough.
        while (read.source, read.element) not in found:
            stage = next(pending)
            for element in range(len(stage.values)):
                found[stage.name, element] = _values(stage, element, known)
        return found[read.source, read.element]

    return known


def _values(stage: Stage, element: int, known: Known) -> Interval:
    """Of a stage, from what is known of those before it."""
    found = interval(stage.values[element], {}, known)
    for update in stage.updates:
        value = update.values[element]
        if any(isinstance(node, Read) and node.source == stage.name for node in walk(value)):
            return of_type(value.dtype)
        found = found.hull(interval(value, range_values(update), known))
    return found


def range_values(update: Update) -> Variables:
    return {r.name: Interval(r.low, r.high - 1) for r in update.ranges}


def infer(
    stages: Sequence[Stage], inputs: Sequence[Input], outputs: Mapping[str, Box]
) -> tuple[Mapping[str, Box], tuple[Problem, ...]]:
    """The boxes mean something only where there is no problem."""
    inference = _Inference(stages, inputs, outputs)
    for stage in reversed(stages):
        if stage.name in inference.needed:
            inference.stage(stage)
    return inference.boxes(), tuple(inference.problems)


class _Inference:
    def __init__(self, stages: Sequence[Stage], inputs: Sequence[Input], outputs: Mapping[str, Box]) -> None:
        self.inputs = {i.name: i for i in inputs}
        self.known = values_known(stages, inputs)
        self.problems: list[Problem] = []
        self.needed: dict[str, tuple[Interval, ...]] = {
            name: tuple(Interval(e.low, e.high) for e in box) for name, box in outputs.items()
        }

    def boxes(self) -> Mapping[str, Box]:
        found = {
            name: tuple(Extent(int(i.low), int(i.high - i.low) + 1) for i in needed)
            for name, needed in self.needed.items()
            if all(i.is_bounded for i in needed)
        }
        declared = {i.name: tuple(Extent(0, n) for n in i.extents) for i in self.inputs.values() if i.extents}
        return {**found, **declared}

    def stage(self, stage: Stage) -> None:
        # Where an update writes is part of the stage, and may depend on what others have added to it.
        for _ in range(len(stage.updates) + 1):
            before = self.needed[stage.name]
            for number, update in enumerate(stage.updates):
                self.written(stage, number, update)
            if self.needed[stage.name] == before:
                break
        else:
            last = len(stage.updates) - 1
            self.problem(Unbounded(stage.name, last, _target(stage, stage.updates[last]), 0))
        self.read(stage, None, self.variables(stage, stage.variables))
        for number, update in enumerate(stage.updates):
            self.read(stage, number, self.variables(stage, update.variables(stage), update))

    def variables(self, stage: Stage, kept: Sequence[str], update: Update | None = None) -> Variables:
        box = zip(stage.variables, self.needed[stage.name], strict=True)
        ranges = {} if update is None else range_values(update)
        return {**{v: interval for v, interval in box if v in kept}, **ranges}

    def written(self, stage: Stage, number: int, update: Update) -> None:
        needed, kept = self.needed[stage.name], update.variables(stage)
        variables = self.variables(stage, kept, update)
        own = [read for read in reads(update) if read.source == stage.name]
        for read in (_target(stage, update), *own):
            region = [
                needed[at] if variable in kept else self.region(read, at, variables)
                for at, variable in enumerate(stage.variables)
            ]
            self.need(stage.name, number, read, region)
            self.held(stage.name, number, read, variables)

    def read(self, stage: Stage, number: int | None, variables: Variables) -> None:
        definition = stage if number is None else stage.updates[number]
        for read in reads(definition):
            if read.source != stage.name:
                region = [self.region(read, at, variables) for at in range(len(read.point))]
                self.need(stage.name, number, read, region)
                self.held(stage.name, number, read, variables)

    def region(self, read: Read, at: int, variables: Variables) -> Interval:
        return interval(read.point[at], variables, self.known)

    def need(self, stage: str, number: int | None, read: Read, region: Sequence[Interval]) -> None:
        source = self.inputs.get(read.source)
        for at, each in enumerate(region):
            if not is_held(each, DType.I32):
                self.problem(Unbounded(stage, number, read, at))
                return
            if source is not None and source.extents and not 0 <= each.low <= each.high < source.extents[at]:
                self.problem(Outside(stage, number, read, at, each))
                return
        old = self.needed.get(read.source)
        self.needed[read.source] = (
            tuple(region) if old is None else tuple(a.hull(b) for a, b in zip(old, region, strict=True))
        )

    def held(self, stage: str, number: int | None, read: Read, variables: Variables) -> None:
        """What positions are computed from is held by 32 bits: they are reasoned about as whole numbers."""
        if any(problem.read == read for problem in self.problems):
            return
        for at, expression in enumerate(read.point):
            for node in walk(expression):
                is_sum = isinstance(node, Binary | Unary) and node.dtype is DType.I32
                values = whole(linear(node), variables, self.known) if is_sum else POSITIONS
                if values.is_bounded and not is_held(values, DType.I32):
                    self.problem(Overflowing(stage, number, read, at))
                    return

    def problem(self, found: Problem) -> None:
        if found not in self.problems:
            self.problems.append(found)


def _target(stage: Stage, update: Update) -> Read:
    """Where it writes, as if it read it."""
    return Read(stage.name, update.point, stage.dtypes[0])
