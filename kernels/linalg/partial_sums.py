"""Which reductions memory can combine: where each part may go to the result in memory on its own.

In: the instructions of a backbone, related to each other. Out: for what such a reduction starts from and for
the store of its result, the levels whose iterations may have a part each. Whether they do is for a space.
Parts are added up or multiplied, or the greatest or least of them is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from spacedsl.kernels.linalg.backbone import MOST_RESULTS, Instruction
from spacedsl.kernels.linalg.operations import Combine, Op


def relate_sums(instructions: Sequence[Instruction], long: Collection[str]) -> None:
    """Gives initialisers and stores of reductions the outermost levels of what is reduced, where there are
    few results. `long`: indices of sums that gain by it, however many results there are.
    """
    for reduction in instructions:
        store = _only_store(reduction, instructions)
        if store is None or reduction.combine is None or not reduction.starts_from_nothing:
            continue
        outermost = [dim for dim in reduction.reduced_dims if dim.level == 0]
        for dim in outermost if reduction.combine is Combine.SUM else ():
            dim.group.is_parted = dim.index in long
        if store.instances <= MOST_RESULTS or any(dim.group.is_parted for dim in outermost):
            levels = tuple(dim.group for dim in outermost)
            for instruction in (*reduction.initialisers, store):
                instruction.added_levels = levels


def _only_store(reduction: Instruction, instructions: Sequence[Instruction]) -> Instruction | None:
    """What alone uses its result, and keeps it as it is in a tensor that nothing accesses before."""
    match reduction.consumers:
        case (Instruction(op=Op.STORE, access=access) as store,) if access is not None:
            others = (i for i in instructions if i.access is not None and i.access.tensor == access.tensor)
            is_alone = set(others) == {store, *store.readers}
            return store if is_alone and store.access_dtype is reduction.dtype else None
    return None
