"""The layout of the decision vector: which word holds the domain of which choice on which objects.

In: a space and its objects. Out: `Layout`, with the universes of integer choices and the domains before
any propagation. Cells of one choice are laid out in order of the objects' positions in their sets.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from operator import add

import numpy as np

from spacedsl.compiler.ir import SATURATED
from spacedsl.diagnostics import Diagnostic, DiagnosticError
from spacedsl.engine.arrays import Entries, Ids, distinct, entries_of
from spacedsl.engine.objects import Key, Objects
from spacedsl.engine.triggers import Expansion, Fact, binder_facts
from spacedsl.language.host_runtime import describe
from spacedsl.language.space import Binder, Counter, EnumChoice, Image, IntegerChoice, Space, Symmetry

INTEGER_WORDS = 4
WORD_BITS = 64
DENSE = 8
"""A choice of two objects is stored as a square where one pair in so many has a cell."""
LARGEST_INTEGER = 2**63 - 1
WORDS = {EnumChoice: 1, IntegerChoice: INTEGER_WORDS, Counter: 2}
"""Of a domain of each kind of choice."""
CERTAIN = 0
"""The word that says PRESENT of all that is there from the start."""
ABSENT, PRESENT = 1, 2


@dataclass(frozen=True, eq=False)
class Layout:
    """`cells[choice][ids]` is the first word of a domain, in the orientation asked for."""

    cells: Mapping[str, Mapping[Key, int]]
    entries: Mapping[str, Entries]
    """The same as arrays, in order."""
    others: Mapping[str, Ids]
    """Of a symmetric or antisymmetric choice: by row, that of the other orientation of the pair, or -1."""
    universes: Mapping[int, tuple[int, ...]]
    """Of integer choices, by cell."""
    presence: Mapping[Fact, int]
    """Of memberships that are not there from the start: a word, `ABSENT`, `PRESENT` or both."""
    doubtful: Mapping[tuple[str, bool], Mapping[Key, int]]
    """The same for each set, or union of its instances: by arguments and member."""
    firings: Mapping[tuple[int, Key], int]
    """Of triggers on objects, by number: the same of whether they fire."""
    initial: tuple[int, ...]
    """The vector before propagation, with the whole mask of an integer domain in its first word."""
    wide: tuple[int, ...]
    """Cells of integer domains that need more than one word."""
    given: frozenset[int]
    """Words of memberships that hold wherever the arguments of the set are present."""

    @cached_property
    def twins(self) -> Mapping[int, int]:
        """From cell to cell: the other orientation of a pair of a symmetric or antisymmetric choice."""
        return {cell: twin for pairs in self.twin_cells() for cell, twin in pairs.tolist()}

    def twin_cells(self) -> Iterator[Ids]:
        """The same as arrays, one for each such choice: a row of a cell and its twin for each orientation."""
        for name, others in self.others.items():
            cells, paired = self.entries[name].values, others >= 0
            yield np.stack([cells[paired], cells[others[paired]]], axis=1)

    def first_orientations(self, choice: str) -> Entries:
        """The cells of a choice; of two orientations of a pair, the one that comes first."""
        entries, others = self.entries[choice], self.others.get(choice)
        if others is None:
            return entries
        kept = (others < 0) | (others >= np.arange(len(others)))
        return Entries(entries.keys[kept], entries.values[kept])

    @cached_property
    def owners(self) -> Mapping[int, tuple[str, Key]]:
        """From cell to choice and ids."""
        return {cell: (name, key) for name, places in self.cells.items() for key, cell in places.items()}


def lay_out(space: Space, objects: Objects, expansion: Expansion) -> Layout:
    """Raises `DiagnosticError` where an integer universe is empty, too large or holds no integers."""
    cells: dict[str, dict[Key, int]] = {}
    entries: dict[str, Entries] = {}
    others: dict[str, Ids] = {}
    universes: dict[int, tuple[int, ...]] = {}
    initial: list[int] = [PRESENT]
    for choice in space.choices.values():
        keys, width = objects.keys(choice.params), WORDS[type(choice)]
        places = dict(zip(keys, range(len(initial), sys.maxsize, width), strict=False))
        cells[choice.name] = places
        entries[choice.name] = entries_of(places, len(choice.params))
        match choice:
            case EnumChoice():
                initial += [choice.full] * len(keys)
                if choice.symmetry is not Symmetry.NONE:
                    others[choice.name] = _reversed(entries[choice.name].keys)
            case IntegerChoice():
                for key, cell in places.items():
                    universes[cell] = _universe(choice, objects, key)
                    initial += [(1 << len(universes[cell])) - 1] + [0] * (INTEGER_WORDS - 1)
            case Counter():
                initial += [0, SATURATED] * len(keys)
    first = len(initial)
    presence = {fact: first + number for number, fact in enumerate(expansion.reasons)}
    given = frozenset(
        presence[fact]
        for fact, reasons in expansion.reasons.items()
        if fact[1] and not isinstance(space.sets[fact[0]].iterator, Image)
        if any(reason.firing is None for reason in reasons)
    )
    doubtful: dict[tuple[str, bool], dict[Key, int]] = {}
    for (name, args, member), cell in presence.items():
        doubtful.setdefault((name, args is None), {})[(*(args or ()), member)] = cell
    first += len(presence)
    firings = {(f.trigger, f.key): first + number for number, f in enumerate(expansion.firings)}
    initial += [ABSENT | PRESENT] * (len(presence) + len(firings))
    wide = tuple(cell for cell, universe in universes.items() if len(universe) > WORD_BITS)
    return Layout(cells, entries, others, universes, presence, doubtful, firings, tuple(initial), wide, given)


def decided(space: Space) -> list[EnumChoice | IntegerChoice]:
    """The choices with domains, representatives of quotients among them."""
    return [choice for choice in space.choices.values() if not isinstance(choice, Counter)]


def decided_cells(space: Space, layout: Layout) -> list[int]:
    return [cell for choice in decided(space) for cell in layout.entries[choice.name].values.tolist()]


def _reversed(pairs: Ids) -> Ids:
    """By row of two: the row that has them the other way round, or -1."""
    codes, reversed_codes = (each @ (int(pairs.max(initial=0)) + 1, 1) for each in (pairs, pairs[:, ::-1]))
    order = np.argsort(codes)
    places = np.minimum(np.searchsorted(codes, reversed_codes, sorter=order), len(codes) - 1)
    others = order[places]
    return np.where(codes[others] == reversed_codes, others, -1)


def presence_cells(
    layout: Layout, objects: Objects, binders: tuple[Binder, ...], keys: Ids
) -> list[tuple[int, ...]]:
    """By key: words that all say `PRESENT` once its objects are members for certain, of quotients too."""
    places = {binder.name: place for place, binder in enumerate(binders)}
    relied: Iterable[tuple[int, ...]] = repeat((), len(keys))
    for place, binder in enumerate(binders):
        # What a variable relies on follows from its object and from those that its set is named with.
        read = [place, *(places[a] for a in binder.set.args)]
        found, numbers = distinct([keys[:, p] for p in read], len(keys))
        names = [binders[p].name for p in read]
        cells = [binder_cells(layout, objects, binder, dict(zip(names, ids, strict=True))) for ids in found]
        relied = map(add, relied, map(cells.__getitem__, numbers.tolist()))
    return list(relied)


def may_lack(layout: Layout, objects: Objects, binder: Binder) -> bool:
    """Whether some members of the variable's set are not present in all implementations."""
    return bool(layout.presence) or binder.set.name in objects.space.quotients


def binder_cells(
    layout: Layout, objects: Objects, binder: Binder, environment: Mapping[str, int]
) -> tuple[int, ...]:
    """The same for one variable of a binding."""
    if not may_lack(layout, objects, binder):
        return ()
    cells = [layout.presence.get(fact, CERTAIN) for fact in binder_facts(objects, (binder,), environment)]
    cells += [layout.cells[name][key] for name, key in objects.representatives(binder, environment)]
    return tuple(dict.fromkeys(cell for cell in cells if cell != CERTAIN))


def by_ids(places: Mapping[Key, int], params: tuple[Binder, ...], count: int) -> object:
    """What generated code indexes: the cell itself, a list, rows, or a mapping of tuples.

    Rows of few cells are mappings, so that a choice over a sparse relation takes no square of the objects.
    """
    if not params:
        return places.get((), -1)
    if len(params) == 1:
        row: list[int | None] = [None] * count
        for (number,), cell in places.items():
            row[number] = cell
        return row
    if len(params) == 2 and len(places) < count * count // DENSE:
        sparse: list[dict[int, int]] = [{}] * count
        for (left, right), cell in places.items():
            if not sparse[left]:
                sparse[left] = {}
            sparse[left][right] = cell
        return sparse
    if len(params) == 2:
        rows: list[list[int | None]] = [[None] * count for _ in range(count)]
        for (left, right), cell in places.items():
            rows[left][right] = cell
        return rows
    return dict(places)


def _universe(choice: IntegerChoice, objects: Objects, key: Key) -> tuple[int, ...]:
    environment = dict(zip((p.name for p in choice.params), key, strict=True))
    found = objects.evaluate(choice.universe, environment)
    label = f"{choice.name}({', '.join(objects.names[k] for k in key)})"
    problem = None
    values: list[int] = []
    if not isinstance(found, Iterable) or isinstance(found, str):
        problem = f"the universe of {label} is {describe(found)}, not a collection of integers"
    else:
        for value in found:
            if not isinstance(value, int) or not 0 <= value <= LARGEST_INTEGER:
                held = describe(value)
                problem = f"the universe of {label} holds {held}, which is no integer from 0 to 2**63 - 1"
            else:
                values.append(int(value))
    universe = tuple(sorted(set(values)))
    if problem is None and not 0 < len(universe) <= INTEGER_WORDS * WORD_BITS:
        problem = f"the universe of {label} has {len(universe)} values, not 1 to {INTEGER_WORDS * WORD_BITS}"
    if problem is not None:
        raise DiagnosticError([Diagnostic("SP411", problem, choice.universe.span)])
    return universe
