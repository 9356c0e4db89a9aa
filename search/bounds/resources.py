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
from spacedsl.kernels.device import CpuDevice, MemoryLevel
from spacedsl.kernels.linalg.backbone import Dimension, Instruction, Value
from spacedsl.language.space import EnumChoice
from spacedsl.search.bounds.arithmetic import Unit, operations
from spacedsl.search.bounds.certain import (
    Alternatives,
    Footprint,
    Operation,
    element_bytes,
    fed_by,
    footprints,
    line_bytes,
    read_back,
    stored_by,
)
from spacedsl.search.bounds.domains import Bits, View, detours, is_always, linalg_kernel, values_of
from spacedsl.search.bounds.nests import Nest, NestView, Pressure, copied_inside, early_bytes, nests
from spacedsl.search.bounds.rates import Use, mixed_rate, read_rate
from spacedsl.search.bounds.reductions import Reduction, kept_values, reductions

_UNITS: dict[Unit, str] = {
    "multiply": "multipliers",
    "add": "adders",
    "any": "arithmetic",
    "divide": "divisions",
    "root": "square roots",
    "extreme": "extremes",
}


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
        lambda load, store: _is_after(instance, load, store),
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


def _is_after(instance: Instance, load: Instruction, store: Instruction) -> bool:
    """Whether a load comes after a store, and after all loops around it, whatever is decided."""
    root, bits = instance.root(), _not_after(instance, load, store)
    return root is not None and bits is not None and not any(root.vector[c] & mask for c, mask in bits)


def _not_after(instance: Instance, load: Instruction, store: Instruction) -> Bits | None:
    """By which a load may still come before the end of a store's loops; None: the space has no such order."""
    order = instance.space.choices.get("order")
    if not isinstance(order, EnumChoice) or "BEFORE" not in order.values:
        return None
    others = order.full & ~order.mask("BEFORE")
    return tuple((instance.offset("order", s, load), others) for s in (store, *store.dims))


def _is_swept(instance: Instance, reduction: Reduction) -> bool:
    """Whether free dimensions inside a reduced one are copies or lanes, so that sums stay in registers."""
    root, instruction = instance.root(), reduction.instruction
    return root is not None and all(
        set(instruction.reduced_dims) <= copied_inside(instance, root, free, instruction.reduced_dims)
        for free in instruction.free_dims
    )


# ---- Instructions --------------------------------------------------------------------------------------


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


# ---- Memory --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Passed:
    """A tensor that the kernel itself stores and reads, and what that moves once it is stored as a whole."""

    fused: Bits
    """By which a load may still come before the last store."""
    loaded_bytes: int
    stored_bytes: int
    """Of an intermediate tensor: when it is read at once, its memory may be used again and again."""


@dataclass(frozen=True, slots=True)
class Level:
    """Bytes that cross between a level and those inside it, which cannot keep them all between runs."""

    level: MemoryLevel
    inner_bytes: int
    loaded_bytes: int
    """Of tensors that the kernel does not write."""
    stored_bytes: int
    passed: tuple[Passed, ...]
    dims: tuple[Dimension, ...]
    """Those that share accesses out among threads when they are parallel."""
    streams: Bits | None
    """By which a store may go around the caches; None: any may."""
    threads: int

    @classmethod
    def of(
        cls,
        instance: Instance,
        device: CpuDevice,
        position: int,
        touched: tuple[Footprint, ...],
        streams: Bits | None,
    ) -> Level:
        kernel, level = linalg_kernel(instance), device.memory[position]
        inner_bytes = sum(inside.capacity_bytes or 0 for inside in device.memory[:position])
        # From the L1 cache go elements, from all others cache lines.
        size_of = line_bytes if position else element_bytes
        # At the end of its stores, the caches hold no more of a tensor than at the beginning of a run.
        held = inner_bytes + device.threads * early_bytes(device)
        passed: list[Passed] = []
        for tensor, stores, loads in read_back(kernel):
            pairs = [_not_after(instance, load, store) for load in loads for store in stores]
            if all(is_always(instance, i) for i in (*stores, *loads)) and None not in pairs:
                fused = tuple(bit for bits in pairs for bit in bits or ())
                stored = 0 if tensor in kernel.tensors else element_bytes(stores)
                passed.append(Passed(fused, max(0, size_of(loads) - held), stored))
        accesses = [i for i in kernel.instructions if i.access is not None]
        dims = dict.fromkeys(d for a in accesses for d in (*a.dims, *a.foreign_dims))
        return cls(
            level,
            inner_bytes,
            sum(size_of(f.loads) for f in touched if f.loads and not f.is_late),
            sum(f.nbytes for f in touched if f.stores and f.tensor in kernel.tensors),
            tuple(passed),
            tuple(dims),
            streams,
            device.threads,
        )

    @property
    def name(self) -> str:
        return f"{self.level.name} bandwidth"

    def time_ns(self, view: View) -> float:
        (loaded, moved), (loaded_rate, moved_rate) = self.nbytes(view), self.rates(view)
        return max(loaded / loaded_rate, moved / moved_rate)

    def nbytes(self, view: View) -> tuple[int, int]:
        """That are loaded, and loaded or stored."""
        whole = [p for p in self.passed if not view.may_be(p.fused)]
        again, stored = sum(p.loaded_bytes for p in whole), sum(p.stored_bytes for p in whole)
        moved = self.loaded_bytes + self.stored_bytes + stored
        return (
            max(0, self.loaded_bytes - self.inner_bytes) + again,
            max(0, moved - self.inner_bytes) + again,
        )

    def rates(self, view: View) -> tuple[float, float]:
        """Bytes per ns that can be loaded, and loaded or stored."""
        threads = view.threads(self.dims)
        is_plain = self.streams is not None and not view.may_be(self.streams)
        return (
            read_rate(self.level, threads, self.threads),
            mixed_rate(self.level, threads, self.threads, is_plain=is_plain),
        )

    def describe(self, view: View) -> str:
        threads = view.threads(self.dims)
        (loaded, moved), (loaded_rate, moved_rate) = self.nbytes(view), self.rates(view)
        return (
            f"at least {loaded:,} bytes are loaded from {self.level.name}, at most "
            f"{loaded_rate:.4g} a ns, and {moved:,} loaded or "
            f"stored, at most {moved_rate:.4g} a ns, by "
            + ("one thread" if threads == 1 else f"{threads} threads")
        )


STREAMING = ("STREAMED", "NT", "NON_TEMPORAL")
"""Values of a choice about a store by which it goes around the caches."""


def streaming(instance: Instance, touched: Iterable[Footprint]) -> Bits | None:
    """The domains of such choices; None where a compiler may do the same by itself.

    It may replace loops that only copy or clear, and no others: also those that a trigger makes of a store,
    when what it stores comes out of memory.
    """
    stores = [store for f in touched for store in f.stores]
    if not all(stored_by(store, 1) for store in stores):
        return None
    makers = [(o.instruction, store) for store in stores for o in store.operands if isinstance(o, Value)]
    copied = [bits for maker, store in makers for bits in detours(instance, maker, store)]
    streamed = [bits for store in stores for bits in values_of(instance, store, STREAMING)]
    return (*copied, *streamed)


SPLITTING = ("SPLIT",)
"""Values of a choice about a reduction by which its unrolled terms are accumulated apart."""


@dataclass(frozen=True, slots=True)
class LoopOrder:
    """Bytes that come back within a run, because the loops around them leave the caches no room."""

    nest: Nest

    @property
    def name(self) -> str:
        return f"loop order of {self.nest.instruction}"

    def pressure(self, view: View) -> Pressure:
        return NestView(self.nest, view).traffic()

    def time_ns(self, view: View) -> float:
        return self.pressure(view).time_ns

    def describe(self, view: View) -> str:
        found = self.pressure(view)
        if not found.time_ns:
            return "an order of loops is left in which the caches keep all that is used again"
        dims = enumerate(self.nest.dims)
        inner = ", ".join(str(dim) for number, dim in dims if found.inner >> number & 1)
        kept = next(b.kept_bytes for b in self.nest.borders if b.level.name == found.resource)
        return (
            f"even in the best order left, the loops {inner} run {found.segments:,.0f} times inside the "
            f"others and touch {found.amount:,.0f} bytes each time, of which the caches inside "
            f"{found.resource} keep at most {kept:,}"
        )
