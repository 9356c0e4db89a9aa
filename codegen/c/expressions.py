"""Expressions of a program tree as C: values of registers, of memory, and of calls.

In: expressions of a verified `Program`. Out: C expressions, and which functions they call. Where a name is
declared is for `c/printer.py`, what a function does for `c/functions.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from spacedsl.codegen.c.functions import INTEGERS
from spacedsl.codegen.c.names import c_name
from spacedsl.codegen.c.operations import (
    Called,
    arithmetic,
    bits,
    call,
    compared,
    comparison,
    conversion,
    conversion_function,
    division,
    operand,
)
from spacedsl.codegen.c.positions import print_position
from spacedsl.codegen.c.types import arithmetic_type, c_number, integers
from spacedsl.codegen.tree.expressions import (
    Apply,
    Bitwise,
    Blend,
    Broadcast,
    Call,
    Compare,
    Convert,
    Counted,
    EveryOther,
    Expression,
    FirstLane,
    FloorDiv,
    FloorMod,
    Gather,
    Index,
    Interleave,
    Lane,
    LaneReduction,
    Load,
    Max,
    Min,
    Not,
    Number,
    Pack,
    ParameterValue,
    PartialLoad,
    Position,
    Register,
    Select,
    Type,
    type_of,
)
from spacedsl.codegen.tree.parts import operands, subexpressions
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
        case Interleave():
            return type_of(expression), "interleave"
        case EveryOther():
            return type_of(expression), "every_other"
        case Max():
            return type_of(expression), "max"
        case Min():
            return type_of(expression), "min"
        case Apply(function, _):
            return type_of(expression), function.value
        case Convert(value, dtype):
            return conversion_function(type_of(value), dtype)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Declarations:
    """What the text of an expression needs, in the order in which it stands there."""

    vectors: tuple[Type, ...]
    functions: tuple[tuple[Type, str], ...]
    """Each with the type that it is for."""


_FILES: list[dict[int, tuple[Expression, str, Declarations]]] = []
"""What has been printed of those that are printed now, by identity."""


@contextmanager
def one_file() -> Iterator[None]:
    """Around what prints one, whose declarations are asked for first, and then its texts: nothing is printed
    twice.
    """
    _FILES.append({})
    try:
        yield
    finally:
        _FILES.pop()


def print_expression(expression: Expression) -> str:
    """The text as the right side of an assignment: an operand of something else may need parentheses."""
    return _printed(expression)[1]


def declarations(expression: Expression) -> Declarations:
    return _printed(expression)[2]


def _printed(expression: Expression) -> tuple[Expression, str, Declarations]:
    file = _FILES[-1] if _FILES else {}
    known = file.get(id(expression))
    if known is None:
        printer = _Printer()
        text = printer.value(expression)
        vectors = dict.fromkeys(kind for e in subexpressions(expression) if (kind := type_of(e)).lanes > 1)
        needed = Declarations(tuple(vectors | printer.vectors), tuple(printer.functions))
        known = file[id(expression)] = expression, text, needed
    return known


class _Printer:
    """Prints, and keeps what is called.

    Where a vector of truth values is a register, or lies in memory, it is of bytes 0 and 1. Comparisons give
    masks, all bits of a lane or none, as wide as what they compare; and that is what selections take.
    """

    def __init__(self) -> None:
        self.vectors: dict[Type, None] = {}
        self.functions: dict[tuple[Type, str], None] = {}

    def value(self, node: Expression) -> str:
        kind = type_of(node)
        match node:
            case Register(name):
                return c_name(name)
            case ParameterValue(name):
                return _cast(c_name(name), kind)
            case Load(tensor, index):
                return _cast(element(tensor, index, kind, "load"), kind)
            case Gather(tensor, extent):
                given = (c_name(tensor), self.value(node.places), str(extent))
                return self.operation(kind, Called(kind, "gather", given))
            case PartialLoad(tensor, index, _, count):
                place = address(tensor, index, kind, "const ")
                return self.operation(kind, Called(kind, "load_first", (place, str(count))))
            case Number(number):
                return c_number(number, kind.dtype)
            case Pack(values):
                return f"({kind}){{{', '.join(self.value(value) for value in values)}}}"
            case Lane(value, number):
                return f"{operand(self.value(value))}[{number}]"
            case Counted(position):
                first = f"({arithmetic_type(kind.dtype)}){operand(print_position(position))}"
                return first if kind.lanes == 1 else self.operation(kind, Called(kind, "counted", (first,)))
            case Convert(value, dtype) if kind.lanes == 1 or dtype is not DType.BOOL:
                return self.converted(type_of(value), dtype, self.value(value))
            case FloorDiv() | FloorMod():
                return self.operation(kind, division(node, self.value))
            case Call(function, values):
                return self.operation(kind, call(kind, function, [self.value(value) for value in values]))
            case Compare() if kind.lanes == 1:
                return comparison(node, self.value)
            case Select(condition, yes, no) if kind.lanes == 1:
                parts = (operand(self.value(part)) for part in (condition, yes, no))
                return "{} ? {} : {}".format(*parts)
            case Select(condition, yes, no):
                chosen = (self.mask(condition, kind), self.value(yes), self.value(no))
                return self.operation(kind, Called(kind, "select", chosen))
            case Bitwise() | Not() if kind.dtype is not DType.BOOL or kind.lanes == 1 or not _compared(node):
                return self.operation(kind, bits(node, self.value))
            case Compare() | Convert() | Bitwise() | Not():
                return f"({kind})({operand(self.mask(node, kind))} & 1)"
        if (known := called_function(node)) is None:
            return arithmetic(node, self.value)
        arguments = [self.value(part) for part in operands(node)]
        if isinstance(node, Blend):
            arguments.append(str(node.count))
        return self.operation(kind, Called(*known, tuple(arguments)))

    def operation(self, kind: Type, text: str | Called) -> str:
        """The text, once it is known what it needs."""
        if isinstance(text, Called):
            self.functions[text.kind, text.function] = None
            return f"{text.kind}_{text.function}({', '.join(text.arguments)})"
        if kind.lanes > 1 and integers(kind) in text:
            self.functions[kind, INTEGERS] = None
        return text

    def converted(self, kind: Type, dtype: DType, value: str) -> str:
        for vector in (kind, Type(dtype, kind.lanes)):
            if vector.lanes > 1:
                self.vectors[vector] = None
        return self.operation(kind, conversion(kind, dtype, value))

    def mask(self, node: Expression, kind: Type) -> str:
        """Of a vector of truth values, for the lanes of a type."""
        sizes = {given.dtype.nbytes: given for given in _compared(node)}
        if len(sizes) == 1 and kind.dtype.nbytes not in sizes:
            (given,) = sizes.values()
            return self.resized(self.mask(node, given), given, kind)
        match node:
            case Compare("==" | "!=" as comparator, left, right) if type_of(left).dtype is DType.BOOL:
                differs = f"{operand(self.mask(left, kind))} ^ {operand(self.mask(right, kind))}"
                return differs if comparator == "!=" else f"~({differs})"
            case Compare(_, left):
                given, text = type_of(left), comparison(node, self.value)
            case Convert(value, DType.BOOL):
                given = type_of(value)
                text = compared(given, "!=", self.value(value), f"({given}){{0}}")
            case Bitwise(operator, left, right):
                return f"{operand(self.mask(left, kind))} {operator} {operand(self.mask(right, kind))}"
            case Not(value):
                return f"~{operand(self.mask(value, kind))}"
            case _:
                given = Type(_of_size("u", kind), kind.lanes)
                text = self.converted(type_of(node), given.dtype, self.value(node))
                text = compared(given, "!=", text, f"({given}){{0}}")
        return self.resized(self.operation(given, text), given, kind)

    def resized(self, mask: str, given: Type, kind: Type) -> str:
        """For the lanes of another type."""
        if given.dtype.nbytes == kind.dtype.nbytes:
            return mask
        numbers = Type(_of_size("i", given), given.lanes)
        text = self.converted(numbers, _of_size("i", kind), f"({numbers}){operand(mask)}")
        return self.operation(kind, f"({integers(kind)}){text}")


def _of_size(family: Literal["i", "u"], kind: Type) -> DType:
    return DType.of(f"{family}{8 * kind.dtype.nbytes}")


def _compared(node: Expression) -> list[Type]:
    """What the comparisons compare that a vector of truth values consists of."""
    match node:
        case Compare(_, left, right) if type_of(left).dtype is DType.BOOL:
            return [*_compared(left), *_compared(right)]
        case Compare(_, value) | Convert(value, DType.BOOL):
            return [type_of(value)]
        case Bitwise(_, left, right):
            return [*_compared(left), *_compared(right)]
        case Not(value):
            return _compared(value)
    return []


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
    is_same = kind.lanes > 1 or kind.dtype.c_name == arithmetic_type(kind.dtype)
    return element if is_same else f"({arithmetic_type(kind.dtype)}){element}"


def c_type(kind: Type) -> str:
    """Of a register."""
    return arithmetic_type(kind.dtype) if kind.lanes == 1 else str(kind)
