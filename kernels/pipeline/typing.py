"""The types of expressions: what operands become before they meet, as in Halide.

In: an operator and operands, some of which may be plain numbers. Out: an expression in which all conversions
are explicit, or a `TypeMismatchError` that says what does not fit. Numbers take the type of what they meet.
Names are not known here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import cast, get_args

import numpy as np

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import NUMBER_TYPE
from spacedsl.kernels.pipeline.algorithm import (
    Apply,
    Binary,
    Cast,
    Comparator,
    Compare,
    Constant,
    Expression,
    Function,
    Operator,
    Select,
    Unary,
)

Number = int | float
Operand = Expression | Number
"""An expression, or a number that has no type yet."""


class DefinitionError(Exception):
    """A definition, or a part of one, that means nothing: a stable code, and what would be right."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


class TypeMismatchError(DefinitionError):
    """Operands that do not go together."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__("KF064", message, hint)


ARGUMENTS: Mapping[str, int] = MappingProxyType(
    {name: 2 if name in ("pow", "atan2") else 1 for name in get_args(Function)}
)
"""How many each function takes."""

_LARGEST = 1 << 64
"""What arithmetic with numbers comes to; types hold less."""

_COMPARATORS = frozenset(get_args(Comparator))
_BITS = frozenset("&|^") | {"<<", ">>"}


def typed(operand: Operand, wanted: DType | None = None) -> Expression:
    """A number as a constant: of a type, where it is held by it, or i32 or f32."""
    if isinstance(operand, bool):
        return Constant(operand, DType.BOOL)
    if not isinstance(operand, int | float):
        return operand
    if wanted is None:
        wanted = DType.F32 if isinstance(operand, float) else DType.I32
    if wanted.is_float:
        return Constant(nearest(operand, wanted), wanted)
    if isinstance(operand, float) or not wanted.least <= operand <= wanted.greatest:
        raise TypeMismatchError(f"{operand} is no {wanted.label}")
    return Constant(bool(operand) if wanted is DType.BOOL else operand, wanted)


def cast_to(dtype: DType, operand: Operand) -> Expression:
    """The operand as another type; of a number, the constant of that type."""
    if isinstance(operand, bool | int | float):
        if dtype.is_float:
            return Constant(nearest(operand, dtype), dtype)
        if dtype is DType.BOOL:
            return Constant(bool(operand), dtype)
        if isinstance(operand, float) and not math.isfinite(operand):
            raise TypeMismatchError(f"{operand} is no {dtype.label}")
        return Constant(dtype.wrapped(int(operand)), dtype)
    return operand if operand.dtype is dtype else Cast(dtype, operand)


def nearest(value: Number, dtype: DType) -> float:
    """The value of a type of floats that a number becomes, so that a constant is one that its type holds."""
    try:
        exact = float(value)
        with np.errstate(over="ignore"):
            number = float(NUMBER_TYPE[dtype](exact))
    except OverflowError:
        exact = number = math.nan
    if math.isnan(number) or math.isfinite(number) != math.isfinite(exact):
        raise TypeMismatchError(f"this number is no {dtype.label}")
    return number


def common(left: DType, right: DType) -> DType:
    """The type in which two types meet."""
    if left is right:
        return left
    if left.is_float or right.is_float:
        floats = [t for t in (left, right) if t.is_float]
        if len(floats) == 2 and floats[0].nbytes == floats[1].nbytes:
            return DType.F32
        return max(floats, key=lambda t: t.nbytes)
    if DType.BOOL in (left, right):
        return left if right is DType.BOOL else right
    bits = 8 * max(left.nbytes, right.nbytes)
    return DType.of(f"{'i' if left.is_signed or right.is_signed else 'u'}{bits}")


def matched(operands: Sequence[Operand]) -> tuple[Expression, ...]:
    """All in one type. Numbers take the type of the others; a fraction makes integers an f32."""
    operands = [typed(o) if isinstance(o, bool) else o for o in operands]
    types = [o.dtype for o in operands if not isinstance(o, int | float)]
    if not types:
        wanted = DType.F32 if any(isinstance(o, float) for o in operands) else DType.I32
        return tuple(typed(o, wanted) for o in operands)
    wanted = types[0]
    for other in types[1:]:
        wanted = common(wanted, other)
    if not wanted.is_float and any(isinstance(o, float) for o in operands):
        wanted = DType.F32
    return tuple(typed(o, wanted) if isinstance(o, int | float) else cast_to(wanted, o) for o in operands)


def truth(operand: Operand) -> Expression:
    """A condition."""
    if isinstance(operand, int | float):
        return Constant(bool(operand), DType.BOOL)
    if operand.dtype is not DType.BOOL:
        raise TypeMismatchError(f"a condition is true or false, not {operand.dtype.label}")
    return operand


def binary(operator: str, left: Operand, right: Operand) -> Operand:
    """Two operands with an operator, a comparator, or `min` or `max` between them; numbers give a number."""
    if operator in ("&&", "||"):
        return Binary(cast("Operator", operator), truth(left), truth(right))
    left, right = (typed(o) if isinstance(o, bool) else o for o in (left, right))
    if isinstance(left, int | float) and isinstance(right, int | float):
        try:
            number = _number(operator, left, right)
        except OverflowError:
            number = math.inf
        if isinstance(number, int) and abs(number) > _LARGEST:
            number = math.inf
        if number is not None and math.isinf(number) and not {left, right} & {math.inf, -math.inf}:
            raise TypeMismatchError("this number is too large")
        if number is not None:
            return number
    a, b = matched((left, right))
    if operator in _COMPARATORS:
        if a.dtype is DType.BOOL and operator not in ("==", "!="):
            raise TypeMismatchError(f"conditions are not ordered: `{operator}`")
        return Compare(cast("Comparator", operator), a, b)
    if operator == "%" and a.dtype.is_float:
        hint = "the rest of a division of floats is `a - b * floor(a / b)`"
        raise TypeMismatchError(f"`%` is for integers, not for {a.dtype.label}", hint)
    if operator in _BITS and a.dtype.is_float:
        raise TypeMismatchError(f"`{operator}` is for integers, not for {a.dtype.label}")
    if a.dtype is DType.BOOL and operator not in ("&", "|", "^"):
        raise TypeMismatchError(f"`{operator}` is for numbers; `&&`, `||` and `!` are for conditions")
    return Binary(cast("Operator", operator), a, b)


def unary(operator: str, operand: Operand) -> Operand:
    match operator:
        case "!":
            return Unary("!", truth(operand))
        case "~":
            if isinstance(operand, int) and not isinstance(operand, bool):
                return ~operand
            inner = typed(operand)
            if not inner.dtype.is_integer:
                raise TypeMismatchError(f"`~` is for integers, not for {inner.dtype.label}")
            return Unary("~", inner)
        case _:
            if isinstance(operand, int | float) and not isinstance(operand, bool):
                return -operand
            operand = typed(operand)
            if operand.dtype is DType.BOOL:
                raise TypeMismatchError("a condition has no sign")
            return Unary("-", operand)


def select(condition: Operand, yes: Operand, no: Operand) -> Expression:
    a, b = matched((yes, no))
    return Select(truth(condition), a, b)


def apply(function: Function, arguments: Sequence[Operand]) -> Expression:
    """A function; integers become f32 for it, but for `abs`."""
    if len(arguments) != ARGUMENTS[function]:
        raise TypeMismatchError(f"`{function}` takes {ARGUMENTS[function]}, not {len(arguments)}")
    given = matched(arguments)
    dtype = given[0].dtype
    if dtype is DType.BOOL:
        raise TypeMismatchError(f"`{function}` is for numbers")
    if function == "abs" and dtype.is_integer:
        if not dtype.is_signed:
            return given[0]
        return Apply("abs", given, DType.of(f"u{8 * dtype.nbytes}"))
    if not dtype.is_float:
        dtype = DType.F32
        given = tuple(cast_to(dtype, g) for g in given)
    return Apply(function, given, dtype)


def _number(operator: str, left: Number, right: Number) -> Number | None:
    """What two numbers make; None where it has to be an expression."""
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "min" | "max":
            found = min(left, right) if operator == "min" else max(left, right)
            return float(found) if isinstance(left, float) or isinstance(right, float) else found
        case "/" if right != 0:
            is_whole = isinstance(left, int) and isinstance(right, int)
            return left // right if is_whole else left / right
        case "%" if right != 0 and isinstance(left, int) and isinstance(right, int):
            return left % right
        case "<<" if isinstance(left, int) and isinstance(right, int) and 0 <= right < 64:
            return left << right
        case ">>" if isinstance(left, int) and isinstance(right, int) and 0 <= right < 64:
            return left >> right
        case "&" if isinstance(left, int) and isinstance(right, int):
            return left & right
        case "|" if isinstance(left, int) and isinstance(right, int):
            return left | right
        case "^" if isinstance(left, int) and isinstance(right, int):
            return left ^ right
    return None
