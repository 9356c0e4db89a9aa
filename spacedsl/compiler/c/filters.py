"""Filters in front of propagators: of all objects that a wake loops over, which need the propagator to run.

In: a propagator, the domains that a wake leaves fixed, the variable of its innermost loop. Out: for all
masks of the fixed domains a boolean function of the bit rows of the others. It is false only where the
propagator would change nothing; where it cannot be told from rows whether a condition holds, both outcomes
are considered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from spacedsl.compiler.c.words import Word, both, either, negation, values
from spacedsl.compiler.formulas import complement
from spacedsl.compiler.ir import (
    AllOf,
    AnyOf,
    Fail,
    For,
    If,
    InMask,
    Literal,
    Make,
    MayHold,
    MustHold,
    Project,
    Propagator,
    Statement,
    Table,
    Test,
)
from spacedsl.compiler.uses import statement_uses
from spacedsl.language.space import EnumChoice, Space, Symmetry, Use

MOST_FIXED_BITS = 6
"""Of the masks of fixed domains together: there is a case for each."""
MOST_ROW_VALUES = 8
MOST_ROW_PARAMS = 2


@dataclass(frozen=True, slots=True)
class RowUse:
    """A use whose domains over the loop's objects are bit rows of the choice, at a fixed other object."""

    use: Use
    other: str | None
    """The fixed object; None: the choice has one parameter."""
    is_inverted: bool
    """Whether the rows hold the other orientation of the pairs."""


@dataclass(frozen=True, slots=True)
class Filter:
    rows: tuple[RowUse, ...]
    fixed: tuple[Use, ...]
    cases: tuple[tuple[tuple[int, ...], Word], ...]
    """Of the fixed masks: the objects that need work."""


def has_rows(space: Space, choice: str) -> bool:
    """Whether domains of this choice can be kept as bit rows."""
    declaration = space.choices[choice]
    return (
        isinstance(declaration, EnumChoice)
        and 1 <= len(declaration.params) <= MOST_ROW_PARAMS
        and len(declaration.values) <= MOST_ROW_VALUES
    )


def filter_of(propagator: Propagator, variable: str, tables: Sequence[Table], space: Space) -> Filter | None:
    """The filter over the objects of a variable, all others being fixed; None where none would help."""
    uses = tuple(dict.fromkeys(use for statement in propagator.body for use in statement_uses(statement)))
    rows = tuple(row for use in uses if (row := _row_use(use, variable, space)) is not None)
    fixed = tuple(
        use for use in uses if variable not in use.args and isinstance(space.choices[use.choice], EnumChoice)
    )
    bits = sum(len(space.enum(use).values) for use in fixed)
    if propagator.deferred or not rows or bits > MOST_FIXED_BITS:
        return None
    numbers = {row.use: number for number, row in enumerate(rows)}
    known: dict[tuple[Use, int], Word] = {}
    cases = []
    for masks in product(*(range(1, space.enum(use).full + 1) for use in fixed)):
        reader = _Reader(space, tables, dict(zip(fixed, masks, strict=True)), numbers, rows, known)
        cases.append((masks, reader.work(propagator.body)))
    if all(word is True for _, word in cases):
        return None
    return Filter(rows, fixed, tuple(cases))


def _row_use(use: Use, variable: str, space: Space) -> RowUse | None:
    if use.args.count(variable) != 1 or not has_rows(space, use.choice):
        return None
    if len(use.args) == 1:
        return RowUse(use, None, False)
    if use.args[1] == variable:
        return RowUse(use, use.args[0], False)
    if space.enum(use).symmetry is Symmetry.NONE:
        return None
    return RowUse(use, use.args[1], True)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads a body where some domains are fixed and some are rows; others may be anything."""

    space: Space
    tables: Sequence[Table]
    fixed: dict[Use, int]
    numbers: dict[Use, int]
    rows: tuple[RowUse, ...]
    known: dict[tuple[Use, int], Word]
    """Where a row's domain has a value of a mask, as far as it has been asked for."""

    def work(self, statements: Sequence[Statement]) -> Word:
        """Where running the statements could change something."""
        return either(self._work(statement) for statement in statements)

    def _work(self, statement: Statement) -> Word:
        match statement:
            case If(test, then, otherwise):
                holds, fails = self._test(test)
                return either((both(holds, self.work(then)), both(fails, self.work(otherwise))))
            case Make(InMask(use, mask)):
                return self._has(use, self.space.enum(use).full & ~mask)
            case Project(target, table, inputs):
                return self._project(target, self.tables[table], inputs)
            case For(_, body):
                return self.work(body)
            case Fail():
                return True
            case _:
                return True

    def _project(self, target: Use, table: Table, inputs: tuple[Use, ...]) -> Word:
        """Where the target has a value that no combination of the inputs supports."""
        return either(
            both(self._has(target, 1 << value), negation(self._supported(value, table, inputs)))
            for value in range(len(self.space.enum(target).values))
        )

    def _supported(self, value: int, table: Table, inputs: tuple[Use, ...]) -> Word:
        """Where the inputs hold a combination that allows the value; where that is unknown, nowhere."""
        if any(use not in self.fixed and use not in self.numbers for use in inputs):
            return False
        return self._allowed(value, table, inputs, 0)

    def _allowed(self, value: int, table: Table, inputs: tuple[Use, ...], index: int) -> Word:
        """The same, the masks of the inputs before these being concatenated in `index`."""
        if not inputs:
            return bool(table.entries[index] >> value & 1)
        use, rest = inputs[0], inputs[1:]
        width = len(self.space.enum(use).values)
        if use in self.fixed:
            return self._allowed(value, table, rest, index << width | self.fixed[use])
        if not rest:
            base, entries = index << width, table.entries
            bits = (bit for bit in range(width) if entries[base | 1 << bit] >> value & 1)
            return self._has(use, sum(1 << bit for bit in bits))
        # Values of this input that lead to the same condition on the rest are taken together.
        groups: dict[Word, int] = {}
        for bit in range(width):
            word = self._allowed(value, table, rest, index << width | 1 << bit)
            groups[word] = groups.get(word, 0) | 1 << bit
        return either(both(word, self._has(use, mask)) for word, mask in groups.items())

    def _test(self, test: Test) -> tuple[Word, Word]:
        """Where it may hold, and where it may fail."""
        match test:
            case MayHold(InMask(use, mask)):
                word = self._may(use, mask)
                return (True, True) if word is None else (word, negation(word))
            case MustHold(literal):
                opposite = complement(self.space, literal)
                assert isinstance(opposite, Literal)
                return self._test(MayHold(opposite))[::-1]
            case AllOf(tests):
                parts = [self._test(t) for t in tests]
                return both(*(holds for holds, _ in parts)), either(fails for _, fails in parts)
            case AnyOf(tests):
                parts = [self._test(t) for t in tests]
                return either(holds for holds, _ in parts), both(*(fails for _, fails in parts))
            case _:
                return True, True

    def _has(self, use: Use, mask: int) -> Word:
        """Where the domain may have a value of the mask."""
        word = self._may(use, mask)
        return True if word is None else word

    def _may(self, use: Use, mask: int) -> Word | None:
        if use in self.fixed:
            return bool(self.fixed[use] & mask)
        if use not in self.numbers:
            return None
        known = self.known.get((use, mask))
        if known is None:
            number = self.numbers[use]
            choice = self.space.enum(use)
            stored = choice.invert(mask) if self.rows[number].is_inverted else mask
            known = self.known[use, mask] = values(number, stored, choice.full)
        return known
