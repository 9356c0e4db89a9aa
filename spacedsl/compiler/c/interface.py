"""What a library of a space and an instance have to agree on; all but the code itself.

In: the propagators. Out: `Interface`. The tables are known once the C has been printed; the rest follows from
the propagators alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from spacedsl.compiler.c.questions import Question, questions
from spacedsl.compiler.c.tables import Subject, Table, TableKind
from spacedsl.compiler.c.wakes import Source, sources
from spacedsl.compiler.ir import Check, For, If, Limit, Module, Statement
from spacedsl.language.space import Space

Value = str | int | None | list[str | int]
"""What JSON has of a table."""


@dataclass(frozen=True, slots=True)
class Interface:
    """What a library of propagators and an instance have to agree on."""

    tables: tuple[Table, ...]
    """What an instance has to supply, in order."""
    sources: tuple[Source, ...]
    """What changes, and what each change wakes."""
    checks: tuple[Check, ...]
    """What the code refuses, by number."""
    questions: tuple[Question, ...]
    """The static values that it may ask for."""

    @property
    def rows(self) -> tuple[str, ...]:
        """The choices that are kept as bit rows."""
        return tuple(str(table.subject) for table in self.tables if table.kind is TableKind.ROWS)

    @property
    def lacking(self) -> tuple[tuple[str, bool], ...]:
        """The sets, or unions of their instances, whose uncertain members are kept as bit rows."""
        found = (table for table in self.tables if table.kind is TableKind.LACKING)
        return tuple((str(table.subject), table.is_union) for table in found)


# ---- As numbers and names ---------------------------------------------------------------------------------

STATIC, LIMIT = "static", "limit"


def encoded(found: Interface, module: Module) -> dict[str, list[list[Value]] | list[int]]:
    """The tables and checks, for JSON: what is part of the propagators by its number there."""
    statics, limits, checks = _subjects(found.questions), _limits(module), list(_checks(module))

    def subject(table: Table) -> Value:
        match table.subject:
            case str() | int():
                return table.subject
            case Limit():
                return [LIMIT, limits.index(table.subject)]
            case _:
                return [STATIC, statics.index(table.subject)]

    return {
        "tables": [[t.name, t.kind.value, subject(t), t.arity, t.is_union] for t in found.tables],
        "checks": [checks.index(check) for check in found.checks],
    }


def decoded(record: object, module: Module, space: Space) -> Interface:
    """What `encoded` made of it; `ValueError`, or another `LookupError`, where that cannot be."""
    asked = questions(module, space)
    statics, limits, checks = _subjects(asked), _limits(module), list(_checks(module))

    def subject(value: object) -> Subject:
        match value:
            case str() | int():
                return value
            case ["static", int(number)] if number >= 0:
                return statics[number]
            case ["limit", int(number)] if number >= 0:
                return limits[number]
        raise ValueError("a table of nothing that is known")

    tables: list[Table] = []
    match record:
        case {"tables": list(rows), "checks": list(numbers)}:
            for row in rows:
                match row:
                    case [str(name), str(kind), of, int(arity), bool(is_union)]:
                        tables.append(Table(name, TableKind(kind), subject(of), arity, is_union))
                    case _:
                        raise ValueError("no table")
            return Interface(tuple(tables), sources(module, space), tuple(checks[n] for n in numbers), asked)
    raise ValueError("no interface")


def _subjects(asked: Iterable[Question]) -> list[Subject]:
    return list(dict.fromkeys(question.subject for question in asked))


def _limits(module: Module) -> list[Limit]:
    """The comparisons with quantities, each on its own variables."""
    found = (limit for propagator in module.propagators for limit in propagator.limits)
    return list(dict.fromkeys(Limit(limit.formula, limit.names, limit.names) for limit in found))


def _checks(module: Module) -> Iterator[Check]:
    for propagator in module.propagators:
        yield from _checks_in(propagator.body)


def _checks_in(statements: Sequence[Statement]) -> Iterator[Check]:
    for statement in statements:
        match statement:
            case Check():
                yield statement
            case If(_, then, otherwise):
                yield from _checks_in((*then, *otherwise))
            case For(_, body):
                yield from _checks_in(body)
