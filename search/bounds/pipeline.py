"""The lower bound of pipelines: what every implementation computes, and the bytes that it moves.

In: an instance of a pipeline, a CPU that was measured or the description of a GPU; then candidates. Out:
nanoseconds that nothing undercuts which a candidate can become. What is certainly read of each input is
loaded once, and outputs are stored once; between runs, caches may keep as much of both as they hold. A stage
that is certainly at ROOT is stored, all of it, before what reads it begins: caches may keep as much as they
hold at that moment. Arithmetic counts as far as nobody can do without (`kernels/pipeline/distinct.py`), not
what is computed again: a window may keep it, or a compiler find that it is the same. What a step at ROOT
computes by itself has the tasks that are left for it, and vectors or warps as wide as its boxes can be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from spacedsl.diagnostics import counted
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.engine.native.rollouts import CompiledBound
from spacedsl.kernels.device import CpuDevice, MemoryLevel
from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.kernels.pipeline.algorithm import Algorithm
from spacedsl.kernels.pipeline.backbone import Kernel, Step
from spacedsl.kernels.pipeline.distinct import operations
from spacedsl.kernels.pipeline.footprints import Points, certain_points, count
from spacedsl.kernels.pipeline.work import size
from spacedsl.search.bounds.protocol import BoundTerm
from spacedsl.search.bounds.rates import Rates
from spacedsl.search.bounds.shares import Arithmetic, Limits, Share, on_cpu_ns, on_gpu_ns
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
    shares: tuple[Share | None, ...]
    """By step that computes; of all others, None."""

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

    def __init__(self, instance: Instance, most: Share) -> None:
        """`most`: all of the machine."""
        kernel = instance.kernel
        assert isinstance(kernel, Kernel)
        read = certain_points(kernel.algorithm)
        self._outside = certain_bytes(kernel.algorithm, read)
        steps = kernel.inner if "site" in instance.space.choices else ()
        self._sites = [instance.variable("site", step) for step in steps]
        self._at_root = [1 << site.universe.index("ROOT") for site in self._sites]
        self._stages = [_kept(step, kernel, read) for step in steps]
        needed = operations(kernel.algorithm)
        places = [(step.stage.name, step.update) for step in steps]
        computing = [n for n, place in enumerate(places) if place in needed]
        self._own = tuple(Arithmetic.of(needed[places[n]]) for n in computing)
        self._rest = tuple(Arithmetic.of(kinds) for place, kinds in needed.items() if place not in places)
        self._limits = tuple((n, self.limits(instance, steps[n])) for n in computing)
        self._most, self._said = most, _said((*self._own, *self._rest))
        self._known: dict[tuple[object, ...], tuple[BoundTerm, ...]] = {}

    def limits(self, instance: Instance, step: Step) -> Limits:
        raise NotImplementedError

    def terms(self, roots: _Roots) -> Iterator[BoundTerm]:
        """Always of the same resources, in the same order."""
        raise NotImplementedError

    def arithmetic(self, roots: _Roots) -> list[tuple[Arithmetic, Share]]:
        """What must be computed, and what there is for it at most."""
        own = zip(self._own, (share or self._most for share in roots.shares), strict=True)
        return [*((each, self._most) for each in self._rest), *own]

    def detail(self, roots: _Roots) -> str:
        """Of this arithmetic."""
        held = sum(share not in (None, self._most) for share in roots.shares)
        return f"{self._said}, {counted(held, 'step')} on a part of the machine" if held else self._said

    def _terms(self, candidate: Candidate) -> tuple[BoundTerm, ...]:
        masks = candidate.masks_of(self._sites)
        certain = tuple([mask == root for mask, root in zip(masks, self._at_root, strict=True)])
        shares = self._shares(candidate, certain)
        known = self._known.get((certain, shares))
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            of_roots = (stage for stage, is_so in zip(self._stages, certain, strict=True) if is_so and stage)
            roots = _Roots(sum(certain), tuple(of_roots), shares)
            known = self._known[certain, shares] = tuple(self.terms(roots))
        return known

    def _shares(self, candidate: Candidate, certain: Sequence[bool]) -> tuple[Share | None, ...]:
        if not any(certain[n] for n, _ in self._limits):
            return (None,) * len(self._limits)
        highs, most = candidate.instance.highs(candidate.vector), self._most
        return tuple([limits.share(highs, most) if certain[n] else None for n, limits in self._limits])

    def __call__(self, candidate: Candidate) -> float:
        return max(self.terms_ns(candidate))

    def of_all(self, candidates: Sequence[Candidate]) -> list[float]:
        return [self(candidate) for candidate in candidates]

    def terms_ns(self, candidate: Candidate) -> list[float]:
        return [term.bound_ns for term in self._terms(candidate)]

    def explain(self, candidate: Candidate) -> tuple[BoundTerm, ...]:
        return tuple(sorted(self._terms(candidate), key=lambda term: -term.bound_ns))


_MOST_KNOWN = 1 << 14


def _said(needed: Sequence[Arithmetic]) -> str:
    products, sums = sum(each.products for each in needed), sum(each.sums for each in needed)
    return f"{products:,} products and {sums:,} sums of floats, at best one of each in an instruction"


def _kept(step: Step, kernel: Kernel, read: Mapping[str, Points]) -> _Bytes | None:
    """Of the stage that lies in memory if a step is at ROOT; none of outputs, which always do."""
    if not step.is_last or step.is_output:
        return None
    widths = [dtype.nbytes for dtype in step.stage.dtypes]
    loaded = count(read.get(step.stage.name)) * min(widths)
    return _Bytes(loaded, size(kernel.needed[step.stage.name]) * sum(widths))


class PipelineBound(_Bound):
    """Implements `spacedsl.search.bounds.protocol.Bound` for candidates of `pipeline.space`."""

    def __init__(self, instance: Instance, device: CpuDevice) -> None:
        self._device, self._rates = device, Rates.of(device)
        lanes = max(lanes for table in self._rates.tables.values() for lanes in table)
        super().__init__(instance, Share(device.threads, lanes))

    def limits(self, instance: Instance, step: Step) -> Limits:
        return Limits.of(instance, step, (("extent", box) for box in step.slots[-1].boxes))

    def terms(self, roots: _Roots) -> Iterator[BoundTerm]:
        inner = 0
        for level in self._device.memory:
            yield self._level(level, inner, roots)
            inner += level.capacity_bytes or 0
        yield BoundTerm("arithmetic", on_cpu_ns(self.arithmetic(roots), self._rates), self.detail(roots))

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
        super().__init__(instance, Share(device.sms, device.warp))
        self._device = device

    def limits(self, instance: Instance, step: Step) -> Limits:
        return Limits.of(instance, step, [("lanes", step)])

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
        arithmetic_ns = on_gpu_ns(self.arithmetic(roots), device)
        yield BoundTerm("arithmetic", begun_ns + arithmetic_ns, f"{launch}; {self.detail(roots)}")


def certain_bytes(algorithm: Algorithm, read: Mapping[str, Points]) -> _Bytes:
    """Of inputs, of which so much is certainly read, and of outputs that are written."""
    loaded = sum(count(read.get(i.name)) * i.dtype.nbytes for i in algorithm.inputs)
    stored = sum(
        size(box) * dtype.nbytes
        for name, box in algorithm.outputs.items()
        for dtype in algorithm.stage(name).dtypes
    )
    return _Bytes(loaded, stored)
