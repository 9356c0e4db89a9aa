"""The data of one side: inputs, room for outputs, and what has to come out.

In: a folder that `cases.py` has written. Out: arrays, and what is wrong with the outputs. Needs nothing of
the product but how it compares arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.arrays import aligned
from benchmarks.pipelines.buffers import FLUSHED
from benchmarks.pipelines.signature import Argument, Box, Signature, inside
from spacedsl.codegen.running.differences import first_difference

Array = NDArray[Any]

_POISON = 0xFF
"""In every byte: no float is a number, and no unsigned integer is small."""


def file_of(folder: Path, name: str, what: str = "values") -> Path:
    """Of an array by its name; `what`: its `values`, or the `tolerance` of an output."""
    return folder / f"{name}.{what}.npy"


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """An array, and the points of the pipeline that it holds."""

    array: Array
    box: Box


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """The arrays of one side, all of which begin with a page."""

    inputs: tuple[Placed, ...]
    outputs: tuple[Placed, ...]
    _results: tuple[_Result, ...]

    @classmethod
    def read(cls, folder: Path, signature: Signature, rooms: Mapping[str, Box]) -> Data:
        """`rooms`: of inputs that lie in arrays with more points, which mean nothing."""
        inputs = tuple(_input(folder, given, rooms.get(given.name, given.box)) for given in signature.inputs)
        outputs, results = [], []
        for wanted in signature.outputs:
            # What is only compared with lies in memory once for all sides.
            expected = np.load(file_of(folder, wanted.name), mmap_mode="r")
            tolerance = np.load(file_of(folder, wanted.name, "tolerance"), mmap_mode="r")
            room = aligned(expected.shape, expected.dtype)
            outputs.append(Placed(room, wanted.box))
            results.append(_Result(wanted.name, room, expected, tolerance))
        return cls(inputs, tuple(outputs), tuple(results))

    def poison(self) -> None:
        for output in self.outputs:
            _poison(output.array)

    def error(self) -> str:
        """What is wrong with the outputs; empty: nothing."""
        return "; ".join(error for result in self._results if (error := result.error()))


def _input(folder: Path, given: Argument, room: Box) -> Placed:
    array = aligned([extent for _, extent in room], given.dtype)
    _poison(array)
    array[inside(given.box, room)] = np.load(file_of(folder, given.name), mmap_mode="r")
    return Placed(array, room)


def _poison(array: Array) -> None:
    array.reshape(-1).view(np.uint8).fill(_POISON)


@dataclass(frozen=True, slots=True, eq=False)
class _Result:
    name: str
    room: Array
    expected: Array
    tolerance: Array

    def error(self) -> str:
        tolerance = self.tolerance + FLUSHED if self.room.dtype.kind == "f" else self.tolerance
        difference = first_difference(
            self.room, self.expected, tolerance if tolerance.ndim else float(tolerance)
        )
        return f"{self.name}{difference}" if difference else ""
