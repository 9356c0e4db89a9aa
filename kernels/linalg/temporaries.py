"""What a value needs that goes through memory: a reload for each of its users.

In: the instructions of a backbone, related to each other. Out: for each that may write its value to a
temporary where it makes it, one load for each of its users, in a nest of its own with the same levels of the
same indices. They become part of a candidate when a trigger of the space adds them; where the temporary's
elements lie follows from decisions and is found by code generation.

A value may go through memory where a user needs it again for other indices: a computed value, which is
computed only once, and elements of a tensor that do not lie side by side already (a copy of an operand).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spacedsl.kernels.linalg.backbone import Dimension, Instruction, LogicalDim, Value
from spacedsl.kernels.linalg.operations import Op


def may_be_stored(instruction: Instruction) -> bool:
    """Whether an instruction's value may go through memory to its users. A reduction's does so by a store."""
    if instruction.op in (Op.STORE, Op.MOVE) or instruction.reduced_dims or not instruction.dims:
        return False
    own = _indices(instruction)
    return not _is_row(instruction) and any(_indices(user) - own for user in instruction.consumers)


def add_reloads(instructions: Sequence[Instruction], fresh: Callable[[str], str]) -> None:
    """Gives makers the loads of their values; `fresh` makes a name unique."""
    found = [
        _reload(maker, user, fresh(f"reload_{maker.name.removeprefix('load_')}"))
        for maker in instructions
        if may_be_stored(maker)
        for user in maker.consumers
    ]
    number = sum(1 + len(i.dims) for i in instructions)
    statements: list[Instruction | Dimension] = [*found, *(d for load in found for d in load.dims)]
    for statement in statements:
        statement.id = number
        number += 1


def _reload(maker: Instruction, user: Instruction, name: str) -> Instruction:
    load = Instruction(0, name, Op.LOAD, maker.dtype, maker=maker, consumers=(user,))
    load.logical_dims = tuple(_logical_dim(load, logical) for logical in maker.logical_dims)
    load.dims = tuple(d for logical in load.logical_dims for d in logical.dims)
    load.foreign_indices = maker.foreign_indices
    operand = next(o for o in user.operands if isinstance(o, Value) and o.instruction is maker)
    used = dict(operand.mapping)
    maker.reloads += (load,)
    for dim, made, first in zip(load.dims, maker.dims, maker.reloads[0].dims, strict=True):
        dim.mapped_to = (used[made],)
        dim.layout_dim = first
    return load


def _logical_dim(load: Instruction, made: LogicalDim) -> LogicalDim:
    """A temporary's elements are laid out along the innermost loop of its reload: any can be a vector."""
    dims = tuple(
        Dimension(
            id=0,
            name=f"{load.name}.{dim.index}{dim.level}",
            index=dim.index,
            level=dim.level,
            group=dim.group,
            possible_sizes=dim.possible_sizes,
            is_reduction=False,
            is_vectorizable=dim is made.dims[-1],
            item_bytes=load.item_bytes,
            instruction=load,
            maker_dim=dim,
        )
        for dim in made.dims
    )
    for dim in dims:
        dim.inner_levels = dims[dim.level + 1 :]
    return LogicalDim(f"{load.name}.{made.index}", made.index, made.extent, dims, made.is_ragged)


def _is_row(instruction: Instruction) -> bool:
    """Whether it loads neighbours."""
    access = instruction.access
    return access is not None and [abs(stride) for _, stride in access.strides] == [1]


def _indices(instruction: Instruction) -> frozenset[str]:
    return frozenset(logical.index for logical in instruction.logical_dims)
