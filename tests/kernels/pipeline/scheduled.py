"""Schedules carried out point by point: what sites and tiles mean, whatever code is made of them.

In: a pipeline, a complete candidate of its space, inputs. Out: the elements of its outputs. On the way it is
found out whether everything is computed before it is read, and whether no box is larger than the space says.
Regions come from interval analysis at the positions where a box really lies, and not from the backbone. Parts
of a range see nothing but partial results of their own, and are computed from the last to the first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.algorithm import Algorithm, Binary, reads
from spacedsl.kernels.pipeline.backbone import FULL, SLOTS, Kernel, Step
from spacedsl.kernels.pipeline.bounds import range_values, values_known
from spacedsl.kernels.pipeline.intervals import Interval, interval
from tests.kernels.pipeline.pointwise import Elements, Point, combined, compute, held, inlined

Ranges = dict[str, tuple[int, int]]
"""By dimension, the least and the greatest point."""


class WrongScheduleError(AssertionError):
    pass


class Scheduled:
    def __init__(
        self,
        kernel: Kernel,
        candidate: Candidate,
        inputs: Mapping[str, Callable[[Point], Any]],
    ) -> None:
        self.kernel = kernel
        self.boxes = kernel.needed
        self.candidate = candidate
        self.inputs = inputs
        self.scalars = {p.name: p.value for p in kernel.algorithm.parameters}
        self.known = values_known(kernel.algorithm.stages, kernel.algorithm.inputs)
        self.reduce = {step: str(candidate.value("reduce", step)) for step in kernel.reductions}
        self.sites = {step: str(candidate.value("site", step)) for step in kernel.steps}
        self.steps = [step for step in kernel.steps if not step.is_exit]
        self.final = {step.stage.name: step for step in self.steps}
        self.stored: dict[str, Elements] = {}
        self.around: tuple[str, ...] = ()
        """The steps whose iterations are under way, outermost first."""
        self.paths: dict[tuple[str, ...], None] = {}
        """What has been computed in iterations of what, in order."""

    def run(self) -> dict[str, Elements]:
        with np.errstate(all="ignore"):
            self.emit(None, "ROOT", {})
        return {name: self.stored[name] for name in self.kernel.algorithm.outputs}

    # ---- Loops -------------------------------------------------------------------------------------------

    def emit(self, owner: Step | None, slot: str, around: Ranges) -> None:
        """What is computed in each iteration of the loops that `owner` has at a slot."""
        here = [s for s in self.steps if self.shares(s, slot) and self.owner(s, slot) is owner]
        regions: dict[Step, Ranges] = {} if owner is None else {owner: around}
        for step in reversed(here):
            regions[step] = self.all_of(step) if owner is None else self.needed(step, regions)
            for dim, (low, high) in regions[step].items():
                if self.sites[step] != "INLINE":
                    self.held(step, dim, slot, high - low + 1)
        for step in here:
            if self.sites[step] == slot:
                self.step(step, slot, regions[step])

    def step(self, step: Step, slot: str, region: Ranges) -> None:
        name = step.stage.name
        is_first = step.before is None or self.sites[step.before] != slot
        if is_first and self.sites[self.final[name]] == slot:
            self.stored[name] = {}
        self.around = (*self.around, step.name)
        self.paths[self.around] = None
        self.nest(step, slot, region)
        self.around = self.around[:-1]

    def nest(self, step: Step, slot: str, region: Ranges) -> None:
        """The loops of the slots within, then the body."""
        if slot == SLOTS[-1]:
            ordered = {d: region[d] for d in step.dims}
            compute(
                step.stage,
                step.update,
                ordered,
                self.stored[step.stage.name],
                self.scalars,
                self.read,
            )
            return
        inner = SLOTS[SLOTS.index(slot) + 1]
        tiles = list(self.tiles(step, inner, region))
        ranges = [d for d in step.dims if d not in step.variables]
        parts = sorted({tuple(tile[d] for d in ranges) for tile in tiles})
        way = self.reduce.get(step, "SERIAL")
        if inner == "TASK" and way != ("SERIAL" if len(parts) == 1 else "PARTIAL"):
            raise WrongScheduleError(f"{step} is {way}, and tasks have {len(parts)} parts of its ranges")
        if inner != "TASK" or way == "SERIAL":
            for tile in tiles:
                self.emit(step, inner, tile)
                self.nest(step, inner, tile)
            return
        result, name = self.stored[step.stage.name], step.stage.name
        partials = {}
        for part in reversed(parts):
            self.stored[name] = partials[part] = Partials(step)
            for tile in (tile for tile in tiles if tuple(tile[d] for d in ranges) == part):
                self.emit(step, inner, tile)
                self.nest(step, inner, tile)
        self.stored[name] = result
        for part in parts:
            for point, values in partials[part].items():
                result[point] = partials[part].combined(result[point], values)

    def tiles(self, step: Step, slot: str, region: Ranges) -> Iterator[Ranges]:
        parts = []
        for dim in reversed(step.dims):
            box = step.box(dim, slot)
            size = int(self.candidate.value("tile", box))
            low, high = region[dim]
            size = high - low + 1 if size == FULL else size
            self.held(step, dim, slot, min(size, high - low + 1))
            parts.append([(dim, (at, min(at + size - 1, high))) for at in range(low, high + 1, size)])
        for part in itertools.product(*parts):
            yield dict(part)

    def held(self, step: Step, dim: str, slot: str, size: int) -> None:
        """Within what the space says of the box."""
        if slot != "ROOT":
            box = step.box(dim, slot)
            low, high = self.candidate.instance.quantity(self.candidate.vector, "extent", box)
            if low != high or size > high:
                raise WrongScheduleError(f"{box} has {size} points, of {low} to {high}")

    # ---- Whose slots they are ----------------------------------------------------------------------------

    def shares(self, step: Step, slot: str) -> bool:
        """Whether a step has that slot from its host."""
        site = self.sites[step]
        return site == "INLINE" or SLOTS.index(site) >= SLOTS.index(slot)

    def owner(self, step: Step, slot: str) -> Step | None:
        """The step that has the loops of a slot that it shares; None for what is outside of all."""
        host = step.host
        while host is not None and not host.is_exit and self.shares(host, slot):
            host = host.host
        return None if host is None or host.is_exit else host

    # ---- Regions -----------------------------------------------------------------------------------------

    def all_of(self, step: Step) -> Ranges:
        stage = step.stage
        box = {v: (e.low, e.high) for v, e in zip(stage.variables, self.boxes[stage.name], strict=True)}
        if step.update is None:
            return box
        ranges = {
            name: (int(i.low), int(i.high)) for name, i in range_values(stage.updates[step.update]).items()
        }
        return {**{v: box[v] for v in step.variables}, **ranges}

    def needed(self, step: Step, regions: Mapping[Step, Ranges]) -> Ranges:
        """The hull of what those take that read it, where they are just now."""
        stage, whole = step.stage, self.all_of(step)
        found: dict[str, Interval] = {}
        for reader, region in regions.items():
            is_next = reader.before is step
            variables = {d: Interval(*ends) for d, ends in region.items()}
            for dim in step.variables:
                at = stage.variables.index(dim)
                taken = [
                    interval(read.point[at], variables, self.known)
                    for read in reads(reader.definition)
                    if read.source == stage.name and self.final[stage.name] is step
                ]
                if is_next:
                    own = region[dim] if dim in reader.variables else whole[dim]
                    taken = [Interval(*own)]
                for each in taken:
                    found[dim] = each if dim not in found else found[dim].hull(each)
        region = {dim: (int(i.low), int(i.high)) for dim, i in found.items()}
        return {dim: region.get(dim, whole[dim]) for dim in step.dims}

    def read(self, source: str, where: Point, element: int) -> Any:
        if source in self.inputs:
            return self.inputs[source](where)
        step = self.final[source]
        if self.sites[step] == "INLINE":
            return inlined(step.stage, where, element, self.scalars, self.read)
        if where not in self.stored.get(source, {}):
            raise WrongScheduleError(f"{source}{where} is read, and has not been computed")
        return self.stored[source][where][element]


class Partials(dict[Point, tuple[Any, ...]]):
    """Of a part of a step's range."""

    NEUTRAL: ClassVar[Mapping[str, Callable[[DType], Any]]] = {
        "+": lambda dtype: 0,
        "*": lambda dtype: 1,
        "&": lambda dtype: ~0,
        "|": lambda dtype: 0,
        "^": lambda dtype: 0,
        "min": lambda dtype: math.inf if dtype.is_float else dtype.greatest,
        "max": lambda dtype: -math.inf if dtype.is_float else dtype.least,
    }

    def __init__(self, step: Step) -> None:
        values = [v for v in step.definition.values if isinstance(v, Binary)]
        self.operators = [(value.operator, value.dtype) for value in values]

    def __missing__(self, point: Point) -> tuple[Any, ...]:
        return tuple(held(self.NEUTRAL[operator](dtype), dtype) for operator, dtype in self.operators)

    def __contains__(self, point: object) -> bool:
        return True

    def combined(self, left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
        pairs = zip(self.operators, left, right, strict=True)
        return tuple(held(combined(operator, a, b), dtype) for (operator, dtype), a, b in pairs)


def outputs_of(algorithm: Algorithm, found: Mapping[str, Elements]) -> dict[str, Elements]:
    """Those elements that are wanted."""
    return {
        name: {
            point: found[name][point] for point in itertools.product(*(range(e.low, e.high + 1) for e in box))
        }
        for name, box in algorithm.outputs.items()
    }
