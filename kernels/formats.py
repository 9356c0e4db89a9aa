"""Element types as NumPy holds them: arrays, the numbers that they stand for, and how exact these are.

In: an element type, and arrays or numbers. Out: numbers or arrays. NumPy has no bf16: an array of `uint16`
holds the bits, the upper half of those of an f32, and `ml_dtypes` has their arithmetic. Nothing is computed
here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray

from spacedsl.kernels.dtypes import DType

Array = NDArray[Any]

NUMPY_TYPE: Mapping[DType, type[Any]] = {
    DType.F32: np.float32, DType.F64: np.float64, DType.I32: np.int32, DType.F16: np.float16,
    DType.BF16: np.uint16, DType.BOOL: np.bool_, DType.I8: np.int8, DType.I16: np.int16, DType.I64: np.int64,
    DType.U8: np.uint8, DType.U16: np.uint16, DType.U32: np.uint32, DType.U64: np.uint64,
}  # fmt: skip
"""What the elements of a tensor are in an array."""

NUMBER_TYPE: Mapping[DType, type[Any]] = {**NUMPY_TYPE, DType.BF16: ml_dtypes.bfloat16}
"""What they are where NumPy computes with them in their own type."""

PRECISION: Mapping[DType, float] = {
    DType.F32: 2.0**-23, DType.F64: 2.0**-52, DType.I32: 0.0, DType.F16: 2.0**-10, DType.BF16: 2.0**-7
}  # fmt: skip
"""From 1 to the next greater number; 0 for integers, which wrap around instead of being rounded."""

_LARGEST = {
    DType.F32: float(np.finfo(np.float32).max), DType.F64: float(np.finfo(np.float64).max),
    DType.F16: 65504.0, DType.BF16: (2 - 2.0**-7) * 2.0**127,
}  # fmt: skip

_HALF_BITS = 0x8000
"""Of the lower half of an f32: what lies in the middle between two neighbours of bf16."""


def numbers(dtype: DType, elements: Array) -> Array:
    """What elements stand for; of bf16, f32 numbers. What are numbers already stays what it is."""
    if dtype is not DType.BF16 or elements.dtype != np.uint16:
        return elements
    return (elements.astype(np.uint32) << 16).view(np.float32)


def as_numbers(dtype: DType, elements: Array) -> Array:
    """The same memory, as numbers of their own type."""
    return elements.view(NUMBER_TYPE[dtype]) if elements.dtype == NUMPY_TYPE[dtype] else elements


def is_held(dtype: DType, number: float) -> bool:
    """Whether a constant can be an element; it may have to be rounded."""
    if dtype is DType.I32:
        return math.isfinite(number) and number == int(number) and abs(number) < 2**31
    return abs(number) <= _LARGEST[dtype]


def elements(dtype: DType, values: ArrayLike) -> Array:
    """The nearest elements to numbers, ties to even; what is too large becomes infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        return _bf16(np.asarray(values, np.float64)) if dtype is DType.BF16 else _cast(dtype, values)


def _cast(dtype: DType, values: ArrayLike) -> Array:
    return np.asarray(values).astype(NUMPY_TYPE[dtype])


def _bf16(values: Array) -> Array:
    single = np.atleast_1d(values.astype(np.float32))
    bits = single.view(np.uint32)
    upper, lower = bits >> 16, bits & 0xFFFF
    # Rounded to f32 first, a number may seem to lie in the middle which does not.
    beyond = np.sign(np.abs(values) - np.abs(single))
    is_up = (lower > _HALF_BITS) | (lower == _HALF_BITS) & ((beyond > 0) | (beyond == 0) & (upper & 1 == 1))
    rounded = np.where(np.isnan(single), upper | 0x40, upper + is_up)
    return rounded.astype(np.uint16).reshape(values.shape)
