"""A cost model of pipelines on CPUs: how long implementations may take, to tell which are worth measuring.

In: an instance of a pipeline, a device, then complete candidates. Out: nanoseconds, roughly. Each step costs
what its innermost boxes compute, as vectors where neighbours are read, and what its reads move between levels
of memory: the largest box of its loops that a cache holds is loaded once for each iteration around it.
Nothing is excluded by this: `bounds/pipeline.py` says what no implementation undercuts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.kernels.device import CpuDevice, MemoryLevel
from spacedsl.kernels.pipeline.backbone import MOST_UNROLLED, SLOTS, SlotName, Step
from spacedsl.kernels.pipeline.lanes import SUMS, innermost, summed_along
from spacedsl.search.costs.estimates import Estimate, PhasedCosts
from spacedsl.search.costs.model import Plan
from spacedsl.search.costs.plans import cpu_plan
from spacedsl.search.costs.points import Access, Rows, Total
from spacedsl.search.costs.work import Pattern

BODY_NS, ROW_NS, START_NS = 3.0, 2.0, 3000.0
"""Of each innermost box, of each row in it, and of what runs in parallel: what is spent around the work."""

APART = 3.0
"""Instructions for each lane that leads anywhere."""

WHOLE: Mapping[Pattern, float] = {"same": 0.6, "beside": 0.6, "woven": 5.0}
"""Instructions for all lanes of a vector."""

LINE_BYTES = 64
"""Of the first cache. A vector that lies in two lines is loaded from both: so it is at as many of a line's
places as it has bytes, less one.
"""

HELD = 0.6
"""The share of a cache that what is read again stays in."""

HELD_TOGETHER = 0.2
"""The same of one that cores share, also with what else runs on the machine."""

COMBINED = 1 << 15
"""Elements of partial results that a task combines, about."""

THROUGH_MEMORY = 3.0
"""So many times as long as for a sum in a register, the next turn waits for one that is stored and loaded."""

BESIDE = 0.45
"""The share of what is done while something else takes longer that still adds to it."""

STREAMS, STREAM_NS, ROW_BYTES = 8, 50.0, 1024
"""Rows of memory that are loaded ahead of their use side by side; what it takes to begin another one, of so
many bytes or more: until then, each line is waited for.
"""


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
    is_kept: bool
    """Whether its points are sums in registers while the ranges are gone through."""
    sums: int
    """Vectors that go through a range side by side, where lanes have partial results of their own; else 0."""

    @classmethod
    def of(cls, step: Step, along: str | None, extents: Mapping[str, int], most_lanes: int) -> _Box:
        variables = step.variables
        length = 1 if along is None else extents.get(along, 1)
        lanes = 1 << (max(1, min(most_lanes, length)).bit_length() - 1)
        row = -(-length // lanes) if length >= lanes else length
        rows = math.prod(n for d, n in extents.items() if d != along and d in variables)
        ranges = math.prod(n for d, n in extents.items() if d != along and d not in variables)
        sums = 0
        if along is not None and along not in step.stage.variables:
            sums, row, ranges = min(SUMS, row), 1, ranges * row
        is_unrolled = not sums and 1 < rows * row <= MOST_UNROLLED and length % lanes == 0
        return cls(
            along, variables, extents, lanes, row, rows, ranges, is_unrolled, step.is_accumulation, sums
        )

    @property
    def vectors(self) -> int:
        return self.rows * self.row

    @property
    def loops(self) -> Iterator[tuple[str, int]]:
        """Its own, outermost first, and how many points of each are computed at once."""
        if not self.is_unrolled:
            yield from ((d, 1) for d in reversed(self.variables) if d != self.along)
            if self.along in self.variables and self.along is not None:
                yield self.along, self.lanes
        yield from ((d, 1) for d in reversed([*self.extents]) if d not in self.variables)

    @property
    def together(self) -> Rows:
        """The points of which each needs what others of them have."""
        if not self.is_unrolled:
            return ()
        return tuple((d, self.extents[d]) for d in self.variables if d != self.along and self.extents[d] > 1)

    def share(self, access: Access) -> float:
        """Of the vectors of a row, how many load for themselves."""
        return 1 / self.row if self.is_unrolled and self.along not in access.dims else 1.0


class PipelineCosts(PhasedCosts):
    """The times of phases of complete candidates, in nanoseconds."""

    def __init__(self, instance: Instance, device: CpuDevice) -> None:
        super().__init__(instance)
        self.device = device
        self.along: dict[tuple[Step, frozenset[Step], tuple[int, ...]], str | None] = {}
        """Dimensions that vectors go along, of steps with what is inlined, and how what is near them lies."""
        self.rates = _rates(device, "any")
        self.products = _rates(device, "multiply")
        waits = [each.latency_ns for each in device.latencies if each.dtype == "f32"]
        self.wait_ns = max(waits, default=1.0)

    def issued_ns(self, nbytes: int, all_of_them: float, products: float) -> float:
        """Of so many instructions on vectors of so many bytes, some of which are products."""
        return max(all_of_them / _of_width(self.rates, nbytes), products / _of_width(self.products, nbytes))

    def estimate(self, candidate: Candidate) -> Estimate:
        return _CpuEstimate(self, candidate)

    def plan(self, rng: np.random.Generator) -> Plan:
        return cpu_plan(self.instance, self.steps.points.work, self.device, rng)


def _rates(device: CpuDevice, unit: str) -> Mapping[int, float]:
    """Instructions per ns, by the bytes of their vectors."""
    known = {
        4 * r.lanes: r.instructions_per_ns for r in device.arithmetic if (r.dtype, r.unit) == ("f32", unit)
    }
    return known or {4: 8.0}


def _of_width(rates: Mapping[int, float], nbytes: int) -> float:
    return rates[max((n for n in rates if n <= nbytes), default=min(rates))]


def _own_rate(level: MemoryLevel, threads: float) -> float:
    """Bytes per ns of each of several threads, which share what all of them can have."""
    return min(level.bytes_per_ns, level.bytes_per_ns_all / threads)


class _CpuEstimate(Estimate):
    def __init__(self, costs: PipelineCosts, candidate: Candidate) -> None:
        super().__init__(costs.steps, candidate)
        self.costs = costs

    def phase_ns(self, root: Step, steps: Sequence[Step]) -> float:
        threads = self.costs.device.threads
        tasks = math.prod(self.trips(root, "TASK"))
        speed = min(tasks / math.ceil(tasks / threads), threads)
        begun_ns, combined_ns = self.partial_ns(root, speed)
        own_ns = sum(self.step_ns(step, speed) for step in steps) + begun_ns
        return own_ns / speed + combined_ns + (START_NS if tasks > 1 else 0.0)

    def parts(self, step: Step) -> int:
        """Of a range, that tasks have partial results of; 1 where they have none."""
        return 1 if step.parted is None else self.highs[self.steps.trips[step.parted]]

    def partial_ns(self, root: Step, speed: float) -> tuple[float, float]:
        """To begin the partial results of all tasks, in each thread of so many; to combine them, by all that
        share it.
        """
        parts = self.parts(root)
        if parts == 1:
            return 0.0, 0.0
        costs, device, dtypes = self.costs, self.costs.device, root.stage.dtypes
        nbytes = parts * root.part_bytes
        vectors = [max(1, device.vector_bytes // dtype.nbytes) for dtype in dtypes]
        instructions = sum(parts * root.part_points / lanes for lanes in vectors)
        issued_ns = costs.issued_ns(device.vector_bytes, instructions, 0)
        held = 0.0
        for level in device.memory:
            held += (level.capacity_bytes or math.inf) * HELD
            if nbytes <= held:
                break
        moved_ns = nbytes / _own_rate(level, speed)
        shared = min(device.threads, max(1.0, parts * root.part_points / COMBINED))
        # What is stored is loaded first; what is combined, once for each part, was left in caches of others.
        combined_ns = (issued_ns + 2 * nbytes / _own_rate(level, shared)) / shared
        return max(issued_ns, 2 * moved_ns), START_NS + combined_ns

    # ---- Steps -------------------------------------------------------------------------------------------

    def along(self, step: Step) -> str | None:
        """The dimension along which vectors are."""
        near: tuple[int, ...] = ()
        if self.layouts:
            names = self.steps.near(step, self.sites.inlined_in(step))
            near = tuple(self.layouts.get(name, 0) for name in names)
        key = step, self.sites.inlined_in(step), near
        if key not in self.costs.along:
            found = summed_along(step, self.layouts) or innermost(step.stage, self.layouts)
            self.costs.along[key] = found
        return self.costs.along[key]

    def step_ns(self, step: Step, speed: float) -> float:
        """Of all its iterations one after the other, while so many threads go side by side."""
        along = self.along(step)
        lanes = self.costs.device.vector_bytes // self.of(step, along).widest
        box = _Box.of(step, along, self.extents(step, "REG"), lanes)
        work = self.of(step, along, box.together)
        times = [self.iterations(step, "REG") * self.computed_ns(step, work, box)]
        times += self.moved_ns(step, work, box, speed)
        slowest = max(times)
        return slowest + BESIDE * (sum(times) - slowest) + self.iterations(step, "REG") * BODY_NS

    def computed_ns(self, step: Step, work: Total, box: _Box) -> float:
        """Of one box. Sums are in registers while the ranges are gone through, and each waits for itself."""
        each = work.vector + box.lanes * work.scalar + 1 / (box.ranges if box.is_kept else 1)
        for access, count in work.accesses.items():
            if not box.is_kept or access.source != step.stage.name:
                each += count * WHOLE.get(access.pattern, APART * box.lanes) * box.share(access)
        wait_ns = self.costs.wait_ns
        if box.is_kept and box.is_unrolled:
            # Sums that there is no register for are loaded and stored in each turn, and wait for that.
            live = box.vectors * len(step.stage.dtypes) + box.row + 1
            spilled = max(0, live - self.costs.device.vector_registers)
            each += 2 * spilled / box.vectors
            wait_ns *= THROUGH_MEMORY if spilled else 1
        turns = box.vectors * box.ranges
        issued = self.costs.issued_ns(box.lanes * work.widest, turns * each, turns * work.products)
        issued = max(issued, turns * self.loaded_ns(step, work, box))
        if not box.is_kept:
            return issued + box.rows * box.ranges * ROW_NS
        waited = box.ranges * wait_ns * (1 if box.is_unrolled else box.vectors)
        if box.sums:
            lanes_ns = box.rows * self.costs.issued_ns(work.widest, 2 * box.lanes, 0)
            return max(issued, waited / box.sums) + box.rows * ROW_NS + lanes_ns
        return max(issued, waited) + box.rows * ROW_NS

    def loaded_ns(self, step: Step, work: Total, box: _Box) -> float:
        """Of the vectors that one of the box reads, from the first cache."""
        loaded = 0.0
        for access, count in work.accesses.items():
            if access.pattern == "beside" and not (box.is_kept and access.source == step.stage.name):
                nbytes = box.lanes * access.nbytes
                lines = 1 + (min(1.0, nbytes / LINE_BYTES) if box.lanes > 1 else 0.0)
                loaded += count * box.share(access) * nbytes * lines
        return loaded / self.costs.device.memory[0].bytes_per_ns

    def moved_ns(self, step: Step, work: Total, box: _Box, speed: float) -> Iterator[float]:
        """Between each level of memory and those inside it, for what the step reads and writes."""
        points = self.iterations(step, "REG") * math.prod(box.extents[v] for v in box.variables)
        own = sum(d.nbytes for d in step.stage.dtypes)
        result = Access(step.stage.name, frozenset(step.variables), "beside", own)
        inner, memory, threads = 0.0, self.costs.device.memory, self.costs.device.threads
        nearest: float | None = None
        for level, beyond in pairwise(memory):
            is_shared = level.core_bytes == level.capacity_bytes and threads > 1
            inner += (level.core_bytes or level.capacity_bytes or 0) * (HELD_TOGETHER if is_shared else HELD)
            nearest = inner if nearest is None else nearest
            wide = [a for a in work.accesses if self.stored(a.source) > inner]
            loaded = self.missed(step, wide, box, inner)
            stored = points * own if self.stored(step.stage.name) > inner else 0.0
            # What is stored is loaded first.
            time_ns = (sum(loaded.values()) + 2 * stored) / _own_rate(beyond, speed)
            if beyond is memory[-1]:
                far = [*loaded.items(), (result, stored)]
                time_ns += sum(nbytes * self.begun_ns(step, a, box, nearest) for a, nbytes in far if nbytes)
            yield time_ns

    def missed(
        self, step: Step, accesses: Sequence[Access], box: _Box, inner: float
    ) -> Mapping[Access, float]:
        """Bytes that are loaded from beyond a cache, once for each box that it holds."""
        slot, loops, boxes = self.held(step, accesses, box, inner)
        times = self.visits(step, slot)
        return {a: times * _turns(loops, a) * self.footprint(a, boxes) for a in accesses}

    def held(
        self, step: Step, accesses: Sequence[Access], box: _Box, inner: float
    ) -> tuple[SlotName, Sequence[tuple[str, float]], Mapping[str, int]]:
        """The largest box of which a cache holds what it reads: of a slot, in so many iterations of loops.

        Of its own loops, one after the other is left outside.
        """

        def is_held(boxes: Mapping[str, int]) -> bool:
            return sum(self.footprint(a, boxes) for a in accesses) <= inner

        around: SlotName = "ROOT"
        boxes = dict(self.extents(step, around))
        loops: list[tuple[str, int]] = []
        for slot in SLOTS[1:]:
            if not self.sites.shares(step, slot):
                within = self.extents(step, slot)
                loops += [(dim, within[dim]) for dim, _ in reversed(self.loops(step, slot))]
            elif not is_held(boxes):
                around, boxes = slot, dict(self.extents(step, slot))
        outside: list[tuple[str, float]] = []
        for dim, size in (*loops, *box.loops):
            if is_held(boxes):
                break
            outside.append((dim, boxes[dim] / size))
            boxes[dim] = size
        return around, outside, boxes

    def begun_ns(self, step: Step, access: Access, box: _Box, inner: float) -> float:
        """For each byte from memory, to begin rows of it: none where few go on from one box to the next."""
        _, _, boxes = self.held(step, [access], box, inner)
        is_own = access.source == step.stage.name
        along = (innermost(step.stage, self.layouts) if is_own else box.along) or ""
        count = math.prod(boxes[d] for d in access.dims if d in boxes and d != along)
        if count <= STREAMS or along not in step.dims:
            return 0.0
        length = boxes[along] if along in access.dims else 1
        if length >= step.points(along):
            return 0.0
        return STREAM_NS / max(ROW_BYTES, length * access.nbytes)


def _turns(loops: Sequence[tuple[str, float]], access: Access) -> float:
    """How often what is read in the innermost of these loops is loaded anew: while it stays the same, it is
    held.
    """
    last = max((n for n, (dim, _) in enumerate(loops, 1) if dim in access.dims), default=0)
    return math.prod(count for _, count in loops[:last])
