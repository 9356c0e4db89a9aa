"""Random descents in compiled code: many at once, without the interpreter.

In: an instance, a candidate, an order of decisions, a seed. Out: counts, and where they are wanted a
fingerprint of each complete vector, or the last one. Descent number n of a seed is the same in any batch
and on any number of threads; `engine/streams.py` says which random numbers it draws, so that Python can
take the same decisions.
"""

from __future__ import annotations

import ctypes
import enum
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spacedsl.engine.descent import DescentCounts
from spacedsl.engine.layout import INTEGER_WORDS, WORD_BITS
from spacedsl.engine.native.library import FAULT, SPLIT_FIELDS, CountTable, OrderingTables
from spacedsl.engine.native.propagation import NativePropagation


class Rule(enum.Enum):
    """Which open decision is taken next."""

    FIRST = 0
    ANY = 1  # each with the same probability
    SMALLEST = 2  # the first of those with the fewest values, or groups of values, left


@dataclass(frozen=True, slots=True)
class Place:
    """A decision variable in its place of an ordering: its cell, values, and groups (none: single values)."""

    cell: int
    values: int
    groups: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class NativeOrdering:
    tables: OrderingTables
    _kept: tuple[NDArray[np.int32] | NDArray[np.uint64], ...]


def native_ordering(
    places: Iterable[Place], presence: Mapping[int, Sequence[int]], rule: Rule = Rule.FIRST
) -> NativeOrdering:
    """The decisions to choose from.

    `presence`: by cell, the words that say whether a decision's objects are present.
    """
    groups: list[int] = [0]
    words = [0]
    rows = []
    for place in places:
        rows.append(
            (
                place.cell,
                1 if place.values <= WORD_BITS else INTEGER_WORDS,
                len(groups),
                len(place.groups),
                len(words) if place.cell in presence else 0,
            )
        )
        groups += place.groups
        if place.cell in presence:
            words += [len(presence[place.cell]), *presence[place.cell]]
    order = np.array(rows, np.int32).reshape(-1, len(SPLIT_FIELDS))
    group_table, presence_table = np.array(groups, np.uint64), np.array(words, np.int32)
    tables = OrderingTables(
        len(order), rule.value, order.ctypes.data, group_table.ctypes.data, presence_table.ctypes.data
    )
    return NativeOrdering(tables, (order, group_table, presence_table))


@dataclass(frozen=True, slots=True)
class Descents:
    """What a batch came to."""

    counts: DescentCounts
    digests: NDArray[np.uint64]
    """By descent, of its complete vector; 0 for a dead end. Empty unless asked for."""
    leaf: array[int] | None
    """The last complete vector, where it was asked for and there is one."""


def random_descents(
    propagation: NativePropagation,
    vector: array[int],
    ordering: NativeOrdering,
    *,
    seed: int,
    count: int,
    first: int = 0,
    refutes: bool = True,
    wants_digests: bool = False,
    wants_leaf: bool = False,
) -> Descents:
    """Descents `first` .. `first + count - 1`. Without `refutes` one ends at its first value that fails."""
    state = propagation.state()
    table = CountTable()
    digests = np.zeros(count if wants_digests else 0, np.uint64)
    leaf = array("Q", bytes(8 * len(vector))) if wants_leaf else None
    end = propagation.instance.library.functions.random_descents(
        state.address,
        vector.buffer_info()[0],
        ctypes.byref(ordering.tables),
        refutes,
        seed,
        first,
        count,
        ctypes.byref(table),
        digests.ctypes.data if wants_digests else None,
        leaf.buffer_info()[0] if leaf is not None else None,
    )
    if end == FAULT:
        state.refuse()
    counts = DescentCounts(table.descents, table.complete, table.decisions, table.refutations)
    return Descents(counts, digests, leaf if table.complete else None)


def next_place(propagation: NativePropagation, vector: array[int], ordering: NativeOrdering) -> int | None:
    """The position in the ordering of the next decision; None: the vector is complete."""
    place: int = propagation.instance.library.functions.next_place(
        propagation.state().address, vector.buffer_info()[0], ctypes.byref(ordering.tables)
    )
    return place if place >= 0 else None
