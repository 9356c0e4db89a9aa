"""The static tables of an instance, as generated C reads them.

In: the tables that a C module asks for, the sets, the layout and the static values of an instance. Out:
arrays, and the pools that entries point into. Objects have other numbers here: those with bit rows come
first. Raises `NativeLimitError` for what does not fit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacedsl.compiler.c import Table, TableKind
from spacedsl.compiler.c.tables import DENSE_WORDS, PAIR
from spacedsl.compiler.ir import Limit
from spacedsl.compiler.python import HostTable, StaticTable
from spacedsl.engine.arrays import Entries, Ids, entries_of
from spacedsl.engine.layout import CERTAIN, Layout
from spacedsl.engine.native.bindings import NativeLimitError, Relations
from spacedsl.engine.native.keys import Asked, Key
from spacedsl.engine.native.places import Dense, Places, pairs, ranks
from spacedsl.engine.objects import Objects
from spacedsl.engine.static import Statics
from spacedsl.language.host_runtime import describe
from spacedsl.language.space import SetRef

WORD_BITS = 64
MOST_ENTRIES = 1 << 24
"""Of one table."""
DTYPES = {TableKind.INTEGER: np.int64, TableKind.TRUTH: np.uint8, TableKind.COMPARISON: np.uint8}


Family = tuple[str, bool | None]
"""What has bit rows: a choice, with None; or a set, and whether it is the union of its instances."""

NO_NODE = -1
DEFAULTS = {TableKind.PRESENCE: CERTAIN, TableKind.FIRING: CERTAIN, TableKind.LIMIT: NO_NODE}


@dataclass(slots=True)
class Pool:
    """Rows one after the other, each found by where it begins; equal rows are one."""

    items: list[int] = field(default_factory=list)
    _places: dict[tuple[int, ...], int] = field(default_factory=dict)

    def add(self, row: Sequence[int]) -> int:
        key = tuple(row)
        if key not in self._places:
            self._places[key] = len(self.items)
            self.items += key
        return self._places[key]

    def append(self, row: Sequence[int]) -> int:
        """Of what hardly ever is equal to another row."""
        place = len(self.items)
        self.items += row
        return place


@dataclass(slots=True, eq=False)
class TableBuilder:
    objects: Objects
    layout: Layout
    statics: Statics
    relations: Relations
    keys: Mapping[Asked, Mapping[Key, None]]
    numbers: NDArray[np.int32]
    """By object id: its number in C."""
    object_words: int
    mask_words: int
    rows: Mapping[Family, Entries]
    """Where bit rows begin, by first object."""
    limits: Mapping[Limit, Sequence[Key]]
    """The objects of comparisons with quantities."""
    contributions: Mapping[str, Mapping[Key, int]]
    """The places of contributions, by counter and objects."""
    limit_tables: dict[Limit, Callable[[Mapping[Key, int]], None]] = field(default_factory=dict)
    """What fills in the nodes of comparisons, once there is a graph."""
    lists: Pool = field(default_factory=Pool)
    sets: Pool = field(default_factory=Pool)
    masks: Pool = field(default_factory=Pool)

    number_of: list[int] = field(init=False)
    """The same as `numbers`."""

    def __post_init__(self) -> None:
        self.number_of = self.numbers.tolist()
        # What is not a key of a table has an empty list, an empty set, no value at all.
        self.lists.add((0,))
        self.sets.add((0,) * self.object_words)
        self.masks.add((0,) * self.mask_words)

    def build(self, tables: Sequence[Table]) -> list[NDArray[Any]]:
        """In order; the places of a table of several objects stand behind it or before it."""
        entries = [table for table in tables if table.kind not in (TableKind.RANKS, TableKind.PAIRS)]
        values = {table.name: self._entries(table) for table in entries}
        places = {table.name: self._places(values[table.name].keys) for table in entries}
        return [
            self._array(table, values[table.name], places[table.name])
            if table.name in places
            else places[str(table.subject)].array
            for table in tables
        ]

    def numbered(self, items: Iterable[int]) -> list[int]:
        return [self.number_of[item] for item in items]

    # ---- Entries by key, in object ids --------------------------------------------------------------------

    def _entries(self, table: Table) -> Entries:
        subject = table.subject
        match table.kind:
            case TableKind.CELL:
                return self.layout.entries[str(subject)]
            case TableKind.ROWS:
                return self.rows[str(subject), None]
            case TableKind.LACKING:
                return self.rows[str(subject), table.is_union]
        return entries_of(self._values(table), table.arity)

    def _values(self, table: Table) -> Mapping[Key, int]:
        subject = table.subject
        match table.kind:
            case TableKind.LIST | TableKind.SET | TableKind.RANK:
                assert isinstance(subject, str)
                params = len(self.objects.space.sets[subject].params)
                ref = SetRef(subject, () if table.is_union else ("x",) * params)
                row = {TableKind.LIST: self._list, TableKind.SET: self._set, TableKind.RANK: self._rank}[
                    table.kind
                ]
                return {key: row(members) for key, members in self.relations.instances(ref).items()}
            case TableKind.OWNERS:
                return self._owners(str(subject), self._list)
            case TableKind.OWNER_SET:
                return self._owners(str(subject), self._set)
            case TableKind.CONTRIBUTION:
                return self.contributions.get(str(subject), {})
            case TableKind.LIMIT:
                assert isinstance(subject, Limit)
                return dict.fromkeys(self.limits.get(subject, ()), NO_NODE)
            case TableKind.PRESENCE:
                return self.layout.doubtful.get((str(subject), table.is_union), {})
            case TableKind.FIRING:
                return {key: c for (trigger, key), c in self.layout.firings.items() if trigger == subject}
        assert isinstance(subject, HostTable | StaticTable)
        keys = self.keys.get((table.kind, subject), {})
        values = self.statics.values(subject, keys)
        match table.kind, subject:
            case TableKind.TRUTH, _:
                return {key: int(bool(value)) for key, value in zip(keys, values, strict=True)}
            case TableKind.COMPARISON, _:
                return dict(zip(keys, values, strict=True))
            case TableKind.INTEGER, HostTable(call, _):
                found = dict(zip(keys, values, strict=True))
                for value in found.values():
                    if not -(2**63) <= value < 2**63:
                        raise NativeLimitError(f"the host expression `{call.text}` gives {describe(value)}")
                return found
        masks = (self.masks.add(words(value, self.mask_words)) for value in values)
        return dict(zip(keys, masks, strict=True))

    def _list(self, members: Iterable[int]) -> int:
        numbers = self.numbered(members)
        return self._kept(self.lists, (len(numbers), *numbers))

    def _set(self, members: Iterable[int]) -> int:
        mask = sum(1 << n for n in self.numbered(members))
        return self._kept(self.sets, words(mask, self.object_words))

    def _rank(self, members: Iterable[int]) -> int:
        ranks = [0] * (WORD_BITS * self.object_words)
        for rank, number in enumerate(self.numbered(members)):
            ranks[number] = rank
        return self._kept(self.lists, ranks)

    def _kept(self, pool: Pool, row: Sequence[int]) -> int:
        if len(pool.items) > MOST_ENTRIES:
            raise NativeLimitError(f"the sets of {len(self.objects.objects)} objects take too much memory")
        return pool.add(row)

    def _owners(self, name: str, row: Callable[[Iterable[int]], int]) -> Mapping[Key, int]:
        owners: dict[int, list[int]] = {}
        for (owner,), members in self.objects.members[name].items():
            for member in members:
                owners.setdefault(member, []).append(owner)
        return {(member,): row(found) for member, found in owners.items()}

    # ---- Arrays --------------------------------------------------------------------------------------------

    def _array(self, table: Table, entries: Entries, places: Places) -> NDArray[Any]:
        if prod(places.shape) > MOST_ENTRIES:
            raise NativeLimitError(f"{table.name} would have {prod(places.shape)} entries")
        array = np.zeros(places.shape, DTYPES.get(table.kind, np.int32))
        if default := DEFAULTS.get(table.kind, 0):
            array.fill(default)
        if isinstance(table.subject, Limit):
            self.limit_tables[table.subject] = partial(self._fill_limits, array, places, table.arity)
        self._fill(array, places, entries)
        return array

    def _fill_limits(
        self, array: NDArray[Any], places: Places, arity: int, values: Mapping[Key, int]
    ) -> None:
        self._fill(array, places, entries_of(values, arity))

    def _fill(self, array: NDArray[Any], places: Places, entries: Entries) -> None:
        if len(entries):
            values = entries.values if array.ndim else entries.values[0]
            array[places.of(self.numbers[entries.keys])] = values

    def _places(self, ids: Ids) -> Places:
        width, arity = WORD_BITS * self.object_words, ids.shape[1]
        if arity < PAIR or (arity == PAIR and self.object_words <= DENSE_WORDS):
            return Dense((width,) * arity)
        keys = self.numbers[ids]
        return pairs(keys, width) if arity == PAIR else ranks(keys, width)


def words(mask: int, count: int) -> tuple[int, ...]:
    """The mask's words, lowest first."""
    return struct.unpack(f"<{count}Q", mask.to_bytes(count * WORD_BITS // 8, "little"))
