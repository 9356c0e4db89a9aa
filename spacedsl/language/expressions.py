"""Expressions of a `.space` file as they are written, and the names, uses and bindings that they consist of.

In: built by `expression_builder.py`. Out: read through `syntax.py`, which gives the conventions. Whether an
expression is a condition or a term, and of which type, `conditions.py` and `quantities.py` find out.
"""

from __future__ import annotations

from dataclasses import dataclass

from spacedsl.diagnostics import Span

GREATEST_INTEGER = 2**63 - 1
"""That may be written, and that numbers which are multiplied by each other may give."""


@dataclass(frozen=True, slots=True)
class Name:
    """A name where it is declared or used: of a set, choice, value, key, ordering or view."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class Host:
    """The text of a host expression; `span` covers what stands between the quotes, character by character."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Use:
    """A choice, counter, quantity or map on objects: `order($a, $b)`, `host($s)`."""

    name: Name
    args: tuple[Argument, ...]
    span: Span


Argument = Variable | Use


@dataclass(frozen=True, slots=True)
class SetUse:
    name: Name
    args: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Binding:
    """`$name in SET`, and the filter of a quantifier where it has one."""

    variable: Variable
    set: SetUse
    where: Host | None
    span: Span


@dataclass(frozen=True, slots=True)
class Number:
    value: int
    span: Span


@dataclass(frozen=True, slots=True)
class Truth:
    value: bool
    span: Span


@dataclass(frozen=True, slots=True)
class ValueUse:
    """A value by itself: an operand of a comparison with an ordered enum."""

    name: Name
    span: Span


@dataclass(frozen=True, slots=True)
class Group:
    """Something in parentheses."""

    operand: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Conditional:
    """`test ? then : otherwise`."""

    test: Expression
    then: Expression
    otherwise: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Implies:
    left: Expression
    right: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Either:
    operands: tuple[Expression, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Both:
    operands: tuple[Expression, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Negated:
    operand: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Compared:
    left: Expression
    operator: Name
    right: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class OneOf:
    """`subject is [not] V | W`."""

    subject: Expression
    negated: bool
    values: tuple[Name, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Total:
    """A sum of signed terms: (+1 | -1, term)."""

    terms: tuple[tuple[int, Expression], ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Product:
    factors: tuple[Expression, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Negative:
    operand: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Application:
    """`min(..)`, `max(..)`, `floor(a, b)` or `ceil(a, b)`."""

    function: Name
    operands: tuple[Expression, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`sum`, `prod`, `min` or `max` of `body` over the objects of a set."""

    function: Name
    binding: Binding
    body: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Branch:
    values: tuple[Name, ...]
    """Empty for `else`."""
    body: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Case:
    subject: Expression
    branches: tuple[Branch, ...]
    span: Span


Expression = (
    Number
    | Truth
    | ValueUse
    | Host
    | Use
    | Group
    | Conditional
    | Implies
    | Either
    | Both
    | Negated
    | Compared
    | OneOf
    | Total
    | Product
    | Negative
    | Application
    | Aggregate
    | Case
)
