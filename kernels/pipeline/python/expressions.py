"""Expressions in Python: what operators make of numbers, and of other expressions.

In: a user's operators and calls. Out: `Expr`, each with the node that the same words in a kernel file mean,
since `typing.py` makes both. What is wrong is said at once, at the user's line. What can stand in expressions
is defined in `funcs.py`.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

import numpy as np

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.definitions import MOST_LEVELS
from spacedsl.kernels.pipeline.python.callers import located
from spacedsl.kernels.pipeline.typing import (
    DefinitionError,
    Operand,
    TypeMismatchError,
    apply,
    binary,
    cast_to,
    typed,
    unary,
)

MOST_OPERATIONS = 10_000
"""In one expression, where what Python shares is counted as often as text repeats it."""


class ElementType:
    """Of values. Called with one, it converts it: `u8(value)`."""

    def __init__(self, label: str) -> None:
        self.dtype = DType.of(label)

    def __call__(self, value: Value) -> Expr:
        """Integers wrap around; a float loses what is behind its point."""
        return made(lambda given: cast_to(self.dtype, given), value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ElementType) and other.dtype is self.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return self.dtype.label


def element_type(given: Any) -> DType:
    """Raises KF064 for what is none."""
    if isinstance(given, ElementType):
        return given.dtype
    raise TypeMismatchError(f"`{given!r}` is no element type", "such as `u8` or `f32` of `spacedsl.pipeline`")


class Expr:
    """An expression, and the ones that it has been made of. Conditions are joined by `&`, `|` and `~`.

    Each is of some class below this one, none of which is below another: of two operands of which the right
    one's class were, Python would compare the right one first, the other way around.
    """

    __array_ufunc__ = None  # numbers of NumPy leave operators to this class
    __slots__ = ("levels", "node", "operations", "parts")

    def __init__(self, node: Operand, parts: tuple[Expr, ...] = (), more_levels: int = 1) -> None:
        self.node = node
        self.parts = parts
        self.levels: int = more_levels + max((part.levels for part in parts), default=0)
        self.operations: int = 1 + sum(part.operations for part in parts)
        if self.levels > MOST_LEVELS or self.operations > MOST_OPERATIONS:
            what = (
                f"more than {MOST_LEVELS} operations inside each other"
                if self.levels > MOST_LEVELS
                else f"an expression of more than {MOST_OPERATIONS:,} operations"
            )
            hint = "give a part of it to a Func of its own, or use a reduction"
            raise DefinitionError("KF008", f"not supported: {what}", hint)

    @property
    def type(self) -> ElementType:
        return ElementType(typed(self.node).dtype.label)

    def __add__(self, other: Value) -> Expr:
        return infix("+", self, other)

    def __radd__(self, other: Value) -> Expr:
        return infix("+", other, self)

    def __sub__(self, other: Value) -> Expr:
        return infix("-", self, other)

    def __rsub__(self, other: Value) -> Expr:
        return infix("-", other, self)

    def __mul__(self, other: Value) -> Expr:
        return infix("*", self, other)

    def __rmul__(self, other: Value) -> Expr:
        return infix("*", other, self)

    def __truediv__(self, other: Value) -> Expr:
        """Of integers, rounded to minus infinity."""
        return infix("/", self, other)

    def __rtruediv__(self, other: Value) -> Expr:
        return infix("/", other, self)

    def __floordiv__(self, other: Value) -> Expr:
        """Of integers only: floats are divided by `/`."""
        return made(_whole_quotient, self, other)

    def __rfloordiv__(self, other: Value) -> Expr:
        return made(_whole_quotient, other, self)

    def __mod__(self, other: Value) -> Expr:
        return infix("%", self, other)

    def __rmod__(self, other: Value) -> Expr:
        return infix("%", other, self)

    def __lshift__(self, other: Value) -> Expr:
        return infix("<<", self, other)

    def __rlshift__(self, other: Value) -> Expr:
        return infix("<<", other, self)

    def __rshift__(self, other: Value) -> Expr:
        return infix(">>", self, other)

    def __rrshift__(self, other: Value) -> Expr:
        return infix(">>", other, self)

    def __and__(self, other: Value) -> Expr:
        return made(_joined("&", "&&"), self, other)

    def __rand__(self, other: Value) -> Expr:
        return made(_joined("&", "&&"), other, self)

    def __or__(self, other: Value) -> Expr:
        return made(_joined("|", "||"), self, other)

    def __ror__(self, other: Value) -> Expr:
        return made(_joined("|", "||"), other, self)

    def __xor__(self, other: Value) -> Expr:
        return infix("^", self, other)

    def __rxor__(self, other: Value) -> Expr:
        return infix("^", other, self)

    def __lt__(self, other: Value) -> Expr:
        return infix("<", self, other)

    def __le__(self, other: Value) -> Expr:
        return infix("<=", self, other)

    def __gt__(self, other: Value) -> Expr:
        return infix(">", self, other)

    def __ge__(self, other: Value) -> Expr:
        return infix(">=", self, other)

    def __eq__(self, other: Value) -> Expr:  # type: ignore[override]
        return infix("==", self, other)

    def __ne__(self, other: Value) -> Expr:  # type: ignore[override]
        return infix("!=", self, other)

    __hash__ = object.__hash__

    def __neg__(self) -> Expr:
        return made(lambda value: unary("-", value), self)

    def __pos__(self) -> Expr:
        return self

    def __invert__(self) -> Expr:
        return made(lambda v: unary("!" if typed(v).dtype is DType.BOOL else "~", v), self)

    def __abs__(self) -> Expr:
        return made(lambda value: apply("abs", [value]), self)

    def __bool__(self) -> NoReturn:
        def refuse() -> NoReturn:
            raise TypeMismatchError(
                "no value is known while a pipeline is built",
                "conditions are joined by `&`, `|` and `~`, and values chosen by `select`, `min` and `max` "
                "of `spacedsl.pipeline`",
            )

        located(refuse)
        raise AssertionError


class Operation(Expr):
    """What an operator or a function makes, or a constant."""

    __slots__ = ()


Value = Expr | int | float
"""What operators and functions take."""


def made(make: Callable[..., Operand], *given: Value) -> Expr:
    """An expression of others; what does not fit is said at the place of the call."""

    def build() -> Expr:
        node = make(*map(operand, given))
        parts = tuple(g for g in given if isinstance(g, Expr))
        # A function of many is a chain of operations.
        return Operation(node, parts, max(1, len(given) - 1))

    return located(build)


def operand(value: Any) -> Operand:
    """As `typing.py` takes it; numbers of NumPy are numbers."""
    match value:
        case Expr():
            return value.node
        case bool() | int() | float():
            return value
        case np.bool_():
            return bool(value)
        case numbers.Integral():
            return int(value)
        case numbers.Real():
            return float(value)
    is_source = type(value).__name__ in ("Func", "Input")
    hint = "a point of it is written `f[x, y]`" if is_source else None
    raise TypeMismatchError(f"{described(value)} is neither an expression nor a number", hint)


def infix(operator: str, left: Value, right: Value) -> Expr:
    return made(lambda a, b: binary(operator, a, b), left, right)


def below(
    expressions: Iterable[Expr], parts: Callable[[Expr], tuple[Expr, ...]] = lambda each: each.parts
) -> Iterator[Expr]:
    """Those given and all that they are made of, each once, what comes first in the text first."""
    seen: set[int] = set()
    pending = list(expressions)[::-1]
    while pending:
        top = pending.pop()
        if id(top) not in seen:
            seen.add(id(top))
            yield top
            pending.extend(reversed(parts(top)))


def described(value: Any) -> str:
    """As it is written where that is short, else what it is."""
    if isinstance(value, str | int | float | range | None):
        return f"`{value!r}`"
    kind = "expression" if isinstance(value, Expr) else type(value).__name__
    return f"{'an' if kind[0] in 'aeioAEI' or kind == 'RDom' else 'a'} {kind}"


def _whole_quotient(left: Operand, right: Operand) -> Operand:
    quotient = binary("/", left, right)
    if typed(quotient).dtype.is_float:
        raise TypeMismatchError("`//` is for integers; floats are divided by `/`")
    return quotient


def _joined(of_bits: str, of_conditions: str) -> Callable[[Operand, Operand], Operand]:
    def join(left: Operand, right: Operand) -> Operand:
        is_logic = DType.BOOL is typed(left).dtype is typed(right).dtype
        return binary(of_conditions if is_logic else of_bits, left, right)

    return join
