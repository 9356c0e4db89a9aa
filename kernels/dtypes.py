"""Element types: what the numbers of arrays, and of expressions, are.

Out: `DType`, with its sizes and names. How arrays of NumPy hold them is for `formats.py`.
"""

from __future__ import annotations

import enum


class DType(enum.Enum):
    """Element types: name, bytes, C type. Floats of 16 bits are kept in memory, and computed with as f32."""

    F32 = ("f32", 4, "float")
    F64 = ("f64", 8, "double")
    I32 = ("i32", 4, "int32_t")
    BF16 = ("bf16", 2, "uint16_t")
    F16 = ("f16", 2, "uint16_t")
    BOOL = ("bool", 1, "uint8_t")
    I8 = ("i8", 1, "int8_t")
    I16 = ("i16", 2, "int16_t")
    I64 = ("i64", 8, "int64_t")
    U8 = ("u8", 1, "uint8_t")
    U16 = ("u16", 2, "uint16_t")
    U32 = ("u32", 4, "uint32_t")
    U64 = ("u64", 8, "uint64_t")

    @property
    def label(self) -> str:
        return self.value[0]

    @property
    def nbytes(self) -> int:
        return self.value[1]

    @property
    def c_name(self) -> str:
        """Of the floats of 16 bits, C sees the bits."""
        return self.value[2]

    @property
    def has_arithmetic(self) -> bool:
        return self not in (DType.BF16, DType.F16)

    @property
    def arithmetic_bytes(self) -> int:
        """Of a value while it is computed with."""
        return self.nbytes if self.has_arithmetic else DType.F32.nbytes

    @property
    def is_float(self) -> bool:
        return self.label in ("f16", "bf16", "f32", "f64")

    @property
    def is_signed(self) -> bool:
        """Whether it is of integers, which may be negative."""
        return self.label[0] == "i"

    @property
    def is_integer(self) -> bool:
        return self.label[0] in "iu"

    @property
    def least(self) -> int:
        """Of integers, and of truth values."""
        return -(1 << (8 * self.nbytes - 1)) if self.is_signed else 0

    @property
    def greatest(self) -> int:
        """Of integers, and of truth values."""
        if self is DType.BOOL:
            return 1
        return (1 << (8 * self.nbytes - self.is_signed)) - 1

    @property
    def by_way_of(self) -> DType:
        """The integers that a float becomes before it becomes these, or truth values: what they do not hold
        is not specified.
        """
        if self is DType.U64:
            return self
        return DType.I64 if self in (DType.I64, DType.U32) else DType.I32

    def wrapped(self, value: int) -> int | bool:
        """What is left of an integer in a type of integers, or of truth values, that may be too narrow."""
        if self is DType.BOOL:
            return value != 0
        return (value - self.least) % (1 << 8 * self.nbytes) + self.least

    @staticmethod
    def of(label: str) -> DType:
        return _BY_LABEL[label]


_BY_LABEL = {dtype.label: dtype for dtype in DType}
