"""The typed space: what a `.space` file means once every name is resolved.

In: built by `checker.py` from the syntax tree. Out: read by `spacedsl.compiler`, which normalises it to
clauses, by the brute-force enumerator, which is written from the meaning of these nodes alone, and by
the orderings of `search`. Everything is frozen; names have been checked, so a lookup never fails.

Conventions: a variable is named without its `$`. An enum's values are numbered in order of declaration,
and a set of values is a bit mask over those numbers.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from spacedsl.diagnostics import Span
from spacedsl.language.host import HostExpression


@dataclass(frozen=True, slots=True)
class SetRef:
    """A use of a set: its name and, for a parametric set, the variables that are its arguments.

    A parametric set without arguments is the union of its instances.
    """

    name: str
    args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Binder:
    """`$name in SET`, with the optional filter of a quantifier: `forall $name in SET where "host"`."""

    name: str
    set: SetRef
    span: Span = field(compare=False)
    where: HostExpression | None = None


@dataclass(frozen=True, slots=True)
class SetDef:
    name: str
    params: tuple[Binder, ...]
    supersets: tuple[SetRef, ...]
    disjoint: tuple[str, ...]
    iterator: HostExpression
    """Evaluates to a tuple of objects, with the parameters, `kernel` and `device` in scope."""
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


Choice = EnumChoice | IntegerChoice | Counter


@dataclass(frozen=True, slots=True)
class Use:
    """One choice applied to variables: `order($a, $b)`."""

    choice: str
    args: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Affine:
    """factor * use + offsets; without a use, the offsets alone. Offsets are signed: (+1 | -1, integer)."""

    use: Use | None
    factor: int | HostExpression
    offsets: tuple[tuple[int, int | HostExpression], ...]


class Comparison(enum.Enum):
    EQ = "=="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


@dataclass(frozen=True, slots=True)
class Is:
    """`use is V | W`: the value lies in `mask` (a negation, `is not`, has been folded into the mask)."""

    use: Use
    mask: int
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class SameEnum:
    """`c(..) == d(..)` or `!=`; `translate[v]` is the number in `right`'s values of `left`'s value v."""

    left: Use
    right: Use
    equal: bool
    translate: tuple[int, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison of integers: of two affine uses, or of one with a host value or a number."""

    left: Affine
    op: Comparison
    right: Affine
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Host:
    """A host expression used as a condition; its value is taken as a boolean."""

    expression: HostExpression
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Constant:
    value: bool


@dataclass(frozen=True, slots=True)
class Not:
    operand: Formula


@dataclass(frozen=True, slots=True)
class And:
    operands: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Or:
    operands: tuple[Formula, ...]


Formula = Is | SameEnum | Compare | Host | Constant | Not | And | Or
"""`a => b` is `Or((Not(a), b))`. The empty `And` holds, the empty `Or` does not."""


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
    binder: Binder | None
    groups: tuple[int, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Ordering:
    name: str
    items: tuple[OrderingItem, ...]
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

    def enum(self, use: Use) -> EnumChoice:
        """The enum that a use names; the checker has seen to it that it is one."""
        choice = self.choices[use.choice]
        assert isinstance(choice, EnumChoice)
        return choice

    def is_derived(self, choice: str) -> bool:
        """Whether the choice follows from others and is never branched on: a counter or a representative."""
        return isinstance(self.choices[choice], Counter) or any(
            q.representative == choice for q in self.quotients.values()
        )
