"""Where the domains of many variables lie in a vector, and what says whether their objects are present.

In: the variables of an instance. Out: a `DomainTable`, which reads thousands of them at once. What domains
mean is for `candidate.py`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spacedsl.engine.layout import INTEGER_WORDS, PRESENT, WORD_BITS

Numbers = NDArray[np.intp]
"""Of variables."""


@dataclass(frozen=True, slots=True)
class DomainTable:
    domains: Numbers
    """Places of the words of each domain, lowest word first; behind its end, that of a 0."""
    presence: Numbers
    """Places of words that all say PRESENT once the objects of a variable are; behind these, that of one that
    does."""

    @classmethod
    def of(
        cls,
        domains: Iterable[tuple[int, int]],
        presence: Mapping[int, Sequence[int]],
        words: int,
    ) -> DomainTable:
        """`domains`: of each variable, its first word and how many values it has. `presence`: by first word;
        no entry: always. `words`: of a vector.
        """
        found = np.array([*domains], np.intp).reshape(-1, 2)
        steps = np.arange(INTEGER_WORDS)
        is_own = steps * WORD_BITS < found[:, 1:]
        cells = [presence.get(int(first), ()) for first in found[:, 0]]
        relied = np.full((len(cells), max(map(len, cells), default=0)), words + 1, np.intp)
        for row, own in zip(relied, cells, strict=True):
            row[: len(own)] = own
        return cls(np.where(is_own, found[:, :1] + steps, words), relied)

    def masks(self, vector: array[int], numbers: Numbers) -> NDArray[np.uint64]:
        """The domains of variables: a row of words for each."""
        return _extended(vector)[self.domains[numbers]]

    def present(self, vector: array[int], numbers: Numbers) -> NDArray[np.bool_]:
        """Whether the objects of each variable are present for certain."""
        found: NDArray[np.bool_] = (_extended(vector)[self.presence[numbers]] == PRESENT).all(axis=1)
        return found


def _extended(vector: array[int]) -> NDArray[np.uint64]:
    return np.append(np.frombuffer(vector, np.uint64), np.array([0, PRESENT], np.uint64))
