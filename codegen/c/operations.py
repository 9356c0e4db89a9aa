"""Operations on values as C: arithmetic, divisions, bits and conversions, of scalars and of vectors.

In: operations of a verified `Program`, their operands as texts. Out: C expressions, or calls of functions.
Integers are unsigned wherever they are computed with, and signed where that makes a difference: when they are
compared, divided, shifted to the right or converted. C computes with narrow scalars as `int`; results are cut
to their own width. Truth values of vectors are for `c/expressions.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spacedsl.codegen.c.builtins import ROUNDING_MODES, library_name
from spacedsl.codegen.c.types import arithmetic_type, c_number, integers, signed_type
from spacedsl.codegen.tree.expressions import (
    Add,
    Bitwise,
    Broadcast,
    Compare,
    Div,
    Expression,
    FloorDiv,
    FloorMod,
    Fma,
    Mul,
    Neg,
    Not,
    Number,
    Sub,
    Type,
    type_of,
)
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.algorithm import Comparator, Function


@dataclass(frozen=True, slots=True)
class Called:
    """A call of a function of `c/functions.py`, which is for a type."""

    kind: Type
    function: str
    arguments: tuple[str, ...]


_NESTED = re.compile(r"[(){}\[\] ]")


class Open(str):
    """An operation that needs parentheses as an operand of another one, which need not be found out.

    Arithmetic alone says so: long sums of long products are what takes time to look through.
    """

    __slots__ = ()


def operand(text: str) -> str:
    """In parentheses where it needs some: operators with two operands have spaces around them."""
    if type(text) is Open:
        return f"({text})"
    depth = 0
    for found in _NESTED.finditer(text) if " " in text else ():
        character = found[0]
        if character == " ":
            if depth == 0:
                return f"({text})"
        else:
            depth += 1 if character in "([{" else -1
    return f"({text})" if text.startswith("-") else text


def arithmetic(expression: Expression, printed: Callable[[Expression], str]) -> str:
    """An operation with its operands as somebody prints them, in parentheses where they need some."""

    def part(inner: Expression) -> str:
        return operand(printed(inner))

    kind = type_of(expression)
    # What C multiplies as an `int` may be too large for one.
    unsigned = "1u * " if kind.lanes == 1 and kind.dtype.is_integer and kind.dtype.nbytes == 2 else ""
    match expression:
        case Fma(a, b, c):
            return _cut(kind, Open(f"{unsigned}{part(a)} * {part(b)} + {part(c)}"))
        case Add(a, b):
            return _cut(kind, Open(f"{part(a)} + {part(b)}"))
        case Sub(a, b):
            return _cut(kind, Open(f"{part(a)} - {part(b)}"))
        case Mul(a, b):
            return _cut(kind, Open(f"{unsigned}{part(a)} * {part(b)}"))
        case Div(a, b):
            return Open(f"{part(a)} / {part(b)}")
        case Neg(a):
            return _cut(kind, f"-{part(a)}")
    raise AssertionError(f"{type(expression).__name__} is no arithmetic")


def bits(node: Bitwise | Not, printed: Callable[[Expression], str]) -> str | Called:
    """Of integers, or of truth values that are bytes."""
    kind = type_of(node)
    match node:
        case Not(value) if kind.dtype is DType.BOOL:
            return f"{operand(printed(value))} ^ 1"
        case Not(value):
            return _cut(kind, f"~{operand(printed(value))}")
        case Bitwise("<<" | ">>" as operator, left, right):
            return _shift(kind, operator == "<<", printed(left), printed(right), _constant(right))
        case Bitwise(operator, left, right):
            return f"{operand(printed(left))} {operator} {operand(printed(right))}"


def _shift(kind: Type, is_left: bool, value: str, amount: str, constant: int | None) -> str | Called:
    width = 8 * kind.dtype.nbytes
    if constant is None:
        return Called(kind, "shift_left" if is_left else "shift_right", (value, amount))
    is_within = 0 <= constant < width
    if not is_left and kind.dtype.is_signed:
        return _again_unsigned(kind, f"{signed(kind, value)} >> {constant if is_within else width - 1}")
    if not is_within:
        return _zero(kind)
    return _cut(kind, Open(f"{operand(value)} {'<<' if is_left else '>>'} {constant}"))


def division(node: FloorDiv | FloorMod, printed: Callable[[Expression], str]) -> str | Called:
    """Rounded down. A positive divisor that is known is none of the special cases."""
    kind, value, divisor = type_of(node), printed(node.left), _constant(node.right)
    is_quotient = isinstance(node, FloorDiv)
    name = "floor_div" if is_quotient else "floor_mod"
    if divisor is None or divisor <= 0:
        return Called(kind, name, (value, printed(node.right)))
    is_power = divisor & (divisor - 1) == 0
    if is_power and not is_quotient:
        return f"{operand(value)} & {c_number(divisor - 1, kind.dtype)}"
    if is_power and kind.dtype.is_signed:
        return _again_unsigned(kind, f"{signed(kind, value)} >> {divisor.bit_length() - 1}")
    if kind.dtype.is_signed:
        return Called(kind, f"{name}_by_{divisor}", (value,))
    return f"{operand(value)} {'/' if is_quotient else '%'} {c_number(divisor, kind.dtype)}"


def comparison(node: Compare, printed: Callable[[Expression], str]) -> str:
    """Of scalars 0 or 1, of vectors all bits of the lanes in which it holds, as signed integers."""
    return compared(type_of(node.left), node.comparator, printed(node.left), printed(node.right))


def compared(kind: Type, comparator: Comparator, left: str, right: str) -> str:
    if kind.dtype.is_signed and comparator not in ("==", "!="):
        left, right = signed(kind, left), signed(kind, right)
    text = f"{operand(left)} {comparator} {operand(right)}"
    return text if kind.lanes == 1 else f"({integers(kind)})({text})"


def conversion(kind: Type, dtype: DType, value: str) -> str | Called:
    """From one type to another; of vectors, not to truth values."""
    given = kind.dtype
    if given.is_float and dtype.is_float:
        return Called(*conversion_function(kind, dtype), (value,))
    if kind.lanes > 1:
        is_same = arithmetic_type(given) == arithmetic_type(dtype)
        return value if is_same else Called(kind, f"to_{dtype.label}", (value,))
    if dtype is DType.BOOL:
        return compared(kind, "!=", value, _zero(kind))
    result = arithmetic_type(dtype)
    if given.is_float:
        return f"({result})({dtype.by_way_of.c_name}){operand(value)}"
    if dtype.is_float or dtype.nbytes > given.nbytes:
        value = signed(kind, value) if given.is_signed else value
    elif result == arithmetic_type(given):
        return value
    return f"({result}){operand(value)}"


def conversion_function(kind: Type, dtype: DType) -> tuple[Type, str]:
    """Belongs to the type that is converted; to f32 where that is what another float becomes."""
    if dtype is DType.F32 and kind.dtype.is_float:
        return Type(DType.F32, kind.lanes), f"from_{kind.dtype.label}"
    return kind, f"to_{dtype.label}"


def call(kind: Type, function: Function, arguments: Sequence[str]) -> str | Called:
    """Of the C library, lane by lane; what cuts off numbers behind the point may be an instruction."""
    if kind.lanes == 1:
        return f"{library_name(function, kind.dtype)}({', '.join(arguments)})"
    name = "rounded" if function in ROUNDING_MODES else ("library", "binary_library")[len(arguments) - 1]
    return Called(kind, f"{name}_{function}", tuple(arguments))


def signed(kind: Type, text: str) -> str:
    """The same bits, as signed integers."""
    return f"({signed_type(kind.dtype) if kind.lanes == 1 else integers(kind)}){operand(text)}"


def _again_unsigned(kind: Type, text: str) -> str:
    return f"({arithmetic_type(kind.dtype) if kind.lanes == 1 else kind})({text})"


def _cut(kind: Type, text: str) -> str:
    """What C has computed as an `int`, in the type that it should have."""
    is_narrow = kind.lanes == 1 and not kind.dtype.is_float and kind.dtype.nbytes < 4
    return f"({arithmetic_type(kind.dtype)})({text})" if is_narrow else text


def _zero(kind: Type) -> str:
    return c_number(0, kind.dtype) if kind.lanes == 1 else f"({kind}){{0}}"


def _constant(node: Expression) -> int | None:
    """The integer that all lanes are."""
    match node:
        case Number(value) | Broadcast(Number(value)):
            return int(value)
    return None
