"""Fragments: which sums of products tensor cores can do, and how a warp holds their operands.

In: the instructions of a backbone, with their reloads, and the types of what is multiplied. Out: dimensions
that know of which `Fragment` they are a side. Nothing is decided: a dimension may still become anything else.

A sum over p of A(i, p) * B(p, j) becomes instructions on matrices of 8 x 8 elements, of 4 bytes per thread
and operand. All that is computed from the result for the same i and j is held like the result.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.linalg.backbone import Axis, Dimension, Fragment, Instruction, Level, LogicalDim, Value
from spacedsl.kernels.linalg.operations import Op

FRAGMENT_ROWS = 8
"""And columns of a result."""

COLUMNS_OF_THREAD = 2
"""Neighbours of a result that a thread has."""

ROW_BYTES = 16
"""Of an operand: of the terms in a row of a fragment."""


def add_fragments(instructions: Sequence[Instruction], multiplied: Collection[DType]) -> None:
    """`multiplied`: the types of operands that tensor cores may multiply."""
    for instruction in instructions:
        found = _fragments(instruction, multiplied)
        if all(dim.fragment in (None, fragment) for dim, fragment in found.items()):
            for dim, fragment in found.items():
                dim.fragment = fragment


def _fragments(product: Instruction, multiplied: Collection[DType]) -> Mapping[Dimension, Fragment]:
    """Those of one sum of products: of itself, its operands, its start and what follows from it."""
    if product.op is not Op.FMA or not product.reduced_dims or product.dtype is not DType.F32:
        return {}
    loads = [o.instruction for o in product.operands if isinstance(o, Value)]
    if len(set(loads)) != 2 or any(load.op is not Op.LOAD for load in loads):
        return {}
    if {load.access_dtype for load in loads} not in ({dtype} for dtype in multiplied):
        return {}
    around = _computed_from(product)
    first, second = loads
    if _row_index(around) in _own(first, second):
        first, second = second, first
    sides = (_own(first, second), _own(second, first), {g.index for g in product.logical_dims if _is_term(g)})
    sizes = (FRAGMENT_ROWS, FRAGMENT_ROWS, ROW_BYTES // first.item_bytes)
    chosen = [_innermost(product, side, size) for side, size in zip(sides, sizes, strict=True)]
    rows, columns, terms = chosen
    if rows is None or columns is None or terms is None or not around.isdisjoint(loads):
        return {}
    row, column = Fragment(Axis.ROWS, FRAGMENT_ROWS), Fragment(Axis.COLUMNS, FRAGMENT_ROWS)
    term = Fragment(Axis.TERMS, sizes[2])
    found = {rows: row, columns: column, terms: term}
    for load, free in ((first, rows), (second, columns)):
        for each in (load, *(reload for reload in load.reloads if product in reload.consumers)):
            found |= _of(each, {free.group: row, terms.group: term})
    for each in around:
        for one in (each, *each.reloads):
            found |= _of(one, {rows.group: row, columns.group: column})
    return found


def _own(load: Instruction, other: Instruction) -> set[str]:
    """The indices that one operand has and the other one lacks."""
    return {g.index for g in load.logical_dims} - {g.index for g in other.logical_dims}


def _is_term(logical: LogicalDim) -> bool:
    return logical.dims[0].is_reduction


def _innermost(product: Instruction, indices: set[str], size: int) -> Dimension | None:
    """The innermost level of one of these indices, the longest that may have the size."""
    found = [
        (g.extent, g.index, g.dims[-1])
        for g in product.logical_dims
        if g.index in indices and size in g.dims[-1].possible_sizes
    ]
    return max(found)[-1] if found else None


def _computed_from(product: Instruction) -> set[Instruction]:
    """What the sum starts from, what is computed from it without another reduction, and from what else."""
    found: set[Instruction] = set()
    to_do = [*product.initialisers, *product.consumers]
    while to_do:
        instruction = to_do.pop()
        if instruction in found or instruction.reduced_dims:
            continue
        found.add(instruction)
        to_do += (user for user in instruction.consumers if user is not product)
        to_do += (o.instruction for o in instruction.operands if isinstance(o, Value))
    return found


def _row_index(instructions: Collection[Instruction]) -> str | None:
    """Along which a store of the result writes neighbours."""
    stores = sorted((i for i in instructions if i.op is Op.STORE), key=lambda i: i.id)
    return next((dim.index for store in stores for dim in store.neighbours), None)


def _of(instruction: Instruction, sides: Mapping[Level, Fragment]) -> dict[Dimension, Fragment]:
    return {dim: sides[dim.group] for dim in instruction.dims if dim.group in sides}
