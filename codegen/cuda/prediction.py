"""How long a program of grids would take on a GPU: what ranks implementations where there is none.

In: a verified `Program` of grids, a `GpuDevice`. Out: a `Prediction`: nanoseconds, and what they consist of.
One warp of each grid is followed through its loops: what it issues, how many sectors of global memory and
passes of shared memory its accesses take, how long it waits. What runs beside it on an SM hides that, as far
as threads, registers and shared memory leave room. No times of a machine go in: it is not a bound, and not a
measurement.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from spacedsl.codegen.c.names import c_name
from spacedsl.codegen.cuda.following import LINE_BYTES, Follower
from spacedsl.codegen.cuda.following_parts import PartFollower
from spacedsl.codegen.cuda.nvrtc import Resources
from spacedsl.codegen.cuda.printer import shared_bytes
from spacedsl.codegen.tree.liveness import most_live_words
from spacedsl.codegen.tree.parts import assigned, combined_into, loaded, statements, stored
from spacedsl.codegen.tree.program import AtomicCombine, Grid, PerThread, Program
from spacedsl.kernels.gpu_device import SECTOR_BYTES, GpuDevice
from spacedsl.kernels.linalg.operations import Combine

USUAL: Mapping[str, float] = MappingProxyType(
    {"issue": 0.85, "f32": 0.85, "shared memory": 0.9, "L2": 0.6, "DRAM": 0.93, "additions": 0.55}
)
"""Of the best that a description says, what kernels get (`benchmarks/gpu_model.py`, of an H200)."""

LATENCY, LAUNCH = 1.5, 1.75
"""How much longer than described kernels wait for what they load, and for their launch."""

SCARCE, SPILLED_EACH = 16, 6
"""Registers besides those of values, where there are few; and how many words the compiler spills for each one
that there is not: roughly, of 100 implementations of `matmul` and `conv2d_nhwc` with too many values.
"""

SPILLED = 4.0
"""Of a word that is spilled, times that it is stored or loaded where a statement runs once, about."""

HIDDEN = 1.4
"""Of what a block waits for, so much is hidden by each other block of its SM."""

COMPETING, APART = 0.1, 0.3
"""What resources of an SM add to the one that is needed most, and what memory and SM add to each other."""

ADDRESS_REGISTERS = 24
"""Of a thread, besides those of its values: addresses, coordinates, loops."""


@dataclass(frozen=True, slots=True)
class Term:
    resource: str
    time_ns: float


@dataclass(frozen=True, slots=True)
class Prediction:
    time_ns: float
    terms: tuple[tuple[str, tuple[Term, ...]], ...]
    """By grid, the largest first. They overlap: it takes more than the largest, and less than all of them."""


def predict(
    program: Program, device: GpuDevice, resources: Mapping[str, Resources] = MappingProxyType({})
) -> Prediction:
    """Of the whole program, grids one after the other, with warm caches.

    `resources`: by grid, what the compiler says of registers; where it says nothing, they are estimated.
    """
    grids = [g for g in program.body if isinstance(g, Grid)]
    found = [(g.name, *_grid(program, g, device, resources.get(c_name(g.name)))) for g in grids]
    total_ns = sum(LAUNCH * device.launch_ns + time_ns for _, time_ns, _ in found)
    terms = [(name, tuple(sorted(of_grid, key=lambda t: -t.time_ns))) for name, _, of_grid in found]
    return Prediction(total_ns, tuple(terms))


def _grid(
    program: Program, grid: Grid, device: GpuDevice, resources: Resources | None
) -> tuple[float, list[Term]]:
    """How long a grid takes, without its launch, and what of.

    An SM is busy with what needs it most, and some of the rest; what a block waits for, also at barriers, is
    hidden by other blocks only, since its own warps wait for each other.
    """
    warps = -(-grid.threads // device.warp)
    if any(isinstance(s, PerThread) for s in statements(grid.body)):
        is_held = resources is not None and resources.stack_bytes == 0
        work = PartFollower.of_grid(program, grid, device, is_held=is_held).block(grid.body)
    else:
        work = Follower(program, grid, device).block(grid.body)
    values = _values(grid)
    if resources is not None:
        registers, spilled_words = resources.registers, resources.spilled_bytes / 4
    else:
        registers, spilled_words = ADDRESS_REGISTERS + values, _spilled_words(grid, values, device)
    if spilled_words:
        # What is spilled is what inner loops need: it moves more often than statements run on average.
        average = work.issued / max(1, sum(1 for _ in statements(grid.body)))
        spilled = spilled_words * SPILLED * average
        work.issued += spilled
        work.accesses += spilled
        work.sectors += spilled * device.warp * 4 / SECTOR_BYTES
        work.l1_cycles += spilled
    resident = max(1, min(resident_blocks(grid, device, registers), -(-grid.blocks // device.sms)))
    waves = -(-grid.blocks // (device.sms * resident))
    rates = device.throughput
    of_block = {
        "issue": work.issued / device.instructions_per_cycle,
        "f32": work.f32 * device.warp / rates.f32,
        "f64": work.f64 * device.warp / rates.f64,
        "i32": work.i32 * device.warp / rates.i32,
        "special": work.special * device.warp / rates.special,
        "tensor cores": work.tensor / usual_tensor_rate(device) if work.tensor else 0.0,
        "memory units": work.accesses * device.warp / rates.memory,
        "shared memory": work.passes,
        "L1": max(work.l1_cycles * LINE_BYTES, work.sectors * SECTOR_BYTES) / device.l1_bytes_per_cycle,
    }
    cycles = {name: waves * resident * warps * each / USUAL.get(name, 1.0) for name, each in of_block.items()}
    barrier = device.latency.barrier + 3 * warps
    waiting = waves * (LATENCY * work.waiting + work.barriers * barrier)
    alone = waiting + waves * max(work.issued, work.chained)
    terms = [Term(name, value / device.clock_ghz) for name, value in {**cycles, "latency": alone}.items()]
    most = max(cycles.values())
    busy = most + COMPETING * (sum(cycles.values()) - most) + waiting / (1 + HIDDEN * (resident - 1))
    busy_ns = max(busy, alone) / device.clock_ghz
    through_l2 = work.missed * SECTOR_BYTES * warps * grid.blocks
    moved = [Term("L2", through_l2 / device.l2_bytes_per_ns / USUAL["L2"])]
    if additions := work.added * warps * grid.blocks or _additions(grid):
        # One after the other, at best one in a cycle; of products, when the one before has come back.
        ways = combined_into(grid.body).values()
        additions *= device.latency.l2 if Combine.PROD in ways else 1
        moved.append(Term("additions", additions / device.clock_ghz / USUAL["additions"]))
    memory = (*program.tensors, *(s.tensor for s in program.scratch))
    if sum(t.nbytes for t in memory) > device.l2_bytes:
        used = loaded(grid.body) | stored(grid.body)
        distinct = sum(t.nbytes for t in memory if t.name in used)
        moved.append(Term("DRAM", distinct / device.dram_bytes_per_ns / USUAL["DRAM"]))
    moved_ns = max(term.time_ns for term in moved)
    return max(busy_ns, moved_ns) + APART * min(busy_ns, moved_ns), terms + moved


def _additions(grid: Grid) -> int:
    """Most parts that blocks combine with one element."""
    added = (s for s in statements(grid.body) if isinstance(s, AtomicCombine))
    terms = {frozenset(variable for variable, _ in s.index.terms) for s in added}
    blocks = [c for c in grid.coordinates if c.is_block]
    return max((math.prod(c.extent for c in blocks if c.variable not in own) for own in terms), default=0)


def resident_blocks(grid: Grid, device: GpuDevice, registers: int) -> int:
    """Blocks that an SM has room for at the same time; 0 where it has none for one.

    `registers`: of a thread.
    """
    return device.rooms(grid.threads, registers, shared_bytes(grid))


def _values(grid: Grid) -> int:
    """Registers for values that live at the same time, at least: those that are assigned more than once."""
    counts = Counter(register for s in statements(grid.body) for register in assigned(s))
    kept = [r for r, count in counts.items() if count > 1]
    return sum(r.type.words for r in kept)


def _spilled_words(grid: Grid, values: int, device: GpuDevice) -> float:
    """What a thread probably has no registers for, where the compiler was not asked."""
    warps = -(-grid.threads // device.warp)
    available = min(device.registers_per_thread, device.registers_per_sm // (warps * device.warp))
    if values + SCARCE <= available:
        return 0.0
    return SPILLED_EACH * max(0, min(values, most_live_words(grid.body)) + SCARCE - available)


def usual_tensor_rate(device: GpuDevice) -> float:
    """Multiplications in a cycle of an SM that instructions of single warps reach.

    From Hopper on, only those of four warps together reach all: of others, 62 % was measured (W. Luo et al.,
    Benchmarking and Dissecting the Nvidia Hopper GPU Architecture, 2024).
    """
    return device.throughput.tensor * (0.62 if float(device.compute_capability) >= 9 else 0.95)
