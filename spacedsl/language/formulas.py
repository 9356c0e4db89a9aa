"""Conditions of the typed space: what stands behind `require`, `when` and `?`.

In: built by `conditions.py`. Out: read through `space.py`, which gives the conventions. A variable stands for
an object, whether a quantifier binds it or a map: `site(host($s))` is `site` on a variable of its own, which
`Binder.by_map` says is bound to the one object of `host($s)`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from spacedsl.diagnostics import Span
from spacedsl.language.host import HostExpression


@dataclass(frozen=True, slots=True)
class SetRef:
    """A use of a set: its name and, for a parametric set, the variables that are its arguments.

    A parametric set without arguments is the union of its instances. In a binder `by_map` it is a map on its
    arguments: a set of one object.
    """

    name: str
    args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Binder:
    """`$name in SET`, with the optional filter of a quantifier: `forall $name in SET where "host"`.

    A binder `by_map` stands for a map application that was written as an argument: `set` is `host($s)`, the
    graph of a map, and the variable is its one object. It comes after all that it depends on. It may coincide
    with other objects, so distinctness leaves it out.
    """

    name: str
    """Of a map application: the application as it is written, see `applications.py`."""
    set: SetRef
    span: Span = field(compare=False)
    """Of the variable, or of the map application as it is written."""
    where: HostExpression | None = None
    by_map: bool = False


@dataclass(frozen=True, slots=True)
class Use:
    """One choice, counter or quantity applied to variables: `order($a, $b)`."""

    choice: str
    args: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Affine:
    """factor * use + offsets; without a use, the offsets alone. Offsets are signed: (+1 | -1, integer).

    The use is of an integer choice, a counter or a quantity of integers.
    """

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


MIRRORED = {
    Comparison.EQ: Comparison.EQ,
    Comparison.NE: Comparison.NE,
    Comparison.LT: Comparison.GT,
    Comparison.LE: Comparison.GE,
    Comparison.GT: Comparison.LT,
    Comparison.GE: Comparison.LE,
}
"""What the same says with its sides exchanged."""


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


Position = int | HostExpression | Use
"""A place in the order of an ordered enum's values: the number of a value, a host expression that gives the
name of one, or a use of an ordered enum or of a quantity of its type."""


@dataclass(frozen=True, slots=True)
class ComparePositions:
    """`c(..) <= "host"`, `c(..) < d(..)`: at least one side is a use.

    Both sides are of one type, `values` in their order. `c(..) OP VALUE` of a choice is an `Is`, and `==` and
    `!=` between two choices are `SameEnum`.
    """

    left: Position
    op: Comparison
    right: Position
    values: tuple[str, ...]
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


Formula = Is | SameEnum | Compare | ComparePositions | Host | Constant | Not | And | Or
"""`a => b` is `Or((Not(a), b))`. The empty `And` holds, the empty `Or` does not."""
