"""What a warp does from the beginning of a grid to its end: what it issues, accesses and waits for.

In: a verified `Program` of grids, one of these, a `GpuDevice`. Out: `Work`. The first warp of the first block
is followed through its loops. What that takes on an SM, beside others, is for `prediction.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from spacedsl.codegen.tree.expressions import (
    Add,
    Apply,
    Div,
    Expression,
    Fma,
    Index,
    Load,
    LoadMatrix,
    Max,
    Min,
    Mul,
    Neg,
    PartialLoad,
    Register,
    Shuffle,
    Sub,
    type_of,
)
from spacedsl.codegen.tree.parts import subexpressions
from spacedsl.codegen.tree.program import (
    Assign,
    AtomicCombine,
    Barrier,
    Branch,
    CopyAhead,
    Grid,
    Loop,
    Multiply,
    PartialStore,
    Program,
    Span,
    Statement,
    Store,
    WaitForCopies,
    Where,
)
from spacedsl.kernels.banks import conflicts, parts, passes
from spacedsl.kernels.gpu_device import SECTOR_BYTES, GpuDevice
from spacedsl.kernels.linalg.fragments import FRAGMENT_ROWS, ROW_BYTES
from spacedsl.kernels.linalg.operations import Op

LINE_BYTES = 128
LINES_A_CYCLE = 4
"""That the L1 cache looks up."""
KEPT_BYTES = 24 << 10
"""Of one array, what the L1 cache keeps from one iteration to the next, about."""

PRODUCT_CYCLES = 33.0
"""From a product of tensor cores to the next one that adds to it: of A100 and H100, about."""


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
    l1_cycles: float = 0.0
    """That the L1 cache takes: it has banks, as shared memory has, and looks up some lines at a time."""
    missed: float = 0.0
    """Of the sectors, what no thread of the block has just accessed, as far as that is known."""
    passes: float = 0.0
    barriers: float = 0.0
    waiting: float = 0.0
    chained: float = 0.0
    """Of values that follow from themselves, one after the other."""
    added: float = 0.0
    """Additions to an element of memory, on average."""

    def add(self, other: Work, times: float) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + times * getattr(other, field.name))


@dataclass(frozen=True, slots=True)
class _Served:
    """What an access of a warp to memory of the device takes."""

    sectors: int
    in_parts: int
    """Of parts of the warp, each by itself: what two of them need counts twice."""
    l1_cycles: float

    @classmethod
    def of(cls, firsts: Sequence[int], width: int, nbytes: int) -> _Served:
        """`firsts`: the element that each thread begins at; `width`: bytes that it accesses."""
        sectors, *in_parts = (
            _sectors(np.array(each) * nbytes, width) for each in (firsts, *parts(firsts, width))
        )
        return cls(sectors, sum(in_parts), l1_cycles(firsts, width, nbytes))


class Follower:
    """Follows the first warp of the first block."""

    def __init__(self, program: Program, grid: Grid, device: GpuDevice) -> None:
        self.grid, self.device = grid, device
        tensors = (*program.tensors, *(s.tensor for s in program.scratch), *grid.shared)
        self.nbytes = {t.name: t.dtype.nbytes for t in tensors}
        self.elements = {t.name: t.elements for t in tensors}
        self.shared = {t.name for t in grid.shared}
        lanes = range(min(device.warp, grid.threads))
        self.lanes: Mapping[str, list[int]] = {
            c.variable: [lane // c.stride % c.extent for lane in lanes]
            for c in grid.coordinates
            if not c.is_block
        }
        self.count = len(lanes)
        self.warps = -(-grid.threads // device.warp)
        self.extents = {c.variable: c.extent for c in grid.coordinates if not c.is_block}
        self.loops: list[tuple[str, int]] = []
        """Around what is followed: variables and extents, the innermost last."""
        self.shares: dict[tuple[Span, ...], float] = {}
        self._missing: dict[object, float] = {}
        self._passes: dict[object, int] = {}
        self._served: dict[object, _Served] = {}

    def block(self, body: Sequence[Statement]) -> Work:
        work = Work()
        loads_wait = 0.0
        chains: Counter[Register] = Counter()
        products: Counter[Register] = Counter()
        for statement in body:
            match statement:
                case Loop():
                    work.waiting += loads_wait
                    loads_wait = 0.0
                    self.loop(statement, work)
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
                    self.access(tensor, index, type_of(value).lanes, work, is_store=True)
                case Multiply(result, _, b):
                    # Rows that are not there are multiplied, too.
                    work.issued += 1
                    work.tensor += 2 * FRAGMENT_ROWS**2 * len(b) * ROW_BYTES / 2
                    products[result[0]] += 1
                case AtomicCombine(tensor, index, value):
                    self.expression(value, work)
                    self.addition(tensor, index, work)
                case CopyAhead(tensor, index, source):
                    self.access(tensor, index, source.type.lanes, work, is_store=True)
                    self.access(source.tensor, source.index, source.type.lanes, work, is_copy=True)
                    work.issued -= 1
                case PartialStore(tensor, index, value, count):
                    self.expression(value, work)
                    for _ in range(count):
                        self.access(tensor, index, 1, work, is_store=True)
                case _:
                    loads_wait = self.other(statement, work, loads_wait)
        work.waiting += loads_wait
        work.chained += max((self.cycles(r) * count for r, count in chains.items()), default=0)
        work.chained += PRODUCT_CYCLES * max(products.values(), default=0)
        return work

    def loop(self, loop: Loop, work: Work) -> None:
        self.loops.append((loop.variable, loop.extent))
        iteration = self.block(loop.body)
        self.loops.pop()
        groups = [s.groups for s in loop.body if isinstance(s, WaitForCopies)]
        if groups:
            # What is copied arrives while so many iterations compute.
            under = (min(groups) + 1) * (iteration.issued + iteration.waiting)
            iteration.waiting += max(0.0, self.device.latency.l2 - under)
        work.add(iteration, loop.extent)
        work.issued += 2 * loop.extent

    def other(self, statement: Statement, work: Work, loads_wait: float) -> float:
        """Statements of other kinds; returns what loads before the next one are waited for."""
        return loads_wait

    def addition(self, tensor: str, index: Index, work: Work) -> None:
        """The L2 cache reads what it adds to."""
        sectors, missed = work.sectors, work.missed
        self.access(tensor, index, 1, work, is_store=True)
        work.sectors += work.sectors - sectors
        work.missed += work.missed - missed

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
                    work.passes += conflicts(firsts, ROW_BYTES, self.nbytes[tensor])
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

    def access(
        self,
        tensor: str,
        index: Index,
        lanes: int,
        work: Work,
        *,
        is_store: bool = False,
        is_copy: bool = False,
    ) -> None:
        """`is_copy`: past the L1 cache."""
        nbytes = self.nbytes[tensor]
        width = lanes * nbytes
        work.issued += 1
        work.accesses += 1
        # What whole lines are added to an index changes nothing.
        place = index.terms, index.constant * nbytes % LINE_BYTES, width, nbytes
        if tensor in self.shared:
            key = (*place, is_store)
            if key not in self._passes:
                self._passes[key] = passes(self.firsts(index), width, nbytes, is_shared_load=not is_store)
            work.passes += self._passes[key]
            return
        if place not in self._served:
            self._served[place] = _Served.of(self.firsts(index), width, nbytes)
        served = self._served[place]
        work.sectors += served.sectors
        work.l1_cycles += served.l1_cycles
        if is_copy:
            work.missed += served.in_parts
        elif is_store or not self.device.caches_loads:
            work.missed += served.sectors
        else:
            work.missed += self.missing(index, width, nbytes)

    def missing(self, index: Index, width: int, nbytes: int) -> float:
        """Sectors that a warp loads which no other one of its block loads with it, and none has loaded in the
        iterations before, as far as the L1 cache keeps what a loop goes through.
        """
        key = (index.terms, index.constant * nbytes % SECTOR_BYTES, width, nbytes, tuple(self.loops))
        if key not in self._missing:
            self._missing[key] = self._missed(index, width, nbytes)
        return self._missing[key]

    def _missed(self, index: Index, width: int, nbytes: int) -> float:
        strides = {variable: stride * nbytes for variable, stride in index.terms}
        firsts = np.array([index.constant * nbytes])
        for variable, stride in strides.items():
            if variable in self.extents:
                firsts = np.unique(np.add.outer(firsts, stride * np.arange(self.extents[variable])))
        count, iterations = _sectors(firsts, width), 1
        for variable, extent in reversed(self.loops):
            if variable in strides:
                if len(firsts) * extent > KEPT_BYTES:
                    break
                firsts = np.unique(np.add.outer(firsts, strides[variable] * np.arange(extent)))
                now = _sectors(firsts, width)
                if now * SECTOR_BYTES > KEPT_BYTES:
                    break
                count = now
            iterations *= extent
        return count / iterations / self.warps

    def firsts(self, index: Index) -> list[int]:
        """The element that each thread begins at."""
        firsts = [index.constant] * self.count
        for variable, stride in index.terms:
            for lane, at in enumerate(self.lanes.get(variable, ())):
                firsts[lane] += at * stride
        return firsts


def _sectors(firsts: NDArray[np.int64], width: int) -> int:
    """Distinct ones, of accesses that are so many bytes wide."""
    ends = (firsts // SECTOR_BYTES, (firsts + width - 1) // SECTOR_BYTES)
    return len(np.unique(np.concatenate(ends)))


_STEPS = {Op.ABS: 1, Op.SQRT: 6, Op.EXP: 6, Op.LOG: 12, Op.TANH: 16, Op.SIGMOID: 14, Op.GELU: 20}
"""Instructions of functions, about."""


def l1_cycles(firsts: Sequence[int], width: int, nbytes: int) -> float:
    """That the L1 cache takes for an access of a warp: it looks up lines, and has banks."""
    lines = len({first * nbytes // LINE_BYTES for first in firsts})
    return max(lines / LINES_A_CYCLE, passes(firsts, width, nbytes))
