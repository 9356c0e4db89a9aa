"""How libraries are called: ours with addresses, Halide's with descriptions of arrays.

In: a library and its arguments. Out: a function without arguments that makes one call. An array's last
dimension is Halide's first one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.pipelines.data import Data, Placed
from benchmarks.pipelines.signature import Argument, Box, Scalar, Signature
from benchmarks.turns import AbsentError

Array = NDArray[Any]


def plain_call(library: str, symbol: str, data: Data, scalars: Sequence[Scalar]) -> Callable[[], object]:
    """A function of C that takes the addresses of all arrays, and then scalars by value."""
    function = ctypes.CDLL(library)[symbol]
    function.restype = None
    addresses = (ctypes.c_void_p(p.array.ctypes.data) for p in (*data.inputs, *data.outputs))
    values = (*addresses, *map(_by_value, scalars))
    return lambda: function(*values)


def _by_value(scalar: Scalar) -> Any:
    return np.ctypeslib.as_ctypes_type(np.dtype(scalar.dtype))(scalar.number.item())


# ---- Halide --------------------------------------------------------------------------------------------


class _Type(ctypes.Structure):
    """`halide_type_t`"""

    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Dimension(ctypes.Structure):
    """`halide_dimension_t`; a stride counts elements."""

    _fields_ = (
        ("min", ctypes.c_int32),
        ("extent", ctypes.c_int32),
        ("stride", ctypes.c_int32),
        ("flags", ctypes.c_uint32),
    )


class _Buffer(ctypes.Structure):
    """`halide_buffer_t`"""

    _fields_ = (
        ("device", ctypes.c_uint64),
        ("device_interface", ctypes.c_void_p),
        ("host", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("type", _Type),
        ("dimensions", ctypes.c_int32),
        ("dim", ctypes.POINTER(_Dimension)),
        ("padding", ctypes.c_void_p),
    )


_CODES = {"i": 0, "u": 1, "f": 2, "b": 1}
"""Of Halide's types, by the kind that NumPy has for them."""

_Handler = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)


class _Function:
    """That Halide compiled, with what it says where it refuses a call."""

    def __init__(self, library: str, symbol: str) -> None:
        loaded = ctypes.CDLL(library)
        self._said: list[str] = []
        self._handler = _Handler(lambda context, message: self._said.append(message.decode(errors="replace")))
        loaded["halide_set_error_handler"](self._handler)
        self._function = loaded[symbol]

    def __call__(self, *arguments: Any) -> None:
        """Raises `AbsentError`."""
        if self._function(*arguments) != 0:
            raise AbsentError(f"Halide's code refuses: {' '.join(' '.join(self._said).split())}")


def halide_call(library: str, symbol: str, data: Data, scalars: Sequence[Scalar]) -> Callable[[], object]:
    """A function that Halide compiled; a call that it refuses raises `AbsentError` with its words."""
    function = _Function(library, symbol)
    inputs, outputs = (list(map(_described, placed)) for placed in (data.inputs, data.outputs))
    values = _values(inputs, scalars, outputs)
    return lambda: function(*values)


def rooms(library: str, symbol: str, called: Signature) -> dict[str, Box]:
    """The points of its inputs that such a function may read, together with those that these have.

    Raises `AbsentError` where sizes that were fixed at compile time leave it too few.
    """
    if not called.inputs:
        return {}
    # Where an input has no address, nothing is computed, and what is needed of it is written there.
    asked = [_buffer(given) for given in called.inputs]
    spare = [np.empty(1, wanted.dtype) for wanted in called.outputs]
    wanted = [_buffer(output, array) for output, array in zip(called.outputs, spare, strict=True)]
    _Function(library, symbol)(*_values(asked, called.scalars, wanted))
    return {
        given.name: _hull(given.box, _points(buffer))
        for given, buffer in zip(called.inputs, asked, strict=True)
    }


def _points(buffer: _Buffer) -> Box:
    dimensions = [buffer.dim[number] for number in reversed(range(buffer.dimensions))]
    return tuple((d.min, d.extent) for d in dimensions)


def _hull(one: Box, other: Box) -> Box:
    ends = [(min(a, b), max(a + n, b + m)) for (a, n), (b, m) in zip(one, other, strict=True)]
    return tuple((low, high - low) for low, high in ends)


def _values(
    inputs: Sequence[_Buffer], scalars: Sequence[Scalar], outputs: Sequence[_Buffer]
) -> tuple[Any, ...]:
    return (*map(ctypes.byref, inputs), *map(_by_value, scalars), *map(ctypes.byref, outputs))


def _described(placed: Placed) -> _Buffer:
    return _buffer(Argument("", placed.array.dtype.name, placed.box), placed.array)


def _buffer(argument: Argument, array: Array | None = None) -> _Buffer:
    """Of an array without gaps; without one, a question what is needed of it."""
    dtype, dimensions, stride = np.dtype(argument.dtype), [], 1
    for low, extent in reversed(argument.box):
        dimensions.append(_Dimension(low, extent, stride, 0))
        stride *= extent
    return _Buffer(
        host=None if array is None else array.ctypes.data,
        type=_Type(_CODES[dtype.kind], 1 if dtype.kind == "b" else 8 * dtype.itemsize, 1),
        dimensions=len(dimensions),
        dim=(_Dimension * len(dimensions))(*dimensions),
    )
