"""Expressions of a program tree as CUDA C++: values of registers, of memory, and of calls.

In: expressions of a verified `Program` of grids. Out: expressions that NVRTC and nvcc take, and the C++ of
their twin on a CPU. Arithmetic is on scalars; a vector is what one instruction loads or stores, a built-in
type of CUDA (`float4`). Where a name is declared is for `printer.py`, what a function does for
`functions.py`.
"""

from __future__ import annotations

import math
from dataclasses import replace

from spacedsl.codegen.c.builtins import library_name
from spacedsl.codegen.c.expressions import called_function, distance
from spacedsl.codegen.c.names import c_name
from spacedsl.codegen.c.operations import Called, arithmetic, bits, comparison, conversion, division, operand
from spacedsl.codegen.c.positions import print_position
from spacedsl.codegen.c.types import arithmetic_type, c_number
from spacedsl.codegen.tree.expressions import (
    WARP,
    Bits,
    Bitwise,
    Broadcast,
    Call,
    Compare,
    Convert,
    Counted,
    Expression,
    FloorDiv,
    FloorMod,
    Index,
    Lane,
    Load,
    Not,
    Number,
    Pack,
    ParameterValue,
    PartialLoad,
    Register,
    Select,
    Shuffle,
    Type,
    type_of,
)
from spacedsl.codegen.tree.parts import operands
from spacedsl.kernels.dtypes import DType

_VECTORS = {DType.F32: "float", DType.F64: "double"}
_VECTORS_OF_BYTES = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulonglong"}
"""Of all others, as integers of their size; without the number of their lanes."""


def cuda_type(kind: Type) -> str:
    """Of a register. What is wider than four numbers is only copied."""
    if kind.lanes > len("xyzw"):
        return "uint4"
    if kind.lanes == 1:
        return arithmetic_type(kind.dtype)
    return f"{_VECTORS.get(kind.dtype, _VECTORS_OF_BYTES[kind.dtype.nbytes])}{kind.lanes}"


def cuda_number(value: float, dtype: DType) -> str:
    """A literal of the type that arithmetic is done in."""
    if dtype in _SPECIAL and not math.isfinite(value):
        special = _SPECIAL[dtype][math.isnan(value)]
        return f"-{special}" if value < 0 else special
    if dtype.is_integer and dtype.nbytes == 8:
        return f"{'-' if value < 0 else ''}{abs(int(value))}ull"
    return c_number(value, dtype)


_SPECIAL = {
    DType.F32: ("__int_as_float(0x7f800000)", "__int_as_float(0x7fc00000)"),
    DType.F64: ("__longlong_as_double(0x7ff0000000000000)", "__longlong_as_double(0x7ff8000000000000)"),
}
"""Infinity, and what is no number."""


def called(expression: Expression) -> tuple[Type, str] | None:
    """The function that an expression calls, and the type that it is for: vectors are made in place."""
    if isinstance(expression, PartialLoad | Broadcast):
        return None
    if isinstance(expression, _OPERATIONS):
        made = operation(expression)
        return (made.kind, made.function) if isinstance(made, Called) else None
    return called_function(expression)


_Operation = FloorDiv | FloorMod | Bitwise | Not | Convert | Call | Compare | Select | Counted
_OPERATIONS = (FloorDiv, FloorMod, Bitwise, Not, Convert, Call, Compare, Select, Counted)


def operation(node: _Operation) -> str | Called:
    """Of scalars; of vectors, a conversion between floats."""
    match node:
        case FloorDiv() | FloorMod():
            return division(node, print_expression)
        case Bitwise() | Not():
            return bits(node, print_expression)
        case Convert(value, dtype):
            return conversion(type_of(value), dtype, print_expression(value))
        case Call(function, values):
            name = library_name(function, type_of(node).dtype).removeprefix("__builtin_")
            return f"{name}({', '.join(map(print_expression, values))})"
        case Compare():
            return comparison(node, print_expression)
        case Select(condition, yes, no):
            parts = (operand(print_expression(part)) for part in (condition, yes, no))
            return "{} ? {} : {}".format(*parts)
        case Counted(position, kind):
            return f"({arithmetic_type(kind.dtype)}){operand(print_position(position))}"


def print_expression(expression: Expression) -> str:
    """The text as the right side of an assignment: an operand of something else may need parentheses."""
    match expression:
        case PartialLoad(tensor, index, kind, count):
            # What is not used repeats the first element.
            lanes = [
                element(tensor, moved(index, n if n < count else 0), Type(kind.dtype))
                for n in range(kind.lanes)
            ]
            return _made(kind, lanes)
        case Pack(values):
            return _made(type_of(expression), [print_expression(value) for value in values])
        case Broadcast(value, lanes):
            return _made(type_of(expression), [print_expression(value)] * lanes)
        case Shuffle(value, bit, threads):
            mask = f"0x{(1 << threads) - 1:x}"
            if threads < WARP and threads & threads - 1 == 0:
                mask += f"u << (threadIdx.x & {WARP - threads})"
            return f"__shfl_xor_sync({mask}, {print_expression(value)}, {bit})"
        case Bits(Load(tensor, index, _, is_streamed)):
            first = f"(const uint32_t *)&{c_name(tensor)}[{distance(index)}]"
            return f"__ldcs({first})" if is_streamed else f"*{first}"
        case Bits(Pack((low, high))):
            return f"{print_expression(low)} | (uint32_t){print_expression(high)} << 16"
        case Lane(Register(name), lane):
            return f"{c_name(name)}.{'xyzw'[lane]}"
        case Lane(vector, lane):
            return f"({print_expression(vector)}).{'xyzw'[lane]}"
    if isinstance(expression, _OPERATIONS):
        made = operation(expression)
        if isinstance(made, str):
            return made
        return f"{made.kind}_{made.function}({', '.join(made.arguments)})"
    if (found := called(expression)) is not None:
        kind, function = found
        return f"{kind}_{function}({', '.join(map(print_expression, operands(expression)))})"
    match expression:
        case Register(name):
            return c_name(name)
        case ParameterValue(name, kind):
            return _cast(c_name(name), kind)
        case Load(tensor, index, kind, is_streamed):
            if is_streamed:
                return f"__ldcs({place(tensor, index, kind, 'const ')})"
            return _cast(element(tensor, index, kind, "const "), kind)
        case Number(number, kind):
            return cuda_number(number, kind.dtype)
    return arithmetic(expression, print_expression)


def _cast(text: str, kind: Type) -> str:
    """What lies in memory, or is passed, in the type that arithmetic is done in."""
    return f"({arithmetic_type(kind.dtype)}){text}" if kind.lanes == 1 and kind.dtype.is_signed else text


def element(tensor: str, index: Index, kind: Type, const: str = "") -> str:
    """What lies there in memory. A vector begins at a multiple of its own size."""
    if kind.lanes == 1:
        return f"{c_name(tensor)}[{distance(index)}]"
    return f"*{place(tensor, index, kind, const)}"


def place(tensor: str, index: Index, kind: Type, const: str = "") -> str:
    """Where that is: a pointer."""
    first = f"&{c_name(tensor)}[{distance(index)}]"
    return first if kind.lanes == 1 else f"({const}{cuda_type(kind)} *){first}"


def _made(kind: Type, lanes: list[str]) -> str:
    return f"make_{cuda_type(kind)}({', '.join(lanes)})"


def moved(index: Index, by: int) -> Index:
    """So many elements further on."""
    return replace(index, constant=index.constant + by)
