"""A cost model of pipelines on GPUs: how long implementations may take, to tell which are worth compiling.

In: an instance of a pipeline, the description of a GPU, then complete candidates. Out: nanoseconds, roughly,
in a fraction of the time that code and its prediction take (`codegen/cuda/prediction.py`). Each nest at ROOT
is a kernel: what its steps issue, what they load through the caches, and how long a block takes from its
beginning to its end, beside others on its SM.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.kernels.gpu_device import SECTOR_BYTES, VECTOR_BYTES, GpuDevice
from spacedsl.kernels.pipeline.backbone import TOGETHER, VECTOR, Step
from spacedsl.kernels.pipeline.lanes import innermost
from spacedsl.search.costs.estimates import Estimate, PhasedCosts
from spacedsl.search.costs.model import Plan
from spacedsl.search.costs.plans import gpu_plan
from spacedsl.search.costs.points import Access
from spacedsl.search.costs.work import Pattern

REGISTERS = 40
"""Of a thread, about."""

RATE = 0.55
"""Of the best that a description says, about: what kernels get of the L2 cache."""

MOST_UNROLLED = 32
"""Points whose loads a thread waits for at the same time, at most."""

UNROLLED = 4
"""Iterations of a short loop that the compiler makes one of, about."""

WAITING = 1.5
"""Of what a load takes at best, about."""

INDEX = 2
"""Instructions for the place of an access."""


@dataclass(slots=True)
class _Work:
    """Of a kernel: instructions of warps, bytes, and cycles of a block from its beginning to its end."""

    issued: float = 0.0
    l1_bytes: float = 0.0
    l2_bytes: float = 0.0
    added: float = 0.0
    """Additions to an element of memory, on average."""
    path: float = 0.0


class GpuPipelineCosts(PhasedCosts):
    """The times of the kernels of complete candidates, in nanoseconds."""

    def __init__(self, instance: Instance, device: GpuDevice) -> None:
        super().__init__(instance)
        self.device = device

    def estimate(self, candidate: Candidate) -> Estimate:
        return _GpuEstimate(self, candidate)

    def plan(self, rng: np.random.Generator) -> Plan:
        return gpu_plan(self.instance, self.steps.points.work, self.device, rng)


class _GpuEstimate(Estimate):
    def __init__(self, costs: GpuPipelineCosts, candidate: Candidate) -> None:
        super().__init__(costs.steps, candidate)
        self.costs = costs
        self.device = costs.device

    # ---- Kernels -----------------------------------------------------------------------------------------

    def phase_ns(self, root: Step, steps: Sequence[Step]) -> float:
        device = self.device
        blocks = math.prod(self.trips(root, "TASK"))
        warps = max(-(-self.lanes(step) // device.warp) for step in steps)
        work = _Work()
        for step in steps:
            self.add(step, work)
        shared = sum(self.stored(s.stage.name) for s in steps if s.is_last and self.is_shared(s))
        per_sm = device.rooms(warps * device.warp, REGISTERS, shared)
        resident = max(1, min(per_sm, -(-blocks // device.sms)))
        waves = -(-blocks // (device.sms * resident))
        # What the fullest SM does, of as much as all of them could.
        share = waves * resident / blocks
        cycles = [
            work.issued * share / device.instructions_per_cycle,
            work.l1_bytes * share / device.l1_bytes_per_cycle,
            waves * work.path / max(1, blocks),
        ]
        terms = [each / device.clock_ghz for each in cycles]
        # One after the other, at best one in a cycle.
        terms.append(work.added / device.clock_ghz / RATE)
        terms.append(work.l2_bytes / device.l2_bytes_per_ns / RATE)
        terms.append(self.dram_bytes(steps) / device.dram_bytes_per_ns)
        return device.launch_ns + max(terms) + 0.1 * (sum(terms) - max(terms)) + self.partial_ns(root)

    def partial_ns(self, root: Step) -> float:
        """To begin the partial results of all threads, and to combine them, some at a time."""
        if self.way(root) != "PARTIAL":
            return 0.0
        device = self.device
        boxes = (*self.boxes(root, "TASK").values(), *self.boxes(root, "LANE").values())
        parts = math.prod(self.highs[self.steps.trips[box]] for box in boxes if box.is_range)
        grids = math.ceil(math.log(parts, TOGETHER))
        # Each is stored, then loaded; loads of a thread wait for each other, but for those that are unrolled.
        moved_ns = 2 * parts * root.part_bytes / device.l2_bytes_per_ns / RATE
        waited_ns = min(parts, TOGETHER) * device.latency.l2 / UNROLLED / device.clock_ghz
        return (1 + grids) * device.launch_ns + moved_ns + grids * waited_ns

    def is_shared(self, step: Step) -> bool:
        return self.sites.of[step] in ("TASK", "CHUNK")

    def threaded(self, step: Step) -> Step:
        """The step whose loops of threads it is computed in."""
        owner = self.sites.owner(step, "LANE") if self.sites.shares(step, "LANE") else step
        assert owner is not None
        return owner

    def lanes(self, step: Step) -> int:
        return math.prod(self.trips(self.threaded(step), "LANE"))

    # ---- Steps -------------------------------------------------------------------------------------------

    def add(self, step: Step, work: _Work) -> None:
        """What a step does, in all blocks."""
        device, point = self.device, self.of(step, self.along(step))
        lanes = self.lanes(step)
        bodies = self.iterations(step, "REG")
        points = bodies * math.prod(self.extents(step, "REG").values())
        stored = self.result(step)
        accesses = [(a, n / self.vector(step, a)) for a, n in (*point.accesses.items(), (stored, 1))]
        instructions = 1 + point.vector + point.scalar + (1 + INDEX) * sum(count for _, count in accesses)
        of_warps = points / lanes * -(-lanes // device.warp)
        work.issued += of_warps * instructions
        waits = 0.0
        for access, count in accesses:
            if self.is_global(access.source):
                work.l1_bytes += of_warps * count * self.sectors(step, access) * SECTOR_BYTES
                waits = max(waits, device.latency.l2)
            elif self.is_shared(self.steps.final[access.source]):
                waits = max(waits, device.latency.shared)
        for access in {*point.accesses, stored}:
            if self.is_global(access.source):
                touched = self.iterations(step, "CHUNK") * self.footprint(access, self.extents(step, "CHUNK"))
                work.l2_bytes += min(touched, points * access.nbytes)
        if self.way(step) == "ATOMIC":
            # A thread sums up its part of the ranges, where all of it goes to one element.
            turns = math.prod(n for d, n in self.extents(step, "REG").items() if d not in step.variables)
            sums = points / turns if step.is_accumulation else points
            work.l2_bytes += 2 * sums * SECTOR_BYTES
            work.added += sums / math.prod(self.extents(step.first, "ROOT").values())
        if self.way(step) == "SHUFFLE":
            # For each point, one exchange after the other, through the paths of shared memory.
            (box,) = step.exchanged
            exchanges = math.log2(self.highs[self.steps.trips[box]]) * len(step.stage.dtypes)
            boxes = self.iterations(step, "LANE") / lanes
            work.issued += boxes * -(-lanes // device.warp) * 2 * exchanges
            work.path += boxes * exchanges * device.latency.shared
        inside = self.extents(step, "REG")
        together = math.prod(inside[d] for d in step.variables)
        together = together if together <= MOST_UNROLLED else 1
        work.path += points / lanes * (instructions + WAITING * waits / together)

    def is_global(self, source: str) -> bool:
        step = self.steps.final.get(source)
        return step is None or self.sites.of[step] == "ROOT"

    def vector(self, step: Step, access: Access) -> int:
        """Elements of a row that one instruction moves, where nothing is in its way: of what other threads
        see.
        """
        if access.pattern != "beside" or not step.rows or self.along(step) != step.rows[0].dim:
            return 1
        source, widest = self.steps.final.get(access.source), access.nbytes
        if source is not None:
            if not (self.sites.of[source] == "ROOT" or self.is_shared(source)):
                return 1
            widest = source.widest_bytes
        most = min(VECTOR, VECTOR_BYTES // widest)
        return math.gcd(self.extents(step, "REG")[step.rows[0].dim], 1 << most.bit_length() - 1)

    def sectors(self, step: Step, access: Access) -> float:
        """That the threads of a warp access together."""
        owner = self.threaded(step)
        lanes = min(self.device.warp, self.lanes(step))
        loops = self.loops(owner, "LANE")
        if not loops:
            return 1.0
        dim, trips = loops[0]
        along = min(lanes, trips)
        rows = max(1.0, lanes / along)
        match self.pattern(step, owner, access, dim):
            case "same":
                return rows
            case "beside":
                apart = access.nbytes * self.extents(owner, "LANE")[dim]
                return rows * min(along, max(1.0, along * apart / SECTOR_BYTES))
            case _:
                return lanes

    def along(self, step: Step) -> str | None:
        """The dimension along which threads are neighbours; of what is computed in loops of another step, the
        one whose neighbours lie beside each other, as if it were that.
        """
        loops = self.loops(step, "LANE") if self.threaded(step) is step else ()
        return loops[0][0] if loops else innermost(step.stage, self.layouts)

    def result(self, step: Step) -> Access:
        """What it stores."""
        along = self.along(step)
        pattern: Pattern = "same"
        if along in step.variables:
            pattern = "beside" if along == innermost(step.stage, self.layouts) else "apart"
        return Access(step.stage.name, frozenset(step.variables), pattern, step.kept_bytes or 4)

    def pattern(self, step: Step, owner: Step, access: Access, dim: str) -> Pattern:
        """Where threads read that are neighbours along a dimension of the step whose loops they are."""
        if step is owner or access.pattern != "beside" or dim == innermost(owner.stage, self.layouts):
            return access.pattern
        # What is beside each other in memory is not read by threads that are.
        return "apart"

    def dram_bytes(self, steps: Sequence[Step]) -> float:
        """Beyond the L2 cache, where it does not hold what a kernel accesses."""
        touched = dict[str, float]()
        for step in steps:
            boxes = self.extents(step, "ROOT")
            for access in (*self.of(step, self.along(step)).accesses, self.result(step)):
                if self.is_global(access.source):
                    nbytes = self.footprint(access, boxes)
                    touched[access.source] = max(touched.get(access.source, 0.0), nbytes)
        total = sum(touched.values())
        return total if total > self.device.l2_bytes else 0.0
