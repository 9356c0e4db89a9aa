"""What every implementation of a kernel must do, whatever is decided: the static half of the CPU's bound.

In: a backbone. Out: for each tensor, how many distinct bytes and cache lines are touched, and by which loads
and stores at least; which iterations of a nest certainly differ. `arithmetic.py` counts what is computed.
Nothing here depends on a candidate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from spacedsl.kernels.linalg.backbone import (
    Access,
    Dimension,
    Instruction,
    Kernel,
    LogicalDim,
    Operand,
    Value,
)
from spacedsl.kernels.linalg.operations import Op
from spacedsl.kernels.tensors import Tensor

LINE_BYTES = 64

LONGEST_UNROLLED = 512
"""Iterations that a compiler might turn into straight-line code, which it then arranges as it likes."""

_COPIES = frozenset({Op.LOAD, Op.STORE, Op.MOVE})
"""What computes nothing: a compiler may do it in other pieces, by calls of the library."""


# ---- Instructions --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """An instruction, and those of its iterations that must be executed."""

    instruction: Instruction
    iterations: int
    pace: Instruction
    """By whose types of elements it is executed: mostly by its own."""
    dims: tuple[Dimension, ...]
    """Of that, those whose lanes and threads count."""
    sums: int = 0
    """Of floating-point numbers, of several terms each: lanes along these are added up at the end."""
    spared: int = 0
    """Iterations less for each lane of terms but two: as many as there are sums, where these start from
    terms, for the first one of no lane is an addition then."""


Alternatives = tuple[Operation, ...]
"""Operations that a compiler may merge, so that one of them is certain."""


def varying_indices(instruction: Instruction, operands: Sequence[Operand] | None = None) -> set[str]:
    """Indices of a nest, no two of whose iterations read the same addresses, for some of its operands or all.

    Where different values of all indices of an operand lead to different elements, its address tells these
    indices. What they add to the addresses of the others is then known as well, and no longer matters there.
    The rest of one more operand tells the indices that `distinct_indices` keeps, where others stay the same.
    """
    own = {logical.index for logical in instruction.logical_dims}
    rest = [
        [(logical, stride) for logical, stride in load.access.strides if logical.index in own and stride]
        for load in (_loads(instruction) if operands is None else _loads_of(operands))
        if load.access is not None
    ]
    told: set[str] = set()
    while True:
        rest = [[pair for pair in strides if pair[0].index not in told] for strides in rest]
        kept = [set(_distinct(strides)) for strides in rest]
        clear = [k for k, strides in zip(kept, rest, strict=True) if k and len(k) == len(strides)]
        if not clear:
            extents = {logical.index: logical.extent for logical in instruction.logical_dims}
            return told.union(max(kept, key=lambda k: math.prod(extents[i] for i in k), default=()))
        told |= clear[0]


def _loads(instruction: Instruction) -> tuple[Instruction, ...]:
    """The loads that an instruction's operands come from."""
    return (instruction,) if instruction.op is Op.LOAD else _loads_of(instruction.operands)


def _loads_of(operands: Iterable[Operand]) -> tuple[Instruction, ...]:
    made = (o.instruction for o in operands if isinstance(o, Value))
    return tuple(dict.fromkeys(load for maker in made for load in _loads(maker)))


def extent_of(instruction: Instruction, indices: Iterable[str]) -> int:
    extents = {logical.index: logical.extent for logical in instruction.logical_dims}
    return math.prod(extents[i] for i in indices)


# ---- Memory --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Footprint:
    """What is loaded or stored of one tensor at least, and by which instructions."""

    tensor: Tensor
    loads: tuple[Instruction, ...]
    stores: tuple[Instruction, ...]
    """Of loads and stores, one is empty."""
    elements: int
    line_bytes: int
    """Cache lines that loads touch, in bytes; of stores, the bytes themselves."""
    is_late: bool = False
    """Whether the loads come when the kernel itself has stored what they read."""

    @property
    def nbytes(self) -> int:
        return self.elements * self.tensor.dtype.nbytes


def footprints(
    kernel: Kernel,
    is_certain: Callable[[Instruction], bool] = lambda instruction: True,
    is_after: Callable[[Instruction, Instruction], bool] = lambda load, store: False,
) -> tuple[Footprint, ...]:
    """Of all tensors that are certainly read or written: what is stored, and what is loaded.

    Accesses to one tensor may overlap: the largest counts. What the kernel itself writes may be read from
    registers, as long as it is not certain that a load comes after a whole loop nest of stores (`is_after`)
    which no compiler unrolls; and an intermediate tensor may be kept in part.
    """
    found: list[Footprint] = []
    for tensor, writing, reading in _accesses(kernel):
        stores = tuple(i for i in writing if is_certain(i))
        loads = tuple(i for i in reading if is_certain(i) and all(is_after(i, store) for store in writing))
        if loads and (not writing or _elements(loads) > LONGEST_UNROLLED):
            found.append(Footprint(tensor, loads, (), _elements(loads), line_bytes(loads), bool(writing)))
        is_kept = all(is_after(i, store) for i in reading for store in writing)
        if stores and (tensor in kernel.tensors or (is_kept and _elements(stores) > LONGEST_UNROLLED)):
            found.append(Footprint(tensor, (), stores, _elements(stores), element_bytes(stores)))
    return tuple(found)


def read_back(kernel: Kernel) -> tuple[Accesses, ...]:
    """Of tensors that the kernel itself writes and reads; small ones are left out."""
    return tuple(
        (tensor, stores, loads)
        for tensor, stores, loads in _accesses(kernel)
        if stores and loads and min(_elements(stores), _elements(loads)) > LONGEST_UNROLLED
    )


def read_again(
    kernel: Kernel, size_of: Callable[[Iterable[Instruction]], int]
) -> Iterator[tuple[Instruction, Instruction]]:
    """Pairs of loads of a tensor that the kernel does not write, the second one perhaps after the first.

    Of those that read most of it, each with the next one; of two also the other way round. Each pair that
    certainly is so, one load after the loops of the other, is then one more pass through the tensor: two
    orders exclude each other, and pairs in one order make a chain.
    """
    for _, stores, loads in _accesses(kernel):
        if stores or not loads or _elements(loads) <= LONGEST_UNROLLED:
            continue
        most = max(size_of((load,)) for load in loads)
        passing = [load for load in loads if size_of((load,)) == most]
        yield from pairwise(passing)
        if len(passing) == 2:
            yield passing[1], passing[0]


Accesses = tuple[Tensor, tuple[Instruction, ...], tuple[Instruction, ...]]
"""A tensor, its stores and its loads."""


def _accesses(kernel: Kernel) -> Iterator[Accesses]:
    """Of arguments and of memory of the implementation's own."""
    for tensor in (*kernel.tensors, *(scratch.tensor for scratch in kernel.scratch)):
        accessing = [i for i in kernel.instructions if i.access is not None and i.access.tensor is tensor]
        stores = tuple(i for i in accessing if i.op is Op.STORE)
        yield tensor, stores, tuple(i for i in accessing if i.op is Op.LOAD)


def line_bytes(accessing: Iterable[Instruction]) -> int:
    """Of the cache lines that loads or stores touch at least."""
    accesses = [i.access for i in accessing if i.access is not None]
    elements = max(distinct_elements(a) * a.tensor.dtype.nbytes for a in accesses)
    return max(elements, max(distinct_lines(a) for a in accesses) * LINE_BYTES)


def element_bytes(accessing: Iterable[Instruction]) -> int:
    """Of the distinct elements that they touch at least."""
    return max(distinct_elements(i.access) * i.access.tensor.dtype.nbytes for i in accessing if i.access)


def _elements(accessing: Iterable[Instruction]) -> int:
    """Distinct ones, of the instruction that has most of them."""
    return max(distinct_elements(i.access) for i in accessing if i.access is not None)


def fed_by(load: Instruction, elements: int) -> Alternatives:
    """Load instructions that put a tensor into registers, by the dimensions of each user of a load.

    Users that compute need every element there, in vectors no longer than their own, in each thread that
    computes with it: from the load itself, or from a copy that it has made in memory. A compiler may take
    single elements out of the vectors that are copied, without memory: then those of the load count. What is
    only copied may be copied in other pieces: empty where nothing computes.
    """
    own = {logical.index for logical in load.logical_dims}
    users = [user for user in load.consumers if user.op not in _COPIES]
    found = [Operation(load, elements, user, tuple(d for d in user.dims if d.index in own)) for user in users]
    if users and load.is_storable:
        found.append(Operation(load, elements, load, load.dims))
    return tuple(found)


def stored_by(store: Instruction, elements: int) -> Alternatives:
    """The same of store instructions: in pieces no longer than the vectors in which a result is made.

    Or, along indices that the result does not depend on, no longer than those of the store. A result that
    goes through memory is stored there first; what then copies it may do so in any pieces.
    """
    found: list[Operation] = []
    for maker in (o.instruction for o in store.operands if isinstance(o, Value)):
        if maker.op in _COPIES:
            continue
        made = tuple(d for d in maker.dims if not d.is_reduction)
        indices = {d.index for d in made}
        further = tuple(d for d in store.dims if d.index not in indices)
        found.append(Operation(store, elements, maker, (*made, *further)))
        if maker.is_storable:
            found.append(Operation(store, min(elements, extent_of(maker, indices)), maker, made))
    return tuple(found)


def distinct_indices(access: Access) -> tuple[str, ...]:
    """Indices of an access whose values all lead to different elements, those of small strides first."""
    return _distinct(access.strides)


def _distinct(strides: Iterable[tuple[LogicalDim, int]]) -> tuple[str, ...]:
    kept: list[str] = []
    reach = 0
    for logical, stride in sorted(strides, key=lambda pair: (abs(pair[1]), pair[0].index)):
        if abs(stride) > reach:
            kept.append(logical.index)
            reach += (logical.extent - 1) * abs(stride)
    return tuple(kept)


def distinct_elements(access: Access) -> int:
    kept = distinct_indices(access)
    return math.prod(logical.extent for logical, _ in access.strides if logical.index in kept)


def distinct_lines(access: Access) -> int:
    """The least number of cache lines that the elements lie in, wherever the tensor begins."""
    item = access.tensor.dtype.nbytes
    return least_lines([(abs(stride) * item, logical.extent) for logical, stride in access.strides], item)


def least_lines(steps: Iterable[tuple[int, int]], item_bytes: int, unit_bytes: int = LINE_BYTES) -> int:
    """The least number of cache lines under a grid of elements: pairs (bytes of a step, number of them).

    From small steps to large ones: while the gaps between blocks are smaller than a line, every line
    from first to last byte is touched; blocks at least a line apart share none.
    """
    span, lines, is_solid = item_bytes, 1, True
    for step, count in sorted((step, count) for step, count in steps if step):
        if is_solid and step - span < unit_bytes:
            span += (count - 1) * step
            lines = -(-span // unit_bytes)
        elif step - span >= unit_bytes:
            lines *= count
            span += (count - 1) * step
            is_solid = False
        else:
            break  # Blocks may overlap: no more lines are certain.
    return lines


def reduced_loads(reduction: Instruction, kernel_footprints: Sequence[Footprint]) -> tuple[Instruction, ...]:
    """Loads that a reduction uses directly and that differ in every term, at most one for each tensor."""
    reduced = {d.index for d in reduction.reduced_dims}
    readable = {load for footprint in kernel_footprints for load in footprint.loads}
    found: dict[Tensor, Instruction] = {}
    for operand in reduction.operands:
        if isinstance(operand, Value) and operand.instruction in readable:
            load = operand.instruction
            if load.access is not None and reduced <= set(distinct_indices(load.access)):
                found.setdefault(load.access.tensor, load)
    return tuple(found.values())
