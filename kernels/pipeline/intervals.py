"""The values that expressions can have.

In: an expression, the values of its variables, and what is known of stages and inputs. Out: an interval that
contains all its values; exactly theirs for positions that are affine in variables that vary by themselves,
also divided. Floats are rounded away from the middle, so that no order of evaluation gets beyond.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import NUMBER_TYPE
from spacedsl.kernels.pipeline.affine import Extreme, Linear, Opaque, Quotient, Remainder, is_atom, linear
from spacedsl.kernels.pipeline.algorithm import (
    Apply,
    Binary,
    Cast,
    Compare,
    Constant,
    Expression,
    Read,
    Scalar,
    Select,
    Unary,
    Undefined,
    Variable,
    walk,
)


@dataclass(frozen=True, slots=True)
class Interval:
    """From `low` to `high`, both of which belong to it; infinite where nothing is known."""

    low: float
    high: float

    @property
    def is_bounded(self) -> bool:
        return math.isfinite(self.low) and math.isfinite(self.high)

    def hull(self, other: Interval) -> Interval:
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def within(self, other: Interval) -> Interval:
        """Of what is known to lie in both."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Interval(low, high) if low <= high else self


UNKNOWN = Interval(-math.inf, math.inf)

Variables = Mapping[str, Interval]
Known = Callable[[Read], Interval]
"""The values of a stage or an input."""


def of_type(dtype: DType) -> Interval:
    """What a type alone says; of integers of 32 bits and more it says nothing that would help."""
    if dtype.is_float or dtype.nbytes >= 4:
        return UNKNOWN if dtype.is_float or dtype.is_signed else Interval(0, math.inf)
    return Interval(dtype.least, dtype.greatest)


def is_held(values: Interval, dtype: DType) -> bool:
    """Whether a type of integers has all of these."""
    return dtype.least <= values.low and values.high <= dtype.greatest


def interval(node: Expression, variables: Variables, known: Known) -> Interval:
    """Of an expression of any type."""
    is_position = node.dtype is DType.I32 and not isinstance(node, _NO_SUMS)
    if is_position and _is_of_whole_numbers(node, variables, known):
        return _position(linear(node), variables, known)
    found = _interval(node, variables, known)
    if node.dtype.is_float or is_held(found, node.dtype) or not _is_arithmetic(node):
        return found
    return of_type(node.dtype)  # it may have wrapped around


_NO_SUMS = Read | Cast | Select | Apply | Scalar | Undefined


def _is_arithmetic(node: Expression) -> bool:
    """Whether its type may be too narrow for what it makes of values that theirs hold."""
    is_sum = isinstance(node, Binary) and node.operator in ("+", "-", "*", "<<")
    return is_sum or (isinstance(node, Unary) and node.operator == "-")


def _is_of_whole_numbers(node: Expression, variables: Variables, known: Known) -> bool:
    """Whether nothing has wrapped around before it is divided, or compared with something: multiples of the
    divisor come out of a sum, and terms say which of two sums is greater.
    """
    sums = (
        linear(side)
        for part in walk(node)
        if isinstance(part, Binary) and part.dtype is DType.I32
        for side in _whole_sides(part)
    )
    return all(is_atom(form) or is_held(whole(form, variables, known), DType.I32) for form in sums)


def _whole_sides(node: Binary) -> tuple[Expression, ...]:
    """What has to be a whole number, so that a linear form of the operation is the operation."""
    match node.operator:
        case "/" | "%":
            return (node.left,)
        case "min" | "max":
            return (node.left, node.right)
    return ()


def whole(form: Linear, variables: Variables, known: Known) -> Interval:
    """Of a position as a whole number, whether or not 32 bits hold it."""
    low = high = float(form.constant)
    for atom, number in form.terms:
        each = _atom(atom, variables, known)
        ends = (number * each.low, number * each.high)
        low, high = low + min(ends), high + max(ends)
    return Interval(_whole(low), _whole(high))


def _position(form: Linear, variables: Variables, known: Known) -> Interval:
    """Of a position, which wraps around where 32 bits do not hold it."""
    found = whole(form, variables, known)
    return found if is_atom(form) or is_held(found, DType.I32) else UNKNOWN


def _whole(value: float) -> float:
    return int(value) if math.isfinite(value) else value


def _atom(
    atom: Variable | Quotient | Remainder | Extreme | Opaque, variables: Variables, known: Known
) -> Interval:
    match atom:
        case Variable(name):
            return variables.get(name, UNKNOWN)
        case Quotient(dividend, divisor):
            inner = _position(dividend, variables, known)
            return Interval(_floor(inner.low, divisor), _floor(inner.high, divisor))
        case Remainder(dividend, divisor):
            inner = _position(dividend, variables, known)
            if inner.is_bounded and inner.low // divisor == inner.high // divisor:
                return Interval(inner.low % divisor, inner.high % divisor)
            return Interval(0, divisor - 1)
        case Extreme(operator, left, right):
            a, b = _position(left, variables, known), _position(right, variables, known)
            # One of two is at most half of their sum, and one at least.
            half = whole(left + right, variables, known)
            if operator == "min":
                return Interval(min(a.low, b.low), min(a.high, b.high, _floor(half.high, 2)))
            return Interval(max(a.low, b.low, -_floor(-half.low, 2)), max(a.high, b.high))
        case Opaque(expression):
            found = _interval(expression, variables, known)
            return found if is_held(found, DType.I32) or not _is_arithmetic(expression) else UNKNOWN


def _floor(value: float, divisor: int) -> float:
    return value // divisor if math.isfinite(value) else value


def _interval(node: Expression, variables: Variables, known: Known) -> Interval:
    match node:
        case Constant(value):
            return Interval(float(value), float(value)) if node.dtype.is_float else Interval(value, value)
        case Undefined(dtype) | Scalar(dtype=dtype):
            return of_type(dtype)
        case Variable(name):
            return variables.get(name, UNKNOWN)
        case Read():
            return known(node).within(of_type(node.dtype))
        case Compare():
            return Interval(0, 1)
        case Select(_, yes, no):
            return interval(yes, variables, known).hull(interval(no, variables, known))
        case Cast(dtype, operand):
            return _cast(dtype, operand.dtype, interval(operand, variables, known))
        case Unary("-", operand):
            inner = interval(operand, variables, known)
            return Interval(-inner.high, -inner.low)
        case Binary(operator, left, right):
            a, b = interval(left, variables, known), interval(right, variables, known)
            return _binary(operator, a, b, node.dtype)
        case Apply(function, arguments):
            return _applied(function, [interval(a, variables, known) for a in arguments], node.dtype)
        case _:
            return of_type(node.dtype)


def _cast(dtype: DType, given: DType, inner: Interval) -> Interval:
    if dtype.is_float:
        return _rounded(inner, dtype) if given is not dtype else inner
    if dtype is DType.BOOL:
        return Interval(0, 1)
    truncated = Interval(*(math.trunc(end) if math.isfinite(end) else end for end in (inner.low, inner.high)))
    return truncated if is_held(truncated, dtype) else of_type(dtype)


def _binary(operator: str, a: Interval, b: Interval, dtype: DType) -> Interval:
    match operator:
        case "min":
            return Interval(min(a.low, b.low), min(a.high, b.high))
        case "max":
            return Interval(max(a.low, b.low), max(a.high, b.high))
        case "+":
            return _rounded(Interval(a.low + b.low, a.high + b.high), dtype)
        case "-":
            return _rounded(Interval(a.low - b.high, a.high - b.low), dtype)
        case "*":
            ends = [_product(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
            return _rounded(Interval(min(ends), max(ends)), dtype)
        case "/" if b.low > 0 and dtype.is_float:
            ends = [_quotient(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
            return _rounded(Interval(min(ends), max(ends)), dtype)
        case "/" if b.low > 0 and b.is_bounded and a.is_bounded:
            ends = [x // y for x in (a.low, a.high) for y in (b.low, b.high)]
            return Interval(min(ends), max(ends))
        case "%" if b.low > 0 and not dtype.is_float:
            return Interval(0, b.high - 1)
        case "&" if b.low >= 0:
            return Interval(0, b.high)
        case "&" if a.low >= 0:
            return Interval(0, a.high)
        case "&&" | "||":
            return Interval(0, 1)
        case ">>" if b.low >= 0 and a.is_bounded:
            return Interval(min(a.low, 0), max(a.high, 0))
        case "<<" if a.low >= 0 and b.low >= 0 and a.is_bounded and b.high < 64:
            return Interval(int(a.low) << int(b.low), int(a.high) << int(b.high))
        case _:
            return of_type(dtype)


def _product(x: float, y: float) -> float:
    return 0 if x == 0 or y == 0 else x * y


def _quotient(x: float, y: float) -> float:
    return 0 if math.isinf(y) else x / y


_EXACT = ("floor", "ceil", "round", "trunc", "sqrt")
_RISING: Mapping[str, Callable[[float], float]] = {
    "exp": np.exp, "sqrt": np.sqrt, "atan": np.arctan, "sinh": np.sinh, "tanh": np.tanh, "floor": np.floor,
    "ceil": np.ceil, "round": np.rint, "trunc": np.trunc,
}  # fmt: skip


def _applied(function: str, given: list[Interval], dtype: DType) -> Interval:
    inner = given[0]
    match function:
        case "abs":
            low = 0 if inner.low <= 0 <= inner.high else min(abs(inner.low), abs(inner.high))
            return Interval(low, max(abs(inner.low), abs(inner.high)))
        case "sin" | "cos":
            return _widened(Interval(-1, 1), dtype)
        case "sqrt" if inner.low < 0:
            return UNKNOWN
        case _ if function in _RISING:
            rising = _RISING[function]
            with np.errstate(all="ignore"):
                image = Interval(float(rising(inner.low)), float(rising(inner.high)))
            return _rounded(image, dtype) if function in _EXACT else _widened(image, dtype)
    return UNKNOWN


def _rounded(given: Interval, dtype: DType) -> Interval:
    """What an operation gives that is rounded once; ends that the type holds are what they are."""
    if not dtype.is_float:
        return given
    wider = _widened(given, dtype)
    low, high = _held(given.low, dtype), _held(given.high, dtype)
    return Interval(given.low if low else wider.low, given.high if high else wider.high)


def _held(value: float, dtype: DType) -> bool:
    # A number of Python would become one of the type before it is compared.
    with np.errstate(over="ignore"):
        return float(NUMBER_TYPE[dtype](value)) == value


def _widened(given: Interval, dtype: DType) -> Interval:
    """With room for two roundings at either end, and for functions that are not exact."""
    format_ = NUMBER_TYPE[dtype]
    with np.errstate(over="ignore"):
        low, high = format_(given.low), format_(given.high)
        for _ in range(2):
            low, high = np.nextafter(low, format_(-np.inf)), np.nextafter(high, format_(np.inf))
    return Interval(float(low), float(high))
