"""The lower bound of a GPU: how long the scarcest resource takes for what is certain.

In: an instance of a linear-algebra kernel, the description of a GPU; then candidates. Out: nanoseconds that
no implementation of the candidate can undercut, and what they consist of: arithmetic on as many SMs and
threads as there may still be blocks and threads, what has to come out of the L2 cache, the start of a kernel.
Memory accesses within an SM, latencies and registers are not counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance, Variable
from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.kernels.linalg.backbone import Dimension, Instruction, Kernel
from spacedsl.kernels.linalg.operations import Op
from spacedsl.kernels.linalg.tensors import Tensor
from spacedsl.search.bounds.certain import distinct_elements
from spacedsl.search.bounds.domains import linalg_kernel
from spacedsl.search.bounds.protocol import BoundTerm

_NO_ARITHMETIC = (Op.LOAD, Op.STORE, Op.MOVE, Op.NEG, Op.ABS)
"""What takes no unit of its own: a sign is changed as an operand is read."""


@dataclass(frozen=True, slots=True)
class _Arithmetic:
    """One instruction: its instances, and the threads that one SM runs of it in a cycle at most."""

    instruction: Instruction
    instances: int
    threads_per_cycle: float


@dataclass(frozen=True, slots=True)
class _Parallelism:
    """What there may still be of an instruction at the same time, and how long all of it then takes."""

    blocks: int
    threads: int
    """Of a block."""
    sms: int
    time_ns: float


class GpuBound:
    """Implements `spacedsl.search.bounds.protocol.Bound` for candidates of `linalg_cuda.space`."""

    no_native: str | None = None

    def __init__(self, instance: Instance, device: GpuDevice) -> None:
        kernel = linalg_kernel(instance)
        self.device = device
        self._sizes = _by_dim(instance, "size")
        self._kinds = _by_dim(instance, "dim_kind")
        self._work = tuple(
            _Arithmetic(i, math.prod(d.extent for d in i.logical_dims), _threads_per_cycle(i, device))
            for i in kernel.instructions
            if i.op not in _NO_ARITHMETIC
        )
        moved = [sum(_touched(kernel, tensor, op) for tensor in kernel.tensors) for op in (Op.LOAD, Op.STORE)]
        self._l2_ns = max(moved) / device.l2_bytes_per_ns

    def __call__(self, candidate: Candidate) -> float:
        return max(self.terms_ns(candidate))

    def of_all(self, candidates: Sequence[Candidate]) -> list[float]:
        return [self(candidate) for candidate in candidates]

    def terms_ns(self, candidate: Candidate) -> list[float]:
        launch_ns = self.device.launch_ns
        work_ns = (launch_ns + self._parallelism(candidate, work).time_ns for work in self._work)
        return [launch_ns, launch_ns + self._l2_ns, *work_ns]

    def explain(self, candidate: Candidate) -> tuple[BoundTerm, ...]:
        named = [
            ("launch", "one kernel at least"),
            ("L2", "what is read comes out of it, what is written goes in"),
        ]
        for work in self._work:
            most = self._parallelism(candidate, work)
            detail = (
                f"{work.instances:,} instances of {work.instruction!r} in at most {most.blocks:,} blocks of "
                f"{most.threads:,} threads on {most.sms} SMs"
            )
            named.append((f"arithmetic of {work.instruction!r}", detail))
        times = zip(named, self.terms_ns(candidate), strict=True)
        terms = (BoundTerm(resource, time_ns, detail) for (resource, detail), time_ns in times)
        return tuple(sorted(terms, key=lambda term: -term.bound_ns))

    def _parallelism(self, candidate: Candidate, work: _Arithmetic) -> _Parallelism:
        blocks = self._most(candidate, work.instruction, "BLOCK")
        threads = min(self._most(candidate, work.instruction, "THREAD"), self.device.threads_per_block)
        sms = min(blocks, self.device.sms)
        # A thread issues one instruction in a cycle, and two where schedulers do.
        at_once = max(1.0, self.device.instructions_per_cycle / 4)
        per_cycle = min(sms * work.threads_per_cycle, blocks * threads * at_once)
        return _Parallelism(blocks, threads, sms, work.instances / per_cycle / self.device.clock_ghz)

    def _most(self, candidate: Candidate, instruction: Instruction, kind: str) -> int:
        """Iterations of its dimensions that may still be of this kind."""
        return math.prod(
            _largest(candidate, self._sizes[dim])
            for dim in instruction.dims
            if kind in _values(candidate, self._kinds[dim])
        )


def _touched(kernel: Kernel, tensor: Tensor, op: Op) -> int:
    """Bytes of distinct elements that one instruction certainly reads or writes."""
    accesses = (
        i.access for i in kernel.instructions if i.op is op and i.access and i.access.tensor is tensor
    )
    return tensor.dtype.nbytes * max((distinct_elements(access) for access in accesses), default=0)


def _threads_per_cycle(instruction: Instruction, device: GpuDevice) -> float:
    """Of instances: one instruction adds three integers."""
    rates = device.throughput
    if instruction.dtype.nbytes == 8:
        return rates.f64
    return 2 * rates.i32 if instruction.dtype.label == "i32" else rates.f32


def _by_dim(instance: Instance, choice: str) -> dict[Dimension, Variable]:
    found: dict[Dimension, Variable] = {}
    for variable in instance.variables_of(choice):
        (dim,) = variable.objects
        assert isinstance(dim, Dimension)
        found[dim] = variable
    return found


def _values(candidate: Candidate, variable: Variable) -> list[object]:
    mask = candidate.mask(variable)
    return [value for bit, value in enumerate(variable.universe) if mask >> bit & 1]


def _largest(candidate: Candidate, variable: Variable) -> int:
    return max(value for value in _values(candidate, variable) if isinstance(value, int))
