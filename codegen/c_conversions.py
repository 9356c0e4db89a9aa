"""Conversions of vectors between integers, and between integers and floats, in steps.

In: the two types. Out: the body of a C function. gcc converts vectors at once where integers become twice as
wide, or half as wide, and where floats and integers become each other that an instruction knows; whatever
else it takes apart into scalars.
"""

from __future__ import annotations

from spacedsl.codegen.c_types import integers
from spacedsl.codegen.program import Type
from spacedsl.kernels.dtypes import DType


def by_way_of(dtype: DType) -> DType:
    """The integers that a float becomes before it becomes others: what they do not hold is not specified."""
    if dtype is DType.U64:
        return DType.U64
    return DType.I64 if dtype in (DType.I64, DType.U32) else DType.I32


def converted(kind: Type, dtype: DType) -> str:
    """Statements that return `x` in another type."""
    value = f"({integers(kind)})x" if kind.dtype.is_signed else "x"
    types = []
    for n, step in enumerate(_steps(kind.dtype, dtype), 1):
        size = step.nbytes * kind.lanes
        types.append(f"  typedef {step.c_name} step{n} __attribute__((vector_size({size})));\n")
        value = f"__builtin_convertvector({value}, step{n})"
    return f"{''.join(types)}  return ({Type(dtype, kind.lanes)}){value};"


def _steps(given: DType, dtype: DType) -> list[DType]:
    """The types on the way, the last one included."""
    if given.is_float:
        first = by_way_of(dtype)
        return [first, *_widths(first, dtype.nbytes)]
    if dtype.is_float:
        return [*_widths(given, 4 if given.nbytes < 4 else given.nbytes), dtype]
    return _widths(given, dtype.nbytes)


def _widths(given: DType, nbytes: int) -> list[DType]:
    """Integers of twice the size, or half, until it is this one. They are signed if the first ones are."""
    found = []
    size = given.nbytes
    while size != nbytes:
        size = size * 2 if size < nbytes else size // 2
        found.append(DType.of(f"{'i' if given.is_signed else 'u'}{8 * size}"))
    return found
