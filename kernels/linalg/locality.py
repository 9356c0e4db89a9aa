"""Which nests come back to the same large tensor: where fusing loops decides what has to cross the caches.

In: the instructions of a backbone, related to each other. Out: for the outermost levels of a nest, those of
the next nest that accesses the same tensor. A space may decide first whether such loops are fused; whether
they can be is for its constraints.
"""

from __future__ import annotations

from collections.abc import Sequence

from spacedsl.kernels.linalg.backbone import Instruction
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
    """Not along an index that one of the nests sums over: its sums are complete when its loop has ended."""
    summed = _summed(earlier) | _summed(later)
    outermost = {d.group: d for d in later.dims if d.level == 0 and d.index not in summed}
    for dim in earlier.dims:
        if dim.group in outermost:
            dim.revisited_by = (outermost[dim.group],)


def _summed(access: Instruction) -> set[str]:
    """Indices over which a value is summed on its way through registers."""
    found: set[str] = set()
    reached = [access]
    for instruction in reached:
        found.update(d.index for d in instruction.dims if d.is_reduction)
        reached += [user for user in instruction.consumers if user not in reached]
    return found
