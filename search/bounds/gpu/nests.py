"""What the nest of one instruction needs of a GPU, whatever is decided: the static half of the bound.

In: an instance of a linear-algebra kernel. Out: a `Nest` for each instruction that certainly runs and
computes or stores, and for each load that may become a copy: how often which unit, the operands that it reads
out of memory and where the domains lie that say more. A tensor's loads count in one nest only, the one with
most iterations that reads it: equal loads may be merged. Nothing here depends on a candidate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.kernels.gpu_device import SECTOR_BYTES, GpuDevice
from spacedsl.kernels.linalg.backbone import Access, Accumulator, Dimension, Instruction, Value
from spacedsl.kernels.linalg.fragments import ROW_BYTES
from spacedsl.kernels.linalg.operations import Op
from spacedsl.kernels.tensors import Tensor
from spacedsl.language.host import HostExpression
from spacedsl.language.space import Counter, Use, Visibility
from spacedsl.search.bounds.arithmetic import operations
from spacedsl.search.bounds.certain import (
    Footprint,
    distinct_elements,
    distinct_indices,
    extent_of,
    varying_indices,
)
from spacedsl.search.bounds.domains import Bits, Place, is_always, linalg_kernel, values_of
from spacedsl.search.bounds.gpu.banks import Banks
from spacedsl.search.bounds.gpu.ways import IndexPlaces
from spacedsl.search.bounds.nests import copied_inside
from spacedsl.search.bounds.unrolling import unroll_counters

RESOURCES = (
    "f32 units",
    "f64 units",
    "i32 units",
    "special units",
    "tensor cores",
    "issue",
    "memory units",
    "L1",
    "L2, loads",
    "shared memory",
    "threads",
    "sums",
    "latency",
)
"""What nests need, one after the other: their times add up. Of threads, it is what one of them issues.

Loops that are fused wait for all that they sum at the same time. So times of sums, which wait for their own
terms, add up where one follows from the other, and latencies, what the threads of a nest take, never do.
"""
F32, F64, I32, SPECIAL, TENSOR, ISSUE, MEMORY, L1, L2, SHARED, SERIAL, CHAIN, LATENCY = range(len(RESOURCES))

_APPROXIMATED = (Op.EXP, Op.TANH, Op.SIGMOID, Op.GELU)
"""Functions that take an approximation of `exp2` or `1/x` for each value."""

_APART = ("UNROLL", "VECTOR", "THREAD", "BLOCK")
"""Kinds of dimensions whose iterations have registers of their own."""


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """A tensor that the instruction reads, by a load of its own or out of what a block has copied."""

    load: Instruction
    item_bytes: int
    own: tuple[bool, ...]
    """For each index of the nest, whether different values of it lead to different elements."""
    steps: tuple[float, ...]
    """For each of these, sectors from one value to the next: below 1 where neighbours share one."""
    is_apart: tuple[bool, ...]
    """Whether all smaller steps together end in other sectors than those of the next value."""
    vectors: tuple[Place, ...]
    """Dimensions of the load that may be its vector."""
    registers: Bits
    shared: Bits
    copied: Bits
    """Values of `storage` by which it is loaded as it is, out of memory that a block shares, or out of other
    memory of the device."""
    bytes_cells: tuple[int, ...]
    """Where the least bytes of its copy lie."""
    copying: tuple[Place, ...]
    """The dimensions of the load: of its copy's nest."""
    banks: Banks | None
    """Of a copy in memory that a block shares."""


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """What a load is once its value goes through memory: a nest that puts a tensor there."""

    temporary: Bits
    """Values of `storage` by which it is one."""
    shared: Bits
    """Those by which each block makes one of its own."""
    around: tuple[Place, ...]
    """Dimensions of what uses it that it does not depend on: of memory that a block shares, each of these
    blocks has a copy of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Nest:
    """One instruction. Indices are numbered by their positions here."""

    instruction: Instruction
    indices: tuple[IndexPlaces, ...]
    extents: tuple[int, ...]
    is_reduced: tuple[bool, ...]
    is_ragged: bool
    work: tuple[tuple[int, float], ...]
    """Pairs (resource, instances) of what computes."""
    issued: int
    """Instructions for these, at least."""
    moved: int
    """Elements that it stores, or copies."""
    access: Operand | None
    """Of what it stores, or copies."""
    copy: Copy | None
    """Of a load."""
    operands: tuple[Operand, ...]
    is_swept: bool
    """Whether what is not copied of the free indices lies outside of all that is summed over."""
    most_copies: tuple[int, ...]
    """Where numbers lie that the copies of free indices do not exceed."""
    kind_bits: Mapping[str, int]
    """Of the domains of `dim_kind`."""
    chain_cycles: float
    """From one term of a sum to the next; 0 where they may be regrouped."""
    splits: Bits
    """By which copies accumulate apart."""
    fragments: tuple[bool, ...]
    """Whether an index may have a side of a fragment: all of these have, or none."""
    tensor_bytes: int
    """Of a factor that tensor cores may multiply; 0 where they may not."""


def nests(instance: Instance, device: GpuDevice, touched: Sequence[Footprint]) -> tuple[Nest, ...]:
    """Those of a kernel. `touched`: what is certainly read and written."""
    readable = {load for footprint in touched for load in footprint.loads}
    work = _work(instance)
    found = sorted(work, key=lambda i: -i.instances)
    taken: dict[Tensor, Instruction] = {}
    for instruction in found:
        for load in _loads(instruction, readable):
            assert load.access is not None
            taken.setdefault(load.access.tensor, instruction)
    return tuple(
        _nest(instance, device, instruction, work[instruction], _own_loads(instruction, readable, taken))
        for instruction in found
        if instruction.dims
    )


def _own_loads(
    instruction: Instruction, readable: set[Instruction], taken: dict[Tensor, Instruction]
) -> list[Instruction]:
    """At most one for each tensor."""
    found: dict[Tensor, Instruction] = {}
    for load in _loads(instruction, readable):
        if load.access is not None and taken[load.access.tensor] is instruction:
            found.setdefault(load.access.tensor, load)
    return list(found.values())


def _loads(instruction: Instruction, readable: set[Instruction]) -> Iterator[Instruction]:
    for operand in instruction.operands:
        if isinstance(operand, Value) and operand.instruction in readable:
            yield operand.instruction


def _work(instance: Instance) -> dict[Instruction, dict[int, int]]:
    """For each instruction that certainly runs, what it occupies how often."""
    kernel = linalg_kernel(instance)
    found: dict[Instruction, dict[int, int]] = {}
    for unit, classes in operations(kernel, has_starts=True).items():
        for first, *others in classes:
            instruction = first.instruction
            if others or unit in ("multiply", "add") or not is_always(instance, instruction):
                continue
            if instruction.op in _APPROXIMATED:
                values = extent_of(instruction, varying_indices(instruction))
                found[instruction] = {SPECIAL: values} if instruction.dtype.nbytes == 4 else {ISSUE: values}
            elif unit in ("divide", "root"):
                found[instruction] = {SPECIAL: first.iterations}
            else:
                found[instruction] = {_unit(instruction): first.iterations}
    for store in kernel.stores:
        if is_always(instance, store) and store.access is not None and store.access.tensor in kernel.tensors:
            found[store] = {}
    found.update({made: {} for made in kernel.storable if made.op is Op.LOAD and is_always(instance, made)})
    return found


def _unit(instruction: Instruction) -> int:
    if instruction.dtype.nbytes == 8:
        return F64
    return I32 if instruction.dtype.label == "i32" else F32


def _nest(
    instance: Instance,
    device: GpuDevice,
    instruction: Instruction,
    work: dict[int, int],
    loads: Sequence[Instruction],
) -> Nest:
    logical = instruction.logical_dims
    reduced = {d.index for d in instruction.reduced_dims}
    copied = ("VECTOR",) if instruction.is_access else ("UNROLL",)
    free = set(instruction.free_dims)
    counters = [c.upper_end for c in unroll_counters(instance, instruction) if c.dims >= free]
    return Nest(
        instruction=instruction,
        indices=tuple(
            IndexPlaces.of(instance, each, copied, device.warp, only_most=each.index in reduced)
            for each in logical
        ),
        extents=tuple(each.extent for each in logical),
        is_reduced=tuple(each.index in reduced for each in logical),
        is_ragged=any(each.is_ragged for each in logical),
        # One instruction adds three integers.
        work=tuple((unit, count / 2 if unit == I32 else count) for unit, count in work.items()),
        issued=sum(count if unit != I32 else count // 2 for unit, count in work.items()),
        moved=distinct_elements(instruction.access) if instruction.access is not None else 0,
        access=_operand(instance, device, instruction, instruction)
        if instruction.access is not None
        else None,
        copy=_copy(instance, instruction) if instruction.op is Op.LOAD else None,
        operands=tuple(_operand(instance, device, load, instruction) for load in loads),
        is_swept=bool(reduced) and _is_swept(instance, instruction),
        most_copies=tuple(counters) if instruction.reduced_dims else (),
        kind_bits={
            str(kind): 1 << bit for bit, kind in enumerate(instance.universe("dim_kind", instruction.dims[0]))
        },
        chain_cycles=_chain_cycles(instruction, device),
        splits=values_of(instance, instruction, ("SPLIT",)),
        fragments=tuple(each.dims[-1].fragment is not None for each in logical),
        tensor_bytes=_tensor_bytes(instruction) if device.has_tensor_cores else 0,
    )


def _tensor_bytes(instruction: Instruction) -> int:
    terms = [d.fragment_size for d in instruction.reduced_dims if d.fragment is not None]
    return ROW_BYTES // terms[0] if terms else 0


def _copy(instance: Instance, load: Instruction) -> Copy:
    own = {logical.index for logical in load.logical_dims}
    users = [user for user in load.consumers if is_always(instance, user)]
    # Of several users, any one may be the only one in its kernel.
    around = users[0].dims if len(users) == len(load.consumers) == 1 else ()
    return Copy(
        values_of(instance, load, ("SHARED", "GLOBAL")),
        values_of(instance, load, ("SHARED",)),
        tuple(Place.of(instance, d) for d in around if d.index not in own),
    )


def _chain_cycles(instruction: Instruction, device: GpuDevice) -> float:
    """Floating-point sums and products are not regrouped."""
    accumulates = any(isinstance(o, Accumulator) for o in instruction.operands)
    is_ordered = instruction.op in (Op.ADD, Op.FMA, Op.MUL) and instruction.dtype.label.startswith("f")
    if not (accumulates and is_ordered and instruction.reduced_dims):
        return 0.0
    return device.latency.f64 if instruction.dtype.nbytes == 8 else device.latency.f32


def _is_swept(instance: Instance, instruction: Instruction) -> bool:
    """Whether a free dimension inside a reduced one, of what a block does, has registers of its own.

    It is tried out on the root.
    """
    return all(
        (candidate := _in_blocks(instance, dim)) is not None
        and all(copied_inside(instance, candidate, free, (dim,), _APART) for free in instruction.free_dims)
        for dim in instruction.reduced_dims
    )


def _in_blocks(instance: Instance, dim: Dimension) -> Candidate | None:
    """The root once a dimension is something that a block does."""
    root, variable = instance.root(), instance.variable("dim_kind", dim)
    kinds = instance.universe("dim_kind", dim)
    inside = sum(1 << bit for bit, kind in enumerate(kinds) if str(kind) != "BLOCK")
    return root and instance.restrict(root, variable, root.mask(variable) & inside)


def _operand(instance: Instance, device: GpuDevice, load: Instruction, user: Instruction) -> Operand:
    access = load.access
    assert access is not None
    item_bytes = access.tensor.dtype.nbytes
    kept = distinct_indices(access)
    indices = [logical.index for logical in user.logical_dims]
    strides = {logical.index: abs(stride) for logical, stride in access.strides}
    steps = [strides.get(index, 0) * item_bytes / SECTOR_BYTES for index in indices]
    own = tuple(index in kept for index in indices)
    registers, shared, copied = (
        values_of(instance, load, (name,)) for name in ("REGISTERS", "SHARED", "GLOBAL")
    )
    reloads = [r for r in load.reloads if user in r.consumers]
    return Operand(
        load=load,
        item_bytes=item_bytes,
        own=own,
        steps=tuple(step * is_own for step, is_own in zip(steps, own, strict=True)),
        is_apart=_are_apart(access, indices, own),
        vectors=tuple(Place.of(instance, d) for d in load.dims if d.is_vectorizable),
        registers=registers,
        shared=shared,
        copied=copied,
        copying=tuple(Place.of(instance, d) for d in load.dims),
        bytes_cells=tuple(cell for reload in reloads for cell in _byte_counters(instance, reload)),
        banks=Banks.of(instance, device, load, user, item_bytes),
    )


def _byte_counters(instance: Instance, reload: Instruction) -> Iterator[int]:
    """Where the least bytes of a temporary lie: item bytes times sizes of the reload's dimensions."""
    number = instance.objects.ids[id(reload)]
    for counter in instance.space.choices.values():
        if not isinstance(counter, Counter) or (number,) not in instance.objects.keys(counter.params):
            continue
        (param,), base, value = counter.params, counter.base, counter.value
        counts_bytes = isinstance(base, HostExpression) and base.text == f"${param.name}.maker.item_bytes"
        counts_sizes = isinstance(value, Use) and value.choice == "size" and counter.product
        if counts_bytes and counts_sizes and counter.visibility is Visibility.FULL:
            yield instance.offset(counter.name, reload)


def _are_apart(access: Access, indices: Sequence[str], own: Sequence[bool]) -> tuple[bool, ...]:
    """By index of a nest. Tensors begin where a sector does, and rows that do so as well share none."""
    item_bytes = access.tensor.dtype.nbytes
    found = dict.fromkeys(indices, False)
    reach = 0
    is_aligned = access.offset * item_bytes % SECTOR_BYTES == 0
    for logical, stride in sorted(access.strides, key=lambda pair: abs(pair[1])):
        step = abs(stride) * item_bytes
        if logical.index in indices and own[indices.index(logical.index)]:
            is_row = is_aligned and stride > 0 and step % SECTOR_BYTES == 0 and step >= reach + item_bytes
            found[logical.index] = is_row or step >= reach + SECTOR_BYTES
        is_aligned = is_aligned and stride > 0
        reach += step * (logical.extent - 1)
    return tuple(found.values())
