"""A cost model of pipelines on CPUs: how long implementations may take, to tell which are worth measuring.

In: an instance of a pipeline, a device, then complete candidates. Out: nanoseconds, roughly. Each step costs
what its innermost boxes compute, as vectors where neighbours are read, and what its reads move between levels
of memory: the largest box of its loops that a cache holds is loaded once for each iteration around it.
Nothing is excluded by this: `bounds/pipeline.py` says what no implementation undercuts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.kernels.device import CpuDevice
from spacedsl.kernels.pipeline.algorithm import Update
from spacedsl.kernels.pipeline.backbone import MOST_UNROLLED, SLOTS, Step
from spacedsl.kernels.pipeline.reductions import is_accumulation
from spacedsl.search.cost_model import Plan
from spacedsl.search.pipeline_estimates import Access, Estimate, PhasedCosts, Total
from spacedsl.search.pipeline_plans import cpu_plan
from spacedsl.search.pipeline_work import Pattern

BODY_NS, ROW_NS, START_NS = 3.0, 1.0, 3000.0
"""Of each innermost box, of each row in it, and of what runs in parallel: what is spent around the work."""

APART = 1.5
"""Instructions for each lane that leads anywhere."""

WHOLE: Mapping[Pattern, float] = {"same": 0.6, "beside": 0.6, "woven": 3.0}
"""Instructions for all lanes of a vector."""

HELD = 0.6
"""The share of a cache that what is read again stays in."""


@dataclass(frozen=True, slots=True)
class _Box:
    """The innermost box of a step: rows of vectors, for each turn of ranges."""

    along: str | None
    variables: tuple[str, ...]
    extents: Mapping[str, int]
    lanes: int
    row: int
    """Vectors, or points where there are fewer than lanes."""
    rows: int
    ranges: int
    is_unrolled: bool
    """Whether all of its vectors are written out, and share what they read."""

    @classmethod
    def of(cls, step: Step, extents: Mapping[str, int], most_lanes: int) -> _Box:
        variables = step.variables
        along = step.stage.variables[0] if step.stage.variables else None
        length = extents.get(along, 1) if along in variables else 1
        lanes = 1 << (max(1, min(most_lanes, length)).bit_length() - 1)
        row = -(-length // lanes) if length >= lanes else length
        rows = math.prod(n for d, n in extents.items() if d != along and d in variables)
        ranges = math.prod(n for d, n in extents.items() if d not in variables)
        is_unrolled = 1 < rows * row <= MOST_UNROLLED and length % lanes == 0
        return cls(along, variables, extents, lanes, row, rows, ranges, is_unrolled)

    @property
    def vectors(self) -> int:
        return self.rows * self.row

    def is_at_once(self, dim: str) -> bool:
        """Whether all points along a dimension are computed before others are read."""
        return dim == self.along or (self.is_unrolled and dim in self.variables)

    def share(self, access: Access) -> float:
        """Of so many reads as there are vectors, how many are different ones."""
        if not self.is_unrolled:
            return 1.0
        moved = (d for d in self.variables if d in access.dims and d != self.along)
        different = math.prod(self.extents[d] for d in moved) * (self.row if self.along in access.dims else 1)
        return different / self.vectors


class PipelineCosts(PhasedCosts):
    """The times of phases of complete candidates, in nanoseconds."""

    def __init__(self, instance: Instance, device: CpuDevice) -> None:
        super().__init__(instance)
        self.device = device
        rates = [r for r in device.arithmetic if r.dtype == "f32" and r.unit == "any"]
        self.rates = {4 * r.lanes: r.instructions_per_ns for r in rates} or {4: 8.0}
        waits = [each.latency_ns for each in device.latencies if each.dtype == "f32"]
        self.wait_ns = max(waits, default=1.0)

    def per_ns(self, nbytes: int) -> float:
        """Instructions on vectors of so many bytes."""
        return self.rates[max((n for n in self.rates if n <= nbytes), default=min(self.rates))]

    def estimate(self, candidate: Candidate) -> Estimate:
        return _CpuEstimate(self, candidate)

    def plan(self, rng: np.random.Generator) -> Plan:
        return cpu_plan(self.instance, self.steps.work, self.device.threads, rng)


class _CpuEstimate(Estimate):
    def __init__(self, costs: PipelineCosts, candidate: Candidate) -> None:
        super().__init__(costs.steps, candidate)
        self.costs = costs

    def phase_ns(self, root: Step, steps: Sequence[Step]) -> float:
        threads = self.costs.device.threads
        tasks = math.prod(self.trips(root, "TASK"))
        speed = tasks / math.ceil(tasks / threads)
        return sum(map(self.step_ns, steps)) / min(speed, threads) + (START_NS if tasks > 1 else 0.0)

    # ---- Steps -------------------------------------------------------------------------------------------

    def step_ns(self, step: Step) -> float:
        work = self.of(step)
        box = _Box.of(step, self.extents(step, "REG"), self.costs.device.vector_bytes // work.widest)
        computed = self.computed_ns(step, work, box) + BODY_NS
        return self.iterations(step, "REG") * computed + self.moved_ns(step, work, box)

    def computed_ns(self, step: Step, work: Total, box: _Box) -> float:
        """Of one box. Sums are in registers while the ranges are gone through, and each waits for itself."""
        is_kept = isinstance(step.definition, Update) and is_accumulation(step.stage, step.definition)
        each = work.vector + box.lanes * work.scalar + 1 / (box.ranges if is_kept else 1)
        for access, count in work.accesses.items():
            if not is_kept or access.source != step.stage.name:
                each += count * WHOLE.get(access.pattern, APART * box.lanes) * box.share(access)
        issued = box.vectors * box.ranges * each / self.costs.per_ns(box.lanes * work.widest)
        if not is_kept:
            return issued + box.rows * box.ranges * ROW_NS
        waited = box.ranges * self.costs.wait_ns * (1 if box.is_unrolled else box.vectors)
        return max(issued, waited) + box.rows * ROW_NS

    def moved_ns(self, step: Step, work: Total, box: _Box) -> float:
        """Between the levels of memory, for what the step reads and writes."""
        extents = box.extents
        points = self.iterations(step, "REG") * math.prod(extents.values())
        own = [d.nbytes for d in step.stage.dtypes]
        total = 0.0
        inner = 0.0
        memory = self.costs.device.memory
        for level, beyond in pairwise(memory):
            inner += (level.capacity_bytes or 0) * HELD
            wide = [a for a in work.accesses if self.stored(a.source) > inner]
            missed = self.missed(step, wide, box, inner) if wide else 0.0
            if self.stored(step.stage.name) > inner:
                missed += 2 * points * sum(own) / box.ranges
            total += missed / beyond.bytes_per_ns
        return total

    def missed(self, step: Step, accesses: Sequence[Access], box: _Box, inner: float) -> float:
        """Bytes that are loaded from beyond a cache: once for each box that it holds."""
        for slot in SLOTS:
            boxes = self.extents(step, slot)
            held = sum(self.footprint(a, boxes) for a in accesses)
            if held <= inner:
                return self.iterations(step, slot) * held
        row = {d: n if box.is_at_once(d) else 1 for d, n in box.extents.items()}
        rows = math.prod(n for d, n in box.extents.items() if not box.is_at_once(d))
        return self.iterations(step, "REG") * rows * sum(self.footprint(a, row) for a in accesses)
