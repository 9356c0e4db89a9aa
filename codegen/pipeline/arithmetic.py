"""Arithmetic on values of a program: operands of as many lanes, and in types that there is arithmetic in.

In: expressions of a program. Out: others, or numbers where integers make one. What they stand for in an
algorithm is for `values.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from spacedsl.codegen.tree.expressions import (
    Add,
    Binary,
    Broadcast,
    Convert,
    Expression,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mul,
    Neg,
    Number,
    Sub,
    Type,
    converted,
    type_of,
)
from spacedsl.kernels.dtypes import DType

Value = Expression

ARITHMETIC: Mapping[str, type[Binary]] = {"+": Add, "-": Sub, "*": Mul, "min": Min, "max": Max}

_OF_INTEGERS: Mapping[Callable[..., Value], Callable[..., int]] = {
    Add: operator.add, Sub: operator.sub, Mul: operator.mul, Min: min, Max: max, Neg: operator.neg,
    FloorDiv: lambda left, right: left // right if right else 0,
    FloorMod: lambda left, right: left % right if right else 0,
}  # fmt: skip

_KEPT_BY: Mapping[Callable[..., Value], int] = {Add: 0, Mul: 1}
"""What makes no difference to the other operand."""

_EXACT = {DType.BF16: 2**8, DType.F16: 2**11, DType.F32: 2**24, DType.F64: 2**53}
"""Integers up to there are floats, too."""


def computed(dtype: DType, operation: Callable[..., Value], *operands: Value) -> Value:
    """Of integers that are known, their number. Of floats of 16 bits, by way of f32: both roundings together
    are one to the nearest.
    """
    if not dtype.is_float and operation in _OF_INTEGERS:
        known = [int(each.value) for each in operands if isinstance(each, Number)]
        if len(known) == len(operands):
            return constant(dtype.wrapped(_OF_INTEGERS[operation](*known)), dtype)
        if known == [_KEPT_BY.get(operation)]:
            return next(each for each in operands if not isinstance(each, Number))
    return converted(operation(*alike(*(single(o) for o in operands))), dtype)


def cast(value: Value, dtype: DType) -> Value:
    """As `converted`; integers that are known are converted here."""
    if isinstance(value, Number) and not value.type.dtype.is_float:
        number = int(value.value)
        if not dtype.is_float:
            return constant(dtype.wrapped(number), dtype)
        if abs(number) <= _EXACT.get(dtype, -1):
            return constant(float(number), dtype)
    return converted(value, dtype)


def alike(*values: Value) -> tuple[Value, ...]:
    """All with as many lanes as one of them has."""
    lanes = max(type_of(v).lanes for v in values)
    return tuple(Broadcast(v, lanes) if type_of(v).lanes < lanes else v for v in values)


def constant(value: float, dtype: DType) -> Value:
    if not dtype.has_arithmetic:
        return Convert(Number(value, Type(DType.F32)), dtype)
    return Number(value, Type(dtype))


def single(value: Value) -> Value:
    """In a type with arithmetic."""
    return value if type_of(value).dtype.has_arithmetic else Convert(value, DType.F32)
