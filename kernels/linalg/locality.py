"""Which nests come back to the same large tensor: where fusing loops decides what has to cross the caches.

In: the instructions of a backbone, with the sums that memory can add up. Out: for the outermost levels of a
nest, those of the next nest that accesses the same tensor. A space may decide first whether such loops are
fused; whether they can be is for its constraints.
"""

from __future__ import annotations

from collections.abc import Sequence

from spacedsl.kernels.linalg.backbone import Dimension, Instruction
from spacedsl.kernels.tensors import Tensor


def relate_nests(instructions: Sequence[Instruction]) -> None:
    """Gives the dimensions of accesses to large tensors those that come back to the same tensor."""
    last: dict[Tensor, Instruction] = {}
    for access in instructions:
        if access.is_large and access.access is not None:
            tensor = access.access.tensor
            if tensor in last:
                _relate(last[tensor], access)
            last[tensor] = access


def _relate(earlier: Instruction, later: Instruction) -> None:
    """Not along an index whose sums are complete when its loop has ended, and not before: those that memory
    cannot add up, that both nests have, or that the later nest makes use of.
    """
    first, second = _reached((earlier,)), _reached((later,))
    sums = _summed(first), _summed(second)
    complete = {d.group for dims in sums for d in dims if not d.is_summed_up}
    complete |= {d.group for d in sums[0]} & {d.group for d in sums[1]}
    if any(
        store.readers and set(_reached(store.readers, through_memory=True)) & set(second) for store in first
    ):
        complete |= {d.group for d in sums[0]}
    outermost = {d.group: d for d in later.dims if d.level == 0 and d.group not in complete}
    for dim in earlier.dims:
        if dim.group in outermost:
            dim.revisited_by = (outermost[dim.group],)
            dim.group.is_parted = True


def _reached(instructions: Sequence[Instruction], *, through_memory: bool = False) -> tuple[Instruction, ...]:
    """These, and those that get to know of their values through registers, or any of them."""
    found = [*instructions]
    for instruction in found:
        users = (*instruction.consumers, *(instruction.readers if through_memory else ()))
        found += [user for user in users if user not in found]
    return tuple(found)


def _summed(instructions: Sequence[Instruction]) -> set[Dimension]:
    return {d for instruction in instructions for d in instruction.dims if d.is_reduction}
