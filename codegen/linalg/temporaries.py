"""Temporaries: where the elements of values lie that go through memory.

In: a kernel's backbone and the decisions about it. Out: for each instruction whose value is stored, a
`Temporary`: an array and the strides of the dimensions that move through it. It has no room for what
surrounds the maker and all its reloads: there, each iteration overwrites the one before. Its elements lie
in the order of the loops of the first reload, but that what its copies load may lie apart; between rows,
along the index that the innermost of these loops is of, there may be some that hold nothing. Where a parallel
loop surrounds all of them, each thread has an array of its own. What is copied ahead has room for several
tiles, which the iterations of a loop take in turn. Nothing is allocated here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from spacedsl.codegen.linalg.implementation import Implementation
from spacedsl.codegen.linalg.nest import Fused, present
from spacedsl.codegen.tree.errors import LoweringError
from spacedsl.kernels.linalg.backbone import Dimension, Instruction, Kernel
from spacedsl.kernels.linalg.layout import element_steps, innermost_first
from spacedsl.kernels.tensors import Tensor


@dataclass(frozen=True, slots=True)
class Temporary:
    """The memory of one instruction's value."""

    tensor: Tensor
    is_private: bool
    """Whether each thread has an array of its own."""
    has_padding: bool
    """Whether there is room for whole tiles, of which the last ones may end early."""
    strides: Mapping[Dimension, int]
    """In elements, of the maker's dimensions and of its reloads'; those without room are left out."""
    turning: Dimension | None
    """Whose iterations take tiles in turn; None where there is room for one."""
    buffers: int
    """Tiles that there is room for."""

    @property
    def tile(self) -> int:
        """The elements of each."""
        return self.tensor.elements // self.buffers


def temporaries(
    kernel: Kernel,
    implementation: Implementation,
    turns: Mapping[Instruction, Fused],
    fresh: Callable[[str], str],
) -> dict[Instruction, Temporary]:
    """By maker. `turns`: the loops that copy ahead; `fresh` makes a name unique."""
    dims = [d for i in present(kernel, implementation) for d in i.dims]
    return {
        maker: _temporary(maker, dims, implementation, turns.get(maker), fresh)
        for maker in kernel.storable
        if implementation.is_stored(maker)
    }


def _temporary(
    maker: Instruction,
    dims: list[Dimension],
    implementation: Implementation,
    turning: Fused | None,
    fresh: Callable[[str], str],
) -> Temporary:
    order, size = implementation.order, implementation.size
    followers = {made: [r.dims[n] for r in maker.reloads] for n, made in enumerate(maker.dims)}
    kept = [
        made
        for made, reloading in followers.items()
        if any(order(made, dim) != "MERGED" for dim in reloading)
    ]
    layout = {made: followers[made][0] for made in kept}
    is_spread = implementation.is_spread(maker)
    placed = innermost_first(
        kept,
        lambda made, other: order(layout[made], layout[other]) == "OUTER",
        lambda made: is_spread and implementation.kind(layout[made]) == "UNROLL",
    )
    dtype = maker.access_dtype if implementation.keeps_type(maker) else maker.dtype
    rows = ((made.index, size(made)) for made in placed)
    steps, elements = element_steps(rows, dtype.nbytes, implementation.padding(maker))
    strides: dict[Dimension, int] = {}
    for made, step in zip(placed, steps, strict=True):
        for dim in (made, *followers[made]):
            if size(dim) != size(made):
                raise LoweringError(f"{dim!r} does not have the iterations of {made!r}, which it follows")
            strides[dim] = step
    around = {d for d in dims if implementation.kind(d) == "PARALLEL" and order(maker, d) == "INNER"}
    name = fresh(f"temporary_{maker.name.removeprefix('load_')}")
    buffers = 1 if turning is None else implementation.buffers(maker)
    elements *= buffers
    tensor = Tensor(name, dtype, (elements,), (1,), is_output=True)
    is_private = bool(around) and around.isdisjoint(kept)
    has_padding = any(logical.is_ragged for logical in maker.logical_dims)
    return Temporary(tensor, is_private, has_padding, strides, turning.dims[0] if turning else None, buffers)
