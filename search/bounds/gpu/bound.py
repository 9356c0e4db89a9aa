"""The lower bound of a GPU: how long the scarcest resource takes for what is certain.

In: an instance of a linear-algebra kernel, the description of a GPU; then candidates. Out: nanoseconds that
no implementation of the candidate can undercut, and what they consist of: the start of a kernel, what has to
come out of memory and the L2 cache, what nests need of the units of an SM, and of the threads that are left.
`nests.py` says what is certain, `pressure.py` what it costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from spacedsl.diagnostics import counted
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.engine.native.rollouts import CompiledBound
from spacedsl.kernels.gpu_device import SECTOR_BYTES, GpuDevice
from spacedsl.kernels.linalg.backbone import Instruction, Value
from spacedsl.search.bounds.certain import Footprint, footprints, least_lines
from spacedsl.search.bounds.domains import is_always, linalg_kernel
from spacedsl.search.bounds.gpu.nests import CHAIN, LATENCY, RESOURCES, Nest, nests
from spacedsl.search.bounds.gpu.pressure import Cost, Pressure
from spacedsl.search.bounds.memory import is_after
from spacedsl.search.bounds.protocol import BoundTerm


class GpuBound:
    """Implements `spacedsl.search.bounds.protocol.Bound` for candidates of `linalg_cuda.space`."""

    no_native: str | None = None
    compiled: CompiledBound | None = None

    def __init__(self, instance: Instance, device: GpuDevice) -> None:
        self.device = device
        touched = footprints(
            linalg_kernel(instance),
            lambda instruction: is_always(instance, instruction),
            lambda load, store: is_after(instance, load, store),
        )
        self._pressures = tuple(Pressure(nest, device) for nest in nests(instance, device, touched))
        self._in_turn = _in_turn([p.nest for p in self._pressures], linalg_kernel(instance).stores)
        moved = [
            sum(map(_sector_bytes, (f for f in touched if bool(f.loads) == loads))) for loads in (True, False)
        ]
        # What the L2 cache keeps of an intermediate is neither written nor read.
        late = [_sector_bytes(f) for f in touched if f.loads and f.is_late]
        self._l2_bytes, self._dram_bytes = max(moved), max(0, sum(moved) - sum(late) - device.l2_bytes)
        self._dram_bytes += sum(max(0, nbytes - device.l2_bytes) for nbytes in late)
        self._combining = tuple(_combining(instance))
        self._memory_ns = (
            0.0,
            self._l2_bytes / device.l2_bytes_per_ns,
            self._dram_bytes / device.dram_bytes_per_ns,
        )

    def __call__(self, candidate: Candidate) -> float:
        return max(self.terms_ns(candidate))

    def of_all(self, candidates: Sequence[Candidate]) -> list[float]:
        return [self(candidate) for candidate in candidates]

    def terms_ns(self, candidate: Candidate) -> list[float]:
        costs = [pressure.cost(candidate.vector) for pressure in self._pressures]
        sums = [sum(times) for times in zip(*(cost.least_ns for cost in costs), strict=True)]
        if costs:
            sums[CHAIN] = sum(costs[n].least_ns[CHAIN] for n in self._in_turn)
            sums[LATENCY] = max(cost.least_ns[LATENCY] for cost in costs)
        times = (*self._memory_ns, *sums, *(cost.together_ns for cost in costs))
        begun_ns = self.launches(candidate) * self.device.launch_ns
        return [begun_ns + time_ns for time_ns in times]

    def launches(self, candidate: Candidate) -> int:
        """Kernels that certainly follow each other: what blocks combine in memory is started by one before,
        and read by one behind.
        """
        combined = [dims for dims in self._combining if candidate.vector[dims.cell] == dims.bit]
        return 1 + bool(combined) + any(dims.is_read for dims in combined)

    def explain(self, candidate: Candidate) -> tuple[BoundTerm, ...]:
        costs = [(pressure, pressure.cost(candidate.vector)) for pressure in self._pressures]
        named = [
            ("launch", f"{counted(self.launches(candidate), 'kernel')} at least"),
            ("L2", f"{self._l2_bytes:,} bytes come out of it, or go into it"),
            ("DRAM", f"{self._dram_bytes:,} bytes more than the L2 cache keeps"),
        ]
        if costs:
            named += [(resource, ", ".join(_shares(costs, n))) for n, resource in enumerate(RESOURCES)]
        named += [(f"nest of {p.nest.instruction!r}", _best(cost)) for p, cost in costs]
        times = zip(named, self.terms_ns(candidate), strict=True)
        terms = [BoundTerm(resource, time_ns, detail) for (resource, detail), time_ns in times]
        (launch,) = (t for t in terms if t.resource == "launch")
        needed = [t for t in terms if t.bound_ns > launch.bound_ns or t is launch]
        return tuple(sorted(needed, key=lambda term: -term.bound_ns))


class _Combined(NamedTuple):
    """What a dimension reduces, where blocks can share it."""

    cell: int
    bit: int
    """Of the domain of its kind: that it is blocks."""
    is_read: bool
    """Whether the kernel itself reads the result."""


def _combining(instance: Instance) -> Iterator[_Combined]:
    for dim in (d for d in linalg_kernel(instance).dimensions if d.is_added_up):
        kinds = [str(kind) for kind in instance.variable("dim_kind", dim).universe]
        if "BLOCK" in kinds:
            cell, bit = instance.offset("dim_kind", dim), 1 << kinds.index("BLOCK")
            yield _Combined(cell, bit, dim.is_read_back)


def _in_turn(nests: Sequence[Nest], stores: Sequence[Instruction]) -> tuple[int, ...]:
    """Sums each of which follows from the one before, as many as there are."""
    longest: dict[int, tuple[int, ...]] = {}
    for n in sorted(range(len(nests)), key=lambda n: nests[n].instruction.id):
        if nests[n].chain_cycles:
            makers = _makers(nests[n].instruction, stores)
            before = (path for m, path in longest.items() if nests[m].instruction in makers)
            longest[n] = (*max(before, key=len, default=()), n)
    return max(longest.values(), key=len, default=())


def _makers(instruction: Instruction, stores: Sequence[Instruction]) -> set[Instruction]:
    """All that its value follows from."""
    found: set[Instruction] = set()
    left = [instruction]
    while left:
        user = left.pop()
        makers = {o.instruction for o in user.operands if isinstance(o, Value)}
        makers |= {store for store in stores if user in store.readers}
        left += makers - found
        found |= makers
    return found


def _sector_bytes(footprint: Footprint) -> int:
    """Of what loads touch, whole sectors; of stores, the bytes themselves."""
    if footprint.stores:
        return footprint.nbytes
    item = footprint.tensor.dtype.nbytes
    accesses = [load.access for load in footprint.loads if load.access is not None]
    steps = ([(abs(s) * item, logical.extent) for logical, s in a.strides] for a in accesses)
    return max(footprint.nbytes, *(SECTOR_BYTES * least_lines(each, item, SECTOR_BYTES) for each in steps))


def _shares(costs: Sequence[tuple[Pressure, Cost]], resource: int) -> Iterator[str]:
    """What the nests need of a resource, each in the best of the ways that are left."""
    for pressure, cost in costs:
        if cost.least_ns[resource]:
            yield f"{cost.least_ns[resource]:,.0f} ns for {pressure.nest.instruction!r}"


def _best(cost: Cost) -> str:
    if not cost.best:
        return "no way is left" if math.isinf(cost.together_ns) else "too many ways are left to look at"
    numbers = ", ".join(f"{count:,} {name}" for name, count in cost.best)
    times = sorted(zip(cost.in_best_ns, RESOURCES, strict=True), reverse=True)
    needed = ", ".join(f"{name} {time:,.0f} ns" for time, name in times[:3] if time)
    return f"in the best way left, with {numbers}: {needed}"
