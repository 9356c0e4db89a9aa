"""What a nest costs in each of the ways that are left, resource by resource, and the best of them.

In: a nest and the vector of a candidate. Out: a `Cost`. A way says how many blocks, threads and copies there
are; then a multiprocessor (SM) runs at least ceil(blocks / SMs) blocks, each of ceil(threads / 32) warps, and
each thread its share of the iterations, with as many loads as its copies do not save. All is done for all
ways at once; what lies in which order is not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from spacedsl.engine.layout import WORD_BITS
from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.search.bounds.certain import LONGEST_UNROLLED
from spacedsl.search.bounds.domains import Bits, Place
from spacedsl.search.bounds.gpu.nests import (
    F32,
    F64,
    I32,
    ISSUE,
    L1,
    MEMORY,
    RESOURCES,
    SECTOR_BYTES,
    SERIAL,
    SHARED,
    SPECIAL,
    Copy,
    Nest,
    Operand,
)
from spacedsl.search.bounds.gpu.ways import Numbers, Ways

MOST_WAYS = 1 << 17
"""Combinations of the ways of all indices that are looked at; while there are more, nothing is said."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one nest: what each resource takes at least, each in a way of its own, and all in the best way."""

    least_ns: tuple[float, ...]
    """By resource."""
    together_ns: float
    """In one way, the largest of all."""
    best: tuple[tuple[str, int], ...] = ()
    """What that way consists of."""
    in_best_ns: tuple[float, ...] = ()
    """What each resource takes in it."""


NOTHING = Cost((0.0,) * len(RESOURCES), 0.0)
NEVER = Cost((math.inf,) * len(RESOURCES), math.inf)


@dataclass(frozen=True, slots=True)
class _Shapes:
    """All combinations: arrays that broadcast against each other, an axis for each index."""

    ways: tuple[Ways, ...]
    """Each along its axis."""
    blocks: Numbers
    repeated: int
    """Blocks that do the same: all of these do it."""
    threads: Numbers
    copies: Numbers
    """Of free indices."""


class Pressure:
    """Of one nest on one device; costs are remembered by the domains that they follow from."""

    def __init__(self, nest: Nest, device: GpuDevice) -> None:
        self.nest, self.device = nest, device
        self._known: dict[tuple[int, ...], Cost] = {}
        self._key = itemgetter(*nest.cells())

    def cost(self, vector: Sequence[int]) -> Cost:
        key = self._key(vector)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._cost(vector)
        return found

    def _cost(self, vector: Sequence[int]) -> Cost:
        nest, device = self.nest, self.device
        ways = [index.ways(vector) for index in nest.indices]
        if any(not each.is_known for each in ways) or math.prod(map(len, ways)) > MOST_WAYS:
            return NOTHING
        repeated = 1
        if nest.copy is not None:
            if not _is_only(nest.copy.temporary, vector):
                return NOTHING
            repeated = _blocks_around(nest.copy, vector)
        shapes = self._shapes(ways, repeated)
        allowed = shapes.threads <= device.threads_per_block
        for cell in nest.most_copies:
            allowed = allowed & (shapes.copies <= vector[cell])
        if not allowed.any():
            return NEVER
        times = self._times(shapes, vector)
        every = np.broadcast_shapes(allowed.shape, *(time.shape for time in times))
        allowed = np.broadcast_to(allowed, every)
        least = tuple(float(np.broadcast_to(time, every)[allowed].min()) for time in times)
        together = np.where(allowed, _largest(times), math.inf)
        place = np.unravel_index(int(together.argmin()), every)
        numbers = [("blocks", shapes.blocks), ("threads", shapes.threads), ("copies", shapes.copies)]
        return Cost(
            least,
            float(together[place]),
            tuple((name, int(np.broadcast_to(values, every)[place])) for name, values in numbers),
            tuple(float(np.broadcast_to(time, every)[place]) for time in times),
        )

    def _shapes(self, ways: Sequence[Ways], repeated: int) -> _Shapes:
        """`repeated`: blocks that do the same, beside those of the nest's own indices."""
        laid = [each.along(axis, len(ways)) for axis, each in enumerate(ways)]
        free = [way for way, is_reduced in zip(laid, self.nest.is_reduced, strict=True) if not is_reduced]
        return _Shapes(
            tuple(laid),
            repeated * _product([way.blocks for way in laid]),
            repeated,
            _product([way.threads for way in laid]),
            _product([way.copies for way in free]),
        )

    def _times(self, shapes: _Shapes, vector: Sequence[int]) -> list[Numbers]:
        """By resource, in ns."""
        nest, device, rates = self.nest, self.device, self.device.throughput
        blocks, threads = shapes.blocks, shapes.threads
        of_sm = np.ceil(blocks / device.sms)
        # Of all that blocks do, what the busiest SM does; blocks at the end of an index may do less.
        share = 1 / np.minimum(blocks, device.sms) if nest.is_ragged else of_sm / blocks
        warps = np.ceil(threads / device.warp)
        in_warps = share * warps * device.warp / threads
        lanes = [self._lanes(operand, vector) for operand in nest.operands]
        loads, accesses = self._loads(shapes, lanes)
        if nest.moved:
            accesses = accesses + shapes.repeated * nest.moved / shapes.copies
        executed = nest.issued + accesses
        cycles: list[Numbers] = [np.zeros(1)] * len(RESOURCES)
        per_cycle = {F32: rates.f32, F64: rates.f64, I32: rates.i32, SPECIAL: rates.special}
        for unit, count in nest.work:
            if unit in per_cycle:
                cycles[unit] = count * in_warps / per_cycle[unit]
        cycles[ISSUE] = executed * in_warps / device.warp / device.instructions_per_cycle
        cycles[MEMORY] = accesses * in_warps / rates.memory
        for operand, width, loaded in zip(nest.operands, lanes, loads, strict=True):
            instances = share * loaded / threads
            if _is_only(operand.registers, vector):
                sectors = np.maximum(warps, self._sectors(operand, width, shapes))
                cycles[L1] = cycles[L1] + instances * sectors * SECTOR_BYTES / device.l1_bytes_per_cycle
            elif _is_only(operand.shared, vector):
                own = _product(
                    [w.threads for w, is_own in zip(shapes.ways, operand.own, strict=True) if is_own]
                )
                touched = own * width * operand.item_bytes / device.shared_bytes_per_cycle
                cycles[SHARED] = cycles[SHARED] + instances * np.maximum(warps, touched)
        if nest.copy is not None:
            sectors = np.maximum(warps, self._sectors(nest.copy.source, shapes.copies, shapes))
            loading = share * accesses / threads * sectors * SECTOR_BYTES
            cycles[L1] = loading / device.l1_bytes_per_cycle
        at_once = max(1.0, device.instructions_per_cycle / 4)
        alone = np.maximum(executed / blocks / threads / at_once, self._chain(shapes, vector))
        if nest.operands:
            alone = alone + min(device.latency.l1, device.latency.shared)
        cycles[SERIAL] = alone * np.ceil(of_sm / self._resident(shapes, warps, vector))
        return [each / device.clock_ghz for each in cycles]

    def _lanes(self, operand: Operand, vector: Sequence[int]) -> float:
        """Elements of one load, at most. A compiler may merge loads of what it has aligned itself."""
        most = max(1, self.device.vector_bytes // operand.item_bytes)
        if not _is_only(operand.registers, vector) and operand.storage_cell is not None:
            return most
        sizes = (
            _largest_size(p, vector) for p in operand.vectors if vector[p.kind_offset] & operand.vector_bit
        )
        return min(most, max(sizes, default=1))

    def _loads(self, shapes: _Shapes, lanes: Sequence[float]) -> tuple[list[Numbers], Numbers]:
        """Loads of all threads together: by operand, each the least that it may be, and of all operands.

        A thread needs each of its elements once. Between two iterations of the loops around a sum, registers
        keep as many as there are of them; the rest is loaded again.
        """
        nest = self.nest
        once: list[Numbers] = []
        again: list[Numbers] = []
        indices = list(zip(shapes.ways, nest.extents, nest.is_reduced, strict=True))
        rest = [extent / (way.blocks * way.threads) for way, extent, _ in indices]
        segment = [
            r if way_is_reduced else way.copies
            for r, (way, _, way_is_reduced) in zip(rest, indices, strict=True)
        ]
        segments = _product(rest) / _product(segment)
        for operand, width in zip(nest.operands, lanes, strict=True):
            own = [n for n, is_own in enumerate(operand.own) if is_own]
            once.append(_product([rest[n] for n in own]) / width)
            again.append(segments * _product([segment[n] for n in own]) / width)
        if not once:
            return [], np.zeros(1)
        kept = segments * self.device.registers_per_thread / min(lanes)
        # Shorter segments a compiler may unroll into one piece, which it arranges as it likes.
        is_long = (_product(segment) >= LONGEST_UNROLLED) & nest.is_swept
        all_threads = shapes.blocks * shapes.threads
        least = [np.where(is_long, np.maximum(o, a - kept), o) for o, a in zip(once, again, strict=True)]
        total = np.where(is_long, np.maximum(sum(least), sum(again) - kept), sum(least))
        return [each * all_threads for each in least], total * all_threads

    def _sectors(self, operand: Operand, lanes: Numbers | float, shapes: _Shapes) -> Numbers:
        """Of a block, that one load touches: threads lie at least a step apart."""
        found = np.ones(1)
        for way, apart in zip(shapes.ways, operand.apart, strict=True):
            if apart:
                step = np.minimum(way.steps * apart, 1.0)
                found = found * np.maximum(way.threads / np.ceil(1 / step), 1.0)
        nbytes = _product([w.threads for w, own in zip(shapes.ways, operand.own, strict=True) if own])
        return np.maximum(found, nbytes * lanes * operand.item_bytes / SECTOR_BYTES)

    def _chain(self, shapes: _Shapes, vector: Sequence[int]) -> Numbers | float:
        """Cycles that a thread waits for its own sums: of each, one term follows the other."""
        nest = self.nest
        if not nest.chain_cycles:
            return 0.0
        may_split = any(vector[cell] & mask for cell, mask in nest.splits)
        terms: Numbers = np.ones(1)
        for way, extent, is_reduced in zip(shapes.ways, nest.extents, nest.is_reduced, strict=True):
            if is_reduced:
                terms = terms * extent / (way.blocks * way.threads * (way.copies if may_split else 1))
        return terms * nest.chain_cycles

    def _resident(self, shapes: _Shapes, warps: Numbers, vector: Sequence[int]) -> Numbers:
        """Blocks that an SM has room for at a time."""
        device, nest = self.device, self.nest
        threads = warps * device.warp
        is_kept = (
            nest.is_swept
            and math.prod(e for e, r in zip(nest.extents, nest.is_reduced, strict=True) if r)
            >= LONGEST_UNROLLED
        )
        registers = np.minimum(shapes.copies if is_kept else np.ones(1), device.registers_per_thread)
        rooms = np.minimum(device.threads_per_sm // threads, device.registers_per_sm // (threads * registers))
        nbytes = sum(
            vector[cell] for o in nest.operands if _is_only(o.shared, vector) for cell in o.bytes_cells
        )
        most = min(device.blocks_per_sm, device.shared_bytes_per_sm // nbytes if nbytes else math.inf)
        return np.maximum(np.minimum(rooms, most), 1)


def _product(columns: Sequence[Numbers]) -> Numbers:
    found = np.ones(1)
    for column in columns:
        found = found * column
    return found


def _largest(times: Sequence[Numbers]) -> Numbers:
    found = np.zeros(1)
    for time in times:
        found = np.maximum(found, time)
    return found


def _is_only(bits: Bits, vector: Sequence[int]) -> bool:
    """Whether the domain has these values alone."""
    return any(vector[cell] and not vector[cell] & ~mask for cell, mask in bits)


def _blocks_around(copy: Copy, vector: Sequence[int]) -> int:
    """Blocks that certainly make a copy of their own."""
    (shared,) = copy.source.shared or ((0, 0),)
    if not _is_only((shared,), vector):
        return 1
    certain = (place for place in copy.around if vector[place.kind_offset] == copy.block_bit)
    return math.prod(_sizes(place, vector)[0] for place in certain)


def _largest_size(place: Place, vector: Sequence[int]) -> int:
    return max(_sizes(place, vector), default=1)


def _sizes(place: Place, vector: Sequence[int]) -> list[int]:
    """Those left, the least first."""
    mask = sum(vector[cell] << WORD_BITS * word for word, cell in enumerate(place.size_offsets))
    return [size for bit, size in enumerate(place.universe) if mask >> bit & 1]
