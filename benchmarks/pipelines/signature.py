"""What the code of an application is called with, as the processes that call it are told.

In: JSON, or made of a kernel file by `cases.py`. Out: a `Signature`, which JSON can hold. Which values the
arrays have is for `data.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Box = tuple[tuple[int, int], ...]
"""Of an array, along each of its dimensions: the first point of the pipeline that it holds, and how many."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An array."""

    name: str
    dtype: str
    """As NumPy has it."""
    box: Box


@dataclass(frozen=True, slots=True)
class Scalar:
    """A parameter, and the value that it is called with."""

    dtype: str
    value: float

    @property
    def number(self) -> np.generic:
        number: np.generic = np.dtype(self.dtype).type(self.value)
        return number


@dataclass(frozen=True, slots=True)
class Signature:
    """In the order of the kernel file. Ours is called with scalars last, Halide's with outputs last."""

    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    scalars: tuple[Scalar, ...]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Signature:
        """From JSON."""
        inputs, outputs = (
            tuple(Argument(a["name"], a["dtype"], box_of(a["box"])) for a in document[which])
            for which in ("inputs", "outputs")
        )
        return cls(inputs, outputs, tuple(Scalar(**scalar) for scalar in document["scalars"]))


def inside(box: Box, room: Box) -> tuple[slice, ...]:
    """Where an array with the points of `room` has those of `box`."""
    return tuple(
        slice(low - first, low - first + extent) for (low, extent), (first, _) in zip(box, room, strict=True)
    )


def box_of(document: Any) -> Box:
    """From JSON."""
    return tuple((low, extent) for low, extent in document)
