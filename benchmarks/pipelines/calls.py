"""How libraries are called: ours with addresses, Halide's with descriptions of arrays.

In: a library and its arguments. Out: a function without arguments that makes one call; of Halide's, too,
which points of its inputs a call may read.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.pipelines.buffers import Buffer, Function, RefusedError, buffer, by_value, values
from benchmarks.pipelines.data import Data, Placed
from benchmarks.pipelines.signature import Argument, Box, Scalar, Signature
from benchmarks.turns import AbsentError


def plain_call(library: str, symbol: str, data: Data, scalars: Sequence[Scalar]) -> Callable[[], object]:
    """A function of C that takes the addresses of all arrays, and then scalars by value."""
    function = ctypes.CDLL(library)[symbol]
    function.restype = None
    addresses = (ctypes.c_void_p(p.array.ctypes.data) for p in (*data.inputs, *data.outputs))
    arguments = (*addresses, *map(by_value, scalars))
    return lambda: function(*arguments)


# ---- Halide --------------------------------------------------------------------------------------------


def halide_call(library: str, symbol: str, data: Data, scalars: Sequence[Scalar]) -> Callable[[], object]:
    """A function that Halide compiled; a call that it refuses raises `AbsentError` with its words."""
    function = Function(library, symbol)
    inputs, outputs = (list(map(_described, placed)) for placed in (data.inputs, data.outputs))
    arguments = values(inputs, scalars, outputs)
    return lambda: _called(function, arguments)


def rooms(library: str, symbol: str, called: Signature) -> dict[str, Box]:
    """The points of its inputs that such a function may read, together with those that these have.

    Raises `AbsentError` where sizes that were fixed at compile time leave it too few.
    """
    if not called.inputs:
        return {}
    # Where an input has no address, nothing is computed, and what is needed of it is written there.
    asked = [buffer(given) for given in called.inputs]
    spare = [np.empty(1, wanted.dtype) for wanted in called.outputs]
    wanted = [buffer(output, array) for output, array in zip(called.outputs, spare, strict=True)]
    _called(Function(library, symbol), values(asked, called.scalars, wanted))
    return {
        given.name: _hull(given.box, _points(answer))
        for given, answer in zip(called.inputs, asked, strict=True)
    }


def _called(function: Function, arguments: tuple[Any, ...]) -> None:
    try:
        function(*arguments)
    except RefusedError as error:
        raise AbsentError(str(error)) from None


def _points(answer: Buffer) -> Box:
    dimensions = [answer.dim[number] for number in reversed(range(answer.dimensions))]
    return tuple((d.min, d.extent) for d in dimensions)


def _hull(one: Box, other: Box) -> Box:
    ends = [(min(a, b), max(a + n, b + m)) for (a, n), (b, m) in zip(one, other, strict=True)]
    return tuple((low, high - low) for low, high in ends)


def _described(placed: Placed) -> Buffer:
    return buffer(Argument("", placed.array.dtype.name, placed.box), placed.array)
