"""Arrays between guard pages, in which generated code runs.

In: a number of bytes, or a tensor. Out: memory that starts at a multiple of 64 bytes and ends, but for
less than 64 bytes, at a page that cannot be touched; another such page lies before it. What is left over
on the first and the last page holds a pattern, so that a write next to the array is seen.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacedsl.kernels.formats import NUMPY_TYPE, numbers
from spacedsl.kernels.reference import view
from spacedsl.kernels.tensors import Tensor

ALIGNMENT_BYTES = 64
_HUGE_PAGE_BYTES = 2 << 20
_CANARY = 0xA5

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long
]  # fmt: skip
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_MAP_FAILED = ctypes.c_void_p(-1).value
_PROT_NONE = 0


@dataclass(frozen=True, slots=True)
class GuardedBuffer:
    """`nbytes` of memory at `address`, inside pages from `first_page` on."""

    address: int
    nbytes: int
    first_page: int
    page_bytes: int

    @property
    def bytes(self) -> NDArray[np.uint8]:
        """The array itself."""
        return _memory(self.address, self.nbytes)

    def protect(self) -> None:
        """Writing to it is a crash from now on."""
        if _libc.mprotect(self.first_page, self.page_bytes, mmap.PROT_READ) != 0:
            raise MemoryError(f"an array cannot be protected: {os.strerror(ctypes.get_errno())}")

    def is_intact(self) -> bool:
        """Whether nothing has been written next to the array."""
        return all(bool(np.all(margin == _CANARY)) for margin in self._margins())

    def _margins(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        end = self.address + self.nbytes
        before = _memory(self.first_page, self.address - self.first_page)
        return before, _memory(end, self.first_page + self.page_bytes - end)


def mapped_bytes(nbytes: int) -> int:
    """Of a guarded buffer, with its two guard pages."""
    return _page_bytes(_padded(nbytes)) + 2 * mmap.PAGESIZE


def guarded_buffer(nbytes: int) -> GuardedBuffer:
    """Raises `MemoryError` where there is not that much memory."""
    padded = _padded(nbytes)
    page_bytes = _page_bytes(padded)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    start = _libc.mmap(None, mapped_bytes(nbytes), _PROT_NONE, flags, -1, 0)
    if start == _MAP_FAILED:
        raise MemoryError(f"no memory for an array of {nbytes:,} bytes")
    first_page = start + mmap.PAGESIZE
    if _libc.mprotect(first_page, page_bytes, mmap.PROT_READ | mmap.PROT_WRITE) != 0:
        raise MemoryError(f"no memory for an array of {nbytes:,} bytes")
    if page_bytes >= 2 * _HUGE_PAGE_BYTES:
        # NumPy asks for the same for large arrays. A kernel without huge pages refuses, which does no harm.
        _libc.madvise(first_page, page_bytes, mmap.MADV_HUGEPAGE)
    buffer = GuardedBuffer(first_page + page_bytes - padded, nbytes, first_page, page_bytes)
    for margin in buffer._margins():
        margin[:] = _CANARY
    return buffer


_POISON: dict[int, np.unsignedinteger[Any]] = {
    1: np.uint8(0xA5), 2: np.uint16(0x7FDE), 4: np.uint32(0x7FC0DEAD), 8: np.uint64(0x7FF8DEADDEADDEAD)
}  # fmt: skip
"""NaN with a payload of its own; a conspicuous integer."""


@dataclass(frozen=True, slots=True, eq=False)
class TensorBuffer:
    """A tensor's elements in a guarded buffer."""

    tensor: Tensor
    buffer: GuardedBuffer

    @classmethod
    def of(cls, tensor: Tensor) -> TensorBuffer:
        return cls(tensor, guarded_buffer(tensor.nbytes))

    @property
    def flat(self) -> NDArray[Any]:
        """With what lies between the elements."""
        return self.buffer.bytes.view(NUMPY_TYPE[self.tensor.dtype])

    @property
    def elements(self) -> NDArray[Any]:
        return view(self.tensor, self.flat)

    @property
    def numbers(self) -> NDArray[Any]:
        """What the elements stand for."""
        return numbers(self.tensor.dtype, self.elements)

    @property
    def gaps(self) -> int:
        return self.tensor.span - self.tensor.elements

    def poison(self) -> None:
        bits, pattern = self._bits()
        bits[:] = pattern

    def gaps_are_intact(self) -> bool:
        """Whether what lies between the elements still holds the poison."""
        bits, pattern = self._bits()
        return self.gaps == 0 or int(np.count_nonzero(bits == pattern)) >= self.gaps

    def _bits(self) -> tuple[NDArray[Any], np.unsignedinteger[Any]]:
        itemsize = self.flat.itemsize
        return self.flat.view(f"uint{8 * itemsize}"), _POISON[itemsize]


def _memory(address: int, nbytes: int) -> NDArray[np.uint8]:
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


def _padded(nbytes: int) -> int:
    return -(-max(nbytes, 1) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def _page_bytes(padded: int) -> int:
    return -(-padded // mmap.PAGESIZE) * mmap.PAGESIZE
