"""The lower bound of pipelines: what every implementation computes, and the bytes that it moves.

In: an instance of a pipeline, a CPU that was measured or the description of a GPU. Out: nanoseconds that no
implementation can undercut. What is certainly read of each input is loaded once, and outputs are stored once;
between runs, caches may keep as much of both as they hold. Arithmetic counts as far as nobody can do without
(`kernels/pipeline/distinct.py`). Nothing is counted of what is between, nor of what is computed again:
schedules differ in both, and compilers too. So all candidates have the same bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.engine.native.rollouts import CompiledBound
from spacedsl.kernels.device import CpuDevice, MemoryLevel
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.kernels.pipeline.algorithm import Algorithm
from spacedsl.kernels.pipeline.backbone import Kernel
from spacedsl.kernels.pipeline.distinct import operations
from spacedsl.kernels.pipeline.footprints import certain_points, count
from spacedsl.kernels.pipeline.work import size
from spacedsl.search.bounds.arithmetic import Unit
from spacedsl.search.bounds.protocol import BoundTerm
from spacedsl.search.bounds.rates import Rates
from spacedsl.search.bounds.traffic import costs, least_ns


@dataclass(frozen=True, slots=True)
class _Level:
    """Between a level of memory and those inside it."""

    level: MemoryLevel
    inner_bytes: int
    loaded_bytes: int
    stored_bytes: int
    threads: int

    @property
    def time_ns(self) -> float:
        edges = costs(self.level, self.threads, self.threads)
        return least_ns(edges, self.loaded_bytes, self.stored_bytes, self.inner_bytes)

    def term(self) -> BoundTerm:
        detail = (
            f"{self.loaded_bytes:,} bytes are loaded from {self.level.name} and {self.stored_bytes:,} "
            f"stored, of which the caches inside keep at most {self.inner_bytes:,}"
        )
        return BoundTerm(f"{self.level.name} bandwidth", self.time_ns, detail)


class _Constant:
    """The same of all candidates."""

    no_native: str | None = None
    compiled = CompiledBound()

    def __init__(self, terms: Sequence[BoundTerm]) -> None:
        self._terms = tuple(terms)
        self._bound_ns = max(term.bound_ns for term in self._terms)

    def __call__(self, candidate: Candidate) -> float:
        return self._bound_ns

    def of_all(self, candidates: Sequence[Candidate]) -> list[float]:
        return [self._bound_ns] * len(candidates)

    def terms_ns(self, candidate: Candidate) -> list[float]:
        return [term.bound_ns for term in self._terms]

    def explain(self, candidate: Candidate) -> tuple[BoundTerm, ...]:
        return tuple(sorted(self._terms, key=lambda term: -term.bound_ns))


class PipelineBound(_Constant):
    """Implements `spacedsl.search.bounds.protocol.Bound` for candidates of `pipeline.space`."""

    def __init__(self, instance: Instance, device: CpuDevice) -> None:
        loaded, stored = certain_bytes(_algorithm(instance))
        inner = [level.capacity_bytes or 0 for level in device.memory]
        levels = (
            _Level(level, sum(inner[:at]), loaded, stored, device.threads)
            for at, level in enumerate(device.memory)
        )
        work = _Arithmetic.of(_algorithm(instance))
        arithmetic = BoundTerm("arithmetic", work.on_cpu_ns(device), work.detail)
        super().__init__([*(level.term() for level in levels), arithmetic])


class GpuPipelineBound(_Constant):
    """The same for `pipeline_cuda.space`. A kernel is launched; of what it does, its bytes and its arithmetic
    are counted.
    """

    def __init__(self, instance: Instance, device: GpuDevice) -> None:
        algorithm = _algorithm(instance)
        loaded, stored = certain_bytes(algorithm)
        work = _Arithmetic.of(algorithm)
        through_l2, beyond = max(loaded, stored), max(0, loaded + stored - device.l2_bytes)
        launch = f"a kernel starts in {device.launch_ns:g} ns"
        super().__init__([
            BoundTerm("launch", device.launch_ns, launch),
            BoundTerm(
                "L2", device.launch_ns + through_l2 / device.l2_bytes_per_ns,
                f"{launch}; {loaded:,} bytes are loaded, and {stored:,} stored",
            ),
            BoundTerm(
                "DRAM", device.launch_ns + beyond / device.dram_bytes_per_ns,
                f"{launch}; of these, the L2 cache keeps at most {device.l2_bytes:,}",
            ),
            BoundTerm("arithmetic", device.launch_ns + work.on_gpu_ns(device), f"{launch}; {work.detail}"),
        ])  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Arithmetic:
    """What nobody can do without, by type: products, and sums, of which one instruction does one of each."""

    counts: Mapping[DType, tuple[int, int]]

    @classmethod
    def of(cls, algorithm: Algorithm) -> _Arithmetic:
        found = operations(algorithm)
        dtypes = dict.fromkeys(dtype for _, dtype in found)
        return cls({dtype: (found.get(("*", dtype), 0), found.get(("+", dtype), 0)) for dtype in dtypes})

    @property
    def detail(self) -> str:
        products, sums = (sum(each[kind] for each in self.counts.values()) for kind in (0, 1))
        return f"{products:,} products and {sums:,} sums of floats, at best one of each in an instruction"

    def on_cpu_ns(self, device: CpuDevice) -> float:
        """Products are for units that multiply; sums alone, for any."""
        rates = Rates.of(device)
        times: dict[Unit, float] = {"multiply": 0.0, "any": 0.0}
        for dtype, (products, sums) in self.counts.items():
            units: dict[Unit, int] = {"multiply": products, "any": max(products, sums)}
            for unit, instructions in units.items():
                table = rates.tables[unit, dtype]
                most = max((lanes * each for lanes, each in table.items()), default=math.inf)
                times[unit] += instructions / most / device.threads
        return max(times.values())

    def on_gpu_ns(self, device: GpuDevice) -> float:
        """Of 16 bits, an instruction could do two at once."""
        cycles = 0.0
        for dtype, (products, sums) in self.counts.items():
            rate = device.throughput.f64 if dtype is DType.F64 else device.throughput.f32 * 4 / dtype.nbytes
            cycles += max(products, sums) / rate
        return cycles / device.sms / device.clock_ghz


def _algorithm(instance: Instance) -> Algorithm:
    kernel = instance.kernel
    assert isinstance(kernel, Kernel)
    return kernel.algorithm


def certain_bytes(algorithm: Algorithm) -> tuple[int, int]:
    """Of inputs that are read, and of outputs that are written."""
    points = certain_points(algorithm)
    loaded = sum(count(points.get(i.name, ())) * i.dtype.nbytes for i in algorithm.inputs)
    stored = sum(
        size(box) * dtype.nbytes
        for name, box in algorithm.outputs.items()
        for dtype in algorithm.stage(name).dtypes
    )
    return loaded, stored
