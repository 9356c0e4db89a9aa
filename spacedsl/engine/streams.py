"""The random numbers of descents: splitmix64, a stream of its own for each descent of a seed.

In: a seed and the number of a descent. Out: the numbers that compiled code draws for it, so that Python can
take the same decisions. After Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (OOPSLA
2014).
"""

from __future__ import annotations

from typing import Protocol, SupportsInt

WORD_BITS = 64
_WORD = (1 << WORD_BITS) - 1


class Draws(Protocol):
    """What a descent asks of a generator; NumPy's have it."""

    def integers(self, high: int, /) -> SupportsInt:
        """A number from 0 to `high - 1`, each with the same probability."""
        ...


class Stream:
    """The draws of one descent."""

    def __init__(self, seed: int, number: int) -> None:
        self._state = seed & _WORD
        self._state = (self._word() ^ number * 0xD1342543DE82EF95) & _WORD
        self._state = self._word()

    def integers(self, high: int, /) -> int:
        """The upper half of `high` times a random word."""
        return self._word() * high >> WORD_BITS

    def fraction(self) -> float:
        """A number from 0 to 1, without 1, in steps of 2^-53."""
        return (self._word() >> 11) * 2.0**-53

    def _word(self) -> int:
        self._state = self._state + 0x9E3779B97F4A7C15 & _WORD
        z = self._state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _WORD
        z = (z ^ z >> 27) * 0x94D049BB133111EB & _WORD
        return z ^ z >> 31
