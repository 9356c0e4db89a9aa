"""The loops of an instruction: how they may be nested, which operands they read, and what is kept of these.

In: an instance and a device. Out: a `Nest` for each instruction that certainly runs and reads tensors which
the kernel does not write, with all sets of dimensions that may be the innermost ones. What an order of loops
costs a candidate is the business of `loop_orders.py`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.kernels.device import CpuDevice, MemoryLevel
from spacedsl.kernels.linalg.backbone import Access, Dimension, Instruction, Value
from spacedsl.kernels.linalg.operations import Op
from spacedsl.search.bounds.certain import (
    LINE_BYTES,
    Alternatives,
    Footprint,
    distinct_indices,
    least_lines,
)
from spacedsl.search.bounds.domains import Bits, detours, order_bits, parallel_inside, with_kind
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
    sharers: int
    """Threads of which each may find inside what the others have brought there, itself counted."""


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
    is_copied_outside = not parallel_inside(instance, root, copying, dims)
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
        # A segment then runs in one thread. Dimensions of what only reloads are in follow those of the nest.
        borders=_borders(device, is_copied_outside and not parallel_inside(instance, root, dims, dims)),
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
    own = {logical.index for logical in load.logical_dims}
    return Operand(
        load,
        tuple(dim for dim in user.dims if dim.index in own),
        tuple((made, user.dims.index(used)) for made, used in followers(load, user)),
        item_bytes,
        tuple(index in kept for index in indices),
        tuple(strides.get(index, 0) * item_bytes for index in indices),
        max(LINE_BYTES, item_bytes) if _is_sparse(access) else item_bytes,
        detours(instance, load, user),
    )


def _is_sparse(access: Access) -> bool:
    """Whether no two of the elements that `distinct_indices` tell apart share a line."""
    item_bytes, kept = access.tensor.dtype.nbytes, distinct_indices(access)
    steps = [(abs(stride) * item_bytes, dim.extent) for dim, stride in access.strides if dim.index in kept]
    return least_lines(steps, item_bytes) == math.prod(extent for _, extent in steps)


def early_bytes(device: CpuDevice) -> int:
    """That a core may hold of what it reads later, besides its caches."""
    return kept_values(device) * (device.vector_bytes + LINE_BYTES) + EARLY_LOADS * LINE_BYTES


def _borders(device: CpuDevice, is_private: bool) -> tuple[Border, ...]:
    """All but that between registers and the first cache, where load instructions count.

    What lies in the caches of those threads counts that share the outermost one inside, where segments run
    in one thread each; else what lies in all of them: it may be read from the private cache of another core.
    Loads that the processor has begun early, before the segment, belong to what was there; and a register
    stands for all lines that its value lies in.
    """
    found: list[Border] = []
    for position, level in enumerate(device.memory[1:], 1):
        inside = device.memory[:position]
        sharers = _sharers(inside[-1], device.threads) if is_private else device.threads
        kept = [_kept_by(m, sharers, device.threads) for m in inside]
        found.append(Border(level, sum(kept) + sharers * early_bytes(device), sharers))
    return tuple(found)


def _sharers(level: MemoryLevel, threads: int) -> int:
    """Threads that share one cache of a level, at most: all of them where it is not known."""
    if level.core_bytes is None or level.capacity_bytes is None:
        return threads
    return min(threads, math.ceil(level.core_bytes * threads / level.capacity_bytes))


def _kept_by(level: MemoryLevel, threads: int, of_threads: int) -> int:
    """Bytes in those caches of a level that are those of some threads, which share one farther outside."""
    capacity_bytes = level.capacity_bytes or 0
    if threads == of_threads or level.core_bytes is None:
        return capacity_bytes
    return min(capacity_bytes, math.ceil(threads / _sharers(level, of_threads)) * level.core_bytes)


def copied_inside(
    instance: Instance,
    root: Candidate,
    inner: Dimension,
    outer: Iterable[Dimension],
    apart: Collection[str] = ("UNROLL", "VECTOR"),
) -> set[Dimension]:
    """Those dimensions inside which another one can only be of a kind that keeps registers apart."""
    bits, found = order_bits(instance), set(outer)
    for kind in instance.universe("dim_kind", inner):
        if kind not in apart:
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


def members(mask: int) -> Iterator[int]:
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1
