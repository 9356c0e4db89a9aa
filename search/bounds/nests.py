"""What the order of loops costs: operands that registers and caches cannot keep until they are used again.

In: an instance, then views of candidates. Out: nanoseconds. The dimensions of an instruction become loops in
some order. Cut this order anywhere: all loops inside the cut run as one *segment*, once for each iteration of
the loops outside. A segment touches a certain footprint, of which registers or caches held no more at its
beginning than they have room for; the rest has to come in, in every segment. Where tiles may end early,
segments differ: what all of them touch, less what is there at each beginning, is what an average segment
touches, less that, times their number. So every set of innermost
dimensions gives a bound, an order of loops gives the largest of those that it passes through, and a candidate
the least over all orders that its domains still allow. Where sizes are open, the least over them is taken.

Nothing is said about instructions other than the one whose dimensions these are, and its operands in memory.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.kernels.device import CpuDevice, MemoryLevel
from spacedsl.kernels.linalg.backbone import Dimension, Instruction, Op, Value
from spacedsl.search.bounds.certain import (
    LINE_BYTES,
    LONGEST_UNROLLED,
    Alternatives,
    Footprint,
    distinct_elements,
    distinct_indices,
    distinct_lines,
    least_lines,
)
from spacedsl.search.bounds.domains import Bits, View, detours, order_bits, with_kind
from spacedsl.search.bounds.rates import read_rate
from spacedsl.search.bounds.reductions import followers, kept_values

EARLY_LOADS = 256
"""More loads than any processor has under way (today's have 72 to 192): what they touch was there before."""

MOST_CUTS = 4096
"""Sets of innermost dimensions of one nest that are looked at; a nest with more of them is left out."""

MOST_DIMS = 20
MOST_INDICES = 8
"""The same of larger nests, and of those with more indices or operands: none has been met."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor that the instruction reads in its nest, by one load."""

    load: Instruction
    dims: tuple[Dimension, ...]
    """Of the nest: those whose vectors can be vectors of the operand."""
    made: tuple[tuple[Dimension, int], ...]
    """Dimensions of the load, and those of the nest that follow them: where the value is copied, a compiler
    may take the elements out of the load's vectors."""
    item_bytes: int
    indices: tuple[bool, ...]
    """For each index of the nest, whether different values of it lead to different elements."""
    steps: tuple[int, ...]
    """For each index of the nest, the bytes from one value to the next; 0 where it does not matter."""
    element_bytes: int
    """That cross a border with each element: a line where no two elements share one."""
    copies: Bits
    """By which a copy may be read instead, which lies in memory in another way: then neither is certain."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A set of innermost dimensions, as a mask, and those that can be the next one outside."""

    inner: int
    outwards: tuple[tuple[int, int], ...]
    """Pairs (dimension, position of the cut that it leads to)."""


@dataclass(frozen=True, slots=True)
class Border:
    """What lies between a core and a level of memory."""

    level: MemoryLevel
    kept_bytes: int
    """That a segment can find inside at its beginning."""


@dataclass(frozen=True, slots=True, eq=False)
class Nest:
    """The loops of one instruction. Dimensions and indices are numbered by their positions here."""

    instruction: Instruction
    extents: tuple[int, ...]
    ragged: tuple[bool, ...]
    """For each index, whether its last tile may end early."""
    dims: tuple[Dimension, ...]
    index_of: tuple[int, ...]
    """For each dimension, its index."""
    inner_levels: tuple[tuple[int, ...], ...]
    """For each dimension, the levels of its index inside it."""
    operands: tuple[Operand, ...]
    borders: tuple[Border, ...]
    kept_loads: int
    """Values that registers can hold at the beginning of a segment."""
    sharing: tuple[Dimension, ...]
    """Those whose threads bring in what a segment touches."""
    order_cells: Mapping[tuple[int, int], int]
    """Where the domain of order(a, b) lies."""
    copied: tuple[int, ...]
    """For each dimension, a mask of those that lie inside it only as unrolled copies or lanes."""
    cuts: tuple[Cut, ...]
    """Each after those that it contains; the first is empty."""

    @property
    def all_dims(self) -> int:
        return (1 << len(self.dims)) - 1


# ---- What is known from the start ----------------------------------------------------------------------


def nests(
    instance: Instance, device: CpuDevice, work: Sequence[Alternatives], touched: Sequence[Footprint]
) -> tuple[Nest, ...]:
    """Of the instructions that certainly run and read tensors that the kernel does not write."""
    root = instance.root()
    if root is None or order_bits(instance) == (0, 0):
        return ()
    readable = {load for footprint in touched for load in footprint.loads}
    found: dict[Instruction, Nest | None] = {}
    for members in work:
        instruction = members[0].instruction
        loads = [o.instruction for o in instruction.operands if isinstance(o, Value)]
        loads = [load for load in dict.fromkeys(loads) if load.op is Op.LOAD and load in readable]
        if len(members) == 1 and loads and instruction.dims and instruction not in found:
            found[instruction] = _nest(instance, device, root, instruction, loads)
    return tuple(nest for nest in found.values() if nest is not None)


def _nest(
    instance: Instance,
    device: CpuDevice,
    root: Candidate,
    instruction: Instruction,
    loads: Sequence[Instruction],
) -> Nest | None:
    dims = instruction.dims
    if len(dims) > MOST_DIMS or max(len(instruction.logical_dims), len(loads)) > MOST_INDICES:
        return None
    order_cells = {
        (a, b): instance.offset("order", dims[a], dims[b])
        for a, b in itertools.permutations(range(len(dims)), 2)
    }
    cuts = _cuts(len(dims), _around(instance, order_cells, root.vector, len(dims)))
    if cuts is None:
        return None
    indices = [logical.index for logical in instruction.logical_dims]
    place = {dim: number for number, dim in enumerate(dims)}
    tensors: dict[object, Operand] = {}
    for load in loads:
        if load.access is not None:
            tensors.setdefault(load.access.tensor, _operand(instance, load, instruction, indices))
    kept_loads = kept_values(device)
    copying = tuple(dim for load in loads for dim in load.dims)
    is_copied_outside = _is_outermost(instance, root, copying, dims)
    copied = {
        free: copied_inside(instance, root, free, instruction.reduced_dims)
        for free in dims
        if not free.is_reduction
    }
    return Nest(
        instruction=instruction,
        extents=tuple(logical.extent for logical in instruction.logical_dims),
        ragged=tuple(logical.is_ragged for logical in instruction.logical_dims),
        dims=dims,
        index_of=tuple(indices.index(dim.index) for dim in dims),
        inner_levels=tuple(tuple(place[d] for d in dim.inner_levels) for dim in dims),
        operands=tuple(tensors.values()),
        borders=_borders(device, is_copied_outside and _is_outermost(instance, root, dims, dims)),
        kept_loads=kept_loads,
        sharing=dims if is_copied_outside else (*dims, *copying),
        order_cells=order_cells,
        copied=tuple(
            sum(1 << place[free] for free, reduced in copied.items() if dim in reduced) for dim in dims
        ),
        cuts=cuts,
    )


def _operand(instance: Instance, load: Instruction, user: Instruction, indices: Sequence[str]) -> Operand:
    access = load.access
    assert access is not None
    item_bytes = access.tensor.dtype.nbytes
    kept = distinct_indices(access)
    strides = {logical.index: abs(stride) for logical, stride in access.strides}
    is_sparse = distinct_lines(access) == distinct_elements(access)
    own = {logical.index for logical in load.logical_dims}
    return Operand(
        load,
        tuple(dim for dim in user.dims if dim.index in own),
        tuple((made, user.dims.index(used)) for made, used in followers(load, user)),
        item_bytes,
        tuple(index in kept for index in indices),
        tuple(strides.get(index, 0) * item_bytes for index in indices),
        max(LINE_BYTES, item_bytes) if is_sparse else item_bytes,
        detours(instance, load, user),
    )


def early_bytes(device: CpuDevice) -> int:
    """That a core may hold of what it reads later, besides its caches."""
    return kept_values(device) * (device.vector_bytes + LINE_BYTES) + EARLY_LOADS * LINE_BYTES


def _borders(device: CpuDevice, is_private: bool) -> tuple[Border, ...]:
    """All but that between registers and the first cache, where load instructions count.

    What one core keeps counts where segments run on one core and no cache inside is shared: what is shared
    may be read from the private cache of another core. Loads that the processor has begun early, before the
    segment, belong to what was there; and a register stands for all lines that its value lies in.
    """
    found: list[Border] = []
    for position, level in enumerate(device.memory[1:], 1):
        inside = device.memory[:position]
        own = [m.core_bytes for m in inside if m.core_bytes is not None and m.core_bytes != m.capacity_bytes]
        if is_private and device.threads > 1 and len(own) == len(inside):
            kept = sum(own)
        else:
            kept = sum(m.capacity_bytes or 0 for m in inside)
        found.append(Border(level, kept + early_bytes(device)))
    return tuple(found)


def _is_outermost(
    instance: Instance, root: Candidate, dims: Sequence[Dimension], nest: Sequence[Dimension]
) -> bool:
    """Whether no dimension can be both parallel and inside one of a nest: a segment then runs in one thread.

    What only reloads are in need not be asked: their dimensions follow those of the nest.
    """
    inner = order_bits(instance).inner
    return not any(
        candidate.vector[instance.offset("order", dim, other)] & inner
        for dim in dims
        if (candidate := with_kind(instance, root, dim, "PARALLEL")) is not None
        for other in nest
        if other is not dim
    )


def copied_inside(
    instance: Instance, root: Candidate, inner: Dimension, outer: Iterable[Dimension]
) -> set[Dimension]:
    """Those dimensions inside which another one can only be unrolled or a vector."""
    bits, found = order_bits(instance), set(outer)
    for kind in instance.universe("dim_kind", inner):
        if kind not in ("UNROLL", "VECTOR"):
            candidate = with_kind(instance, root, inner, str(kind))
            if candidate is not None:
                vector = candidate.vector
                found -= {d for d in found if vector[instance.offset("order", inner, d)] & bits.inner}
    return found


def _around(
    instance: Instance, cells: Mapping[tuple[int, int], int], vector: Sequence[int], count: int
) -> list[tuple[int, int]]:
    """For each dimension, masks of those that may lie inside it, and of those that it may lie inside."""
    bits = order_bits(instance)
    found = [(0, 0)] * count
    for (a, b), cell in cells.items():
        inside, outside = found[a]
        inside |= bool(vector[cell] & bits.outer) << b
        outside |= bool(vector[cell] & bits.inner) << b
        found[a] = inside, outside
    return found


def may_follow(inner: int, dim: int, everything: int, around: Sequence[tuple[int, int]]) -> bool:
    """Whether `dim` can be the next dimension outside of those in `inner`, and inside of all others."""
    inside, outside = around[dim]
    return not (inner & ~inside or everything & ~inner & ~(1 << dim) & ~outside)


def _cuts(count: int, around: Sequence[tuple[int, int]]) -> tuple[Cut, ...] | None:
    everything = (1 << count) - 1
    positions = {0: 0}
    masks = [0]
    outwards: list[list[tuple[int, int]]] = []
    for inner in masks:  # grows meanwhile, so that sets come after those that they contain
        ways: list[tuple[int, int]] = []
        for dim in range(count):
            outer = inner | 1 << dim
            if outer == inner or not may_follow(inner, dim, everything, around):
                continue
            if outer not in positions:
                if len(masks) >= MOST_CUTS:
                    return None
                positions[outer] = len(masks)
                masks.append(outer)
            ways.append((dim, positions[outer]))
        outwards.append(ways)
    return tuple(Cut(inner, tuple(ways)) for inner, ways in zip(masks, outwards, strict=True))


# ---- A candidate ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pressure:
    """The least time over all orders, and the cut at which the best of these orders takes it."""

    time_ns: float
    inner: int
    resource: str
    """The level behind the border, or "loads"."""
    segments: float
    amount: float
    """That one segment touches: bytes, or load instructions."""


NOTHING = Pressure(0.0, 0, "", 0.0, 0.0)
NEVER = Pressure(math.inf, 0, "", 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class NestView:
    """A nest and what a candidate leaves of it. The reference of the compiled bound: simple, slow."""

    nest: Nest
    view: View

    def loads(self) -> Pressure:
        """Load instructions that registers cannot save."""
        return self._least(lambda inner: [self._loads(inner)])

    def traffic(self) -> Pressure:
        """Bytes that cross the borders of caches."""
        return self._least(lambda inner: [self._bytes(inner, border) for border in self.nest.borders])

    def _least(self, pressures: object) -> Pressure:
        """Over all orders, the least of the greatest pressure at any cut."""
        nest, view = self.nest, self.view
        around = [(0, 0)] * len(nest.dims)
        bits = view.order_bits
        for (a, b), cell in nest.order_cells.items():
            inside, outside = around[a]
            inside |= bool(view.vector[cell] & bits.outer) << b
            outside |= bool(view.vector[cell] & bits.inner) << b
            around[a] = inside, outside
        best: dict[int, Pressure] = {}
        for position in reversed(range(len(nest.cuts))):
            cut = nest.cuts[position]
            own = max(pressures(cut.inner), key=lambda p: p.time_ns, default=NOTHING)  # type: ignore[operator]
            ways = [
                best[to]
                for dim, to in cut.outwards
                if may_follow(cut.inner, dim, nest.all_dims, around) and self._has_registers(cut.inner, dim)
            ]
            # A set from which no order goes on is passed by none.
            end = NOTHING if cut.inner == nest.all_dims else NEVER
            beyond = min(ways, key=lambda p: p.time_ns, default=end)
            best[position] = max(own, beyond, key=lambda p: p.time_ns)
        return NOTHING if best[0] is NEVER else best[0]

    def _has_registers(self, inner: int, dim: int) -> bool:
        """Whether the copies of accumulators inside a reduced dimension can still be as many as needed."""
        copied = [self.nest.dims[d] for d in _members(inner & self.nest.copied[dim])]
        least = math.prod(self.view.freedoms[d].least for d in copied)
        if not self.nest.instruction.reduced_dims:
            return True
        return least <= self.view.accumulators(self.nest.instruction) * self.view.lanes(copied)

    def _loads(self, inner: int) -> Pressure:
        view, nest = self.view, self.nest
        lanes = {
            operand: view.lanes((*operand.dims, *(made for made, used in operand.made if inner >> used & 1)))
            for operand in nest.operands
        }
        rate = view.rates.most_loads([o.load for o in nest.operands])
        widest = view.lanes(nest.dims)
        least = Pressure(math.inf, inner, "loads", 0.0, 0.0)
        for sizes in self._corners(inner):
            segments = self._segments(sizes)
            loads = sum(_elements(operand, sizes) / lanes[operand] for operand in nest.operands)
            missing = loads - nest.kept_loads
            if math.prod(sizes) / widest < LONGEST_UNROLLED:
                missing = 0.0
            time_ns = segments * max(0.0, missing) / (rate * view.speedup(nest.dims))
            if time_ns < least.time_ns:
                least = Pressure(time_ns, inner, "loads", segments, loads)
        return least

    def _bytes(self, inner: int, border: Border) -> Pressure:
        """Where all dimensions are inside, what was there before the run counts: not here."""
        view, nest = self.view, self.nest
        if inner == nest.all_dims:
            return NOTHING
        rate = read_rate(border.level, view.threads(nest.sharing), view.rates.device.threads)
        lines = [self._lines(operand, inner) for operand in nest.operands]
        element_bytes = [o.item_bytes if view.may_be(o.copies) else o.element_bytes for o in nest.operands]
        least = Pressure(math.inf, inner, border.level.name, 0.0, 0.0)
        for sizes in self._corners(inner):
            segments = self._segments(sizes)
            touched = sum(
                max(_elements(operand, sizes) * nbytes, n * LINE_BYTES)
                for operand, nbytes, n in zip(nest.operands, element_bytes, lines, strict=True)
            )
            time_ns = segments * max(0.0, touched - border.kept_bytes) / rate
            if time_ns < least.time_ns:
                least = Pressure(time_ns, inner, border.level.name, segments, touched)
        return least

    def _segments(self, sizes: Sequence[float]) -> float:
        return math.prod(extent / size for extent, size in zip(self.nest.extents, sizes, strict=True))

    def _corners(self, inner: int) -> Iterator[tuple[float, ...]]:
        """Least and greatest numbers of values of each index inside a cut, in all combinations.

        Footprint and number of segments are monotone in 1 / n for each index, and so is what follows from
        them: the least time over all sizes is that of a corner. Of a ragged index these are averages.
        """
        ranges: list[tuple[float, ...]] = []
        for index, extent in enumerate(self.nest.extents):
            least: float
            most: float
            within, around = [1, 1], [1, 1]
            for number, dim in enumerate(self.nest.dims):
                if self.nest.index_of[number] == index:
                    freedom = self.view.freedoms[dim]
                    product = within if inner >> number & 1 else around
                    product[0] *= freedom.least
                    product[1] *= freedom.most
            least = max(within[0], -(-extent // around[1]))
            most = max(least, min(within[1], extent // around[0]))
            if self.nest.ragged[index]:
                most = average(extent, max(least, min(within[1], extent)))
                least = average(extent, least)
            ranges.append((least,) if least == most else (least, most))
        return itertools.product(*ranges)

    def _lines(self, operand: Operand, inner: int) -> float:
        """Cache lines of an operand inside a cut; 0 where its place is not certain, or the size of a tile.

        Of an index that lies inside as a whole, every segment has all values, whatever the sizes. Where
        segments differ, those that are whole count, and the average is over all.
        """
        if self.view.may_be(operand.copies):
            return 0
        nest = self.nest
        within = {nest.index_of[d] for d in range(len(nest.dims)) if inner >> d & 1}
        around = {nest.index_of[d] for d in range(len(nest.dims)) if not inner >> d & 1}
        split = within & around
        inside = [1] * len(nest.extents)
        steps = [
            (step, extent)
            for index, (step, extent) in enumerate(zip(operand.steps, nest.extents, strict=True))
            if step and index not in around
        ]
        for number, dim in enumerate(nest.dims):
            step = operand.steps[nest.index_of[number]]
            freedom = self.view.freedoms[dim]
            if not step or nest.index_of[number] not in split:
                continue
            if freedom.least != freedom.most:
                return 0
            if inner >> number & 1:
                inside[nest.index_of[number]] *= freedom.least
                tile = (self.view.freedoms[nest.dims[d]].least for d in nest.inner_levels[number])
                steps.append((step * math.prod(tile), freedom.least))
        whole = math.prod(
            (extent // size) / -(-extent // size)
            for index, (extent, size) in enumerate(zip(nest.extents, inside, strict=True))
            if nest.ragged[index] and operand.steps[index] and index in split
        )
        return least_lines(steps, operand.item_bytes) * whole


def average(extent: int, size: int) -> float:
    """Of the pieces of `size` that an index falls into, the last of which may be smaller."""
    return extent / -(-extent // size)


def _elements(operand: Operand, sizes: Sequence[float]) -> float:
    return math.prod(size for size, matters in zip(sizes, operand.indices, strict=True) if matters)


def _members(mask: int) -> Iterator[int]:
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1
