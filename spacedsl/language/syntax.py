"""The syntax tree of a `.space` file: one frozen class for each thing that `grammars/space.lark` names.

In: built by `parser.py`. Out: read by `checker.py`. Every node knows its place in the text; no name has been
looked up yet. A variable's name stands without its `$`.
"""

from __future__ import annotations

from dataclasses import dataclass

from spacedsl.diagnostics import Span


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


@dataclass(frozen=True, slots=True)
class Key:
    name: Name
    binding: Binding | None
    host: Host
    span: Span


@dataclass(frozen=True, slots=True)
class Set:
    name: Name
    params: tuple[Binding, ...]
    supersets: tuple[SetUse, ...]
    disjoint: tuple[Name, ...]
    keys: tuple[Key, ...]
    doc: str
    span: Span


@dataclass(frozen=True, slots=True)
class Requires:
    """`requires` of a value: all of the conditions hold for all bindings where it is taken."""

    foralls: tuple[Binding, ...]
    conditions: tuple[Expression, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Value:
    name: Name
    requires: tuple[Requires, ...]
    doc: str
    span: Span


@dataclass(frozen=True, slots=True)
class Alias:
    name: Name
    values: tuple[Name, ...]
    requires: tuple[Requires, ...]
    doc: str
    span: Span


@dataclass(frozen=True, slots=True)
class Symmetric:
    span: Span


@dataclass(frozen=True, slots=True)
class Antisymmetric:
    pairs: tuple[tuple[Name, Name], ...]
    span: Span


@dataclass(frozen=True, slots=True)
class EnumChoice:
    name: Name
    params: tuple[Binding, ...]
    items: tuple[Value | Alias | Symmetric | Antisymmetric, ...]
    doc: str
    span: Span


@dataclass(frozen=True, slots=True)
class OrderedChoice:
    """`choice ordered enum`: values with an order."""

    name: Name
    params: tuple[Binding, ...]
    chain: tuple[Name, ...]
    items: tuple[Value | Alias | Symmetric | Antisymmetric, ...]
    doc: str
    span: Span


@dataclass(frozen=True, slots=True)
class IntegerChoice:
    name: Name
    params: tuple[Binding, ...]
    universe: Host
    doc: str
    span: Span


@dataclass(frozen=True, slots=True)
class CounterChoice:
    name: Name
    params: tuple[Binding, ...]
    visibility: Name | None
    base: Number | Host | None
    foralls: tuple[Binding, ...]
    operation: Name
    amount: Number | Host | Use
    conditions: tuple[Expression, ...]
    doc: str
    span: Span


@dataclass(frozen=True, slots=True)
class Quantity:
    name: Name
    params: tuple[Binding, ...]
    body: Expression
    doc: str
    span: Span


@dataclass(frozen=True, slots=True)
class Map:
    name: Name
    params: tuple[Binding, ...]
    target: SetUse
    host: Host
    doc: str
    span: Span


@dataclass(frozen=True, slots=True)
class Equivalence:
    choice: Name
    values: tuple[Name, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Quotient:
    name: Name
    params: tuple[Binding, ...]
    item: Binding
    representative: Name
    condition: Expression
    equivalence: Equivalence
    keys: tuple[Key, ...]
    doc: str
    span: Span


@dataclass(frozen=True, slots=True)
class Trigger:
    foralls: tuple[Binding, ...]
    callback: Host
    condition: Expression
    doc: str
    span: Span


@dataclass(frozen=True, slots=True)
class Require:
    foralls: tuple[Binding, ...]
    conditions: tuple[Expression, ...]
    doc: str
    span: Span


@dataclass(frozen=True, slots=True)
class Listed:
    """`choice`, `choice(args)` or `choice(args) for $v in SET`, optionally `by` groups of values."""

    choice: Name
    args: tuple[Argument, ...] | None
    binding: Binding | None
    groups: tuple[Name, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class ObjectMajor:
    """`for $v in SET [by "key"]: items end`: all items for one object, then for the next."""

    binding: Binding
    by: Host | None
    items: tuple[OrderingItem, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Dynamic:
    rule: Name
    span: Span


OrderingItem = Listed | ObjectMajor


@dataclass(frozen=True, slots=True)
class Ordering:
    name: Name
    items: tuple[OrderingItem, ...] | Dynamic
    doc: str
    span: Span


@dataclass(frozen=True, slots=True)
class Viewed:
    choice: Name
    groups: tuple[Name, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class View:
    name: Name
    items: tuple[Viewed, ...]
    doc: str
    span: Span


@dataclass(frozen=True, slots=True)
class Include:
    path: Host
    span: Span


Choice = EnumChoice | OrderedChoice | IntegerChoice | CounterChoice
Declaration = Include | Set | Choice | Quantity | Map | Quotient | Trigger | Require | Ordering | View


@dataclass(frozen=True, slots=True)
class File:
    declarations: tuple[Declaration, ...]
