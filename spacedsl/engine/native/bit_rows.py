"""Bit rows: for each value of an enum or of presence, and first objects of a key, a set of the last ones.

In: the keys and cells of what has rows, and the numbers of objects in C. Out: where rows begin, for tables
and cells, and what they hold before any propagation. Compiled code keeps them in step with the vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacedsl.engine.arrays import Entries, Ids, distinct
from spacedsl.engine.native.tables import WORD_BITS, Family
from spacedsl.language.space import Space, Use

Array = NDArray[Any]
PRESENCE_VALUES = 2
"""`ABSENT` comes first: its row has the objects that may not be members."""


@dataclass(slots=True)
class BitRows:
    families: Mapping[Family, Entries]
    """The cells by key."""
    numbers: NDArray[np.int32]
    row_words: int
    values: Mapping[Family, int]
    """How many a key has: each has a row."""
    words: int = field(init=False)
    """Of all rows. The first row is empty: of sets that lack nobody."""
    offsets: dict[Family, Entries] = field(init=False, default_factory=dict)
    """Where the rows of a value begin, by first objects."""
    _of_cells: dict[Family, Ids] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.words = self.row_words if self.families else 0
        for family, entries in self.families.items():
            columns = list(entries.keys[:, :-1].T)
            firsts, places = distinct(columns, len(entries))
            span = self.values[family] * self.row_words
            offsets = self.words + span * np.arange(len(firsts))
            keys = np.array(firsts, np.int64).reshape(len(firsts), len(columns))
            self.offsets[family] = Entries(keys, offsets)
            self._of_cells[family] = offsets[places]
            self.words += span * len(firsts)

    def place(self, row: Array, bit: Array) -> None:
        """Fills in, by cell, where its rows begin and which object it is in them."""
        for family, entries in self.families.items():
            row[entries.values] = self._of_cells[family]
            bit[entries.values] = self.numbers[entries.keys[:, -1]]

    def initial(self) -> NDArray[np.uint64]:
        """All rows before any propagation."""
        bits = np.zeros(max(self.words, 1) * WORD_BITS, np.uint8)
        for family, entries in self.families.items():
            first = self._of_cells[family] * WORD_BITS + self.numbers[entries.keys[:, -1]]
            for value in range(self.values[family]):
                bits[first + value * self.row_words * WORD_BITS] = 1
        return np.packbits(bits, bitorder="little").view("<u8").astype(np.uint64)


def values_of(space: Space, family: Family) -> int:
    name, is_union = family
    return len(space.enum(Use(name, ())).values) if is_union is None else PRESENCE_VALUES
