"""The functions of the language in Python, by the names that they have in kernel files.

In: expressions and numbers. Out: an `Expr`. `functions.py` of the package above says what each means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial, reduce
from typing import cast

from spacedsl.kernels.pipeline import functions
from spacedsl.kernels.pipeline.algorithm import Function, Undefined
from spacedsl.kernels.pipeline.python.callers import located
from spacedsl.kernels.pipeline.python.expressions import (
    ElementType,
    Expr,
    Operation,
    Value,
    element_type,
    made,
)
from spacedsl.kernels.pipeline.typing import Operand, TypeMismatchError, apply, binary

bool_, bf16, f16, f32, f64 = map(ElementType, ("bool", "bf16", "f16", "f32", "f64"))
i8, i16, i32, i64 = map(ElementType, ("i8", "i16", "i32", "i64"))
u8, u16, u32, u64 = map(ElementType, ("u8", "u16", "u32", "u64"))


def undefined(type: ElementType) -> Expr:
    """What nobody reads before an update has written it."""
    return Operation(Undefined(located(lambda: element_type(type))))


# ---- Choices ----------------------------------------------------------------------------------------------


def select(*arguments: Value) -> Expr:
    """`select(c, a, d, b, .., otherwise)`: the value behind the first condition that holds."""
    return made(lambda *given: functions.selection(given), *arguments)


def mux(index: Value, *values: Value | Iterable[Value]) -> Expr:
    """The value of a number, from 0 on: a small table, as one list or value by value. Of greater numbers, the
    last one.
    """
    of_list = values[0] if len(values) == 1 and isinstance(values[0], Iterable) else values
    return made(lambda at, *given: functions.mux(at, given), index, *cast("Iterable[Value]", of_list))


def min(first: Value, *others: Value) -> Expr:
    return _extreme("min", first, *others)


def max(first: Value, *others: Value) -> Expr:
    return _extreme("max", first, *others)


def _extreme(operator: str, *arguments: Value) -> Expr:
    def make(*given: Operand) -> Operand:
        if len(given) == 1:
            reducer = "minimum" if operator == "min" else "maximum"
            message = f"`{operator}` takes at least 2 arguments"
            raise TypeMismatchError(message, f"the {operator} of a range is `{reducer}(r, value)`")
        return reduce(lambda a, b: binary(operator, a, b), given)

    return made(make, *arguments)


def clamp(value: Value, low: Value, high: Value) -> Expr:
    """Held between two others, in the type of the value."""
    return made(functions.clamp, value, low, high)


# ---- Arithmetic -------------------------------------------------------------------------------------------


def saturated(type: ElementType, value: Value) -> Expr:
    """As an integer type that takes its least or greatest value for what is beyond: `u8_sat` in a file."""

    def make(given: Operand) -> Operand:
        if not element_type(type).is_integer:
            raise TypeMismatchError(f"{type} has no least and no greatest value")
        return functions.saturated(type.dtype, given)

    return made(make, value)


def absd(left: Value, right: Value) -> Expr:
    """How far two are apart; of integers, unsigned."""
    return made(functions.absd, left, right)


def lerp(zero: Value, one: Value, weight: Value) -> Expr:
    """From one float to another one."""
    return made(functions.lerp, zero, one, weight)


def abs(value: Value) -> Expr:
    """Of integers, unsigned."""
    return _applied("abs", value)


def pow(base: Value, exponent: Value) -> Expr:
    return _applied("pow", base, exponent)


def atan2(y: Value, x: Value) -> Expr:
    return _applied("atan2", y, x)


def _applied(name: Function, *arguments: Value) -> Expr:
    return made(lambda *given: apply(name, given), *arguments)


def _of_floats(name: str) -> Callable[[Value], Expr]:
    return cast("Callable[[Value], Expr]", partial(_applied, cast("Function", name)))


exp, log, sqrt, sin, cos, tan = map(_of_floats, ("exp", "log", "sqrt", "sin", "cos", "tan"))
asin, acos, atan = map(_of_floats, ("asin", "acos", "atan"))
sinh, cosh, tanh = map(_of_floats, ("sinh", "cosh", "tanh"))
floor, ceil, round, trunc = map(_of_floats, ("floor", "ceil", "round", "trunc"))
