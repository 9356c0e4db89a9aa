"""How large the partial results of a kernel can get, told from its instructions alone.

In: a backbone and the largest magnitude among its inputs. Out: a bound that holds in any order of
evaluation. It costs nothing at any size; `reference.greatest_magnitude` is tighter, knows the values, and
evaluates the kernel.
"""

from __future__ import annotations

import math

from spacedsl.kernels.linalg.backbone import Instruction, Kernel, Number, Op, Operand, ParameterValue, Value


def reduction_length(kernel: Kernel) -> int:
    """The most values that one reduction combines."""
    return max([1, *map(_terms, kernel.reductions)])


def largest_partial(kernel: Kernel, magnitude: float) -> float:
    """A bound on every intermediate result, in any order of evaluation, for inputs of at most this magnitude.

    Quotients are taken to be no larger than twice their numerators: denominators are 1/2 or more.
    """
    made: dict[Instruction, float] = {}
    stored: dict[str, float] = {}

    def bound(operand: Operand) -> float:
        match operand:
            case Number(value):
                return abs(value)
            case ParameterValue():
                return magnitude
            case Value(instruction):
                return made[instruction]
            case _:
                return made[operand.initialiser]

    for instruction in kernel.instructions:
        values = [bound(o) for o in instruction.operands]
        match instruction.op, values:
            case Op.LOAD, _:
                assert instruction.access is not None
                made[instruction] = stored.get(instruction.access.tensor.name, magnitude)
            case Op.STORE, [a]:
                assert instruction.access is not None
                stored[instruction.access.tensor.name] = a
            case Op.MUL, [a, b]:
                made[instruction] = a * b
            case Op.DIV, [a, _]:
                made[instruction] = 2 * a
            case Op.FMA, [a, b, c]:
                made[instruction] = _terms(instruction) * a * b + c
            case _:
                # Sums, differences and moves; of a reduction, the accumulator is among the operands.
                made[instruction] = _terms(instruction) * sum(values)
    return max([magnitude, *made.values()])


def _terms(instruction: Instruction) -> int:
    return math.prod(g.extent for g in instruction.logical_dims if g.dims[0].is_reduction)
