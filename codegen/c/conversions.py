"""Conversions of vectors between integers, and between integers and floats, in steps.

In: the two types. Out: the body of a C function. Integers change their size before they become floats, or
after they were some. gcc converts vectors at once where integers become twice as wide, or half as wide, and
where an instruction makes integers of floats, or the other way round; whatever else it takes apart into
scalars. Where there is an instruction for other sizes, it is called.
"""

from __future__ import annotations

from spacedsl.codegen.c.builtins import resizing
from spacedsl.codegen.c.types import integers
from spacedsl.codegen.tree.expressions import Type
from spacedsl.kernels.dtypes import DType


def converted(kind: Type, dtype: DType) -> str:
    """Statements that return `x` in another type."""
    given, value, lines = kind.dtype, "x", ""
    if given.is_signed:
        value = f"({integers(kind)})x"
    for n, step in enumerate(_steps(given, dtype), 1):
        lines += _vector(f"step{n}", step, kind.lanes)
        if given.is_float or step.is_float:
            lines += f"  step{n} y{n} = __builtin_convertvector({value}, step{n});\n"
        else:
            lines += _resized(given, step, kind.lanes, value, n)
        given, value = step, f"y{n}"
    return f"{lines}  return ({Type(dtype, kind.lanes)}){value};"


def _resized(given: DType, dtype: DType, lanes: int, value: str, n: int) -> str:
    """Statements that make `y` of integers of another size."""
    types, chain = "", value
    *between, _ = _widths(given, dtype.nbytes)
    for number, step in enumerate(between, 1):
        types += _vector(f"between{number}", step, lanes)
        chain = f"__builtin_convertvector({chain}, between{number})"
    usual = f"{types}  step{n} y{n} = __builtin_convertvector({chain}, step{n});\n"
    if (known := resizing(given, dtype, lanes, value, n)) is None:
        return usual
    feature, statements = known
    return f"#if defined({feature}) && !defined(__clang__)\n{statements}#else\n{usual}#endif\n"


def _vector(name: str, dtype: DType, lanes: int) -> str:
    return f"  typedef {dtype.c_name} {name} __attribute__((vector_size({dtype.nbytes * lanes})));\n"


def _steps(given: DType, dtype: DType) -> list[DType]:
    """The types on the way, the last one included. Integers are signed if the first ones are."""
    if given.is_float:
        first = dtype.by_way_of
        return [first, *_widths(first, dtype.nbytes)[-1:]]
    if dtype.is_float:
        return [DType.I32, dtype] if given.nbytes < DType.I32.nbytes else [dtype]
    return _widths(given, dtype.nbytes)[-1:]


def _widths(given: DType, nbytes: int) -> list[DType]:
    """Integers of twice the size, or half, until it is this one."""
    found = []
    size = given.nbytes
    while size != nbytes:
        size = size * 2 if size < nbytes else size // 2
        found.append(DType.of(f"{'i' if given.is_signed else 'u'}{8 * size}"))
    return found
