"""Where the entries of a table lie: by the numbers that its objects have in C.

In: the keys of a table. Out: the shape of its array, the places of keys in it, and the array from which C
computes the same places; see `PAIR` and `place` in `compiler/c/runtime.h`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int32]
"""Keys: a row for each, a column for each object."""


class Places(Protocol):
    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def array(self) -> Numbers:
        """What C reads."""

    def of(self, keys: Numbers) -> tuple[NDArray[np.intp], ...]:
        """Indices into the table."""


@dataclass(frozen=True, slots=True)
class Dense:
    """The objects themselves are the indices."""

    shape: tuple[int, ...]

    @property
    def array(self) -> Numbers:
        return np.zeros(1, np.int32)

    def of(self, keys: Numbers) -> tuple[NDArray[np.intp], ...]:
        return tuple(keys.T.astype(np.intp))


@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """Objects that occur at a position have a rank there, all others share the last one."""

    shape: tuple[int, ...]
    by_object: Numbers

    @property
    def array(self) -> Numbers:
        return np.concatenate([np.array(self.shape, np.int32), self.by_object.reshape(-1)])

    def of(self, keys: Numbers) -> tuple[NDArray[np.intp], ...]:
        columns = (self.by_object[place][keys[:, place]] for place in range(len(self.shape)))
        return tuple(column.astype(np.intp) for column in columns)


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Place 0 is that of all pairs that are no keys; the others follow in order."""

    codes: NDArray[np.int64]
    """Of the keys, in order."""
    array: Numbers
    width: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.codes) + 1,)

    def of(self, keys: Numbers) -> tuple[NDArray[np.intp], ...]:
        return (np.searchsorted(self.codes, _codes(keys, self.width)) + 1,)


def ranks(keys: Numbers, width: int) -> Ranks:
    """`width`: one more than the greatest number of an object."""
    arity = keys.shape[1]
    by_object = np.zeros((arity, width), np.int32)
    shape: list[int] = []
    for place in range(arity):
        occurring = np.unique(keys[:, place])
        by_object[place] = len(occurring)
        by_object[place, occurring] = np.arange(len(occurring))
        shape.append(len(occurring) + 1)
    return Ranks(tuple(shape), by_object)


def pairs(keys: Numbers, width: int) -> Pairs:
    codes = np.unique(_codes(keys, width))
    firsts, starts, counts = np.unique(codes // width, return_index=True, return_counts=True)
    array = np.zeros(width + len(codes) + 2 * len(firsts), np.int32)
    rows = width + starts + 2 * np.arange(len(firsts))
    array[firsts] = rows
    array[rows], array[rows + 1] = counts, starts + 1
    row_of_code = np.repeat(np.arange(len(firsts)), counts)
    array[width + np.arange(len(codes)) + 2 * (row_of_code + 1)] = codes % width
    return Pairs(codes, array, width)


def _codes(keys: Numbers, width: int) -> NDArray[np.int64]:
    return keys[:, 0].astype(np.int64) * width + keys[:, 1]
