"""Keys and what is kept for them, as arrays.

In: mappings from keys, which are tuples of ids, or columns of ids. Out: a row of ids and a value for each
key; the distinct rows of columns. Nothing is known of objects here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
MOST_CODES = 2**62
MOST_DENSE = 2**20
"""Codes of which each has a truth of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    keys: Ids
    """A row of ids for each value."""
    values: Ids

    def __len__(self) -> int:
        return len(self.keys)


def entries_of(values: Mapping[tuple[int, ...], int], arity: int) -> Entries:
    """What a mapping from keys of so many ids holds, in its order."""
    count = len(values)
    keys = np.fromiter(chain.from_iterable(values), np.int64, count * arity).reshape(count, arity)
    return Entries(keys, np.fromiter(values.values(), np.int64, count))


def distinct(columns: Sequence[Ids], rows: int) -> tuple[list[tuple[int, ...]], NDArray[np.int64]]:
    """The distinct keys, in order, and for each row the place of its key among them."""
    if not columns:
        return [()], np.zeros(rows, np.int64)
    widths = [int(column.max(initial=0)) + 1 for column in columns]
    if prod(widths) > MOST_CODES:
        keys, places = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        return [tuple(key) for key in keys.tolist()], places.reshape(-1)
    codes = columns[0]
    for column, width in zip(columns[1:], widths[1:], strict=True):
        codes = codes * width + column
    if prod(widths) <= MOST_DENSE:
        asked = np.zeros(prod(widths), np.bool_)
        asked[codes] = True
        found, places = np.flatnonzero(asked), (np.cumsum(asked) - 1)[codes]
    else:
        found, places = np.unique(codes, return_inverse=True)
    parts = [part.tolist() for part in np.unravel_index(found, widths)]
    return list(zip(*parts, strict=True)), places.reshape(-1)
