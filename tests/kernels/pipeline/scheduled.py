"""Schedules carried out point by point: what sites and tiles mean, whatever code is made of them.

In: a pipeline, a complete candidate of its space, inputs. Out: the elements of its outputs. On the way it is
found out whether everything is computed before it is read, and whether no box is larger than the space says.
Regions come from interval analysis at the positions where a box really lies, and not from the backbone. Parts
of a range see nothing but partial results of their own, and are computed from the last to the first.
"""

from __future__ import annotations

import itertools
import math
import operator as operators
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.algorithm import (
    Algorithm,
    Binary,
    Constant,
    Expression,
    Variable,
    operands,
    reads,
    with_operands,
)
from spacedsl.kernels.pipeline.backbone import FULL, SLOTS, Box, Kernel, Step
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
        self.kept: dict[Step, Ranges] = {}
        """What iterations of the innermost loop around a sliding step have computed, and is kept."""
        self.paths: dict[tuple[str, ...], None] = {}
        """What has been computed in iterations of what, in order."""

    def run(self) -> dict[str, Elements]:
        with np.errstate(all="ignore"):
            self.emit(None, "ROOT", {})
        return {name: self.stored[name] for name in self.kernel.algorithm.outputs}

    # ---- Loops -------------------------------------------------------------------------------------------

    def emit(self, owner: Step | None, slot: str, around: Ranges, is_first: bool = True) -> None:
        """What is computed in each iteration of the loops that `owner` has at a slot.

        `is_first`: of the innermost one of them.
        """
        here = [s for s in self.steps if self.shares(s, slot) and self.owner(s, slot) is owner]
        regions: dict[Step, Ranges] = {} if owner is None else {owner: around}
        # What would be needed if nothing were kept.
        fresh = dict(regions)
        for step in reversed(here):
            regions[step] = self.region(step, owner, regions)
            fresh[step] = self.region(step, owner, fresh)
            for dim, (low, high) in fresh[step].items():
                if self.sites[step] != "INLINE":
                    self.held(step, dim, slot, high - low + 1)
            if self.sites[step] == slot and self.is_sliding(step):
                regions[step] = self.slid(step, slot, fresh[step], is_first)
        for step in here:
            if self.sites[step] == slot:
                self.step(step, slot, regions[step])

    def region(self, step: Step, owner: Step | None, regions: Mapping[Step, Ranges]) -> Ranges:
        if owner is None:
            return self.all_of(step)
        region = self.needed(step, regions)
        if self.is_sliding(step):
            # Where no part of a dimension would do, all of it is kept.
            whole = self.all_of(step)
            region |= {dim: whole[dim] for dim in region if not self.is_moved(step.box(dim, SLOTS[1]))}
        return region

    def step(self, step: Step, slot: str, region: Ranges) -> None:
        name = step.stage.name
        is_first = step.before is None or self.sites[step.before] != slot
        if is_first and self.sites[self.final[name]] == slot and not self.is_sliding(step):
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
            before: Ranges = {}
            for tile in tiles:
                self.emit(step, inner, tile, self.is_first(step, inner, before, tile))
                self.nest(step, inner, tile)
                before = tile
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
        for dim in reversed(self.dims(step, slot)):
            box = step.box(dim, slot)
            size = int(self.candidate.value("tile", box))
            low, high = region[dim]
            size = max(1, high - low + 1) if size == FULL else size
            self.held(step, dim, slot, min(size, high - low + 1))
            parts.append([(dim, (at, min(at + size - 1, high))) for at in range(low, high + 1, size)])
        for part in itertools.product(*parts):
            yield dict(part)

    def dims(self, step: Step, slot: str) -> list[str]:
        """As their loops are at a slot, the innermost first."""
        dims, orders = [*step.dims], {each.slot: each for each in step.orderable}
        if slot in orders:
            dims.insert(0, dims.pop(int(self.candidate.value("innermost", orders[slot]))))
        return dims

    def is_moved(self, box: Box) -> bool:
        return any(read.terms for read in box.reads)

    def is_first(self, step: Step, slot: str, before: Ranges, part: Ranges) -> bool:
        """Whether an iteration is the first one of the innermost loop."""
        dims = self.dims(step, slot)
        outer = [dim for dim in dims if self.quantity("trips", step.box(dim, slot)) > 1][1:]
        return not before or any(before[dim] != part[dim] for dim in outer)

    def is_sliding(self, step: Step) -> bool:
        return step.is_slidable and self.candidate.value("window", step) == "SLIDING"

    def slid(self, step: Step, slot: str, region: Ranges, is_first: bool) -> Ranges:
        """What is not kept of a region; of what is kept, the window leaves nothing but its last points."""
        if is_first:
            self.stored[step.stage.name] = {}
            self.kept[step] = region
            return region
        before = self.kept[step]
        moved = [dim for dim in step.dims if region[dim] != before[dim]] or [step.dims[-1]]
        (dim,) = moved
        if dim == step.dims[0]:
            raise WrongScheduleError(f"{step} slides along {moved}")
        low, high = region[dim]
        done = before[dim][1]
        size, at = self.quantity("extent", step.box(dim, slot)), step.stage.variables.index(dim)
        self.stored[step.stage.name] = {
            where: values
            for where, values in self.stored[step.stage.name].items()
            if where[at] > max(high, done) - size
        }
        self.kept[step] = {**region, dim: (low, max(high, done))}
        return {**region, dim: (max(low, done + 1), high)}

    def quantity(self, name: str, box: Box) -> int:
        low, high = self.candidate.instance.quantity(self.candidate.vector, name, box)
        if low != high:
            raise WrongScheduleError(f"{name} of {box} is from {low} to {high}")
        return int(low)

    def held(self, step: Step, dim: str, slot: str, size: int) -> None:
        """Within what the space says of the box."""
        if slot != "ROOT":
            box = step.box(dim, slot)
            most = self.quantity("extent", box)
            if size > most:
                raise WrongScheduleError(f"{box} has {size} points, of {most}")

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
        readers = {reader: region for reader, region in regions.items() if reader in step.readers}
        some = {
            r: region for r, region in readers.items() if all(low <= high for low, high in region.values())
        }
        if readers and not some:
            return {dim: (low, low - 1) for dim, (low, _) in whole.items()}
        for reader, region in some.items():
            is_next = reader.before is step
            variables = {d: Interval(*ends) for d, ends in region.items()}
            variables |= {f"below {n}": Interval(0, n - 1) for n in range(2, 65)}
            for dim in step.variables:
                at = stage.variables.index(dim)
                # What slides goes on evenly, wherever in a turn of its remainders it is.
                even = _evened if self.is_sliding(step) else _same
                taken = [
                    interval(even(read.point[at]), variables, self.known)
                    for read in reads(reader.definition)
                    if read.source == stage.name and self.final[stage.name] is step
                ]
                if is_next:
                    own = region[dim] if dim in reader.variables else whole[dim]
                    taken = [Interval(*own)]
                for each in taken:
                    found[dim] = each if dim not in found else found[dim].hull(each)
        region = {
            dim: (max(int(i.low), whole[dim][0]), min(int(i.high), whole[dim][1])) for dim, i in found.items()
        }
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


def _same(node: Expression) -> Expression:
    return node


def _evened(node: Expression) -> Expression:
    """With anything that a remainder may be in its place."""
    if isinstance(node, Binary) and node.operator == "%" and isinstance(node.right, Constant):
        return Variable(f"below {node.right.value}")
    given = tuple(map(_evened, operands(node)))
    return with_operands(node, given) if given else node


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

    COMPARED: ClassVar[Mapping[str, Callable[[Any, Any], bool]]] = {
        "<": operators.lt, "<=": operators.le, ">": operators.gt, ">=": operators.ge
    }  # fmt: skip

    def __init__(self, step: Step) -> None:
        self.best = step.best
        values = [v for v in step.definition.values if isinstance(v, Binary)]
        self.operators = [(value.operator, value.dtype) for value in values]

    def __missing__(self, point: Point) -> tuple[Any, ...]:
        if self.best is not None:
            # Worse than anything, also than the least integer; with other values that nobody may see.
            worst = -math.inf if ">" in self.best.comparator else math.inf
            return tuple(worst if n == self.best.decisive else None for n in range(len(self.best.values)))
        return tuple(held(self.NEUTRAL[operator](dtype), dtype) for operator, dtype in self.operators)

    def __contains__(self, point: object) -> bool:
        return True

    def combined(self, left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.best is not None:
            compared = self.COMPARED[self.best.comparator]
            return right if compared(right[self.best.decisive], left[self.best.decisive]) else left
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
