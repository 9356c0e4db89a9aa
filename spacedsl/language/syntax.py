"""The syntax tree of a `.space` file: one frozen class for each thing that `grammars/space.lark` names.

In: built by `parser.py`. Out: read by `checker.py`. Every node knows its place in the text; no name has been
looked up yet. A variable's name stands without its `$`. The declarations are here, what stands in them is in
`expressions.py`; both are read from here.
"""

from __future__ import annotations

from dataclasses import dataclass

from spacedsl.diagnostics import Span
from spacedsl.language.expressions import (
    Aggregate,
    Application,
    Argument,
    Binding,
    Both,
    Branch,
    Case,
    Compared,
    Conditional,
    Either,
    Expression,
    Group,
    Host,
    Implies,
    Name,
    Negated,
    Negative,
    Number,
    OneOf,
    Product,
    SetUse,
    Total,
    Truth,
    Use,
    ValueUse,
    Variable,
)

__all__ = [
    "Aggregate",
    "Alias",
    "Antisymmetric",
    "Application",
    "Argument",
    "Binding",
    "Both",
    "Branch",
    "Case",
    "Choice",
    "Compared",
    "Conditional",
    "CounterChoice",
    "Declaration",
    "Dynamic",
    "Either",
    "EnumChoice",
    "Equivalence",
    "Expression",
    "File",
    "Group",
    "Host",
    "Implies",
    "Include",
    "IntegerChoice",
    "Key",
    "Listed",
    "Map",
    "Name",
    "Negated",
    "Negative",
    "Number",
    "ObjectMajor",
    "OneOf",
    "OrderedChoice",
    "Ordering",
    "OrderingItem",
    "Product",
    "Quantity",
    "Quotient",
    "Require",
    "Requires",
    "Set",
    "SetUse",
    "Symmetric",
    "Total",
    "Trigger",
    "Truth",
    "Use",
    "Value",
    "ValueUse",
    "Variable",
    "View",
    "Viewed",
]


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
