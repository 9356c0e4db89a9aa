"""The conditions of the propagator IR: what an instance knows of its objects, and what domains decide.

In: made by `clauses.py` and `relations.py` of formulas. Out: parts of the bodies and wakes in `ir.py`, from
where they are read. Nothing here depends on a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from spacedsl.language.host import HostExpression
from spacedsl.language.space import Compare, ComparePositions, Comparison, SetRef, Use

# ---- Static values: evaluated once per instance, for each binding that asks ------------------------------


@dataclass(frozen=True, slots=True)
class HostCall:
    """A host expression whose variables other than `kernel` and `device`, in order, are bound to `args`."""

    text: str
    args: tuple[str, ...]
    expression: HostExpression = field(compare=False, repr=False)


Term = int | HostCall


@dataclass(frozen=True, slots=True)
class Linear:
    """factor * use + sum of the signed offsets; without a use, the offsets alone."""

    use: Use | None
    factor: Term
    offsets: tuple[tuple[int, Term], ...]


@dataclass(frozen=True, slots=True)
class HostTest:
    """The truth of a host expression is not `negated`."""

    call: HostCall
    negated: bool


@dataclass(frozen=True, slots=True)
class Member:
    """The object lies in the set."""

    variable: str
    set: SetRef


@dataclass(frozen=True, slots=True)
class Distinct:
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class Ascending:
    """The id of `left` is smaller than that of `right`."""

    left: str
    right: str


@dataclass(frozen=True, slots=True)
class Lower:
    """`left` stands before `right` in the set."""

    left: str
    right: str
    set: SetRef


@dataclass(frozen=True, slots=True)
class StaticCompare:
    """A comparison of two values that are both static."""

    left: Linear
    op: Comparison
    right: Linear


StaticTest = HostTest | Member | Distinct | Ascending | Lower | StaticCompare

# ---- Literals: conditions on the domains of one or two uses ----------------------------------------------


@dataclass(frozen=True, slots=True)
class InMask:
    """The enum value lies in the mask."""

    use: Use
    mask: int


@dataclass(frozen=True, slots=True)
class Satisfies:
    """`value op limit` holds of an integer choice; `limit` is static, so an instance makes it a mask."""

    value: Linear
    op: Comparison
    limit: Linear


@dataclass(frozen=True, slots=True)
class EnumEquality:
    """The enum values are equal, or are not; `translate[v]` is the number in `right` of value v of `left`."""

    left: Use
    right: Use
    equal: bool
    translate: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EnumOrder:
    """Of two enums with the same values in the same order: left <= right, or `strict`: left < right."""

    left: Use
    right: Use
    strict: bool


@dataclass(frozen=True, slots=True)
class Named:
    """An ordered enum's value `op` the one that a host expression names: an instance makes it a mask."""

    use: Use
    op: Comparison
    value: HostCall
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Limit:
    """A comparison that reads a quantity, about `args` in place of the variables `names` of the formula.

    An instance makes it a node of the graph of its quantities. Every change of what that depends on runs the
    propagators that ask about it: they have no wakes for it. See `engine/quantities`.
    """

    formula: Compare | ComparePositions
    names: tuple[str, ...]
    args: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IntegerEquality:
    """The integers are equal, or are not: by value, whatever their universes. Rounded as `AtMost` is."""

    left: Linear
    right: Linear
    equal: bool


@dataclass(frozen=True, slots=True)
class AtMost:
    """left <= right. Where both sides have uses, limits on a counter are rounded: see `ir.FOLLOWED_BITS`."""

    left: Linear
    right: Linear


Literal = InMask | Satisfies | Named | EnumEquality | EnumOrder | IntegerEquality | AtMost | Limit

Disjunct = Literal | HostTest | StaticCompare
"""Part of a clause: what domains decide, or what an instance does."""
