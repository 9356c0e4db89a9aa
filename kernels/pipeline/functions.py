"""The functions of the language that are short for other expressions.

In: operands as `typing.py` takes them. Out: expressions. Both ways to write an algorithm call these, so that
the same words mean the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import get_args

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.algorithm import Compare, Constant, Expression, Select
from spacedsl.kernels.pipeline.syntax import Reducer
from spacedsl.kernels.pipeline.typing import (
    ARGUMENTS,
    Operand,
    TypeMismatchError,
    binary,
    cast_to,
    common,
    matched,
    nearest,
    select,
    truth,
    typed,
)

COUNTED = {"min": 2, "max": 2, "clamp": 3, "absd": 2, "lerp": 3, "select": 3, "mux": 2, "undefined": 1}
"""Functions that are no operation of their own, and how many arguments they take at least."""

CONVERSIONS = {d.label: d for d in DType}
SATURATED = {f"{d.label}_sat": d for d in DType if d.is_integer}


def clamp(value: Operand, low: Operand, high: Operand) -> Operand:
    """Held between two others, in the type of the value."""
    if not isinstance(value, int | float):
        low, high = (typed(o, value.dtype) if isinstance(o, int | float) else o for o in (low, high))
    return binary("max", binary("min", value, high), low)


def absd(left: Operand, right: Operand) -> Expression:
    """How far two are apart; of integers, unsigned."""
    a, b = matched((left, right))
    apart = Select(Compare("<", a, b), typed(binary("-", b, a)), typed(binary("-", a, b)))
    if a.dtype.is_signed:
        return cast_to(DType.of(f"u{8 * a.dtype.nbytes}"), apart)
    return apart


def lerp(zero: Operand, one: Operand, weight: Operand) -> Operand:
    """From one float to another one."""
    a, b, w = matched((zero, one, weight))
    if not a.dtype.is_float:
        raise TypeMismatchError(f"`lerp` is for floats, not for {a.dtype.label}")
    return binary("+", binary("*", a, binary("-", 1, w)), binary("*", b, w))


def saturated(dtype: DType, value: Operand) -> Expression:
    """As an integer type that takes its least or greatest value for what is beyond."""
    given = typed(value)
    low, high = dtype.least, dtype.greatest
    if given.dtype.is_integer:
        low, high = max(low, given.dtype.least), min(high, given.dtype.greatest)
        if (low, high) == (given.dtype.least, given.dtype.greatest):
            return cast_to(dtype, given)
    elif given.dtype.is_float:
        given = cast_to(common(given.dtype, DType.F32), given)
        if nearest(high, given.dtype) > high:
            # No float is the greatest value: the next one is beyond it.
            beyond = Compare(">=", given, typed(high, given.dtype))
            below = cast_to(dtype, typed(binary("max", given, low)))
            return Select(beyond, Constant(high, dtype), below)
    return cast_to(dtype, typed(clamp(given, low, high)))


def selection(arguments: Sequence[Operand]) -> Expression:
    """`select(c, a, d, b, .., otherwise)`: the value behind the first condition that holds."""
    if len(arguments) < 3 or len(arguments) % 2 == 0:
        message = "`select` takes conditions, each with its value, and what holds otherwise"
        raise TypeMismatchError(message)
    conditions = [truth(c) for c in arguments[:-1:2]]
    *values, result = matched([*arguments[1::2], arguments[-1]])
    for condition, value in zip(reversed(conditions), reversed(values), strict=True):
        result = Select(condition, value, result)
    return result


def mux(index: Operand, values: Sequence[Operand]) -> Expression:
    """The value of a number; of greater ones, the last one."""
    if not values:
        raise TypeMismatchError("`mux` takes a number and the values to choose from")
    if typed(index).dtype.is_float:
        raise TypeMismatchError(f"`mux` chooses by an integer, not by {typed(index).dtype.label}")
    *first, result = matched(values)
    for position, value in reversed(list(enumerate(first))):
        result = select(binary("==", index, position), value, result)
    return result


# ---- What lies outside of an array ------------------------------------------------------------------------

EdgeRule = Callable[[Operand, int], Operand]
"""From a position and an extent to a position inside."""


def _mirror_image(position: Operand, extent: int) -> Operand:
    folded = binary("%", position, 2 * extent)
    return binary("min", folded, binary("-", 2 * extent - 1, folded))


def _mirror_interior(position: Operand, extent: int) -> Operand:
    if extent == 1:
        return 0
    folded = binary("%", position, 2 * extent - 2)
    return binary("min", folded, binary("-", 2 * extent - 2, folded))


EDGES: Mapping[str, EdgeRule] = MappingProxyType(
    {
        "repeat_edge": lambda position, extent: clamp(position, 0, extent - 1),
        "repeat_image": lambda position, extent: binary("%", position, extent),
        "mirror_image": _mirror_image,
        "mirror_interior": _mirror_interior,
    }
)
"""By the names that they have in Halide: what is read for a position outside."""


def held(rule: str, position: Operand, within: range) -> Operand:
    """A position inside, by one of `EDGES`; for any other rule, the nearest one."""
    low = within.start
    if rule == "repeat_edge" or rule not in EDGES:
        return clamp(position, low, within.stop - 1)
    inner = EDGES[rule](binary("-", position, low) if low else position, len(within))
    return binary("+", inner, low) if low else inner


def inside(point: Sequence[Operand], within: Sequence[range | None]) -> Operand:
    """Whether a point is one of an array; along some dimensions it may be any."""
    conditions = [
        each
        for position, of in zip(point, within, strict=True)
        if of is not None and not (isinstance(position, int) and position in of)
        for each in (binary(">=", position, of.start), binary("<", position, of.stop))
    ]
    return reduce(lambda a, b: binary("&&", a, b), conditions) if conditions else True


# ---- Names ------------------------------------------------------------------------------------------------

FUNCTIONS = frozenset({*ARGUMENTS, *COUNTED, *SATURATED, *CONVERSIONS, *EDGES, "constant_exterior"})
"""Names that mean something in the language."""

VALUES: Mapping[str, bool | float] = MappingProxyType({"true": True, "false": False, "inf": math.inf})

RESERVED = FUNCTIONS | {*get_args(Reducer), "for", "in", "where", "if", "else", *VALUES}
"""Names that nothing else can have."""
