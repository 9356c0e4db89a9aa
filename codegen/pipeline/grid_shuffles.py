"""Partial results of a reduction that the threads of a warp exchange, until each of them has all of it.

In: a step, the registers in which threads add up their parts, how many neighbours have parts of one point.
Out: statements that all of these threads come to: before, what is neutral; behind, exchanges; then, for one
of them, the result with that. Which thread that is, is for `grids.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spacedsl.codegen.pipeline.arithmetic import constant, single
from spacedsl.codegen.pipeline.blocks import Array, index
from spacedsl.codegen.pipeline.partials import Fresh, together
from spacedsl.codegen.tree.expressions import Load, Register, Shuffle, converted
from spacedsl.codegen.tree.program import Assign, Statement, Store
from spacedsl.kernels.pipeline.affine import Linear
from spacedsl.kernels.pipeline.algorithm import Binary, Operator
from spacedsl.kernels.pipeline.backbone import Step


def begun(step: Step, sums: Sequence[Register]) -> Iterator[Statement]:
    assert step.neutral is not None
    for own, start in zip(sums, step.neutral, strict=True):
        yield Assign(own, constant(start.value, start.dtype))


def exchanged(step: Step, sums: Sequence[Register], threads: int) -> Iterator[Statement]:
    """Each time with those of the thread twice as far away; of what has no arithmetic, by way of f32."""
    for own, operator in zip(sums, _operators(step), strict=True):
        distance = 1
        while distance < threads:
            other = converted(Shuffle(single(own), distance, threads), own.type.dtype)
            yield Assign(own, together(operator, own, other))
            distance *= 2


def stored(
    step: Step, result: Array, point: Sequence[Linear], sums: Sequence[Register], fresh: Fresh
) -> tuple[Statement, ...]:
    """The result at a point, with what these registers have."""
    place = index(result.index(point))
    statements: list[Statement] = []
    for tensor, own, operator in zip(result.tensors, sums, _operators(step), strict=True):
        whole = Register(fresh("result"), own.type)
        statements.append(Assign(whole, together(operator, Load(tensor, place, own.type), own)))
        statements.append(Store(tensor, place, whole))
    return tuple(statements)


def _operators(step: Step) -> Iterator[Operator]:
    for value in step.definition.values:
        assert isinstance(value, Binary)
        yield value.operator
