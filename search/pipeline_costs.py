"""A cost model of pipelines on CPUs: how long implementations may take, to tell which are worth measuring.

In: an instance of a pipeline, a device, then complete candidates. Out: nanoseconds, roughly. Each step costs
what its innermost boxes compute, as vectors where neighbours are read, and what its reads move between levels
of memory: the largest box of its loops that a cache holds is loaded once for each iteration around it.
Nothing is excluded by this: `bounds/pipeline.py` says what no implementation undercuts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.kernels.device import CpuDevice
from spacedsl.kernels.pipeline.backbone import SLOTS, Box, Kernel, SlotName, Step
from spacedsl.kernels.pipeline.sites import Sites
from spacedsl.search.cost_model import Plan
from spacedsl.search.pipeline_plans import plan
from spacedsl.search.pipeline_work import Pattern, work_of

BODY_NS, ROW_NS, START_NS = 3.0, 1.0, 3000.0
"""Of each innermost box, of each row in it, and of what runs in parallel: what is spent around the work."""

APART = 3.0
"""Instructions for each lane that is loaded by itself."""

HELD = 0.6
"""The share of a cache that what is read again stays in."""


@dataclass(frozen=True, slots=True)
class Access:
    """Reads of one array that move alike: along which dimensions of the step, and how for neighbours."""

    source: str
    dims: frozenset[str]
    pattern: Pattern
    nbytes: int


@dataclass(slots=True)
class _Total:
    """Of one point, with all that is inlined."""

    vector: float
    scalar: float
    widest: int
    accesses: Counter[Access] = field(default_factory=Counter)

    def add(self, other: _Total, times: int, moved: Mapping[str, frozenset[str]], pattern: Pattern) -> None:
        """What is inlined: `moved`, its dimensions in those of the step; its ranges are unrolled."""
        self.vector += other.vector * times
        self.scalar += other.scalar * times
        self.widest = max(self.widest, other.widest)
        for access, count in other.accesses.items():
            dims = frozenset[str]().union(*(moved[d] for d in access.dims if d in moved))
            worst = access.pattern if pattern == "beside" else "same" if access.pattern == "same" else pattern
            self.accesses[Access(access.source, dims, worst, access.nbytes)] += count * times


class PipelineCosts:
    """The time of a complete candidate, in nanoseconds."""

    def __init__(self, instance: Instance, device: CpuDevice) -> None:
        kernel = instance.kernel
        assert isinstance(kernel, Kernel)
        self.instance = instance
        self.device = device
        self.steps = [step for step in kernel.steps if not step.is_exit]
        self.final = {step.stage.name: step for step in self.steps}
        self.work = {step: work_of(step) for step in self.steps}
        self.boxes = {step: [{b.dim: b for b in slot.boxes} for slot in step.slots] for step in self.steps}
        self.sites = {step: instance.variable("site", step) for step in self.steps}
        rates = [r.instructions_per_ns for r in device.arithmetic if r.dtype == "f32"]
        self.per_ns = max(rates, default=8.0)
        self.extents = {
            b: instance.quantity_node("extent", b) for s in self.steps for x in s.slots for b in x.boxes
        }
        self.trips = {b: instance.quantity_node("trips", b) for s in self.steps for b in s.loops}

    def __call__(self, candidate: Candidate) -> float:
        return _Estimate(self, candidate).total_ns()

    def plan(self, rng: np.random.Generator) -> Plan:
        return plan(self.instance, self.work, self.device.threads, rng)


class _Estimate:
    def __init__(self, costs: PipelineCosts, candidate: Candidate) -> None:
        self.costs = costs
        sites = {s: str(v.values(candidate.mask(v))[0]) for s, v in costs.sites.items()}
        self.sites = Sites(costs.steps, sites.__getitem__)
        self.highs = candidate.instance.propagation.evaluated(candidate.vector).high
        self.totals: dict[Step, _Total] = {}
        self.passes: dict[tuple[Step, str], float] = {}
        self.sizes: dict[str, float] = {}

    def total_ns(self) -> float:
        threads = self.costs.device.threads
        total = 0.0
        for step in self.costs.steps:
            if self.sites.of[step] == "INLINE":
                continue
            root = step if self.sites.of[step] == "ROOT" else self.sites.owner(step, "TASK")
            assert root is not None
            tasks = math.prod(self.trips(root, "TASK"))
            speed = tasks / math.ceil(tasks / threads)
            total += self.step_ns(step) / min(speed, threads)
            total += START_NS if step is root and tasks > 1 else 0.0
        return total

    # ---- Loops -------------------------------------------------------------------------------------------

    def trips(self, step: Step, slot: SlotName) -> Iterator[int]:
        return (self.highs[self.costs.trips[box]] for box in self.boxes(step, slot).values())

    def boxes(self, step: Step, slot: SlotName) -> Mapping[str, Box]:
        """By dimension."""
        return self.costs.boxes[step][SLOTS.index(slot)]

    def extents(self, step: Step, slot: SlotName) -> Mapping[str, int]:
        return {dim: self.highs[self.costs.extents[box]] for dim, box in self.boxes(step, slot).items()}

    def iterations(self, step: Step, slot: SlotName) -> float:
        """Of all loops around a box of that slot."""
        if slot == "ROOT":
            return 1.0
        known = self.passes.get((step, slot))
        if known is None:
            if self.sites.shares(step, slot):
                owner = self.sites.owner(step, slot)
                assert owner is not None
                known = self.iterations(owner, slot)
            else:
                outer = SLOTS[SLOTS.index(slot) - 1]
                known = self.iterations(step, outer) * math.prod(self.trips(step, slot))
            self.passes[step, slot] = known
        return known

    # ---- Steps -------------------------------------------------------------------------------------------

    def step_ns(self, step: Step) -> float:
        work = self.of(step)
        along = step.stage.variables[0] if step.stage.variables else None
        extents = self.extents(step, "REG")
        bodies = self.iterations(step, "REG")
        length = extents.get(along, 1) if along in step.variables else 1
        lanes = 1 << (max(1, min(self.costs.device.vector_bytes // work.widest, length)).bit_length() - 1)
        rows = math.prod(extents.values()) / length
        turns = -(-length // lanes) if length >= lanes else length
        each = work.vector + lanes * work.scalar + 1
        for access, count in work.accesses.items():
            each += count * (APART * lanes if access.pattern == "apart" else 0.6)
        computed = rows * (turns * each / self.costs.per_ns + ROW_NS) + BODY_NS
        return bodies * computed + self.moved_ns(step, work, extents, along)

    def moved_ns(self, step: Step, work: _Total, extents: Mapping[str, int], along: str | None) -> float:
        """Between the levels of memory, for what the step reads and writes."""
        points = self.iterations(step, "REG") * math.prod(extents.values())
        own = [d.nbytes for d in step.stage.dtypes]
        total = 0.0
        inner = 0.0
        memory = self.costs.device.memory
        for level, beyond in pairwise(memory):
            inner += (level.capacity_bytes or 0) * HELD
            wide = [a for a in work.accesses if self.stored(a.source) > inner]
            missed = self.missed(step, wide, extents, along, inner) if wide else 0.0
            if self.stored(step.stage.name) > inner:
                missed += 2 * points * sum(own) / self.ranges(step, extents)
            total += missed / beyond.bytes_per_ns
        return total

    def ranges(self, step: Step, extents: Mapping[str, int]) -> float:
        return math.prod(n for d, n in extents.items() if d not in step.variables)

    def missed(
        self,
        step: Step,
        accesses: Sequence[Access],
        extents: Mapping[str, int],
        along: str | None,
        inner: float,
    ) -> float:
        """Bytes that are loaded from beyond a cache: once for each box that it holds."""
        for slot in SLOTS:
            boxes = self.extents(step, slot)
            held = sum(self.footprint(a, boxes) for a in accesses)
            if held <= inner:
                return self.iterations(step, slot) * held
        row = {d: n if d == along else 1 for d, n in extents.items()}
        rows = self.iterations(step, "REG") * math.prod(n for d, n in extents.items() if d != along)
        return rows * sum(self.footprint(a, row) for a in accesses)

    def footprint(self, access: Access, boxes: Mapping[str, int]) -> float:
        touched = math.prod(boxes[d] for d in access.dims if d in boxes) * access.nbytes
        return min(touched, self.stored(access.source))

    def stored(self, source: str) -> float:
        """Bytes of the array of a stage, or of all that is read of an input."""
        known = self.sizes.get(source)
        if known is None:
            step = self.costs.final.get(source)
            known = self.sizes[source] = math.inf if step is None else self.array(step)
        return known

    def array(self, step: Step) -> float:
        *_, first = _steps_of(step)
        site = self.sites.of[step]
        assert site in SLOTS
        points = math.prod(self.extents(first, site).values())
        return float(points * sum(d.nbytes for d in step.stage.dtypes))

    # ---- Work of a point ---------------------------------------------------------------------------------

    def of(self, step: Step) -> _Total:
        """With all that is inlined."""
        if step in self.totals:
            return self.totals[step]
        own = self.costs.work[step]
        total = _Total(own.vector, own.scalar, own.widest)
        is_inlined = self.sites.of[step] == "INLINE"
        for read in own.reads:
            source = self.costs.final.get(read.source)
            if source is not None and read.source != step.stage.name and self.sites.of[source] == "INLINE":
                given = dict(zip(source.stage.variables, read.moved, strict=True))
                for each in _steps_of(source):
                    total.add(self.of(each), self.costs.work[each].turns, given, read.pattern)
            elif not is_inlined or read.source != step.stage.name:
                # What an inlined accumulation goes on with is in a register.
                dims = frozenset[str]().union(*read.moved)
                total.accesses[Access(read.source, dims, read.pattern, read.nbytes)] += 1
        self.totals[step] = total
        return total


def _steps_of(last: Step) -> Iterator[Step]:
    """All steps of a stage, of which this is the last one."""
    step: Step | None = last
    while step is not None:
        yield step
        step = step.before
