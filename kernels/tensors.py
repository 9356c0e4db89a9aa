"""What a kernel computes with: arrays and scalar arguments.

In: built from kernel files, and for memory of an implementation's own. Out: frozen records of what lies
where; strides count elements, `nbytes` bytes. What is done with the elements is for others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from spacedsl.kernels.dtypes import DType


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Of an array without gaps, whose last index moves by one element."""
    return tuple(math.prod(shape[n + 1 :]) for n in range(len(shape)))


@dataclass(frozen=True, slots=True)
class Tensor:
    """An array argument of the kernel; `strides` in elements, one for each extent of `shape`."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    is_output: bool
    """Whether the kernel writes it."""
    pad: tuple[int, ...] = ()
    """Zeros that are read before and after the elements of each dimension; empty for none."""

    @property
    def span(self) -> int:
        """Elements from the first to the last, the gaps of strides included."""
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))

    @property
    def extents_by_stride(self) -> tuple[tuple[int, int], ...]:
        """Strides, the largest first, each with the extent of the dimensions that have it."""
        extents: dict[int, int] = {}
        for stride, extent in zip(self.strides, self.shape, strict=True):
            extents[stride] = extents.get(stride, 1) + extent - 1
        return tuple(sorted(extents.items(), reverse=True))

    @property
    def nbytes(self) -> int:
        """From the first to the last element, what lies between them included."""
        return self.span * self.dtype.nbytes

    @property
    def elements(self) -> int:
        """Distinct elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Scratch:
    """Memory of the implementation's own: an intermediate tensor, a padded input, a temporary."""

    tensor: Tensor
    is_zeroed: bool
    """Whether what is never written is 0 and read as such."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A scalar argument of the kernel, passed by value."""

    name: str
    dtype: DType
