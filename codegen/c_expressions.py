"""Expressions of a program tree as C: values of registers, of memory, and of calls.

In: expressions of a verified `Program`. Out: C expressions, and which functions they call. Where a name is
declared is for `c_printer.py`, what a function does for `c_functions.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from spacedsl.codegen.c_functions import arithmetic_type, c_number
from spacedsl.codegen.c_positions import print_position
from spacedsl.codegen.names import c_name
from spacedsl.codegen.parts import operands
from spacedsl.codegen.program import (
    Add,
    Apply,
    Blend,
    Broadcast,
    Convert,
    Div,
    Expression,
    FirstLane,
    Fma,
    Index,
    LaneReduction,
    Load,
    Max,
    Min,
    Mul,
    Neg,
    Number,
    ParameterValue,
    PartialLoad,
    Position,
    Register,
    Sub,
    Type,
    type_of,
)
from spacedsl.kernels.dtypes import DType


def called_function(expression: Expression) -> tuple[Type, str] | None:
    """The function that an expression calls, and the type that it is for."""
    match expression:
        case Broadcast():
            return type_of(expression), "broadcast"
        case FirstLane(_, _, combine):
            return type_of(expression), f"first_{combine}"
        case LaneReduction(value, combine):
            return type_of(value), f"lanes_{combine}"
        case PartialLoad():
            return type_of(expression), "load_first"
        case Blend():
            return type_of(expression), "blend"
        case Max():
            return type_of(expression), "max"
        case Min():
            return type_of(expression), "min"
        case Apply(function, _):
            return type_of(expression), function.value
        case Convert(value, dtype):
            return _conversion(type_of(value), dtype)
        case _:
            return None


def _conversion(kind: Type, dtype: DType) -> tuple[Type, str]:
    """Belongs to the type that there is arithmetic for: of two, to the narrower one."""
    if kind.dtype is DType.F32:
        return kind, f"to_{dtype.label}"
    return Type(DType.F32, kind.lanes), f"from_{kind.dtype.label}"


def print_expression(expression: Expression) -> str:
    """The text as the right side of an assignment: an operand of something else may need parentheses."""
    called = called_function(expression)
    if called is not None:
        kind, function = called
        arguments = [print_expression(operand) for operand in operands(expression)]
        match expression:
            case PartialLoad(tensor, index, _, count):
                arguments = [address(tensor, index, kind, "const "), str(count)]
            case Blend(_, _, count):
                arguments.append(str(count))
        return f"{kind}_{function}({', '.join(arguments)})"
    match expression:
        case Register(name):
            return c_name(name)
        case ParameterValue(name, kind):
            return _cast(c_name(name), kind)
        case Load(tensor, index, kind):
            return _cast(element(tensor, index, kind, "load"), kind)
        case Number(value, kind):
            return c_number(value, kind.dtype)
    return arithmetic(expression, print_expression)


def arithmetic(expression: Expression, printed: Callable[[Expression], str]) -> str:
    """An operation with its operands as somebody prints them, in parentheses where they need some."""

    def operand(part: Expression) -> str:
        text = printed(part)
        is_compound = isinstance(part, Fma | Add | Sub | Mul | Div | Neg) or text.startswith("-")
        return f"({text})" if is_compound else text

    match expression:
        case Fma(a, b, c):
            return f"{operand(a)} * {operand(b)} + {operand(c)}"
        case Add(a, b):
            return f"{operand(a)} + {operand(b)}"
        case Sub(a, b):
            return f"{operand(a)} - {operand(b)}"
        case Mul(a, b):
            return f"{operand(a)} * {operand(b)}"
        case Div(a, b):
            return f"{operand(a)} / {operand(b)}"
        case Neg(a):
            return f"-{operand(a)}"
    raise AssertionError(expression)


def element(tensor: str, index: Index, kind: Type, access: str) -> str:
    """What lies there in memory; `access` is `load` or `store`. Vectors may begin at any element."""
    first = f"{c_name(tensor)}[{distance(index)}]"
    if kind.lanes == 1:
        return first
    const = "const " if access == "load" else ""
    return f"*({const}{kind}_unaligned *)&{first}"


def distance(index: Index) -> str:
    """From the first element of a tensor, in elements."""
    terms = [c_name(v) if stride == 1 else f"{c_name(v)} * {stride}" for v, stride in index.terms]
    for variable, share in index.shares:
        quotient = f" / {share.divisor}" if share.divisor > 1 else ""
        at = f"({c_name(variable)} + {share.ahead})" if share.ahead else c_name(variable)
        terms.append(f"{at} % {share.modulus}{quotient} * {share.stride}")
    if index.atoms:
        terms.append(print_position(Position(0, index.atoms)))
    if index.constant or not terms:
        terms.append(str(index.constant))
    return " + ".join(terms)


def address(tensor: str, index: Index, kind: Type, const: str = "") -> str:
    """Where a vector begins in memory, as a pointer to what arithmetic is done with."""
    first = element(tensor, index, Type(kind.dtype), "store")
    is_same = kind.dtype.c_name == arithmetic_type(kind.dtype)
    return f"&{first}" if is_same else f"({const}{arithmetic_type(kind.dtype)} *)&{first}"


def _cast(element: str, kind: Type) -> str:
    """An element of memory, or an argument, in the type that arithmetic is done in."""
    return f"(uint32_t){element}" if kind == Type(DType.I32) else element


def c_type(kind: Type) -> str:
    """Of a register."""
    return arithmetic_type(kind.dtype) if kind.lanes == 1 else str(kind)
