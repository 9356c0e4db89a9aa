"""The lower bound of a CPU: how long the scarcest resource takes for what is certain.

In: an instance of a linear-algebra kernel, a measured device; then candidates. Out: nanoseconds that no
implementation of the candidate can undercut, and what they consist of. `certain.py` says what must be done,
`domains.py` how fast it can still be done: the most lanes, threads and registers that the domains leave.
Domains only shrink, so the bound never falls. `docs/bound.md` argues for every term.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.kernels.device import CpuDevice, MemoryLevel
from spacedsl.kernels.linalg.backbone import Dimension, Instruction
from spacedsl.search.bounds.certain import (
    Alternatives,
    Footprint,
    Operation,
    Unit,
    feeds_arithmetic,
    footprints,
    operations,
    takes_arithmetic,
)
from spacedsl.search.bounds.domains import Domains, View, Words, linalg_kernel
from spacedsl.search.bounds.protocol import BoundTerm
from spacedsl.search.bounds.rates import Rates, mixed_rate, read_rate
from spacedsl.search.bounds.reductions import Reduction, reductions

_MOST_KNOWN = 1 << 16
"""Bounds that are kept: most candidates differ in nothing that the bound looks at."""


class CpuBound:
    """Implements `spacedsl.search.bounds.protocol.Bound` for candidates of `linalg.space`."""

    def __init__(self, instance: Instance, device: CpuDevice) -> None:
        self._domains = Domains(instance, Rates.of(device))
        self._resources = _resources(instance, device)
        self._known: dict[Words, float] = {}

    def __call__(self, candidate: Candidate) -> float:
        words = self._domains.words(candidate)
        bound_ns = self._known.get(words)
        if bound_ns is None:
            view = self._domains.view(candidate)
            bound_ns = max((r.time_ns(view) for r in self._resources), default=0.0)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[words] = bound_ns
        return bound_ns

    def explain(self, candidate: Candidate) -> tuple[BoundTerm, ...]:
        view = self._domains.view(candidate)
        terms = (BoundTerm(r.name, r.time_ns(view), r.describe(view)) for r in self._resources)
        return tuple(sorted(terms, key=lambda term: -term.bound_ns))


class _Resource(Protocol):
    """Something of which an implementation needs a certain amount, and of which time has only so much."""

    @property
    def name(self) -> str: ...

    def time_ns(self, view: View) -> float: ...

    def describe(self, view: View) -> str: ...


def _resources(instance: Instance, device: CpuDevice) -> tuple[_Resource, ...]:
    kernel = linalg_kernel(instance)
    work, touched = operations(kernel), footprints(kernel)
    accumulating = reductions(work["any"], touched)
    found: list[_Resource] = [
        _Arithmetic(unit, kind, chosen)
        for unit, classes in work.items()
        for kind in ("floating-point", "integer")
        if (chosen := tuple(a for a in classes if _is_integer(a) == (kind == "integer")))
    ]
    found += [_Chain(reduction) for reduction in accumulating]
    found += [_Loads.of(touched, accumulating), _Stores.of(touched)]
    inner_bytes = 0
    for position, level in enumerate(device.memory):
        found.append(_Level.of(level, position == 0, inner_bytes, touched, device.threads))
        inner_bytes += level.capacity_bytes or 0
    return tuple(found)


# ---- Arithmetic ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Arithmetic:
    """Units that all instructions of a kind share, so that their times add up."""

    unit: Unit
    kind: str
    """Floating-point or integer: these have units of their own."""
    work: tuple[Alternatives, ...]

    @property
    def name(self) -> str:
        return {
            "multiply": f"{self.kind} multipliers",
            "add": f"{self.kind} adders",
            "any": f"{self.kind} arithmetic",
        }[self.unit]

    def time_ns(self, view: View) -> float:
        return sum(view.time_ns(alternatives, self.unit) for alternatives in self.work)

    def describe(self, view: View) -> str:
        return "; ".join(
            f"{o.instruction}: {o.iterations} at {_pace(view, o.instruction, self.unit)}"
            for o, *_ in self.work
        )


@dataclass(frozen=True, slots=True)
class _Chain:
    """The latency of accumulations."""

    reduction: Reduction

    @property
    def name(self) -> str:
        return f"latency of {self.reduction.instruction}"

    def time_ns(self, view: View) -> float:
        return self.reduction.chain_ns(view)

    def describe(self, view: View) -> str:
        instruction = self.reduction.instruction
        return (
            f"{self.reduction.sums} sums of {self.reduction.terms} terms, at most "
            f"{view.accumulators[instruction]} x {view.lanes(instruction.dims)} at a time in "
            f"{view.speedup(instruction):g} threads, {view.rates.latency_ns(instruction.dtype):g} ns a term"
        )


# ---- Loads and stores ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Loads:
    """Load instructions: one for each element that arithmetic uses, more for operands of reductions."""

    name = "load instructions"
    distinct: tuple[Alternatives, ...]
    swept: tuple[tuple[Reduction, tuple[Alternatives, ...]], ...]
    """Reductions with the elements of their operands."""

    @classmethod
    def of(cls, touched: Iterable[Footprint], accumulating: Iterable[Reduction]) -> _Loads:
        distinct = {
            f.tensor: tuple(Operation(load, f.elements) for load in f.loads)
            for f in touched
            if f.loads and all(map(feeds_arithmetic, f.loads))
        }
        swept: list[tuple[Reduction, tuple[Alternatives, ...]]] = []
        for reduction in accumulating:
            tensors = [load.access.tensor for load in reduction.loads if load.access is not None]
            if tensors and all(t in distinct for t in tensors):
                # Loads of one tensor may serve two reductions: they count once, for the larger one.
                swept.append((reduction, tuple(distinct.pop(t) for t in tensors)))
        return cls(tuple(distinct.values()), tuple(swept))

    def time_ns(self, view: View) -> float:
        return self._once_ns(self.distinct, view) + sum(
            max(reduction.load_ns(view), self._once_ns(elements, view)) for reduction, elements in self.swept
        )

    @staticmethod
    def _once_ns(tensors: tuple[Alternatives, ...], view: View) -> float:
        return sum(view.time_ns(alternatives, "load") for alternatives in tensors)

    def describe(self, view: View) -> str:
        parts = [f"{o.instruction}: {o.iterations} at {_pace(view, o.instruction, 'load')}"
                 for o, *_ in self.distinct]  # fmt: skip
        for reduction, elements in self.swept:
            again_ns, once_ns = reduction.load_ns(view), self._once_ns(elements, view)
            loads = " and ".join(map(repr, reduction.loads))
            reason = (
                f"at most {view.accumulators[reduction.instruction]} accumulators share them"
                if again_ns > once_ns
                else "every element once"
            )
            parts.append(f"{loads} for {reduction.instruction}: {max(again_ns, once_ns):.0f} ns, {reason}")
        return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class _Stores:
    """Store instructions: one for each element of a result of arithmetic."""

    name = "store instructions"
    distinct: tuple[Alternatives, ...]

    @classmethod
    def of(cls, touched: Iterable[Footprint]) -> _Stores:
        return cls(
            tuple(
                tuple(Operation(store, f.elements) for store in f.stores)
                for f in touched
                if f.stores and all(map(takes_arithmetic, f.stores))
            )
        )

    def time_ns(self, view: View) -> float:
        return sum(view.time_ns(alternatives, "store") for alternatives in self.distinct)

    def describe(self, view: View) -> str:
        return "; ".join(
            f"{o.instruction}: {o.iterations} at {_pace(view, o.instruction, 'store')}"
            for o, *_ in self.distinct
        )


def _pace(view: View, instruction: Instruction, use: Unit | Literal["load", "store"]) -> str:
    return (
        f"{view.elements_per_ns(instruction, use):.4g} per ns (up to {view.lanes(instruction.dims)} lanes)"
        f" in {view.speedup(instruction):.4g} threads"
    )


def _is_integer(alternatives: Alternatives) -> bool:
    return alternatives[0].instruction.dtype.label.startswith("i")


# ---- Memory --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Level:
    """Bytes that cross between a level and those inside it, which cannot keep them all between runs."""

    level: MemoryLevel
    loaded_bytes: int
    moved_bytes: int
    """Loaded and stored."""
    dims: tuple[Dimension, ...]
    """Those that share accesses out among threads when they are parallel."""
    threads: int

    @classmethod
    def of(
        cls,
        level: MemoryLevel,
        is_first: bool,
        inner_bytes: int,
        touched: tuple[Footprint, ...],
        threads: int,
    ) -> _Level:
        # From the L1 cache go elements, from all others cache lines.
        sizes = {f: f.nbytes if is_first else f.line_bytes for f in touched}
        loaded = sum(size for f, size in sizes.items() if f.loads)
        accesses = [access for f in touched for access in (*f.loads, *f.stores)]
        dims = dict.fromkeys(d for a in accesses for d in (*a.dims, *a.foreign_dims))
        return cls(
            level,
            max(0, loaded - inner_bytes),
            max(0, sum(sizes.values()) - inner_bytes),
            tuple(dims),
            threads,
        )

    @property
    def name(self) -> str:
        return f"{self.level.name} bandwidth"

    def time_ns(self, view: View) -> float:
        threads = view.threads(self.dims)
        return max(
            self.loaded_bytes / read_rate(self.level, threads, self.threads),
            self.moved_bytes / mixed_rate(self.level, threads, self.threads),
        )

    def describe(self, view: View) -> str:
        threads = view.threads(self.dims)
        return (
            f"{self.loaded_bytes} bytes loaded at {read_rate(self.level, threads, self.threads):.4g} per ns, "
            f"{self.moved_bytes} loaded or stored at {mixed_rate(self.level, threads, self.threads):.4g}, "
            f"by {threads} threads"
        )
