"""The static tables that generated code reads: which ones there are, and what they are called.

In: host expressions and static tests as bodies print them. Out: their numbers, and templates from which an
instance computes their values, so that two that differ in the names of their variables only are one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from spacedsl.compiler.ir import Check, HostCall, Limit, Named, Satisfies, StaticCompare
from spacedsl.compiler.loops import linear_variables
from spacedsl.compiler.python.names import indexed
from spacedsl.compiler.renaming import rename
from spacedsl.language.space import Space

StaticLiteral = Satisfies | Named | StaticCompare


@dataclass(frozen=True, slots=True)
class StaticTable:
    """Masks of the values that satisfy a literal, or truths of a static comparison, by objects."""

    test: StaticLiteral
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HostTable:
    """Values of a host expression, by objects; where `is_integer`, any other value is a located error."""

    call: HostCall
    is_integer: bool


def host_table(call: HostCall, is_integer: bool) -> HostTable:
    """The table for an expression up to the names of its arguments."""
    return HostTable(HostCall(call.text, call.expression.free_variables, call.expression), is_integer)


def static_table(test: StaticLiteral) -> tuple[StaticTable, tuple[str, ...]]:
    """The table for a test up to the names of its variables, and the variables that index it here."""
    match test:
        case Satisfies(left, _, right) | StaticCompare(left, _, right):
            found = linear_variables(left) | linear_variables(right)
        case Named(use, _, value):
            found = {*use.args, *value.args}
    variables = tuple(sorted(found))
    template = rename(test, {v: f"x{i}" for i, v in enumerate(variables)})
    assert isinstance(template, StaticLiteral)
    return StaticTable(template, tuple(f"x{i}" for i in range(len(variables)))), variables


@dataclass(slots=True)
class Tables:
    """The static tables that have been asked for, numbered in order."""

    space: Space
    hosts: dict[HostTable, None] = field(default_factory=dict)
    masks: dict[StaticTable, StaticTable] = field(default_factory=dict)
    asked: dict[StaticTable, tuple[StaticLiteral, tuple[str, ...]]] = field(default_factory=dict)
    """Of each of `masks`, the test that first asked for it, and the variables that index it there."""
    checks: list[Check] = field(default_factory=list)
    limits: dict[Limit, None] = field(default_factory=dict)
    has_sides: bool = False
    """Whether a side of an equality of integers has been printed."""

    def host(self, call: HostCall, is_integer: bool) -> str:
        template = host_table(call, is_integer)
        self.hosts.setdefault(template)
        return f"host_{list(self.hosts).index(template)}{indexed(call.args)}"

    def static(self, test: StaticLiteral) -> str:
        template, variables = static_table(test)
        self.masks.setdefault(template, template)
        self.asked.setdefault(template, (test, variables))
        return f"mask_{list(self.masks).index(template)}{indexed(variables)}"

    def limit(self, limit: Limit) -> str:
        """The node of a comparison, in a table by all of its variables."""
        self.limits.setdefault(Limit(limit.formula, limit.names, limit.names))
        number = list(self.limits).index(Limit(limit.formula, limit.names, limit.names))
        return f"limit_{number}{indexed(limit.args) or '[()]'}"

    def check(self, check: Check) -> int:
        self.checks.append(check)
        return len(self.checks) - 1
