"""The lower bound of pipelines: what every implementation computes, and the bytes that it moves.

In: an instance of a pipeline, a CPU that was measured or the description of a GPU; then candidates. Out:
nanoseconds that nothing undercuts which a candidate can become. What is certainly read of each input is
loaded once, and outputs are stored once; between runs, caches may keep as much of both as they hold. A stage
that is certainly at ROOT is stored, all of it, before what reads it begins: caches may keep as much as they
hold at that moment. Arithmetic counts as far as nobody can do without (`kernels/pipeline/distinct.py`), not
what is computed again: a window may keep it, or a compiler find that it is the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from spacedsl.diagnostics import counted
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.engine.native.rollouts import CompiledBound
from spacedsl.kernels.device import CpuDevice, MemoryLevel
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.kernels.pipeline.algorithm import Algorithm
from spacedsl.kernels.pipeline.backbone import Kernel, Step
from spacedsl.kernels.pipeline.distinct import operations
from spacedsl.kernels.pipeline.footprints import Points, certain_points, count
from spacedsl.kernels.pipeline.work import size
from spacedsl.search.bounds.arithmetic import Unit
from spacedsl.search.bounds.protocol import BoundTerm
from spacedsl.search.bounds.rates import Rates
from spacedsl.search.bounds.traffic import costs, least_ns


@dataclass(frozen=True, slots=True)
class _Bytes:
    """That a stage, or what is outside of a pipeline, is loaded and stored with."""

    loaded: int
    stored: int

    def beyond(self, inner: int) -> _Bytes:
        """Of a stage: what caches of so many bytes cannot hold until it is read."""
        return _Bytes(max(0, self.loaded - inner), max(0, self.stored - inner))


def _sum(several: Iterable[_Bytes]) -> _Bytes:
    known = list(several)
    return _Bytes(sum(each.loaded for each in known), sum(each.stored for each in known))


@dataclass(frozen=True, slots=True)
class _Roots:
    """What is certainly at ROOT: its steps, and of stages that lie in memory because of it, the bytes."""

    steps: int
    stages: tuple[_Bytes, ...]

    @property
    def detail(self) -> str:
        if not self.stages:
            return ""
        return f"; whole before it is read: {counted(len(self.stages), 'stage')} at ROOT"


class _Bound:
    """Follows from the steps that are certainly at ROOT. What is made of these is for subclasses."""

    no_native: str | None = None
    compiled = CompiledBound()
    """Within rollouts, candidates have the bound of what these began with: it is lower, and as true."""

    def __init__(self, instance: Instance) -> None:
        kernel = instance.kernel
        assert isinstance(kernel, Kernel)
        read = certain_points(kernel.algorithm)
        self._outside = certain_bytes(kernel.algorithm, read)
        self._work = _Arithmetic.of(kernel.algorithm)
        steps = kernel.inner if "site" in instance.space.choices else ()
        self._sites = [instance.variable("site", step) for step in steps]
        self._at_root = [1 << site.universe.index("ROOT") for site in self._sites]
        self._stages = [_kept(step, kernel, read) for step in steps]
        self._known: dict[tuple[bool, ...], tuple[BoundTerm, ...]] = {}

    def terms(self, roots: _Roots) -> Iterator[BoundTerm]:
        """Always of the same resources, in the same order."""
        raise NotImplementedError

    def _terms(self, candidate: Candidate) -> tuple[BoundTerm, ...]:
        masks = candidate.masks_of(self._sites)
        certain = tuple([mask == root for mask, root in zip(masks, self._at_root, strict=True)])
        known = self._known.get(certain)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            of_roots = (stage for stage, is_so in zip(self._stages, certain, strict=True) if is_so and stage)
            known = self._known[certain] = tuple(self.terms(_Roots(sum(certain), tuple(of_roots))))
        return known

    def __call__(self, candidate: Candidate) -> float:
        return max(self.terms_ns(candidate))

    def of_all(self, candidates: Sequence[Candidate]) -> list[float]:
        return [self(candidate) for candidate in candidates]

    def terms_ns(self, candidate: Candidate) -> list[float]:
        return [term.bound_ns for term in self._terms(candidate)]

    def explain(self, candidate: Candidate) -> tuple[BoundTerm, ...]:
        return tuple(sorted(self._terms(candidate), key=lambda term: -term.bound_ns))


_MOST_KNOWN = 1 << 14


def _kept(step: Step, kernel: Kernel, read: Mapping[str, Points]) -> _Bytes | None:
    """Of the stage that lies in memory if a step is at ROOT; none of outputs, which always do."""
    if not step.is_last or step.is_output:
        return None
    widths = [dtype.nbytes for dtype in step.stage.dtypes]
    loaded = count(read.get(step.stage.name, ())) * min(widths)
    return _Bytes(loaded, size(kernel.needed[step.stage.name]) * sum(widths))


class PipelineBound(_Bound):
    """Implements `spacedsl.search.bounds.protocol.Bound` for candidates of `pipeline.space`."""

    def __init__(self, instance: Instance, device: CpuDevice) -> None:
        super().__init__(instance)
        self._device = device

    def terms(self, roots: _Roots) -> Iterator[BoundTerm]:
        inner = 0
        for level in self._device.memory:
            yield self._level(level, inner, roots)
            inner += level.capacity_bytes or 0
        yield BoundTerm("arithmetic", self._work.on_cpu_ns(self._device), self._work.detail)

    def _level(self, level: MemoryLevel, inner: int, roots: _Roots) -> BoundTerm:
        """Between a level of memory and those inside it, which hold so many bytes."""
        threads, outside = self._device.threads, self._outside
        moved = _sum((outside, *(stage.beyond(inner) for stage in roots.stages)))
        kept = min(inner, outside.loaded + outside.stored)
        time_ns = least_ns(costs(level, threads, threads), moved.loaded, moved.stored, kept)
        detail = (
            f"{moved.loaded:,} bytes are loaded from {level.name} and {moved.stored:,} stored, "
            f"of which the caches inside keep at most {inner:,}{roots.detail}"
        )
        return BoundTerm(f"{level.name} bandwidth", time_ns, detail)


class GpuPipelineBound(_Bound):
    """The same for `pipeline_cuda.space`. Kernels are launched one after the other; of what they do, bytes
    and arithmetic are counted. What one leaves to another goes through the L2 cache.
    """

    def __init__(self, instance: Instance, device: GpuDevice) -> None:
        super().__init__(instance)
        self._device = device

    def terms(self, roots: _Roots) -> Iterator[BoundTerm]:
        device, outside = self._device, self._outside
        launches = max(1, roots.steps)
        begun_ns = launches * device.launch_ns
        launch = f"{counted(launches, 'kernel')}, {device.launch_ns:g} ns to start each"
        moved = _sum((outside, *roots.stages))
        far = _sum(stage.beyond(device.l2_bytes) for stage in roots.stages)
        beyond = max(0, outside.loaded + outside.stored - device.l2_bytes) + far.loaded + far.stored
        yield BoundTerm("launch", begun_ns, launch)
        yield BoundTerm(
            "L2",
            begun_ns + max(moved.loaded, moved.stored) / device.l2_bytes_per_ns,
            f"{launch}; {moved.loaded:,} bytes are loaded, and {moved.stored:,} stored{roots.detail}",
        )
        yield BoundTerm(
            "DRAM",
            begun_ns + beyond / device.dram_bytes_per_ns,
            f"{launch}; of these, the L2 cache keeps at most {device.l2_bytes:,} from one kernel to another",
        )
        arithmetic_ns = self._work.on_gpu_ns(device)
        yield BoundTerm("arithmetic", begun_ns + arithmetic_ns, f"{launch}; {self._work.detail}")


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


def certain_bytes(algorithm: Algorithm, read: Mapping[str, Points]) -> _Bytes:
    """Of inputs, of which so much is certainly read, and of outputs that are written."""
    loaded = sum(count(read.get(i.name, ())) * i.dtype.nbytes for i in algorithm.inputs)
    stored = sum(
        size(box) * dtype.nbytes
        for name, box in algorithm.outputs.items()
        for dtype in algorithm.stage(name).dtypes
    )
    return _Bytes(loaded, stored)
