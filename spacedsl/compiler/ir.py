"""The propagator IR: what the compiler makes of a space, and all that a printer needs.

In: built by `lower.py`. Out: printed as Python by `python/` and, where it knows the kind, as C by `c/`.
A propagator has one body for one binding of its variables to objects, and wakes that say which bindings
to run when the domain of a choice has changed. Nothing here depends on a kernel: whatever a kernel decides
(members of sets, values of host expressions, universes of integers) is a table that an instance supplies.
The conditions are in `conditions.py`, and are read from here.
"""

from __future__ import annotations

from dataclasses import dataclass

from spacedsl.compiler.conditions import (
    Ascending,
    AtMost,
    Disjunct,
    Distinct,
    EnumEquality,
    EnumOrder,
    HostCall,
    HostTest,
    InMask,
    IntegerEquality,
    Limit,
    Linear,
    Literal,
    Lower,
    Member,
    Named,
    Satisfies,
    StaticCompare,
    StaticTest,
    Term,
)
from spacedsl.diagnostics import Span
from spacedsl.language.space import SetRef, Use

__all__ = [
    "FOLLOWED_BITS",
    "SATURATED",
    "WIDEST",
    "AllOf",
    "AnyOf",
    "Arithmetic",
    "Ascending",
    "Assign",
    "AtMost",
    "Check",
    "Contribution",
    "Disjunct",
    "Distinct",
    "End",
    "Entry",
    "EnumEquality",
    "EnumOrder",
    "Fail",
    "Fire",
    "For",
    "HostCall",
    "HostTest",
    "If",
    "InMask",
    "Integer",
    "IntegerEquality",
    "Less",
    "Limit",
    "Linear",
    "Literal",
    "Local",
    "Loop",
    "Lower",
    "Make",
    "MayHold",
    "Member",
    "Module",
    "MustHold",
    "Named",
    "Present",
    "Project",
    "Propagator",
    "RestrictHigh",
    "RestrictLow",
    "Satisfies",
    "Settle",
    "Statement",
    "StaticCompare",
    "StaticTest",
    "Table",
    "Term",
    "Test",
    "Wake",
]

SATURATED = 2**64 - 1
"""The greatest value of a counter, which stands for itself and everything above."""
WIDEST = 2**127 - 1
"""A product that is greater is only known to be: so is what is left of it without a factor."""
FOLLOWED_BITS = 12
"""Significant bits of an end of a counter's interval that follows from another counter.

Such ends are rounded outwards. Without this, two counters that are compared could push each other up one by
one for 2**64 steps; so they come to rest after some thousand at most, and values below 4096 are exact. What
is no solution does not pass: once its contributions are decided, a counter is known exactly.
"""

# ---- Tests and integers of a body ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MayHold:
    """The domains do not exclude the literal."""

    literal: Literal


@dataclass(frozen=True, slots=True)
class MustHold:
    """The domains imply the literal."""

    literal: Literal


@dataclass(frozen=True, slots=True)
class Less:
    left: Integer
    right: Integer


@dataclass(frozen=True, slots=True)
class AllOf:
    tests: tuple[Test, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    tests: tuple[Test, ...]


@dataclass(frozen=True, slots=True)
class Present:
    """The object is a member for certain, or may still become one. Only in spaces with triggers."""

    variable: str
    set: SetRef
    certain: bool


Test = MayHold | MustHold | Less | AllOf | AnyOf | Present | HostTest | StaticCompare


@dataclass(frozen=True, slots=True)
class Local:
    name: str


@dataclass(frozen=True, slots=True)
class End:
    """The least or greatest value of an integer choice or a counter."""

    use: Use
    greatest: bool


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """op is one of + - * // (rounding down), ceil (division rounding up), min, max, without (what the other
    factors of a product make, see `engine/domains.py`). Exact: no overflow.
    """

    op: str
    left: Integer
    right: Integer


Integer = int | HostCall | Local | End | Arithmetic

# ---- Statements ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class If:
    test: Test
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True, slots=True)
class Make:
    """Removes the values that contradict the literal; a contradiction where none is left."""

    literal: Literal


@dataclass(frozen=True, slots=True)
class Project:
    """Keeps of `target` the values that a table has at the concatenated masks of `inputs`."""

    target: Use
    table: int
    inputs: tuple[Use, ...]


@dataclass(frozen=True, slots=True)
class Assign:
    local: Local
    value: Integer


@dataclass(frozen=True, slots=True)
class RestrictLow:
    """use >= bound; of a counter the new end is rounded: see `FOLLOWED_BITS`."""

    use: Use
    bound: Integer


@dataclass(frozen=True, slots=True)
class RestrictHigh:
    """use <= bound; of a counter the new end is rounded: see `FOLLOWED_BITS`."""

    use: Use
    bound: Integer


@dataclass(frozen=True, slots=True)
class Settle:
    """The interval that a counter's contributions give: two restrictions that do not wake the counter."""

    use: Use
    low: Integer
    high: Integer


@dataclass(frozen=True, slots=True)
class Fire:
    """Trigger number `trigger` fires on these objects for certain, or never."""

    trigger: int
    args: tuple[str, ...]
    certain: bool


@dataclass(frozen=True, slots=True)
class Fail:
    """A contradiction."""


@dataclass(frozen=True, slots=True)
class Check:
    """The integer is at least `least`; otherwise the kernel, not the space, is wrong: a located error."""

    value: Integer
    least: int
    span: Span


@dataclass(frozen=True, slots=True)
class Loop:
    """For each object of `source` that passes the tests; with a `member`, each p that has it in source(p)."""

    variable: str
    source: SetRef
    member: str | None
    tests: tuple[StaticTest, ...]


@dataclass(frozen=True, slots=True)
class For:
    loops: tuple[Loop, ...]
    body: tuple[Statement, ...]


Statement = If | Make | Project | Assign | RestrictLow | RestrictHigh | Settle | Fire | Fail | Check | For

# ---- Propagators -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wake:
    """The domain of `use` has changed: with its arguments bound, the body runs for every binding of the rest.

    `gate`: only when this literal, on that use alone, has just become impossible; None: at every change.
    `mirrored`: a pair of a symmetric or antisymmetric choice is bound both ways round; else once.
    `tests` concern the arguments of `use` only, so an instance evaluates them once per domain.
    """

    use: Use
    mirrored: bool
    gate: InMask | Satisfies | Named | None
    tests: tuple[StaticTest, ...]
    loops: tuple[Loop, ...]
    name: str
    """Of the printed function; the propagator's own where there are no loops."""


@dataclass(frozen=True, slots=True)
class Entry:
    """When membership of `variable` in an instance of `set` has changed: as in `Wake`.

    Where `certain`, only a membership that has become certain runs the body.
    """

    variable: str
    set: SetRef
    certain: bool
    tests: tuple[StaticTest, ...]
    loops: tuple[Loop, ...]
    name: str


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one binding contributes to a counter, for printers whose code follows each contribution by itself.

    `body` takes the locals `lo` and `hi` from the neutral element to what is certain and what is possible;
    run on all bindings of `loops` in turn, from `base`, it makes the totals.
    """

    arguments: tuple[str, ...]
    """The counter's parameters, then what is quantified."""
    tests: tuple[StaticTest, ...]
    """On the parameters: without them there are no contributions."""
    loops: tuple[Loop, ...]
    body: tuple[Statement, ...]
    base: Integer
    product: bool


@dataclass(frozen=True, slots=True)
class Propagator:
    """`loops` enumerate all bindings at the root; `arguments` are the variables that the body is called with.

    A deferred propagator (a counter) runs once no domain change is waiting, once for all changes before that.
    """

    name: str
    doc: str
    spans: tuple[Span, ...]
    arguments: tuple[str, ...]
    loops: tuple[Loop, ...]
    body: tuple[Statement, ...]
    wakes: tuple[Wake, ...]
    entries: tuple[Entry, ...] = ()
    deferred: bool = False
    limits: tuple[Limit, ...] = ()
    """What the body asks about quantities."""
    contribution: Contribution | None = None
    """Of a counter whose contributions fit a word and follow from domains alone."""


@dataclass(frozen=True, slots=True)
class Table:
    """The allowed combinations of the values of its uses, as projections: see `Project`."""

    widths: tuple[int, ...]
    """Bits of the inputs."""
    entries: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Module:
    """All propagators of a space, in the order of the requirements and counters they come from."""

    propagators: tuple[Propagator, ...]
    tables: tuple[Table, ...]
