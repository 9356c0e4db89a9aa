"""Which sums memory can add up: where each part of a sum may go to its result in memory on its own.

In: the instructions of a backbone, related to each other. Out: for what such a sum starts from and for the
store of its result, the levels whose iterations may have a part each. Whether they do is for a space.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from spacedsl.kernels.linalg.backbone import Instruction, Number
from spacedsl.kernels.linalg.operations import Combine, Op, neutral

MOST_RESULTS = 1 << 18
"""Of more results, tiles of 64 x 64 are more than a GPU has multiprocessors: blocks enough."""


def relate_sums(instructions: Sequence[Instruction]) -> None:
    """Gives initialisers and stores of sums the outermost levels of what is summed over."""
    for reduction in instructions:
        store = _only_store(reduction, instructions)
        if store is not None and _starts_from_nothing(reduction) and _is_short(store):
            levels = tuple(dim.group for dim in reduction.reduced_dims if dim.level == 0)
            for instruction in (*reduction.initialisers, store):
                instruction.added_levels = levels


def _is_short(store: Instruction) -> bool:
    return math.prod(logical.extent for logical in store.logical_dims) <= MOST_RESULTS


def _only_store(reduction: Instruction, instructions: Sequence[Instruction]) -> Instruction | None:
    """What alone uses its result, and keeps it as it is in a tensor that nothing accesses before."""
    match reduction.consumers:
        case (Instruction(op=Op.STORE, access=access) as store,) if access is not None:
            others = (i for i in instructions if i.access is not None and i.access.tensor == access.tensor)
            is_alone = set(others) == {store, *store.readers}
            return store if is_alone and store.access_dtype is reduction.dtype else None
    return None


def _starts_from_nothing(reduction: Instruction) -> bool:
    """Whether it is a sum, each part of which may start from the same number."""
    nothing = (Number(neutral(Combine.SUM, reduction.dtype)),)
    starts = reduction.initialisers
    return reduction.combine is Combine.SUM and all(
        start.op is Op.MOVE and start.operands == nothing for start in starts
    )
