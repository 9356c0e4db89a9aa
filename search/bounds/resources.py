"""What an implementation needs, resource by resource: the terms of a CPU's bound.

In: an instance of a linear-algebra kernel, a measured device. Out: resources, each with the time that a view
of a candidate leaves it, and with words for it. `certain.py` says what must be done, `domains.py` how fast it
can still be done: the most lanes, threads and registers that the domains leave. Domains only shrink, so no
time falls. `docs/bound.md` argues for every term; `bound.c` computes the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from spacedsl.engine.instance import Instance
from spacedsl.kernels.device import CpuDevice
from spacedsl.kernels.linalg.backbone import Dimension
from spacedsl.search.bounds.arithmetic import Unit, operations
from spacedsl.search.bounds.certain import (
    Alternatives,
    Footprint,
    Operation,
    fed_by,
    footprints,
    stored_by,
)
from spacedsl.search.bounds.domains import (
    View,
    detours,
    is_always,
    linalg_kernel,
    values_of,
    without,
)
from spacedsl.search.bounds.loop_orders import NestView
from spacedsl.search.bounds.memory import Level, LoopOrder, is_after, streaming
from spacedsl.search.bounds.nests import Nest, copied_inside, nests
from spacedsl.search.bounds.rates import Use
from spacedsl.search.bounds.reductions import Reduction, kept_values, reductions

_UNITS: dict[Unit, str] = {
    "multiply": "multipliers",
    "add": "adders",
    "any": "arithmetic",
    "divide": "divisions",
    "root": "square roots",
    "extreme": "extremes",
}


SPLITTING = ("SPLIT",)
"""Values of a choice about a reduction by which its unrolled terms are accumulated apart."""


ADDING = ("ADDED",)
"""Values of a choice about a reduced dimension by which each of its iterations adds to memory."""


class Resource(Protocol):
    """Something of which an implementation needs a certain amount, and of which time has only so much."""

    @property
    def name(self) -> str: ...

    def time_ns(self, view: View) -> float: ...

    def describe(self, view: View) -> str: ...


def resources(instance: Instance, device: CpuDevice) -> tuple[Resource, ...]:
    """Of instructions that run in every implementation: what triggers may add counts nowhere."""
    kernel = linalg_kernel(instance)
    touched = footprints(
        kernel,
        lambda instruction: is_always(instance, instruction),
        lambda load, store: is_after(instance, load, store),
    )
    work = {
        unit: tuple(a for a in classes if any(is_always(instance, o.instruction) for o in a))
        for unit, classes in operations(kernel).items()
    }
    accumulating = tuple(
        r
        for r in reductions(
            work["any"],
            touched,
            lambda made, user: detours(instance, made, user),
            lambda reduction: values_of(instance, reduction, SPLITTING),
            lambda reduction: tuple(
                bits for dim in reduction.reduced_dims for bits in values_of(instance, dim, ADDING)
            ),
        )
        if _is_swept(instance, r)
    )
    loops = nests(instance, device, (*work["any"], *work["multiply"]), touched)
    found: list[Resource] = [
        Units(f"{kind} {name}", unit, chosen)
        for unit, name in _UNITS.items()
        for kind in ("floating-point", "integer")
        if (chosen := tuple(a for a in work[unit] if _is_integer(a) == (kind == "integer")))
    ]
    found += [Chain(reduction) for reduction in accumulating]
    found += [
        LoadInstructions.of(touched, accumulating, loops, kept_values(device)),
        store_instructions(touched),
    ]
    streams = streaming(instance, touched)
    found += [Level.of(instance, device, n, touched, streams) for n in range(len(device.memory))]
    found += map(LoopOrder, loops)
    return tuple(found)


def _is_swept(instance: Instance, reduction: Reduction) -> bool:
    """Whether free dimensions inside a reduced one are copies or lanes, so that sums stay in registers,
    where memory does not add them up.
    """
    root, instruction = instance.root(), reduction.instruction
    for dim in instruction.reduced_dims:
        root = None if root is None else without(instance, root, dim, ADDING)
    return root is not None and all(
        set(instruction.reduced_dims) <= copied_inside(instance, root, free, instruction.reduced_dims)
        for free in instruction.free_dims
    )


@dataclass(frozen=True, slots=True)
class Units:
    """Units that all instructions of a kind share, so that their times add up.

    Integers and floating-point numbers have units of their own.
    """

    name: str
    use: Use
    work: tuple[Alternatives, ...]

    def time_ns(self, view: View) -> float:
        return view.started_ns(sum(view.time_ns(alternatives, self.use) for alternatives in self.work))

    def describe(self, view: View) -> str:
        return ". ".join(_runs(view, o, self.use) for o, *_ in self.work)


def store_instructions(touched: Iterable[Footprint]) -> Units:
    """One for each element of a result of arithmetic."""
    return Units(
        "store instructions",
        "store",
        tuple(
            tuple(o for store in f.stores for o in stored_by(store, f.elements))
            for f in touched
            if f.stores and all(stored_by(store, f.elements) for store in f.stores)
        ),
    )


@dataclass(frozen=True, slots=True)
class Chain:
    """The latency of accumulations."""

    reduction: Reduction

    @property
    def name(self) -> str:
        return f"latency of {self.reduction.instruction}"

    def time_ns(self, view: View) -> float:
        return view.started_ns(self.reduction.chain_ns(view))

    def describe(self, view: View) -> str:
        instruction = self.reduction.instruction
        parts = self.reduction.parts(view)
        apart = f", each in {parts} parts" if parts > 1 else ""
        return (
            f"{instruction} adds up {self.reduction.sums:,} sums of {self.reduction.terms:,} terms, at most "
            f"{view.accumulators(instruction)} x {view.lanes(instruction.dims)} of them at a time"
            f"{apart}{_sharing(view, instruction.dims)}; a term follows the one before it after "
            f"{self.reduction.latency_ns(view.rates):g} ns"
        )


@dataclass(frozen=True, slots=True)
class Sweep:
    """A reduction whose operands no register keeps, with its loops and the elements of its operands."""

    reduction: Reduction
    nest: Nest | None
    elements: tuple[Alternatives, ...]

    def again_ns(self, view: View) -> float:
        """By both arguments: one looks at sweeps, the other at all orders of loops."""
        by_order_ns = 0.0 if self.nest is None else NestView(self.nest, view).loads().time_ns
        return max(self.reduction.load_ns(view), by_order_ns)

    def once_ns(self, view: View) -> float:
        return sum(view.time_ns(alternatives, "load") for alternatives in self.elements)

    def time_ns(self, view: View) -> float:
        return max(self.again_ns(view), self.once_ns(view))

    def describe(self, view: View) -> str:
        loads = " and ".join(map(repr, self.reduction.loads))
        if self.again_ns(view) <= self.once_ns(view):
            return f"{loads} load every element once, in {self.once_ns(view):,.0f} ns"
        copies = view.accumulators(self.reduction.instruction)
        return (
            f"{loads} load what {self.reduction.instruction} uses, which at most {copies} unrolled copies "
            f"share and no register keeps, in {self.again_ns(view):,.0f} ns"
        )


@dataclass(frozen=True, slots=True)
class LoadInstructions:
    """Load instructions: one for each element that arithmetic uses, more for operands of reductions."""

    name = "load instructions"
    distinct: tuple[Alternatives, ...]
    swept: tuple[Sweep, ...]

    @classmethod
    def of(
        cls, touched: Iterable[Footprint], accumulating: Iterable[Reduction], loops: Iterable[Nest], kept: int
    ) -> LoadInstructions:
        """`kept`: values that registers keep of what was stored before."""
        nest_of = {nest.instruction: nest for nest in loops}
        distinct = {
            f.tensor: tuple(o for load in f.loads for o in fed_by(load, f.elements - kept * f.is_late))
            for f in touched
            if f.loads and all(fed_by(load, f.elements) for load in f.loads)
        }
        swept: list[Sweep] = []
        for reduction in accumulating:
            tensors = [load.access.tensor for load in reduction.loads if load.access is not None]
            if tensors and all(t in distinct for t in tensors):
                # Loads of one tensor may serve two reductions: they count once, for the larger one.
                elements = tuple(distinct.pop(t) for t in tensors)
                swept.append(Sweep(reduction, nest_of.get(reduction.instruction), elements))
        return cls(tuple(distinct.values()), tuple(swept))

    def time_ns(self, view: View) -> float:
        once_ns = sum(view.time_ns(alternatives, "load") for alternatives in self.distinct)
        return view.started_ns(once_ns + sum(sweep.time_ns(view) for sweep in self.swept))

    def describe(self, view: View) -> str:
        parts = [_runs(view, o, "load") for o, *_ in self.distinct]
        return ". ".join([*parts, *(sweep.describe(view) for sweep in self.swept)])


def _runs(view: View, operation: Operation, use: Use) -> str:
    lanes = view.lanes(operation.dims)
    vectors = f"in vectors of up to {lanes}" if lanes > 1 else "one by one"
    return (
        f"{operation.instruction} handles {operation.iterations:,} elements, {vectors}, at most "
        f"{view.elements_per_ns(operation, use):.4g} a ns{_sharing(view, operation.dims)}"
    )


def _sharing(view: View, dims: Iterable[Dimension]) -> str:
    speedup = view.speedup(dims)
    return " in one thread" if speedup == 1 else f" in each of {speedup:.4g} threads"


def _is_integer(alternatives: Alternatives) -> bool:
    return alternatives[0].instruction.dtype.label.startswith("i")
