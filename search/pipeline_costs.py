"""A cost model of pipelines on CPUs: how long implementations may take, to tell which are worth measuring.

In: an instance of a pipeline, a device, then complete candidates. Out: nanoseconds, roughly. Each step costs
what its innermost boxes compute, as vectors where neighbours are read, and what its reads move between levels
of memory: the largest box of its loops that a cache holds is loaded once for each iteration around it.
Nothing is excluded by this: `bounds/pipeline.py` says what no implementation undercuts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.kernels.device import CpuDevice
from spacedsl.kernels.pipeline.backbone import SLOTS, Step
from spacedsl.search.cost_model import Plan
from spacedsl.search.pipeline_estimates import Access, Estimate, Steps, Total
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


class PipelineCosts:
    """The time of a complete candidate, in nanoseconds."""

    def __init__(self, instance: Instance, device: CpuDevice) -> None:
        self.instance = instance
        self.device = device
        self.steps = Steps(instance)
        rates = [r for r in device.arithmetic if r.dtype == "f32" and r.unit == "any"]
        self.rates = {4 * r.lanes: r.instructions_per_ns for r in rates} or {4: 8.0}

    def per_ns(self, nbytes: int) -> float:
        """Instructions on vectors of so many bytes."""
        return self.rates[max((n for n in self.rates if n <= nbytes), default=min(self.rates))]

    def __call__(self, candidate: Candidate) -> float:
        return _CpuEstimate(self, candidate).total_ns()

    def plan(self, rng: np.random.Generator) -> Plan:
        return cpu_plan(self.instance, self.steps.work, self.device.threads, rng)


class _CpuEstimate(Estimate):
    def __init__(self, costs: PipelineCosts, candidate: Candidate) -> None:
        super().__init__(costs.steps, candidate)
        self.costs = costs

    def total_ns(self) -> float:
        threads = self.costs.device.threads
        total = 0.0
        for step in self.steps.all:
            if self.sites.of[step] == "INLINE":
                continue
            root = self.root(step)
            tasks = math.prod(self.trips(root, "TASK"))
            speed = tasks / math.ceil(tasks / threads)
            total += self.step_ns(step) / min(speed, threads)
            total += START_NS if step is root and tasks > 1 else 0.0
        return total

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
            each += count * WHOLE.get(access.pattern, APART * lanes)
        per_ns = self.costs.per_ns(lanes * work.widest)
        computed = rows * (turns * each / per_ns + ROW_NS) + BODY_NS
        return bodies * computed + self.moved_ns(step, work, extents, along)

    def moved_ns(self, step: Step, work: Total, extents: Mapping[str, int], along: str | None) -> float:
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
