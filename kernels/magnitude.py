"""How large the partial results of a kernel can get, told from its instructions alone.

In: a backbone and the largest magnitude among its inputs. Out: a bound that holds in any order of
evaluation. It costs nothing at any size; `reference.greatest_magnitude` is tighter, knows the values, and
evaluates the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from spacedsl.kernels.linalg.backbone import Instruction, Kernel, Number, Operand, ParameterValue, Value
from spacedsl.kernels.linalg.operations import FUNCTIONS, Op


def largest_partial(kernel: Kernel, magnitude: float) -> float:
    """A bound on every intermediate result, in any order of evaluation, for inputs of at most this magnitude.

    Quotients are taken to be no larger than twice their numerators: denominators are 1/2 or more.
    """
    made: dict[Instruction, float] = {}
    stored: dict[str, float] = {}

    def bound(operand: Operand) -> float:
        match operand:
            case Number(value):
                return abs(value) if math.isfinite(value) else 0.0  # neutral to a maximum or minimum
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
            case Op.DIV, [a, _]:
                made[instruction] = 2 * a
            case Op.FMA, [a, b, c]:
                made[instruction] = _terms(instruction) * a * b + c
            case Op.MUL, [a, _] if instruction.reduced_dims:
                made[instruction] = _power(max(a, 1.0), _terms(instruction))
            case Op.MUL, [a, b]:
                made[instruction] = a * b
            case Op.MAX | Op.MIN, _:
                made[instruction] = max(values)
            case op, [a] if op in FUNCTIONS:
                made[instruction] = _FUNCTION.get(op, abs)(a)
            case _:
                # Sums, differences and moves; of a reduction, the accumulator is among the operands.
                made[instruction] = _terms(instruction) * sum(values)
    return max([magnitude, *made.values()])


def _power(base: float, exponent: int) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf


_FUNCTION: Mapping[Op, Callable[[float], float]] = {
    Op.EXP: lambda a: math.exp(a) if a < 700 else math.inf,
    Op.LOG: lambda a: math.log(max(a, 2.0)),
    Op.SQRT: math.sqrt,
    Op.TANH: lambda _: 1.0,
    Op.SIGMOID: lambda _: 1.0,
}
"""The largest magnitude; of others, that of the operand. Logarithms are taken of 1/2 or more."""


def _terms(instruction: Instruction) -> int:
    return math.prod(g.extent for g in instruction.logical_dims if g.dims[0].is_reduction)
