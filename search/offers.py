"""Which values variables of a choice have, and which others they might: of thousands of variables at once.

In: the variables of a choice; then masks of some of them, what they have and what they are allowed. Out: the
values that any of them might have and has not, who might have one of these, and who has it. Which one is
taken, and what then becomes of the others, is for `neighbours.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spacedsl.engine.domain_table import Numbers
from spacedsl.engine.instance import Variable
from spacedsl.engine.layout import WORD_BITS

Flags = NDArray[np.bool_]
Words = NDArray[np.uint64]
"""A row for each variable: the words of its mask, the lowest first."""


@dataclass(frozen=True, slots=True)
class Values:
    """Those of all variables of a choice. Equal bits may be different values: sizes differ in what they
    offer.
    """

    places: Numbers
    """A row for each variable: where the value of each of its bits stands among all values; behind them,
    -1.
    """
    rows: Mapping[int, int]
    """By the number of the variable."""

    @classmethod
    def of(cls, variables: Sequence[Variable]) -> Values:
        universes = dict.fromkeys(variable.universe for variable in variables)
        values = dict.fromkeys(value for universe in universes for value in universe)
        place_of = {value: place for place, value in enumerate(values)}
        widest = max(map(len, universes))
        by_universe = {
            universe: [*(place_of[value] for value in universe), *[-1] * (widest - len(universe))]
            for universe in universes
        }
        places = np.array([by_universe[variable.universe] for variable in variables], np.intp)
        return cls(places, {variable.index: row for row, variable in enumerate(variables)})

    def offers(self, numbers: Numbers, had: Words, allowed: Words) -> Offers:
        """Of some of the variables, by their numbers."""
        places = self.places[[self.rows[number] for number in numbers.tolist()]]
        has, may_have = (_bits(masks, self.places.shape[1]) for masks in (had, allowed))
        return Offers(numbers, places, has, may_have & ~has)


@dataclass(frozen=True, slots=True)
class Offers:
    numbers: Numbers
    """Of the variables; a row for each in what follows, a column for each bit of their masks."""
    places: Numbers
    has: Flags
    might: Flags
    """Have it in place of what they have."""

    @property
    def values(self) -> Numbers:
        """All that any of them might have, each by its place."""
        return np.flatnonzero(np.bincount(self.places[self.might]))

    def to_have(self, value: int) -> tuple[Numbers, Numbers]:
        """Which variables might have a value, and which bit of its mask that is, for each."""
        rows, bits = np.nonzero(self.might & (self.places == value))
        return self.numbers[rows], bits

    def having(self, value: int) -> Numbers:
        """The variables that have a value."""
        found: Numbers = self.numbers[(self.has & (self.places == value)).any(axis=1)]
        return found


def _bits(masks: Words, count: int) -> Flags:
    """The lowest bits of each row of words."""
    places = np.arange(count)
    words, shifts = masks[:, places // WORD_BITS], (places % WORD_BITS).astype(np.uint64)
    found: Flags = (words >> shifts & np.uint64(1)).astype(np.bool_)
    return found
