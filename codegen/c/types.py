"""What values are in C: scalars and vectors of each element type, and literals.

In: element types, types of the program tree, numbers. Out: the names and declarations of C types, literals.
"""

from __future__ import annotations

import math

from spacedsl.codegen.tree.expressions import Type
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import elements


def arithmetic_type(dtype: DType) -> str:
    """Integers wrap around, as NumPy's do: in C that is so for unsigned ones alone."""
    return f"u{dtype.c_name}" if dtype.is_signed else dtype.c_name


def signed_type(dtype: DType) -> str:
    """The signed integers of the same size."""
    return f"int{8 * dtype.nbytes}_t"


def integers(kind: Type) -> str:
    """The signed integers of the same shape: what comparisons of vectors give, too."""
    return signed_type(kind.dtype) if kind.lanes == 1 else f"{kind}_integers"


def c_number(value: float, dtype: DType) -> str:
    """A literal of the type that arithmetic is done in."""
    if dtype is DType.BOOL:
        return "1" if value else "0"
    if not dtype.has_arithmetic:
        return str(int(elements(dtype, value).view("u2")))
    if not dtype.is_float:
        return _integer(int(value), dtype)
    suffix = "f" if dtype is DType.F32 else ""
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}__builtin_inf{suffix}()"
    if math.isnan(value):
        return f'__builtin_nan{suffix}("")'
    return f"{float(value)!r}{suffix}"


def _integer(number: int, dtype: DType) -> str:
    if dtype.nbytes == 8:
        return f"{'-' if number < 0 else ''}UINT64_C({abs(number)})"
    if number < 0:
        return f"({arithmetic_type(dtype)})({number})"
    return f"{number}u" if dtype.nbytes == 4 else f"{number}"


def vector_type(vector: Type) -> str:
    """The declarations of a vector type, and of one that lies anywhere in memory."""
    element, size = arithmetic_type(vector.dtype), vector.dtype.nbytes * vector.lanes
    unaligned = f"aligned({vector.dtype.nbytes}), may_alias"
    return (
        f"typedef {element} {vector} __attribute__((vector_size({size})));\n"
        f"typedef {element} {vector}_unaligned __attribute__((vector_size({size}), {unaligned}));"
    )
