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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType

from spacedsl.codegen.cuda.nvrtc import Resources
from spacedsl.codegen.cuda.printer import shared_bytes
from spacedsl.codegen.names import c_name
from spacedsl.codegen.parts import assigned, loaded, statements, stored, subexpressions
from spacedsl.codegen.program import (
    Add,
    Apply,
    Assign,
    AtomicAdd,
    Barrier,
    Branch,
    CopyAhead,
    Div,
    Expression,
    Fma,
    Grid,
    Index,
    Load,
    LoadMatrix,
    Loop,
    Max,
    Min,
    Mul,
    Multiply,
    Neg,
    PartialLoad,
    PartialStore,
    Program,
    Register,
    Shuffle,
    Span,
    Statement,
    Store,
    Sub,
    WaitForCopies,
    Where,
    type_of,
)
from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.kernels.linalg.fragments import FRAGMENT_ROWS, ROW_BYTES
from spacedsl.kernels.linalg.operations import Op

SECTOR_BYTES = 32
BANKS, BANK_BYTES = 32, 4
USUAL_RATE, USUAL_LATENCY = 0.55, 1.5
"""Of the best that a description says, about: what kernels get of the L2 cache, and how long they wait."""

PRODUCT_CYCLES = 33.0
"""From a product of tensor cores to the next one that adds to it: of A100 and H100, about."""

ADDRESS_REGISTERS = 24
"""Of a thread, besides those of its values: addresses, coordinates, loops."""


@dataclass(slots=True)
class Work:
    """Of one warp, from the beginning of a grid to its end; instructions, sectors, passes, cycles."""

    issued: float = 0.0
    f32: float = 0.0
    f64: float = 0.0
    i32: float = 0.0
    special: float = 0.0
    tensor: float = 0.0
    """Multiplications with an addition, of 16 bits."""
    accesses: float = 0.0
    sectors: float = 0.0
    passes: float = 0.0
    barriers: float = 0.0
    waiting: float = 0.0
    chained: float = 0.0
    """Of values that follow from themselves, one after the other."""

    def add(self, other: Work, times: float) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + times * getattr(other, field.name))


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
    by_grid = [(g.name, _grid(program, g, device, resources.get(c_name(g.name)))) for g in grids]
    total_ns = sum(device.launch_ns + _overlapped(terms) for _, terms in by_grid)
    return Prediction(total_ns, tuple((n, tuple(sorted(t, key=lambda t: -t.time_ns))) for n, t in by_grid))


def _overlapped(terms: Sequence[Term]) -> float:
    """More than the largest: what competes is never hidden completely."""
    largest = max(term.time_ns for term in terms)
    return largest + 0.1 * (sum(term.time_ns for term in terms) - largest)


def _grid(program: Program, grid: Grid, device: GpuDevice, resources: Resources | None) -> list[Term]:
    warps = -(-grid.threads // device.warp)
    work = _Follower(program, grid, device).block(grid.body)
    registers = ADDRESS_REGISTERS + _values(grid)
    if resources is not None:
        registers = resources.registers
        # Each spilled word is stored or loaded as often as statements run on average.
        spilled = resources.spilled_bytes / 4 * work.issued / max(1, sum(1 for _ in statements(grid.body)))
        work.issued += spilled
        work.accesses += spilled
        work.sectors += spilled * device.warp * 4 / SECTOR_BYTES
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
        "L1": work.sectors * SECTOR_BYTES / device.l1_bytes_per_cycle,
    }
    cycles = {name: waves * resident * warps * each for name, each in of_block.items()}
    waiting = USUAL_LATENCY * (work.waiting + work.barriers * device.latency.barrier)
    cycles["latency"] = waves * (waiting + max(work.issued, work.chained))
    terms = [Term(name, value / device.clock_ghz) for name, value in cycles.items()]
    through_l2 = work.sectors * SECTOR_BYTES * warps * grid.blocks
    terms.append(Term("L2", through_l2 / device.l2_bytes_per_ns / USUAL_RATE))
    if additions := _additions(grid):
        # One after the other, at best one in a cycle.
        terms.append(Term("additions", additions / device.clock_ghz / USUAL_RATE))
    if sum(t.nbytes for t in program.tensors) > device.l2_bytes:
        used = loaded(grid.body) | stored(grid.body)
        distinct = sum(t.nbytes for t in program.tensors if t.name in used)
        terms.append(Term("DRAM", distinct / device.dram_bytes_per_ns))
    return terms


def _additions(grid: Grid) -> int:
    """Most that blocks add to one element."""
    added = (s for s in statements(grid.body) if isinstance(s, AtomicAdd))
    terms = {frozenset(variable for variable, _ in s.index.terms) for s in added}
    blocks = [c for c in grid.coordinates if c.is_block]
    return max((math.prod(c.extent for c in blocks if c.variable not in own) for own in terms), default=0)


def resident_blocks(grid: Grid, device: GpuDevice, registers: int) -> int:
    """Blocks that an SM has room for at the same time; 0 where it has none for one.

    `registers`: of a thread.
    """
    warps = -(-grid.threads // device.warp)
    registers = min(device.registers_per_thread, registers)
    rooms = [
        device.blocks_per_sm,
        device.threads_per_sm // (warps * device.warp),
        device.registers_per_sm // (warps * device.warp * registers),
    ]
    if nbytes := shared_bytes(grid):
        rooms.append(device.shared_bytes_per_sm // (nbytes + 1024))
    return min(rooms)


def _values(grid: Grid) -> int:
    """Registers for values that live at the same time, at least: those that are assigned more than once."""
    counts = Counter(register for s in statements(grid.body) for register in assigned(s))
    kept = [r for r, count in counts.items() if count > 1]
    return sum(r.type.lanes * max(1, r.type.dtype.nbytes // 4) for r in kept)


def usual_tensor_rate(device: GpuDevice) -> float:
    """Multiplications in a cycle of an SM that instructions of single warps reach.

    From Hopper on, only those of four warps together reach all: of others, 62 % was measured (W. Luo et al.,
    Benchmarking and Dissecting the Nvidia Hopper GPU Architecture, 2024).
    """
    return device.throughput.tensor * (0.62 if float(device.compute_capability) >= 9 else 0.95)


class _Follower:
    """Follows the first warp of the first block."""

    def __init__(self, program: Program, grid: Grid, device: GpuDevice) -> None:
        self.grid, self.device = grid, device
        tensors = (*program.tensors, *(s.tensor for s in program.scratch), *grid.shared)
        self.nbytes = {t.name: t.dtype.nbytes for t in tensors}
        self.shared = {t.name for t in grid.shared}
        lanes = range(min(device.warp, grid.threads))
        self.lanes: Mapping[str, list[int]] = {
            c.variable: [lane // c.stride % c.extent for lane in lanes]
            for c in grid.coordinates
            if not c.is_block
        }
        self.count = len(lanes)
        self.shares: dict[tuple[Span, ...], float] = {}

    def block(self, body: Sequence[Statement]) -> Work:
        work = Work()
        loads_wait = 0.0
        chains: Counter[Register] = Counter()
        products: Counter[Register] = Counter()
        for statement in body:
            match statement:
                case Loop(_, extent, inner):
                    iteration = self.block(inner)
                    groups = [s.groups for s in inner if isinstance(s, WaitForCopies)]
                    if groups:
                        # What is copied arrives while so many iterations compute.
                        under = (min(groups) + 1) * (iteration.issued + iteration.waiting)
                        iteration.waiting += max(0.0, self.device.latency.l2 - under)
                    work.add(iteration, extent)
                    work.issued += 2 * extent
                    work.waiting += loads_wait
                    loads_wait = 0.0
                case Branch(_, _, inner, _):
                    work.add(self.block(inner), 1)
                case Where(spans, inner):
                    work.add(self.block(inner), self.share(spans))
                case Barrier():
                    work.barriers += 1
                    work.issued += 1
                    work.waiting += loads_wait
                    loads_wait = 0.0
                case Assign(register, value):
                    loads_wait = max(loads_wait, self.expression(value, work))
                    chains[register] += register in subexpressions(value)
                case Store(tensor, index, value):
                    self.expression(value, work)
                    self.access(tensor, index, type_of(value).lanes, work)
                case Multiply(result, _, b):
                    # Rows that are not there are multiplied, too.
                    work.issued += 1
                    work.tensor += 2 * FRAGMENT_ROWS**2 * len(b) * ROW_BYTES / 2
                    products[result[0]] += 1
                case AtomicAdd(tensor, index, value):
                    # The L2 cache reads what it adds to.
                    self.expression(value, work)
                    sectors = work.sectors
                    self.access(tensor, index, 1, work)
                    work.sectors += work.sectors - sectors
                case CopyAhead(tensor, index, source):
                    self.access(tensor, index, source.type.lanes, work)
                    self.access(source.tensor, source.index, source.type.lanes, work)
                    work.issued -= 1
                case PartialStore(tensor, index, value, count):
                    self.expression(value, work)
                    for _ in range(count):
                        self.access(tensor, index, 1, work)
        work.waiting += loads_wait
        work.chained += max((self.cycles(r) * count for r, count in chains.items()), default=0)
        work.chained += PRODUCT_CYCLES * max(products.values(), default=0)
        return work

    def cycles(self, register: Register) -> float:
        """Until what is computed there can be used."""
        latency = self.device.latency
        return latency.f64 if register.type.dtype.nbytes == 8 else latency.f32

    def share(self, spans: tuple[Span, ...]) -> float:
        """Of the warps, those that have a thread there."""
        if spans not in self.shares:
            self.shares[spans] = self._share(spans)
        return self.shares[spans]

    def _share(self, spans: tuple[Span, ...]) -> float:
        warps = range(0, self.grid.threads, self.device.warp)
        numbers = (range(w, min(w + self.device.warp, self.grid.threads)) for w in warps)
        active = sum(
            any(all(low <= t % period < high for low, high, period in spans) for t in threads)
            for threads in numbers
        )
        return active / len(warps)

    def expression(self, expression: Expression, work: Work) -> float:
        """Adds what it issues; how long its loads take, all of them at once."""
        longest = 0.0
        for part in subexpressions(expression):
            match part:
                case Load(tensor, index, kind) | PartialLoad(tensor, index, kind, _):
                    self.access(tensor, index, kind.lanes, work)
                    latency = self.device.latency
                    longest = max(longest, latency.shared if tensor in self.shared else latency.l2)
                case LoadMatrix(tensor, index):
                    work.issued += 1
                    work.accesses += FRAGMENT_ROWS / self.device.warp
                    firsts = self.firsts(index)[:FRAGMENT_ROWS]
                    work.passes += _conflicts(firsts, ROW_BYTES, self.nbytes[tensor])
                    longest = max(longest, self.device.latency.shared)
                case Shuffle():
                    # Through the paths of shared memory, each one after the one before.
                    work.issued += 1
                    work.accesses += 1
                    work.waiting += self.device.latency.shared
                case Fma() | Add() | Sub() | Mul() | Neg() | Max() | Min():
                    self.arithmetic(part, work, 1)
                case Div():
                    self.arithmetic(part, work, 8)
                    work.special += 1
                case Apply(function, _):
                    self.arithmetic(part, work, _STEPS.get(function, 8))
                    work.special += 1
        return longest

    def arithmetic(self, expression: Expression, work: Work, count: int) -> None:
        dtype = type_of(expression).dtype
        work.issued += count
        if dtype.nbytes == 8:
            work.f64 += count
        elif dtype.label == "i32":
            work.i32 += count
        else:
            work.f32 += count

    def access(self, tensor: str, index: Index, lanes: int, work: Work) -> None:
        nbytes = self.nbytes[tensor]
        work.issued += 1
        work.accesses += 1
        firsts = self.firsts(index)
        if tensor in self.shared:
            work.passes += _passes(firsts, lanes * nbytes, nbytes)
        else:
            work.sectors += len({
                byte // SECTOR_BYTES
                for first in set(firsts)
                for byte in range(first * nbytes, (first + lanes) * nbytes, min(SECTOR_BYTES, nbytes))
            })  # fmt: skip

    def firsts(self, index: Index) -> list[int]:
        """The element that each thread begins at."""
        firsts = [index.constant] * self.count
        for variable, stride in index.terms:
            for lane, at in enumerate(self.lanes.get(variable, ())):
                firsts[lane] += at * stride
        return firsts


_STEPS = {Op.ABS: 1, Op.SQRT: 6, Op.EXP: 6, Op.LOG: 12, Op.TANH: 16, Op.SIGMOID: 14, Op.GELU: 20}
"""Instructions of functions, about."""


def _passes(firsts: Sequence[int], width: int, nbytes: int) -> int:
    """Times that shared memory is read for a warp: each bank gives one word at a time.

    Wide accesses are served for a half or a quarter of the warp at a time.
    """
    part = max(1, len(firsts) * BANK_BYTES // max(width, BANK_BYTES))
    return sum(
        _conflicts(firsts[begin : begin + part], width, nbytes) for begin in range(0, len(firsts), part)
    )


def _conflicts(firsts: Sequence[int], width: int, nbytes: int) -> int:
    """The most words of one bank that these threads need at a time."""
    words = {
        word
        for first in firsts
        for word in range(first * nbytes // BANK_BYTES, -(-(first * nbytes + width) // BANK_BYTES))
    }
    return max(Counter(word % BANKS for word in words).values())
