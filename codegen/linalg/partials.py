"""Partial results of a reduction: registers that do not wait for each other, and lanes of them.

In: a reduction and the decisions about it. Out: `Partials`, where it has any. Threads that share a reduction
have accumulators of their own as well, which `ParallelLoop` combines, or `cuda/reductions.py`: not done here.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spacedsl.codegen.linalg.implementation import Implementation
from spacedsl.codegen.tree.errors import LoweringError
from spacedsl.codegen.tree.expressions import COMBINED, Expression
from spacedsl.kernels.linalg.backbone import Accumulator, Dimension, Instruction
from spacedsl.kernels.linalg.operations import Combine


@dataclass(frozen=True, slots=True)
class Partials:
    """What a reduction's initialiser starts, and its users combine: as many registers as copies."""

    reduction: Instruction
    combine: Combine
    lanes: int
    """1, unless a reduced dimension is a vector."""
    copies: tuple[Mapping[Dimension, int], ...]
    """The reduced indices of the registers. The first one, where all of them are 0, is the initialiser's."""
    is_joined: bool
    """Whether threads share the reduction: behind its loops, all of it is in the first register."""

    @classmethod
    def of(cls, reduction: Instruction, implementation: Implementation) -> Partials | None:
        """None for a reduction with one result."""
        size, kind = implementation.size, implementation.kind
        vectors = [d for d in reduction.reduced_dims if kind(d) == "VECTOR"]
        split = [d for d in reduction.reduced_dims if kind(d) == "UNROLL"]
        if not implementation.is_split(reduction):
            split = []
        lanes = size(vectors[0]) if vectors else 1
        indices = itertools.product(*(range(size(d)) for d in split))
        copies = tuple(dict(zip(split, index, strict=True)) for index in indices)
        if lanes == 1 and len(copies) == 1:
            return None
        is_joined = any(kind(d) == "THREAD" for d in reduction.reduced_dims)
        return cls(reduction, combined_by(reduction), lanes, copies, is_joined)

    def number(self, unrolled: Mapping[Dimension, int]) -> int:
        """Of the register that an instance of the reduction accumulates in."""
        number = 0
        for dim, last in self.copies[-1].items():
            number = number * (last + 1) + unrolled[dim]
        return number


def accumulator(reduction: Instruction) -> Accumulator:
    """Its operand that holds what it has accumulated; raises `LoweringError` where it has none."""
    for operand in reduction.operands:
        if isinstance(operand, Accumulator):
            return operand
    raise LoweringError(f"the reduction {reduction!r} has no accumulator")


def check_accumulator(reduction: Instruction, implementation: Implementation) -> None:
    """Raises `LoweringError` where others need the initialiser's registers, which are updated in place."""
    start = accumulator(reduction)
    mapped = {used for _, used in start.mapping}
    if not mapped.issuperset(reduction.free_dims):
        raise LoweringError(f"{reduction!r} starts every iteration of a free dimension from one register")
    for other in start.initialiser.consumers:
        if other is not reduction and implementation.order(other, reduction) != "BEFORE":
            raise LoweringError(f"{other!r} reads {start.initialiser!r}, which {reduction!r} overwrites")


def combined_by(reduction: Instruction) -> Combine:
    """How partial results are combined into the result; raises `LoweringError` where there can be none."""
    operands, combine = reduction.operands, reduction.combine
    is_accumulated = isinstance(operands[-1], Accumulator)
    if combine is None or not is_accumulated or accumulator(reduction).initialiser.reduced_dims:
        raise LoweringError(f"{reduction!r} has no partial results")
    return combine


def combination(values: Sequence[Expression], combine: Combine) -> Expression:
    """All of them, in a tree: neighbours first."""
    while len(values) > 1:
        pairs = [values[n : n + 2] for n in range(0, len(values), 2)]
        values = [COMBINED[combine](*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return values[0]
