"""Functions that Halide compiled, and what they take for arrays: `halide_buffer_t`.

In: a library, its arguments, arrays. Out: a function to call, which raises `RefusedError` with Halide's words
where it refuses. An array's last dimension is Halide's first one. The module needs NumPy and `signature.py`,
with which it is copied to machines that have nothing of this project; which values arrays have is for others.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.pipelines.signature import Argument, Scalar

Array = NDArray[Any]

SYMBOL = "halide_pipeline"
"""What the function of every library is called."""

HOST_DIRTY, DEVICE_DIRTY = 1, 2
"""Flags of a buffer: which of its two copies has been written last, and is not yet the other one's."""

FLUSHED = float(np.finfo(np.float32).tiny)
"""What is nearer to zero than that may be zero: code of Halide's functions makes it so."""


class RefusedError(Exception):
    """A call that Halide's code refuses, in its words."""


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


class Buffer(ctypes.Structure):
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


class Function:
    """That Halide compiled, with what it says where it refuses a call."""

    def __init__(self, library: str, symbol: str = SYMBOL) -> None:
        self.library = ctypes.CDLL(library)
        self._said: list[str] = []
        self._handler = _Handler(lambda context, message: self._said.append(message.decode(errors="replace")))
        self.library["halide_set_error_handler"](self._handler)
        self._function = self.library[symbol]

    def __call__(self, *arguments: Any) -> None:
        """Raises `RefusedError`."""
        self.check(self._function(*arguments))

    def check(self, status: int) -> None:
        """The same, for what else of the library has been called."""
        if status != 0:
            raise RefusedError(f"Halide's code refuses: {' '.join(' '.join(self._said).split())}")


def buffer(argument: Argument, array: Array | None = None) -> Buffer:
    """Of an array without gaps; without one, a question what is needed of it."""
    dtype, dimensions, stride = np.dtype(argument.dtype), [], 1
    for low, extent in reversed(argument.box):
        dimensions.append(_Dimension(low, extent, stride, 0))
        stride *= extent
    return Buffer(
        host=None if array is None else array.ctypes.data,
        type=_Type(_CODES[dtype.kind], 1 if dtype.kind == "b" else 8 * dtype.itemsize, 1),
        dimensions=len(dimensions),
        dim=(_Dimension * len(dimensions))(*dimensions),
    )


def values(inputs: Sequence[Buffer], scalars: Sequence[Scalar], outputs: Sequence[Buffer]) -> tuple[Any, ...]:
    """All arguments of a call."""
    return (*map(ctypes.byref, inputs), *map(by_value, scalars), *map(ctypes.byref, outputs))


def by_value(scalar: Scalar) -> Any:
    return np.ctypeslib.as_ctypes_type(np.dtype(scalar.dtype))(scalar.number.item())
