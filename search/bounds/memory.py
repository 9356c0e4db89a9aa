"""What an implementation needs of memory: bytes that cross the borders of caches, once and in its loops.

In: an instance, its footprints and nests, a measured device. Out: resources, as in `resources.py`. Which
instructions these bytes take is not counted here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spacedsl.engine.instance import Instance
from spacedsl.kernels.device import CpuDevice, MemoryLevel
from spacedsl.kernels.linalg.backbone import Dimension, Instruction, Value
from spacedsl.language.space import EnumChoice
from spacedsl.search.bounds.certain import (
    Footprint,
    element_bytes,
    line_bytes,
    read_again,
    read_back,
    stored_by,
)
from spacedsl.search.bounds.domains import Bits, View, detours, is_always, linalg_kernel, values_of
from spacedsl.search.bounds.loop_orders import NestView, Pressure
from spacedsl.search.bounds.nests import Nest, early_bytes
from spacedsl.search.bounds.traffic import costs, least_ns


def is_after(instance: Instance, load: Instruction, store: Instruction) -> bool:
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


@dataclass(frozen=True, slots=True)
class Passed:
    """A tensor that is accessed twice, and what that moves once the first accesses end before the others.

    First the kernel itself stores it, or loads it; then it loads it.
    """

    fused: Bits
    """By which a later access may still come before the last one of the first."""
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
        for first, again in read_again(kernel, size_of):
            separate = _not_after(instance, again, first)
            if is_always(instance, first) and is_always(instance, again) and separate is not None:
                passed.append(Passed(separate, max(0, size_of((again,)) - held), 0))
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
        loaded, stored, again = self.nbytes(view)
        is_plain = self.streams is not None and not view.may_be(self.streams)
        edges = costs(self.level, view.threads(self.dims), self.threads, is_plain=is_plain)
        return least_ns(edges, loaded, stored, self.inner_bytes, again)

    def nbytes(self, view: View) -> tuple[int, int, int]:
        """That are loaded, that are stored, and that are loaded again whatever the caches keep."""
        whole = [p for p in self.passed if not view.may_be(p.fused)]
        again, stored = sum(p.loaded_bytes for p in whole), sum(p.stored_bytes for p in whole)
        return self.loaded_bytes, self.stored_bytes + stored, again

    def describe(self, view: View) -> str:
        (loaded, stored, again), threads = self.nbytes(view), view.threads(self.dims)
        moved, time_ns = max(0, loaded + stored - self.inner_bytes) + again, self.time_ns(view)
        return (
            f"{loaded:,} bytes are loaded from {self.level.name} and {stored:,} stored, of which the caches "
            f"inside keep at most {self.inner_bytes:,}"
            + (f", and {again:,} loaded again" if again else "")
            + (f": at most {moved / time_ns:.4g} of them a ns in this mixture" if time_ns else "")
            + (", by one thread" if threads == 1 else f", by {threads} threads")
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
