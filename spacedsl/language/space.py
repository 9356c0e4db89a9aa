"""The typed space: what a `.space` file means once every name is resolved.

In: built by `checker.py` from the syntax tree. Out: read by `spacedsl.compiler`, which normalises it to
clauses, by the brute-force enumerator, which is written from the meaning of these nodes alone, and by
the orderings of `search`. Everything is frozen; names have been checked, so a lookup never fails.

Conventions: a variable is named without its `$`. An enum's values are numbered in order of declaration,
and a set of values is a bit mask over those numbers. A map application that was written as an argument is a
variable too (see `Binder.by_map`): it follows the variables that it depends on among the `foralls` of a
requirement, counter or trigger and the `binders` of an ordering, and stands among the `maps` of a quantity, a
quotient or an aggregate. Parameters and supersets have none: see `Image`. The conditions are in
`formulas.py`, what quantities are computed from is in `terms.py`; both are read from here.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from spacedsl.diagnostics import Span
from spacedsl.language.formulas import (
    Affine,
    And,
    Binder,
    Compare,
    ComparePositions,
    Comparison,
    Constant,
    Formula,
    Host,
    Is,
    Not,
    Or,
    Position,
    SameEnum,
    SetRef,
    Use,
)
from spacedsl.language.host import HostExpression
from spacedsl.language.terms import (
    Aggregate,
    Aggregation,
    Case,
    Conditional,
    Division,
    Extremum,
    HostTerm,
    Literal,
    Product,
    Reading,
    Sum,
    Term,
)

__all__ = [
    "Affine",
    "Aggregate",
    "Aggregation",
    "And",
    "Binder",
    "Case",
    "Choice",
    "Compare",
    "ComparePositions",
    "Comparison",
    "Conditional",
    "Constant",
    "Counter",
    "Division",
    "EnumChoice",
    "Extremum",
    "Formula",
    "Host",
    "HostTerm",
    "Image",
    "IntegerChoice",
    "Is",
    "Literal",
    "Map",
    "Not",
    "ObjectMajor",
    "Or",
    "Ordering",
    "OrderingItem",
    "Position",
    "Product",
    "Quantity",
    "Quotient",
    "Reading",
    "Requirement",
    "SameEnum",
    "SetDef",
    "SetRef",
    "Space",
    "Sum",
    "Symmetry",
    "Term",
    "Trigger",
    "Use",
    "View",
    "ViewItem",
    "Visibility",
]


@dataclass(frozen=True, slots=True)
class Image:
    """The members that another set has for what maps give: `Near(host($x))` as a set over `$x`."""

    maps: tuple[Binder, ...]
    """Map applications on the parameters and on each other, in order of need."""
    set: SetRef
    """Over the parameters and these; not a quotient."""
    span: Span = field(compare=False)
    """Where it is written first."""


@dataclass(frozen=True, slots=True)
class SetDef:
    name: str
    params: tuple[Binder, ...]
    supersets: tuple[SetRef, ...]
    disjoint: tuple[str, ...]
    iterator: HostExpression | Image
    """Evaluates to a tuple of objects, with the parameters, `kernel` and `device` in scope.

    An `Image` where the set is not declared but stands for one, with maps in its arguments, that a parameter
    or a superset is written as. It claims nothing by itself.
    """
    type_name: str | None
    reverse: tuple[Binder, HostExpression] | None
    """`reverse forall $x in SUPER = "host"`: the arguments whose instance holds $x."""
    doc: str
    span: Span = field(compare=False)


class Symmetry(enum.Enum):
    NONE = "none"
    SYMMETRIC = "symmetric"
    ANTISYMMETRIC = "antisymmetric"


@dataclass(frozen=True, slots=True)
class EnumChoice:
    name: str
    params: tuple[Binder, ...]
    values: tuple[str, ...]
    value_docs: tuple[str, ...]
    aliases: Mapping[str, int] = field(compare=False)
    """Alias name to mask of values."""
    symmetry: Symmetry
    inverse: tuple[int, ...]
    """inverse[v] is the value of c(b, a) when c(a, b) has value v; the identity unless antisymmetric."""
    doc: str
    span: Span = field(compare=False)
    ordered: bool = False
    """Whether the values have an order: the one of their declaration. There is no symmetry then."""

    @property
    def full(self) -> int:
        """The mask of all values."""
        return (1 << len(self.values)) - 1

    def mask(self, *names: str) -> int:
        """The mask of the named values and aliases."""
        bits = 0
        for name in names:
            bits |= self.aliases[name] if name in self.aliases else 1 << self.values.index(name)
        return bits

    def names(self, mask: int) -> tuple[str, ...]:
        """The names of the values in a mask, in order of declaration."""
        return tuple(v for i, v in enumerate(self.values) if mask >> i & 1)

    def invert(self, mask: int) -> int:
        """The mask of c(b, a) for a mask of c(a, b)."""
        return sum(1 << self.inverse[i] for i in range(len(self.values)) if mask >> i & 1)


@dataclass(frozen=True, slots=True)
class IntegerChoice:
    name: str
    params: tuple[Binder, ...]
    universe: HostExpression
    """Evaluates to the instance's non-negative integers."""
    doc: str
    span: Span = field(compare=False)


class Visibility(enum.Enum):
    FULL = "full"  # both ends of the interval, every comparison
    INTERNAL = "internal"  # both ends, only < and <=
    HALF = "half"  # the lower end only, only < and <=


@dataclass(frozen=True, slots=True)
class Counter:
    """base + sum, or base * product, of `value` over the bindings of `foralls` where `condition` holds."""

    name: str
    params: tuple[Binder, ...]
    foralls: tuple[Binder, ...]
    visibility: Visibility
    product: bool
    base: int | HostExpression
    value: int | HostExpression | Use
    """A host integer, or a use of an integer choice or of a counter declared before."""
    condition: Formula
    doc: str
    span: Span = field(compare=False)
    """Of the name."""
    definition: Span = field(compare=False)
    """Of the declaration, from `choice` to `end`."""


Choice = EnumChoice | IntegerChoice | Counter


@dataclass(frozen=True, slots=True)
class Map:
    """A single-valued relation that the backbone gives: `map host($s in Inner) in Stages = "$s.host"`."""

    name: str
    params: tuple[Binder, ...]
    target: SetRef
    """Over the names of the parameters; each value lies in it."""
    value: HostExpression
    """Evaluates to an object; to None where the map has no value, which only impossible branches may use."""
    doc: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value that follows from decisions: computed forward as an interval, and never stored.

    Instances may refer to each other as long as their graph has no cycle, which only a kernel shows.
    """

    name: str
    params: tuple[Binder, ...]
    maps: tuple[Binder, ...]
    """Map applications that depend on parameters alone, in order of need; looked up when they are read."""
    body: Term
    values: tuple[str, ...] | None
    """Of the ordered enum whose type the quantity has; None for integers."""
    doc: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Requirement:
    """For all *distinct* objects bound by `foralls`, `formula` holds. `value V: requires ..` becomes one."""

    foralls: tuple[Binder, ...]
    formula: Formula
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Quotient:
    """One representative of each class of equivalent qualifying objects; see `representative`.

    `representative(params.., item)` is a derived boolean choice (values FALSE, TRUE, in this order), declared
    by the checker among the choices with symmetry NONE. It is TRUE exactly when `item` is present and
    `condition` holds for it and for no *lower* object y of the item's set, by static position in that set,
    both the condition holds and `equivalence(y, item)` has a value in `equivalence_mask`. The members of
    `set` (declared among the sets with `of` as its superset) are the items that it is TRUE for.
    """

    set: str
    params: tuple[Binder, ...]
    item: Binder
    maps: tuple[Binder, ...]
    """Map applications of the condition, on the parameters and the item, in order of need."""
    representative: str
    condition: Formula
    equivalence: str
    equivalence_mask: int
    doc: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Trigger:
    """For each binding of distinct objects, once `condition` is certain, what `callback` returns is added."""

    foralls: tuple[Binder, ...]
    callback: HostExpression
    condition: Formula
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class OrderingItem:
    """`choice`, `choice(args)` or `choice(args) for $v in SET`, optionally `by GROUPS`.

    Without arguments: every instance of the choice, in order of position. `groups` are disjoint masks; the
    values that they leave out form a last group. No groups: a group for each single value.
    """

    choice: str
    args: tuple[str, ...] | None
    """Variables of `binders`, and of the blocks around the item."""
    binders: tuple[Binder, ...]
    """At most one that is not by a map."""
    groups: tuple[int, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class ObjectMajor:
    """`for $v in SET [by "host"]: items end`: all items for one object, then for the next.

    Objects come in ascending order of the key, those with equal keys in order of position.
    """

    binders: tuple[Binder, ...]
    """The block's variable; in front of it, the maps that its set needs."""
    key: HostExpression | None
    items: tuple[OrderingItem | ObjectMajor, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Ordering:
    name: str
    items: tuple[OrderingItem | ObjectMajor, ...]
    span: Span = field(compare=False)
    rule: str | None = None
    """Of a dynamic ordering, which has no items: the name of a registered rule."""


@dataclass(frozen=True, slots=True)
class ViewItem:
    """A choice, and disjoint masks that its values are told apart by; the rest is a last group."""

    choice: str
    groups: tuple[int, ...]
    """None: each value by itself."""
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class View:
    """A coarser look at a candidate: for each instance of the choices, which groups are still possible."""

    name: str
    items: tuple[ViewItem, ...]
    doc: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Space:
    """A checked `.space` file with all that it includes. Mappings keep the order of declaration."""

    name: str
    sets: Mapping[str, SetDef]
    choices: Mapping[str, Choice]
    quotients: Mapping[str, Quotient]
    """By the name of the set of representatives; that set is not in `sets`."""
    requirements: tuple[Requirement, ...]
    triggers: tuple[Trigger, ...]
    orderings: Mapping[str, Ordering]
    digest: str
    """SHA-256 of the text of all files read, in hexadecimal."""
    sources: tuple[str, ...] = ()
    maps: Mapping[str, Map] = field(default_factory=dict)
    quantities: Mapping[str, Quantity] = field(default_factory=dict)
    """Choices, quantities and maps share one namespace."""
    views: Mapping[str, View] = field(default_factory=dict)

    def enum(self, use: Use) -> EnumChoice:
        """The enum that a use names; the checker has seen to it that it is one."""
        choice = self.choices[use.choice]
        assert isinstance(choice, EnumChoice)
        return choice

    def is_derived(self, choice: str) -> bool:
        """Whether it follows from others and is never branched on: a counter, representative or quantity."""
        return (
            choice in self.quantities
            or isinstance(self.choices[choice], Counter)
            or any(q.representative == choice for q in self.quotients.values())
        )
