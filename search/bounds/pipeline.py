"""The lower bound of pipelines: what every implementation computes, and the bytes that it moves.

In: an instance of a pipeline, a CPU that was measured or the description of a GPU. Out: nanoseconds that no
implementation can undercut. What is certainly read of each input is loaded once, and outputs are stored once;
between runs, caches may keep as much of both as they hold. Arithmetic counts as far as nobody can do without
(`kernels/pipeline/distinct.py`), on a CPU. Nothing is counted of what is between, nor of what is computed
again: schedules differ in both, and compilers too. So all candidates have the same bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.kernels.device import CpuDevice, MemoryLevel
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
        super().__init__([*(level.term() for level in levels), _arithmetic(_algorithm(instance), device)])


class GpuPipelineBound(_Constant):
    """The same for `pipeline_cuda.space`. A kernel is launched; nothing but its bytes is counted of it."""

    def __init__(self, instance: Instance, device: GpuDevice) -> None:
        loaded, stored = certain_bytes(_algorithm(instance))
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
        ])  # fmt: skip


def _arithmetic(algorithm: Algorithm, device: CpuDevice) -> BoundTerm:
    """Products are for units that multiply, also with a sum in one instruction; sums alone, for any."""
    counts, rates = operations(algorithm), Rates.of(device)
    times: dict[Unit, float] = {"multiply": 0.0, "any": 0.0}
    for dtype in dict.fromkeys(dtype for _, dtype in counts):
        products, sums = counts.get(("*", dtype), 0), counts.get(("+", dtype), 0)
        units: dict[Unit, int] = {"multiply": products, "any": max(products, sums)}
        for unit, instructions in units.items():
            table = rates.tables[unit, dtype]
            most = max((lanes * each for lanes, each in table.items()), default=math.inf)
            times[unit] += instructions / most / device.threads
    products, sums = (sum(n for (of, _), n in counts.items() if of == kind) for kind in ("*", "+"))
    detail = f"{products:,} products and {sums:,} sums of floats, at best one of each in an instruction"
    return BoundTerm("arithmetic", max(times.values()), detail)


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
