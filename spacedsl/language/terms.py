"""Terms: what a quantity is computed from.

In: built by `quantities.py`. Out: read through `space.py`. All terms of a quantity are of its type: integers,
or positions in the order of an ordered enum's values; of the latter there are only `Literal`, `HostTerm`,
`Reading`, `Extremum`, `Conditional`, `Case`, and `Aggregate` with `MIN` or `MAX`. The operands of conditions
and of `case` are of types of their own.

A branch of `Conditional` or `Case` that the initial domains make impossible does not exist: nothing in it is
looked up, so that in it a map may lack a value, an argument lie outside its parameter's set, an aggregate be
empty. Everywhere else each of these is a located error at instantiation.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from spacedsl.diagnostics import Span
from spacedsl.language.formulas import Binder, Formula, Use
from spacedsl.language.host import HostExpression


@dataclass(frozen=True, slots=True)
class Literal:
    """An integer, or the number of an ordered enum's value."""

    value: int


@dataclass(frozen=True, slots=True)
class HostTerm:
    """Evaluated at instantiation: an integer, or the name of an ordered enum's value."""

    expression: HostExpression


@dataclass(frozen=True, slots=True)
class Reading:
    """The value of an integer choice, a counter, an ordered enum or a quantity on objects."""

    use: Use
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Sum:
    """A sum of signed terms: (+1 | -1, term)."""

    terms: tuple[tuple[int, Term], ...]


@dataclass(frozen=True, slots=True)
class Product:
    factors: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Extremum:
    """`min(..)` or `max(..)`. An operand that is an empty aggregate contributes nothing."""

    greatest: bool
    operands: tuple[Term, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Division:
    """`floor(dividend, divisor)` or `ceil(..)`: rounded toward minus or plus infinity, for all signs.

    The least value of the divisor at the root must be at least 1.
    """

    up: bool
    dividend: Term
    divisor: Term
    span: Span = field(compare=False)


class Aggregation(enum.Enum):
    SUM = "sum"
    PROD = "prod"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`sum $x in S where "host": body`, over present objects that are distinct from all others in scope.

    An empty sum is 0, an empty product 1; an empty `min` or `max` is a located error, except as an operand of
    an `Extremum`.
    """

    function: Aggregation
    binder: Binder
    maps: tuple[Binder, ...]
    """Map applications that depend on the binder, in order of need; looked up when they are read."""
    body: Term
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Conditional:
    """`condition ? then : otherwise`."""

    condition: Formula
    then: Term
    otherwise: Term
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Case:
    """`case c(..) { V | W: term, .., else: term }`: the branches' masks are disjoint and cover all values."""

    use: Use
    """Of an enum."""
    branches: tuple[tuple[int, Term], ...]
    span: Span = field(compare=False)


Term = Literal | HostTerm | Reading | Sum | Product | Extremum | Division | Aggregate | Conditional | Case
