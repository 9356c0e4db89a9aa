"""What a nest costs in each of the ways that are left, resource by resource, and the best of them.

In: a nest and the vector of a candidate. Out: a `Cost`. A way says how many blocks, threads and copies there
are; then a multiprocessor (SM) runs at least ceil(blocks / SMs) blocks, each of ceil(threads / 32) warps, and
each thread its share of the iterations, with as many loads as its copies do not save. All is done for all
ways at once; what lies in which order is not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from spacedsl.kernels.gpu_device import SECTOR_BYTES, GpuDevice
from spacedsl.kernels.linalg.fragments import COLUMNS_OF_THREAD
from spacedsl.search.bounds.certain import LONGEST_UNROLLED
from spacedsl.search.bounds.gpu.nests import (
    CHAIN,
    F32,
    F64,
    I32,
    ISSUE,
    L1,
    L2,
    LATENCY,
    MEMORY,
    RESOURCES,
    SERIAL,
    SHARED,
    SPECIAL,
    TENSOR,
    Nest,
    Operand,
)
from spacedsl.search.bounds.gpu.states import Source, State, cells, state
from spacedsl.search.bounds.gpu.ways import Numbers, Ways

MOST_WAYS = 1 << 18
"""Combinations of the ways of all indices that are looked at."""

PRODUCT_BYTES = 128
"""Of an instruction of tensor cores: multiplications of each thread of a warp, times bytes of a factor."""

LANES_OF_LOAD = 8
"""Threads that load at most what one of them would need alone, of a fragment: together, four at a time."""

PASS_BYTES = 8
"""Of one thread, that a pass of shared memory gives at most: those of 16 serve half a warp."""

MOST_REMEMBERED = 100_000
"""Domains of one nest, which a long search would fill a machine's memory with."""


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


class Pressure:
    """Of one nest on one device; costs are remembered by domains, and by what these leave."""

    def __init__(self, nest: Nest, device: GpuDevice) -> None:
        self.nest, self.device = nest, device
        self._by_domains: dict[tuple[int, ...], Cost] = {}
        self._by_state: dict[State | None, Cost] = {None: NOTHING}
        self._key = itemgetter(*cells(nest))

    def cost(self, vector: Sequence[int]) -> Cost:
        key = self._key(vector)
        found = self._by_domains.get(key)
        if found is None:
            left = state(self.nest, vector, self.device)
            found = self._by_state.get(left)
            if found is None:
                assert left is not None
                found = self._by_state[left] = cost(self.nest, self.device, left)
            if len(self._by_domains) >= MOST_REMEMBERED:
                self._by_domains.clear()
            self._by_domains[key] = found
        return found


def cost(nest: Nest, device: GpuDevice, left: State) -> Cost:
    """Of the ways that are left."""
    if math.prod(map(len, left.ways)) > MOST_WAYS:
        return _coarse(nest, device, left)
    shapes = _shapes(nest, left, device.threads_per_block)
    if not len(shapes.blocks):
        return NEVER
    times = np.zeros((len(RESOURCES), len(shapes.blocks)))
    _Pricing(nest, device, left, shapes).price(times)
    times /= device.clock_ghz
    together = times.max(axis=0)
    place = int(together.argmin())
    numbers = {"blocks": shapes.blocks, "threads": shapes.threads, "copies": shapes.copies}
    return Cost(
        tuple(times.min(axis=1).tolist()),
        float(together[place]),
        tuple((name, int(values[place])) for name, values in numbers.items()),
        tuple(times[:, place].tolist()),
    )


def _coarse(nest: Nest, device: GpuDevice, left: State) -> Cost:
    """What arithmetic takes with the most blocks and the most threads, while too many ways are left."""
    if nest.tensor_bytes and all(w.fragments.any() for w in _sides(nest, left.ways)):
        return NOTHING
    blocks = left.repeated * math.prod(float(way.blocks.max()) for way in left.ways)
    threads = math.prod(float(way.threads.max()) for way in left.ways)
    sms, cycles = min(blocks, device.sms), [0.0] * len(RESOURCES)
    for unit, count in nest.work:
        if rate := _per_cycle(device).get(unit):
            cycles[unit] = count / sms / rate
    cycles[ISSUE] = nest.issued / sms / device.warp / device.instructions_per_cycle
    cycles[SERIAL] = nest.issued / blocks / min(threads, device.threads_per_block) / _at_once(device)
    times = tuple(each / device.clock_ghz for each in cycles)
    return Cost(times, max(times))


def _per_cycle(device: GpuDevice) -> dict[int, float]:
    """Threads that an SM runs in a cycle of what occupies a unit."""
    rates = device.throughput
    return {F32: rates.f32, F64: rates.f64, I32: rates.i32, SPECIAL: rates.special}


def _at_once(device: GpuDevice) -> float:
    """Instructions of a thread in a cycle: one, or two where schedulers issue two."""
    return max(1.0, device.instructions_per_cycle / 4)


@dataclass(frozen=True, slots=True)
class _Shapes:
    """All combinations of the ways of all indices, an element each."""

    ways: tuple[Ways, ...]
    """By index."""
    blocks: Numbers
    threads: Numbers
    """Of a block, that the nest tells apart."""
    copies: Numbers
    """Of free indices."""
    is_on_tensor_cores: npt.NDArray[np.bool_]


def _sides(nest: Nest, ways: Sequence[Ways]) -> list[Ways]:
    """Of the indices that may have a side of a fragment."""
    return [way for way, is_side in zip(ways, nest.fragments, strict=True) if is_side]


def _shapes(nest: Nest, left: State, most_threads: int) -> _Shapes:
    """Those that the threads of a block and the registers of sums have room for."""
    counts = tuple(map(len, left.ways))
    places = np.unravel_index(np.arange(math.prod(counts)), counts)
    threads = _product(w.threads[p] for w, p in zip(left.ways, places, strict=True))
    free = [(w, p) for w, p, r in zip(left.ways, places, nest.is_reduced, strict=True) if not r]
    copies = _product(w.copies[p] for w, p in free)
    sides = [w.fragments[p] for w, p, s in zip(left.ways, places, nest.fragments, strict=True) if s]
    has_fragments = _product(sides) if sides else np.zeros(1)
    is_allowed = np.broadcast_to(threads <= most_threads, places[0].shape)
    for side in sides:
        is_allowed = is_allowed & (side == has_fragments)
    if left.most_copies is not None:
        # Copies of a body are counted, not the columns that a thread has of a fragment.
        is_allowed = is_allowed & (copies <= left.most_copies * (1 + (COLUMNS_OF_THREAD - 1) * has_fragments))
    kept = is_allowed.nonzero()[0]
    ways = tuple(w.at(p[kept]) for w, p in zip(left.ways, places, strict=True))
    ones = np.ones(len(kept))
    return _Shapes(
        ways,
        ones * left.repeated * _product(way.blocks for way in ways),
        ones * _product(way.threads for way in ways),
        ones * _product(way.copies for way, r in zip(ways, nest.is_reduced, strict=True) if not r),
        np.broadcast_to(has_fragments > 0, places[0].shape)[kept] & (nest.tensor_bytes > 0),
    )


@dataclass(frozen=True, slots=True)
class _Pricing:
    """Everything in cycles of an SM, for all shapes at once."""

    nest: Nest
    device: GpuDevice
    left: State
    shapes: _Shapes

    def price(self, cycles: Numbers) -> None:
        """Fills in a row for each resource."""
        nest, device, left = self.nest, self.device, self.left
        blocks, threads = self.shapes.blocks, self.shapes.threads
        of_sm = np.ceil(blocks / device.sms)
        # Of all that blocks do, what the busiest SM does; blocks at the end of an index may do less.
        share = 1 / np.minimum(blocks, device.sms) if nest.is_ragged else of_sm / blocks
        # What stores is left to the threads that it tells apart; all others do the same.
        warps = np.ceil((threads if nest.moved else np.maximum(threads, left.threads)) / device.warp)
        in_warps = share * warps * device.warp / threads
        loads, accesses = self.loads()
        multiplies = self.shapes.is_on_tensor_cores
        instances = np.where(multiplies, nest.tensor_bytes / PRODUCT_BYTES, 1.0)
        moving = left.repeated * nest.moved / self.shapes.copies
        accesses = accesses + moving + self.combining()
        computed = nest.issued * instances
        executed = computed + accesses
        for unit, count in nest.work:
            if rate := _per_cycle(device).get(unit):
                cycles[unit] = np.where(multiplies, 0.0, count * in_warps / rate)
            if nest.tensor_bytes:
                rate = device.throughput.tensor * 2 / nest.tensor_bytes
                cycles[TENSOR] += np.where(multiplies, count * in_warps / rate, 0.0)
        cycles[ISSUE] = executed * in_warps / device.warp / device.instructions_per_cycle
        cycles[MEMORY] = accesses * in_warps / device.throughput.memory
        for operand, reading, loaded in zip(nest.operands, left.readings, loads, strict=True):
            if reading.source in (Source.DIRECT, Source.COPIED):
                is_placed = reading.source is Source.DIRECT
                sectors = np.maximum(warps, self.sectors(operand, reading.lanes, is_placed=is_placed))
                self.add_sectors(cycles, loaded, sectors, share)
            elif reading.source is Source.SHARED:
                nbytes = reading.lanes * operand.item_bytes
                touched = self.distinct_bytes(operand, reading.lanes) / device.shared_bytes_per_cycle
                # What several threads load together of a fragment takes half of their passes, or more.
                passes = np.where(multiplies, LANES_OF_LOAD / 2, 1) * loaded
                conflicts = reading.passes * reading.lanes
                of_warp = np.where(multiplies, 1, max(1, nbytes / PASS_BYTES, conflicts))
                cycles[SHARED] += share * passes / threads * np.maximum(of_warp * warps, touched)
        if nest.access is not None:
            sectors = np.maximum(warps, self.sectors(nest.access, self.shapes.copies))
            # What an L1 cache makes of stores is not known.
            self.add_sectors(cycles, moving, sectors, share if nest.copy is not None else 0.0)
        # As often as blocks of an SM follow each other.
        at_once = self.resident(np.maximum(threads, left.threads))
        # Where the last blocks may be shorter than others, the busiest SM has as much as all have on average.
        turns = np.maximum(1, blocks / (device.sms * at_once)) if nest.is_ragged else np.ceil(of_sm / at_once)
        of_thread = turns / blocks / threads / _at_once(device)
        cycles[SERIAL] = of_thread * executed
        cycles[CHAIN] = np.where(multiplies, 0.0, turns * self.chain())
        ends = np.where(multiplies, 0.0, turns * nest.chain_cycles)
        # Loads are issued while the first one is under way; what needs them comes behind it.
        waited = turns * min(device.latency.l1, device.latency.shared) if nest.operands else 0.0
        behind = waited + np.maximum(of_thread * computed, cycles[CHAIN] + ends)
        cycles[LATENCY] = np.maximum(cycles[SERIAL], behind)

    def add_sectors(
        self, cycles: Numbers, accesses: Numbers, of_block: Numbers, share: Numbers | float
    ) -> None:
        """What accesses of all threads move, where one of a whole block touches so many sectors.

        `share`: of the busiest SM, of what goes through its L1 cache.
        """
        nbytes = accesses / self.shapes.threads * of_block * SECTOR_BYTES
        cycles[L1] += share * nbytes / self.device.l1_bytes_per_cycle
        if not self.device.caches_loads:
            cycles[L2] += nbytes * self.device.clock_ghz / self.device.l2_bytes_per_ns

    def loads(self) -> tuple[list[Numbers], Numbers]:
        """Loads of all threads together: by operand, each the least that it may be, and of all operands.

        A thread needs each of its elements once. Between two iterations of the loops around a sum, registers
        keep as many as there are of them; the rest is loaded again.
        """
        nest = self.nest
        if not nest.operands:
            return [], np.zeros(1)
        rest, segment = self.rest(), self.segment()
        segments, is_long = self.segments()
        read = list(zip(nest.operands, self.left.readings, strict=True))
        owns = [[n for n, is_own in enumerate(operand.own) if is_own] for operand, _ in read]
        once = [_product(rest[n] for n in own) for own in owns]
        again = [segments * _product(segment[n] for n in own) for own in owns]
        # Of fragments, each thread of a warp has a part of what several of them need.
        is_long = is_long & ~self.shapes.is_on_tensor_cores
        together = np.where(self.shapes.is_on_tensor_cores, LANES_OF_LOAD, 1)
        registers = segments * self.device.registers_per_thread
        needed = [
            np.where(is_long, np.maximum(o, a - registers), o) / together
            for o, a in zip(once, again, strict=True)
        ]
        least = [elements / reading.lanes for elements, (_, reading) in zip(needed, read, strict=True)]
        # Registers save most where loads have the fewest lanes.
        swept: Numbers = np.zeros(1)
        for elements, (_, reading) in sorted(
            zip(again, read, strict=True), key=lambda pair: pair[1][1].lanes
        ):
            saved = np.minimum(elements, registers)
            swept = swept + (elements - saved) / reading.lanes
            registers = registers - saved
        total = sum(least, np.zeros(1))
        total = np.where(is_long, np.maximum(total, swept), total)
        all_threads = self.shapes.blocks * self.shapes.threads
        return [each * all_threads for each in least], total * all_threads

    def combining(self) -> Numbers:
        """Accesses of all threads by which those that share a sum make one result of what each has of it.

        Each of up to five shuffles halves what is left. Of more threads, each writes what it has and reads
        that of at least two: 2.5 accesses or more for what a shuffle would do.
        """
        halvings = np.log2(
            _product(w.threads for w, r in zip(self.shapes.ways, self.nest.is_reduced, strict=True) if r)
        )
        most = math.log2(self.device.warp)
        results = _product(rest for rest, r in zip(self.rest(), self.nest.is_reduced, strict=True) if not r)
        needed = np.minimum(halvings, most) + 2.5 * np.maximum(halvings - most, 0)
        return needed * results * self.shapes.blocks * self.shapes.threads

    def rest(self) -> list[Numbers]:
        """By index, iterations of one thread."""
        extents = zip(self.shapes.ways, self.nest.extents, strict=True)
        return [extent / (way.blocks * way.threads) for way, extent in extents]

    def segment(self) -> list[Numbers]:
        """The same of one iteration of the loops around a sum."""
        indices = zip(self.rest(), self.shapes.ways, self.nest.is_reduced, strict=True)
        return [rest if is_reduced else way.copies for rest, way, is_reduced in indices]

    def segments(self) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """Their number in a thread, and whether they certainly follow each other.

        Short ones a compiler may unroll into one piece, which it arranges as it likes.
        """
        accumulated = _product(self.segment())
        return _product(self.rest()) / accumulated, (accumulated >= LONGEST_UNROLLED) & self.nest.is_swept

    def own_threads(self, operand: Operand) -> Numbers:
        """Threads of a block that read different elements."""
        return _product(w.threads for w, own in zip(self.shapes.ways, operand.own, strict=True) if own)

    def sectors(self, operand: Operand, lanes: Numbers | int, *, is_placed: bool = True) -> Numbers:
        """That one load touches in a block: where elements are in their places, threads lie steps apart.

        All of the block at once, or warp by warp, by the threads that a warp can tell apart.
        """
        found: Numbers = np.ones(1)
        sharing: Numbers = np.ones(1)
        for way, step, is_apart in zip(self.shapes.ways, operand.steps, operand.is_apart, strict=True):
            in_sector = np.ceil(1 / np.minimum(way.steps * step, 1.0)) if step and is_placed else np.inf
            along = np.maximum(way.threads / in_sector, 1.0)
            found = found * along if is_apart else np.maximum(found, along)
            sharing = sharing * (np.minimum(way.lanes, in_sector) if is_apart else way.lanes)
        touched = self.distinct_bytes(operand, lanes) / SECTOR_BYTES
        of_warps = self.of_threads(1 / np.minimum(sharing, self.device.warp))
        return np.maximum(np.maximum(found, touched), of_warps)

    def distinct_bytes(self, operand: Operand, lanes: Numbers | int) -> Numbers:
        """That a block loads at once, and that its warps load, each by itself."""
        nbytes = lanes * operand.item_bytes
        shared = (w.lanes for w, own in zip(self.shapes.ways, operand.own, strict=True) if not own)
        of_warps = self.of_threads(nbytes / np.minimum(_product(shared), self.device.warp))
        return np.maximum(self.own_threads(operand) * nbytes, of_warps)

    def of_threads(self, of_each: Numbers) -> Numbers:
        """Of a block, what is so much for each; of those that hold a fragment together, nothing is said."""
        return np.where(self.shapes.is_on_tensor_cores, 0.0, self.shapes.threads * of_each)

    def chain(self) -> Numbers | float:
        """Cycles that a thread waits for its own sums, up to the last term: one follows the other.

        Threads issue their instructions in order: what follows a segment begins when its last term does.
        """
        nest = self.nest
        if not nest.chain_cycles:
            return 0.0
        terms = _product(
            rest / (way.copies if self.left.may_split else 1)
            for rest, way, is_reduced in zip(self.rest(), self.shapes.ways, nest.is_reduced, strict=True)
            if is_reduced
        )
        segments, is_long = self.segments()
        return nest.chain_cycles * np.where(is_long, segments, 1) * np.maximum(terms - 1, 0)

    def resident(self, threads: Numbers) -> Numbers:
        """Blocks that an SM has room for at a time."""
        device, nest = self.device, self.nest
        threads = np.ceil(threads / device.warp) * device.warp
        terms = _product(r for r, is_reduced in zip(self.rest(), nest.is_reduced, strict=True) if is_reduced)
        is_kept = (terms >= LONGEST_UNROLLED) & nest.is_swept
        registers = np.where(is_kept, np.minimum(self.shapes.copies, device.registers_per_thread), 1)
        rooms = np.minimum(device.threads_per_sm // threads, device.registers_per_sm // (threads * registers))
        nbytes = self.left.shared_bytes
        most = min(device.blocks_per_sm, device.shared_bytes_per_sm // nbytes if nbytes else math.inf)
        return np.maximum(np.minimum(rooms, most), 1)


def _product(columns: Iterable[Numbers]) -> Numbers:
    found: Numbers = np.ones(1)
    for column in columns:
        found = found * column
    return found
