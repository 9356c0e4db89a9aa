"""Which changes of an enum domain a propagator can notice.

In: a propagator and one of its uses. Out: a signature by mask; between two masks of equal signature the
propagator restricts whatever else it concerns in the same way, so it need not run. What it restricts the use
itself to depends on the others alone, and still holds of a smaller domain.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import product

from spacedsl.compiler.formulas import complement
from spacedsl.compiler.ir import (
    AllOf,
    AnyOf,
    For,
    If,
    InMask,
    Literal,
    Make,
    MayHold,
    MustHold,
    Named,
    Project,
    Propagator,
    Satisfies,
    Statement,
    Table,
    Test,
)
from spacedsl.compiler.uses import literal_uses
from spacedsl.language.space import Space, Use


def signatures(propagator: Propagator, use: Use, tables: Sequence[Table], space: Space) -> list[Hashable]:
    """The signature of each mask of the use's choice, 0 among them."""
    size = 1 << len(space.enum(use).values)
    parts: list[list[Hashable]] = []
    for statement in _flat(propagator.body):
        match statement:
            case If(test):
                for literal in _literals(test, space):
                    parts += _of_test(literal, use, size)
            case Project(_, table, inputs) if use in inputs:
                parts.append([_slice(tables[table], inputs.index(use), mask) for mask in range(size)])
            case Make(InMask() | Named() | Satisfies()):
                pass  # restricts the use itself
            case Make(literal) if use in literal_uses(literal):
                parts.append(list(range(size)))
    return [tuple(part[mask] for part in parts) for mask in range(size)]


def _flat(statements: Sequence[Statement]) -> Iterator[Statement]:
    for statement in statements:
        yield statement
        match statement:
            case If(_, then, otherwise):
                yield from _flat((*then, *otherwise))
            case For(_, body):
                yield from _flat(body)


def _literals(test: Test, space: Space) -> Iterator[Literal]:
    match test:
        case MayHold(literal):
            yield literal
        case MustHold(literal):
            opposite = complement(space, literal)
            assert isinstance(opposite, Literal)
            yield opposite
        case AllOf(tests) | AnyOf(tests):
            for part in tests:
                yield from _literals(part, space)


def _of_test(literal: Literal, use: Use, size: int) -> list[list[Hashable]]:
    if use not in literal_uses(literal):
        return []
    if isinstance(literal, InMask):
        return [[bool(mask & literal.mask) for mask in range(size)]]
    return [list(range(size))]


def _slice(table: Table, place: int, mask: int) -> tuple[int, ...]:
    """What the table has where one input is this mask, for all values of the others."""
    singles = ([1 << bit for bit in range(width)] for width in table.widths)
    masks = [single if i != place else (mask,) for i, single in enumerate(singles)]
    found = []
    for row in product(*masks):
        index = 0
        for value, width in zip(row, table.widths, strict=True):
            index = index << width | value
        found.append(table.entries[index])
    return tuple(found)
