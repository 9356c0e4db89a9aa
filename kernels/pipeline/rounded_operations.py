"""How far the result of one operation is off: what it is rounded by, and how far it moves as its operands do.

In: a node of an expression, its value and those of its operands, as the reference has them, and how far each
may be off. Out: the same of the result. Where a value decides something, as a comparison does, the result may
be that of either decision. What arrays hold, and where they are read, is for `rounding.py`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import NUMBER_TYPE, PRECISION
from spacedsl.kernels.pipeline.algorithm import (
    Apply,
    Binary,
    Cast,
    Compare,
    Expression,
    Select,
    Unary,
    operands,
)
from spacedsl.kernels.pipeline.reference import computed

_LEAST_STEP = {
    DType.F32: 2.0**-149, DType.F64: 2.0**-1074, DType.F16: 2.0**-24, DType.BF16: 2.0**-133
}  # fmt: skip
"""Between the least numbers of each type."""

Error = Any
"""How far a value may be off: a number, or numbers that can be broadcast to it; None of what is exact."""

_OPERATION = 2
"""Units of precision that a result may be off by beside what its operands are."""

_FUNCTION = 8
"""The same of functions, which libraries round to a few units."""

_EXACT_FUNCTIONS = frozenset({"floor", "ceil", "round", "trunc", "abs"})

_TRIED = 4
"""Elements along each axis that are looked at first: mostly these are rounded already."""

_NEAREST = 4
"""Integers to either side of one that are looked at one by one: what follows may rise and fall."""

_FAR = 1 << 10
"""Beyond this, none are looked at but the last one."""

_QUARTER = math.pi / 2
"""Of a period of functions that have one."""


def own_error(node: Expression, value: Any, given: Sequence[Any], carried: Error = None) -> Error:
    """What an operation adds, to what it carries on from its operands; None where it is exact itself.

    One that is exact on the operands of the reference need not be so on others.
    """
    if isinstance(node, Cast) and node.operand.dtype.is_float and node.dtype.is_integer:
        return _unspecified(node.dtype, given[0])
    units = _units(node)
    is_exact = bool(units) and _is_exact(node, value, given)
    if not units or (is_exact and carried is None):
        return None
    # What is no number is so for all. Numbers below all normal ones have fewer digits.
    reached = np.fmax(np.abs(value), 0)
    step = np.maximum(PRECISION[node.dtype] * reached, _LEAST_STEP[node.dtype])
    is_rounded = (reached > 0) & (np.asarray(carried) > 0) if is_exact else reached > 0
    return units * np.where(is_rounded, step, 0)


def _unspecified(dtype: DType, value: Any) -> Error:
    """Of what a float becomes that integers do not hold, or that is no number: each machine has its own."""
    way, wide = dtype.by_way_of, np.asarray(value, np.float64)
    is_held = (wide > way.least - 1.0) & (wide < way.greatest + 1.0)
    if way is DType.I64:
        is_held |= wide == float(way.least)
    return None if np.all(is_held) else np.where(is_held, 0, float(dtype.greatest) - dtype.least)


def _units(node: Expression) -> int:
    if not node.dtype.is_float:
        return 0
    match node:
        case Binary("+" | "-" | "*" | "/" | "%") | Cast():
            return _OPERATION
        case Apply(function):
            if function in _EXACT_FUNCTIONS:
                return 0
            # Those of 16 bits are functions of f32, rounded once more.
            return _FUNCTION if node.dtype.has_arithmetic else _OPERATION
        case _:
            return 0


def _is_exact(node: Expression, value: Any, given: Sequence[Any]) -> bool:
    """Whether nothing had to be rounded: f64 would give the same."""
    if not isinstance(node, Binary | Cast):
        return False
    parts = [_corner(v) for v in given]
    return _is_same(node, computed(node, parts), parts) and _is_same(node, value, given)


def _is_same(node: Expression, value: Any, given: Sequence[Any]) -> bool:
    if isinstance(node, Cast):
        return bool(np.all(np.asarray(value, np.float64) == np.asarray(given[0], np.float64)))
    if node.dtype is DType.F64:
        return all(is_integral(v) for v in (value, *given))
    return bool(np.all(computed(node, [np.asarray(v, np.float64) for v in given]) == value))


def is_integral(value: Any) -> bool:
    return bool(np.all(np.rint(value) == value)) and magnitude(value) < 2.0**52


def _corner(value: Any) -> Any:
    """A few of the values."""
    return np.asarray(value)[tuple(slice(0, _TRIED) for _ in range(np.ndim(value)))]


def carried_error(node: Expression, value: Any, given: Sequence[tuple[Any, Error]]) -> Error:
    """How far a result goes as operands go as far as they may be off."""
    errors: list[Any] = [0 if e is None else e for _, e in given]
    match node:
        case Unary():
            return errors[0]
        case Binary("&&" | "||"):
            return np.maximum(errors[0], errors[1])
        case Binary("+" | "-"):
            return _wrapped(node.dtype, value, functools.reduce(added, [e for _, e in given]))
        case Binary("*"):
            (a, left), (b, right) = given
            grown = [None if e is None else _product(v, e) for v, e in ((b, left), (a, right))]
            if left is not None and right is not None:
                grown.append(_product(left, right))
            return _wrapped(node.dtype, value, functools.reduce(added, grown))
        case Compare():
            (a, _), (b, _) = given
            apart = errors[0] + errors[1]
            return ((apart > 0) & (distance(a, b) <= apart)).astype(np.float32)
        case Select():
            (condition, _), (yes, _), (no, _) = given
            chosen = np.where(condition, errors[1], errors[2])
            if given[0][1] is None:
                return chosen
            both = distance(yes, no) + np.maximum(errors[1], errors[2])
            return np.where(np.asarray(errors[0]) > 0, both, chosen)
        case _:
            return sum(_moved_by(node, value, given, at) for at, (_, e) in enumerate(given) if e is not None)


def _moved_by(node: Expression, value: Any, given: Sequence[tuple[Any, Error]], at: int) -> Any:
    """How far a result goes as one operand goes to both sides."""
    values = [v for v, _ in given]
    moving, error = given[at]
    dtype = operands(node)[at].dtype
    found: Any = 0
    for step in _steps(node, dtype, np.asarray(error, np.float64)):
        for sign in (-1, 1):
            there = _beyond(dtype, moving, sign * step)
            result = computed(node, [*values[:at], there, *values[at + 1 :]])
            found = np.maximum(found, distance(result, value))
    return found


def _steps(node: Expression, dtype: DType, error: Any) -> Iterator[Any]:
    """To the end of an error, and to what lies between, where results may rise and fall on the way."""
    yield error
    if isinstance(node, Apply) and node.function in ("sin", "cos", "tan"):
        yield np.minimum(error, _QUARTER)
    if dtype.is_float:
        return
    most, step = magnitude(error), 1
    while step < min(most, _FAR):
        yield np.minimum(error, step)
        step = step + 1 if step < _NEAREST else step * 2


def _beyond(dtype: DType, value: Any, by: Any) -> Any:
    """A value of its type, so far away."""
    moved = np.asarray(value, np.float64) + by
    if not dtype.is_float:
        moved = np.clip(np.rint(moved), dtype.least, min(dtype.greatest, 2**62))
    return moved.astype(NUMBER_TYPE[dtype])


def _wrapped(dtype: DType, value: Any, error: Any) -> Any:
    """Of integers that may be off by so much that they wrap around: by all that the type has."""
    if dtype.is_float:
        return error
    wide = np.asarray(value, np.float64)
    wraps = (error > 0) & ((wide + error > dtype.greatest) | (wide - error < dtype.least))
    return np.where(wraps, float(dtype.greatest) - dtype.least, error)


def _product(value: Any, error: Any) -> Any:
    """An error grown by a factor, where none stays none even beside what is infinite."""
    if np.ndim(value) == 0 and np.isfinite(np.float64(value)):
        return abs(float(value)) * error
    grown = np.abs(np.asarray(value, np.float64)) * error
    return np.where(np.asarray(error) == 0, 0, grown)


def distance(a: Any, b: Any) -> Any:
    """Infinite where either is no number and the other is."""
    apart = np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64))
    unknown = np.isnan(apart)
    if unknown.any():
        is_same = (np.isnan(a) & np.isnan(b)) | (np.asarray(a) == np.asarray(b))
        apart = np.where(unknown, np.where(is_same, 0, np.inf), apart)
    return apart


def added(a: Error, b: Error) -> Error:
    return b if a is None else a if b is None else a + b


def magnitude(value: Any) -> float:
    """The largest magnitude."""
    found = np.asarray(value)
    return max(float(found.max()), -float(found.min())) if found.size else 0.0
