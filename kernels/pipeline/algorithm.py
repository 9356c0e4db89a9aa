"""An algorithm: stages over integer variables, and how each is computed from others and from inputs.

In: made by `resolution.py` from the text of a kernel file, or by `python/` in Python; `typing.py` gives
expressions their types. Out: frozen records, in which every conversion is explicit, every name is bound and
stages stand in an order in which each reads only earlier ones and, in its updates, itself. When and where a
stage is computed is for others to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Literal

from spacedsl.kernels.dtypes import DType

Operator = Literal["+", "-", "*", "/", "%", "min", "max", "&", "|", "^", "<<", ">>", "&&", "||"]
Comparator = Literal["==", "!=", "<", "<=", ">", ">="]
Function = Literal[
    "exp", "log", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "floor",
    "ceil", "round", "trunc", "abs", "pow", "atan2",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Constant:
    """A value of its type: of floats, one that is not rounded any more, and a number."""

    value: int | float | bool
    dtype: DType


@dataclass(frozen=True, slots=True)
class Undefined:
    """What nobody may read before an update has written it."""

    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """Of a stage, or of a range of an update; an i32.

    There is one object for each name: sums of them are looked up by the million.
    """

    name: str
    names: frozenset[str] = field(init=False, repr=False)
    """Of itself alone."""

    def __new__(cls, name: str) -> Variable:
        known = _VARIABLES.get(name)
        if known is None:
            made = object.__new__(cls)
            object.__setattr__(made, "names", frozenset((name,)))
            known = _VARIABLES.setdefault(name, made)
        return known

    def __reduce__(self) -> tuple[type[Variable], tuple[str]]:
        return Variable, (self.name,)

    @property
    def dtype(self) -> DType:
        return DType.I32


_VARIABLES: dict[str, Variable] = {}


@dataclass(frozen=True, slots=True)
class Scalar:
    """The value of a parameter."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class Read:
    """A value of a stage or of an input at a point."""

    source: str
    point: tuple[Expression, ...]
    dtype: DType
    element: int = 0
    """Which of the values of a stage."""


@dataclass(frozen=True, slots=True)
class Unary:
    operator: Literal["-", "!", "~"]
    operand: Expression

    @property
    def dtype(self) -> DType:
        return self.operand.dtype


@dataclass(frozen=True, slots=True)
class Binary:
    """Of two operands of one type. `/` and `%` of integers round to minus infinity, and give 0 for 0."""

    operator: Operator
    left: Expression
    right: Expression

    @property
    def dtype(self) -> DType:
        return self.left.dtype


@dataclass(frozen=True, slots=True)
class Compare:
    """Of two operands of one type."""

    operator: Comparator
    left: Expression
    right: Expression

    @property
    def dtype(self) -> DType:
        return DType.BOOL


@dataclass(frozen=True, slots=True)
class Select:
    """Of two values of one type; which of them is read makes no difference but to the result."""

    condition: Expression
    yes: Expression
    no: Expression

    @property
    def dtype(self) -> DType:
        return self.yes.dtype


@dataclass(frozen=True, slots=True)
class Cast:
    """Integers wrap around; a float loses what is behind its point.

    What is then no i32 (for u32 and i64, no i64; for u64, no u64) becomes an integer that is not specified.
    """

    dtype: DType
    operand: Expression


@dataclass(frozen=True, slots=True)
class Apply:
    """A function of floats; `abs` also of signed integers, where it is unsigned."""

    function: Function
    arguments: tuple[Expression, ...]
    dtype: DType


Expression = (
    Constant | Undefined | Variable | Scalar | Read | Unary | Binary | Compare | Select | Cast | Apply
)


@dataclass(frozen=True, slots=True)
class Range:
    """A variable of an update and its values: from `low` up to `high`, which is not part of it."""

    name: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Update:
    """At each point of its ranges that meets the condition, in order, the first range the innermost loop."""

    point: tuple[Expression, ...]
    """Where it writes. A variable of the stage that stands alone at its own position takes all its values,
    where no range has its name."""
    values: tuple[Expression, ...]
    ranges: tuple[Range, ...] = ()
    condition: Expression | None = None

    def variables(self, stage: Stage) -> tuple[str, ...]:
        """Those of the stage that it is done for each value of."""
        bound = {r.name for r in self.ranges}
        return tuple(
            v
            for v, at in zip(stage.variables, self.point, strict=True)
            if at == Variable(v) and v not in bound
        )


@dataclass(frozen=True, slots=True)
class Stage:
    """Values for all points, each of as many elements as `values` has."""

    name: str
    variables: tuple[str, ...]
    """The first one is the innermost: neighbours along it lie beside each other."""
    values: tuple[Expression, ...]
    updates: tuple[Update, ...] = ()

    @property
    def dtypes(self) -> tuple[DType, ...]:
        return tuple(v.dtype for v in self.values)

    @property
    def definitions(self) -> tuple[Stage | Update, ...]:
        """It, without its updates, and each of these."""
        return (self, *self.updates)


@dataclass(frozen=True, slots=True)
class Input:
    """An array from outside, the innermost dimension first."""

    name: str
    dtype: DType
    rank: int
    extents: tuple[int, ...] = ()
    """From 0 on, where they are declared; else what is read says it."""
    values: tuple[int, int] | None = None
    """The least and the greatest element, where that is declared."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A scalar from outside, and the value that is explored with."""

    name: str
    dtype: DType
    value: int | float


@dataclass(frozen=True, slots=True)
class Extent:
    """Along one dimension, `size` points from `low` on."""

    low: int
    size: int

    @property
    def high(self) -> int:
        """The last point."""
        return self.low + self.size - 1


Box = tuple[Extent, ...]
"""One for each dimension, the innermost first."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    name: str
    inputs: tuple[Input, ...]
    parameters: tuple[Parameter, ...]
    stages: tuple[Stage, ...]
    outputs: Mapping[str, Box]
    """Stages, and what is wanted of each."""

    def stage(self, name: str) -> Stage:
        return next(s for s in self.stages if s.name == name)


_OPERANDS: Mapping[type, Callable[[Any], tuple[Expression, ...]]] = {
    **dict.fromkeys((Unary, Cast), lambda node: (node.operand,)),
    **dict.fromkeys((Binary, Compare), attrgetter("left", "right")),
    Read: attrgetter("point"),
    Select: attrgetter("condition", "yes", "no"),
    Apply: attrgetter("arguments"),
}
"""Of expressions that have others below them."""


def operands(node: Expression) -> tuple[Expression, ...]:
    """The expressions right below it."""
    found = _OPERANDS.get(type(node))
    return () if found is None else found(node)


def with_operands(node: Expression, given: tuple[Expression, ...]) -> Expression:
    """The same with others right below it, in the order of `operands`."""
    match node:
        case Read():
            return replace(node, point=given)
        case Unary() | Cast():
            return replace(node, operand=given[0])
        case Binary() | Compare():
            return replace(node, left=given[0], right=given[1])
        case Select():
            return Select(*given)
        case Apply():
            return replace(node, arguments=given)
        case Constant() | Undefined() | Variable() | Scalar():
            return node


def walk(node: Expression) -> Iterator[Expression]:
    """The expression and all below it, in the order of the text."""
    pending = [node]
    while pending:
        top = pending.pop()
        yield top
        pending.extend(reversed(operands(top)))


def expressions(definition: Stage | Update) -> tuple[Expression, ...]:
    """All that stands in a definition by itself: without the updates of a stage."""
    if isinstance(definition, Stage):
        return definition.values
    condition = () if definition.condition is None else (definition.condition,)
    return (*definition.point, *definition.values, *condition)


def reads(definition: Stage | Update) -> Iterator[Read]:
    """All reads of a definition, also those in the points of others."""
    for expression in expressions(definition):
        for node in walk(expression):
            if isinstance(node, Read):
                yield node
