"""Arithmetic on values of a program: operands of as many lanes, and in types that there is arithmetic in.

In: expressions of a program. Out: others. What they stand for in an algorithm is for `values.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from spacedsl.codegen.tree.expressions import (
    Add,
    Binary,
    Broadcast,
    Convert,
    Expression,
    Max,
    Min,
    Mul,
    Number,
    Sub,
    Type,
    converted,
    type_of,
)
from spacedsl.kernels.dtypes import DType

Value = Expression

ARITHMETIC: Mapping[str, type[Binary]] = {"+": Add, "-": Sub, "*": Mul, "min": Min, "max": Max}


def computed(dtype: DType, operation: Callable[..., Value], *operands: Value) -> Value:
    """Of floats of 16 bits, by way of f32: both roundings together are one to the nearest."""
    return converted(operation(*alike(*(single(o) for o in operands))), dtype)


def alike(*values: Value) -> tuple[Value, ...]:
    """All with as many lanes as one of them has."""
    lanes = max(type_of(v).lanes for v in values)
    return tuple(Broadcast(v, lanes) if type_of(v).lanes < lanes else v for v in values)


def constant(value: float, dtype: DType) -> Value:
    if dtype is DType.F16:
        return Convert(Number(value, Type(DType.F32)), dtype)
    return Number(value, Type(dtype))


def single(value: Value) -> Value:
    """In a type with arithmetic."""
    return value if type_of(value).dtype.has_arithmetic else Convert(value, DType.F32)
