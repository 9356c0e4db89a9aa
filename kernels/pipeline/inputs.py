"""Values for the inputs of a pipeline: those that it is timed with, and hard ones.

In: inputs, a random generator. Out: arrays of their element types. Integers are of the whole range of their
type; integers and floats of that which the file declares. What the outputs should be is for `rounding.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacedsl.kernels.formats import NUMBER_TYPE
from spacedsl.kernels.pipeline.algorithm import Input

Array = NDArray[Any]
Draw = Callable[[Input, int], Array]
"""So many values for an input."""

_STRETCH = 997
"""Elements of one kind in a row where one call has all kinds."""


@dataclass(frozen=True, slots=True)
class Floats:
    """From `least` to `least + 1`, of either sign or positive."""

    least: float
    is_signed: bool


FLOATS = (Floats(0.0, is_signed=False), Floats(0.5, is_signed=True), Floats(0.5, is_signed=False))
"""As they are tried: values of images; those of which no sum loses a term; those that may divide."""


def random_values(rng: np.random.Generator, floats: Floats) -> Draw:
    def draw(given: Input, count: int) -> Array:
        if not given.dtype.is_float:
            low, high = range_of(given)
            return rng.integers(low, high, count, NUMBER_TYPE[given.dtype], endpoint=True)
        if given.values is not None:
            low, high = given.values
            return (low + (high - low) * rng.random(count)).astype(NUMBER_TYPE[given.dtype])
        values = rng.random(count, np.float32) + np.float32(floats.least)
        if floats.is_signed:
            values *= rng.choice((np.float32(-1), np.float32(1)), count)
        return values.astype(NUMBER_TYPE[given.dtype])

    return draw


def weaknesses(rng: np.random.Generator) -> Mapping[str, Draw]:
    """Values that single out mistakes: of types, of signs, of positions, of what is behind the last element.

    Floats are small integers, so that sums of products of them are exact.
    """

    def extremes(given: Input, count: int) -> Array:
        return rng.choice(_of_type(given, _extremes(given)), count)

    def least(given: Input, count: int) -> Array:
        return np.full(count, _quiet(given), NUMBER_TYPE[given.dtype])

    def greatest(given: Input, count: int) -> Array:
        return np.full(count, _extremes(given)[-1], NUMBER_TYPE[given.dtype])

    def last(given: Input, count: int) -> Array:
        values = least(given, count)
        values[-1:] = _extremes(given)[-1]
        return values

    def single(given: Input, count: int) -> Array:
        values = least(given, count)
        values[rng.integers(count)] = _extremes(given)[-1]
        return values

    return {
        "extremes": extremes,
        "zeros": least,
        "greatest values": greatest,
        "last element": last,
        "one element": single,
    }


def patchwork(rng: np.random.Generator) -> Draw:
    """Random values, of which every other stretch is replaced by values of one kind, of each kind in turn."""
    usual, kinds = random_values(rng, FLOATS[0]), tuple(weaknesses(rng).values())

    def draw(given: Input, count: int) -> Array:
        values = usual(given, count)
        for number, start in enumerate(range(_STRETCH, count, 2 * _STRETCH)):
            part = values[start : start + _STRETCH]
            part[...] = kinds[number % len(kinds)](given, part.size)
        return values

    return draw


def range_of(given: Input) -> tuple[int, int]:
    """The least and the greatest of integers, and of truth values."""
    return given.values or (given.dtype.least, given.dtype.greatest)


def _extremes(given: Input) -> list[int]:
    """The greatest one last."""
    if given.dtype.is_float:
        usual = {-4, -3, -1, 0, 1, 2, 4}
        low, high = given.values or (min(usual), max(usual))
        return sorted({low, high, *(value for value in usual if low <= value <= high)})
    low, high = range_of(given)
    near = {low, low + 1, -1, 0, 1, (low + high) // 2, high - 1, high}
    return sorted(value for value in near if low <= value <= high)


def _of_type(given: Input, values: list[int]) -> Array:
    return np.array(values, NUMBER_TYPE[given.dtype])


def _quiet(given: Input) -> int:
    """Zero, or what comes nearest to it."""
    if given.dtype.is_float and given.values is None:
        return 0
    low, high = given.values or range_of(given)
    return min(max(0, low), high)
