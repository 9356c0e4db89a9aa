"""Merging of clauses over few enum uses into relations: truth tables, stronger than their clauses one by one.

In: clauses. Out: `Relation` values (the combinations of values that all merged clauses allow, closed under
the exchanges of variables that its binding allows) and the clauses that fit in none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from spacedsl.compiler.clauses import Clause, Variable
from spacedsl.compiler.ir import EnumEquality, EnumOrder, InMask, Literal, StaticTest
from spacedsl.compiler.renaming import rename, rename_set, rename_test, rename_use
from spacedsl.diagnostics import Span
from spacedsl.language.space import EnumChoice, Space, Symmetry, Use

MOST_USES = 3
MOST_PROJECTION_BITS = 12
MOST_EXCHANGED = 6
"""More variables keep their order: there are too many ways to exchange them."""


@dataclass(frozen=True, slots=True)
class Relation:
    """For all distinct objects that pass the tests, the values of `uses` are one of `allowed`."""

    variables: tuple[Variable, ...]
    tests: tuple[StaticTest, ...]
    uses: tuple[Use, ...]
    allowed: frozenset[tuple[int, ...]]
    exchanges: tuple[Mapping[str, str], ...]
    """The renamings of variables, the identity among them, under which the relation is itself."""
    spans: tuple[Span, ...]


def merge(space: Space, clauses: tuple[Clause, ...]) -> tuple[tuple[Relation, ...], tuple[Clause, ...]]:
    """Relations in the order of their first clause, and the remaining clauses in order."""
    groups: list[_Group] = []
    rest: list[Clause] = []
    order = sorted(range(len(clauses)), key=lambda i: (-len(_uses(space, clauses[i]) or ()), i))
    for index in order:
        clause = clauses[index]
        if (uses := _uses(space, clause)) is None:
            rest.append(clause)
        elif not any(group.accept(space, clause, index) for group in groups):
            groups.append(
                _Group(clause.variables, clause.tests, uses, [(clause.literals, index, clause.span)])
            )
    groups.sort(key=lambda group: min(index for _, index, _ in group.members))
    rest.sort(key=clauses.index)
    return tuple(_relation(space, group) for group in groups), tuple(rest)


@dataclass(slots=True)
class _Group:
    variables: tuple[Variable, ...]
    tests: tuple[StaticTest, ...]
    uses: tuple[Use, ...]
    members: list[tuple[tuple[Literal, ...], int, Span]]

    def accept(self, space: Space, clause: Clause, index: int) -> bool:
        """Adds the clause, in this group's variables, if it concerns the same bindings and no further use."""
        choices = {use.choice for use in self.uses}
        if any(use.choice not in choices for literal in clause.literals for use in _uses_of(literal)):
            return False
        for renaming in _renamings(clause.variables, self.variables):
            if {rename_test(t, renaming) for t in clause.tests} != set(self.tests):
                continue
            literals = tuple(_as_literal(rename(x, renaming)) for x in clause.literals)
            uses = {canonical(space, u)[0] for x in literals for u in _uses_of(x)}
            known = {canonical(space, u)[0] for u in self.uses}
            if uses <= known:
                self.members.append((literals, index, clause.span))
                return True
        return False


def canonical(space: Space, use: Use) -> tuple[Use, bool]:
    """The use with the arguments of a (anti)symmetric choice in alphabetical order; whether they were not."""
    choice = space.choices[use.choice]
    if isinstance(choice, EnumChoice) and choice.symmetry is not Symmetry.NONE and use.args[0] > use.args[1]:
        return Use(use.choice, (use.args[1], use.args[0])), True
    return use, False


def _uses(space: Space, clause: Clause) -> tuple[Use, ...] | None:
    """The distinct uses of a clause that fits a relation, else None."""
    uses: list[Use] = []
    for literal in clause.literals:
        if not isinstance(literal, InMask | EnumEquality | EnumOrder):
            return None
        for use in _uses_of(literal):
            if canonical(space, use)[0] not in (canonical(space, u)[0] for u in uses):
                uses.append(use)
    widths = sorted(len(space.enum(use).values) for use in uses)
    if len(uses) > MOST_USES or sum(widths[1:]) > MOST_PROJECTION_BITS:
        return None
    return tuple(uses)


def _renamings(source: tuple[Variable, ...], target: tuple[Variable, ...]) -> Iterator[dict[str, str]]:
    """The renamings of the source variables to the target's under which their sets agree."""
    if len(source) != len(target):
        return
    found: list[dict[str, str]] = [{}]
    # What a set depends on stands before it, so that what does not fit is dropped at its first variable.
    for place, variable in enumerate(source):
        others = target if len(target) <= MOST_EXCHANGED else (target[place],)
        found = [
            {**renaming, variable.name: other.name}
            for renaming in found
            for other in others
            if other.name not in renaming.values() and rename_set(variable.set, renaming) == other.set
        ]
    yield from found


def _relation(space: Space, group: _Group) -> Relation:
    allowed = _allowed(space, group)
    exchanges: list[dict[str, str]] = [{v.name: v.name for v in group.variables}]
    if not group.tests:
        for renaming in _renamings(group.variables, group.variables):
            moved = _moved(space, group.uses, renaming)
            if moved is not None and renaming not in exchanges:
                exchanges.append(renaming)
    closed = allowed
    for renaming in exchanges[1:]:
        moved = _moved(space, group.uses, renaming)
        assert moved is not None
        # Value i of the exchanged binding is that of use `place` here, read the other way round if `swapped`.
        closed &= {
            row
            for row in product(*(range(len(space.enum(u).values)) for u in group.uses))
            if tuple(space.enum(group.uses[p]).inverse[row[p]] if s else row[p] for p, s in moved) in allowed
        }
    spans = tuple(dict.fromkeys(span for _, _, span in sorted(group.members, key=lambda m: m[1])))
    return Relation(group.variables, group.tests, group.uses, frozenset(closed), tuple(exchanges), spans)


def _moved(space: Space, uses: tuple[Use, ...], renaming: Mapping[str, str]) -> list[tuple[int, bool]] | None:
    """For each use, which use it becomes and whether swapped; None where it becomes none of them."""
    places = {canonical(space, u)[0]: i for i, u in enumerate(uses)}
    moved = []
    for use in uses:
        target, swapped = canonical(space, rename_use(use, renaming))
        if target not in places:
            return None
        place = places[target]
        moved.append((place, swapped != canonical(space, uses[place])[1]))
    return moved


def _allowed(space: Space, group: _Group) -> frozenset[tuple[int, ...]]:
    places = {canonical(space, u)[0]: (i, canonical(space, u)[1]) for i, u in enumerate(group.uses)}

    def read(use: Use) -> tuple[int, tuple[int, ...]]:
        """Where a row has the use's value, and the value for each number that stands there."""
        target, swapped = canonical(space, use)
        place, stored_swapped = places[target]
        choice = space.enum(use)
        return place, choice.inverse if swapped != stored_swapped else tuple(range(len(choice.values)))

    def test(literal: Literal) -> Callable[[tuple[int, ...]], bool]:
        if isinstance(literal, InMask):
            place, values = read(literal.use)
            among = [bool(literal.mask >> value & 1) for value in values]
            return lambda row: among[row[place]]
        assert isinstance(literal, EnumEquality | EnumOrder)
        (left, lefts), (right, rights) = read(literal.left), read(literal.right)
        if isinstance(literal, EnumOrder):
            strict = literal.strict
            return lambda row: lefts[row[left]] + strict <= rights[row[right]]
        translate, equal = literal.translate, literal.equal
        return lambda row: (translate[lefts[row[left]]] == rights[row[right]]) is equal

    rows: Iterable[tuple[int, ...]] = product(*(range(len(space.enum(u).values)) for u in group.uses))
    for literals, _, _ in group.members:
        tests = [test(literal) for literal in literals]
        rows = [row for row in rows if any(holds(row) for holds in tests)]
    return frozenset(rows)


def _uses_of(literal: Literal) -> tuple[Use, ...]:
    if isinstance(literal, InMask):
        return (literal.use,)
    assert isinstance(literal, EnumEquality | EnumOrder)
    return (literal.left, literal.right)


def _as_literal(disjunct: object) -> Literal:
    assert isinstance(disjunct, InMask | EnumEquality | EnumOrder)
    return disjunct


def projections(
    space: Space, relation: Relation
) -> Iterator[tuple[Use, tuple[Use, ...], tuple[int, ...], tuple[int, ...]]]:
    """For each use: (use, the others, their widths, entries of the table); see `ir.Project`."""
    counts = [len(space.enum(use).values) for use in relation.uses]
    for target in range(len(relation.uses)):
        others = [i for i in range(len(relation.uses)) if i != target]
        entries = _projection(relation.allowed, target, others, counts)
        yield (
            relation.uses[target],
            tuple(relation.uses[i] for i in others),
            tuple(counts[i] for i in others),
            entries,
        )


def _projection(
    allowed: frozenset[tuple[int, ...]], target: int, others: list[int], counts: list[int]
) -> tuple[int, ...]:
    """entries[concatenated masks of the others] = mask of the target's values that some allowed row has."""
    bits = sum(counts[i] for i in others)
    shifts = [sum(counts[i] for i in others[n + 1 :]) for n in range(len(others))]
    entries = [0] * (1 << bits)
    for row in allowed:
        index = 0
        for i, shift in zip(others, shifts, strict=True):
            index |= 1 << (row[i] + shift)
        entries[index] |= 1 << row[target]
    # Single values are filled in; a union of values has the union of entries, one input after the other.
    for i, shift in zip(others, shifts, strict=True):
        field = ((1 << counts[i]) - 1) << shift
        for index in range(1 << bits):
            mask = index & field
            low = mask & -mask
            if mask != low:
                entries[index] = entries[index & ~field | low] | entries[index & ~low]
    return tuple(entries)
