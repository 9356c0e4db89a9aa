"""The rules for a single node of a program tree.

In: nodes, with the types of their operands. Out: what is wrong with one, or None. What is visible at its
place, which threads come there and which elements are accessed is for `verify.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from spacedsl.codegen.tree.expressions import (
    WARP,
    Add,
    Apply,
    Bits,
    Bitwise,
    Blend,
    Broadcast,
    Call,
    Compare,
    Convert,
    Counted,
    Div,
    EveryOther,
    Expression,
    FirstLane,
    FloorDiv,
    FloorMod,
    Fma,
    Gather,
    Interleave,
    Lane,
    LaneReduction,
    LoadMatrix,
    Max,
    Min,
    Mul,
    Neg,
    Not,
    Number,
    Pack,
    PartialLoad,
    Select,
    Shuffle,
    Sub,
    Type,
    is_conversion,
    type_of,
)
from spacedsl.codegen.tree.program import Multiply, Span
from spacedsl.codegen.tree.residues import is_aligned
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.gpu_device import VECTOR_BYTES
from spacedsl.kernels.linalg.fragments import ROW_BYTES
from spacedsl.kernels.linalg.operations import FUNCTIONS, Combine, Op
from spacedsl.kernels.pipeline.typing import ARGUMENTS

_MULTIPLIED = (DType.BF16, DType.F16, DType.F32)
"""By tensor cores."""


def type_fault(expression: Expression, types: Sequence[Type]) -> str | None:
    """Of an expression. `types`: of its operands."""
    if not isinstance(
        expression, Convert | Broadcast | Lane | Pack | Interleave | EveryOther | Bits | Select
    ):
        for kind in types:
            if not kind.dtype.has_arithmetic:
                return f"there is no arithmetic in {kind}"
    match expression:
        case PartialLoad(_, _, kind, count):
            return part_fault(kind, count)
        case Number(value, kind):
            return _number_fault(value, kind)
        case Gather():
            return _gather_fault(expression, types)
        case Convert(_, dtype) if not is_conversion(types[0].dtype, dtype):
            return f"there is no conversion from {types[0].dtype.label} to {dtype.label}"
    return (
        _operation_fault(expression, types)
        or _lane_fault(expression, types)
        or _warp_fault(expression, types)
    )


def is_gathered(kind: Type, extent: int) -> bool:
    """Whether vectors of elements of such an array, which lie anywhere in it, are read together.

    Four bytes are, at least, and places are integers of 32 bits.
    """
    is_plain = kind.dtype not in (DType.F16, DType.BF16)
    return is_plain and kind.lanes > 1 and extent * kind.dtype.nbytes >= 4 and extent <= DType.I32.greatest


def _gather_fault(gather: Gather, types: Sequence[Type]) -> str | None:
    if not is_gathered(gather.type, gather.extent):
        return f"no gathers of {gather.type} from {gather.extent} elements"
    for part, kind in zip(gather.taken, types, strict=True):
        if kind != Type(DType.I32, gather.type.lanes):
            return f"{kind} says where {gather.type} lies"
        if not DType.I32.least <= part.low <= part.high <= DType.I32.greatest:
            return f"places from {part.low} to {part.high}"
    return None if gather.taken else "nothing says where lanes lie"


def _number_fault(value: float, kind: Type) -> str | None:
    if kind.lanes != 1:
        return "a number is a scalar"
    is_held = kind.dtype.is_float or (
        kind.dtype.least <= value <= kind.dtype.greatest and value == int(value)
    )
    return None if is_held else f"{value} is no {kind}"


def _operation_fault(expression: Expression, types: Sequence[Type]) -> str | None:
    """What agrees, and what there is for a type."""
    if isinstance(expression, Select):
        condition, yes, no = types
        if yes != no or condition != Type(DType.BOOL, yes.lanes):
            return f"a selection by {condition} of {yes} and {no}"
        return None
    if isinstance(expression, _AGREEING) and len(set(types)) != 1:
        return f"operands of different types: {', '.join(map(str, types))}"
    dtype = types[0].dtype if types else DType.F32
    match expression:
        case Apply(function) if not _has_function(dtype, function):
            return f"there is no function {function.value} of {types[0]}"
        case Call(function) if not dtype.is_float or len(types) != ARGUMENTS[function]:
            return f"there is no function {function} of {', '.join(map(str, types))}"
        case Bitwise("&" | "|" | "^") | Not() | Compare("==" | "!=") if dtype is DType.BOOL:
            return None
        case Bitwise() | Not() | FloorDiv() | FloorMod() if not dtype.is_integer:
            return f"{type(expression).__name__} is of integers, not of {types[0]}"
        case Div() if not dtype.is_float:
            return f"Div is of floats, not of {types[0]}"
        case Add() | Sub() | Mul() | Fma() | Neg() | Max() | Min() | Compare() if dtype is DType.BOOL:
            return f"there is no arithmetic in {types[0]}"
        case FirstLane() | LaneReduction() if dtype is DType.BOOL:
            return f"there is no arithmetic in {types[0]}"
    return None


_AGREEING = (
    Fma | Add | Sub | Mul | Div | Max | Min | FloorDiv | FloorMod | Bitwise | Compare | Call
)  # fmt: skip
"""Operations on values of one type."""


def _has_function(dtype: DType, function: Op) -> bool:
    return function in FUNCTIONS and (dtype.is_float or (function is Op.ABS and dtype.is_signed))


def gpu_fault(expression: Expression) -> str | None:
    """What is for CPUs alone: of vectors, nothing but arithmetic on those that one instruction loads."""
    kind = type_of(expression)
    nbytes = kind.lanes * kind.dtype.nbytes
    is_vector = kind.lanes in (1, 2, 4) or nbytes == VECTOR_BYTES
    if nbytes > VECTOR_BYTES or not is_vector or (kind.lanes > 1 and isinstance(expression, _OF_SCALARS)):
        return f"there is no {type(expression).__name__} of {kind} on a GPU"
    return None


_OF_SCALARS = (
    FloorDiv | FloorMod | Bitwise | Not | Compare | Select | Call | Counted | Interleave | EveryOther | Gather
)


def _lane_fault(expression: Expression, types: Sequence[Type]) -> str | None:
    match expression:
        case Lane(_, number) if not number < types[0].lanes or types[0].lanes == 1:
            return f"there is no lane {number} in {types[0]}"
        case Pack() if len(set(types)) != 1 or types[0].lanes != 1 or len(types) < 2:
            return f"no vector: {', '.join(map(str, types))}"
        case Interleave() | EveryOther() if types[0] != types[1] or types[0].lanes == 1:
            return f"the lanes of {types[0]} and {types[1]} are put together"
        case Broadcast(_, lanes) | FirstLane(_, lanes) if types[0].lanes != 1 or lanes < 2:
            return f"{types[0]} cannot be spread over {lanes} lanes"
        case LaneReduction() if types[0].lanes == 1:
            return "the lanes of a scalar are combined"
        case Blend(_, _, count):
            if types[0] != types[1]:
                return f"lanes of {types[0]} are blended with lanes of {types[1]}"
            return part_fault(types[0], count)
    return None


def part_fault(kind: Type, count: int) -> str | None:
    """A part of a vector is some lanes, and not all."""
    return None if 0 < count < kind.lanes else f"{count} lanes are no part of {kind}"


def spans_fault(spans: Sequence[Span]) -> str | None:
    """Of the threads of a period, some, and not all."""
    for low, high, period in spans:
        if not 0 <= low < high <= period or high - low == period:
            return f"threads {low} to {high - 1} of {period}: none, or all"
    return None


def combination_fault(kind: Type, combine: Combine) -> str | None:
    """Memory combines single numbers of these types."""
    is_combined = kind.lanes == 1 and kind.dtype in (DType.F32, DType.F64, DType.I32)
    return None if is_combined else f"no memory has a {combine.value} of {kind}"


def _warp_fault(expression: Expression, types: Sequence[Type]) -> str | None:
    """Of what the threads of a warp do together. Numbers of threads that shuffle differ in one bit."""
    match expression:
        case Shuffle(_, distance, threads) if (
            distance & (distance - 1) or not 0 < distance < threads <= WARP or types[0].lanes != 1
        ):
            return f"a shuffle of {types[0]} over {distance} of {threads} threads"
        case Bits() if types[0].lanes * types[0].dtype.nbytes != 4:
            return f"{types[0]} has not four bytes"
        case LoadMatrix():
            return _matrix_fault(expression)
    return None


def _matrix_fault(load: LoadMatrix) -> str | None:
    """Rows begin at multiples of their size. Of 32 bits, elements are not halves of columns."""
    if not is_aligned(load.index, ROW_BYTES // load.dtype.nbytes):
        return f"a row of a matrix of {load.tensor} begins where none may"
    if load.is_transposed and load.dtype.nbytes != 2:
        return f"a matrix of {load.dtype.label} is transposed"
    return None


def product_fault(product: Multiply, kinds: Sequence[Type]) -> str | None:
    """A result is of f32, an operand of four bytes. `kinds`: of results, then of operands."""
    operands = (*product.a, *product.b)
    wanted = [Type(DType.F32)] * len(product.result) + [Type(DType.I32)] * len(operands)
    if list(kinds) != wanted or product.dtype not in _MULTIPLIED:
        return f"a product of {product.dtype.label}: {', '.join(map(str, kinds))}"
    rows, terms = len(product.result) // 2, len(product.b)
    if rows not in (1, 2) or terms not in (1, 2) or len(product.a) != rows * terms:
        return f"a product of {rows} fragments of rows and {terms} of terms"
    if len(set(product.result)) != 2 * rows:
        return "a product adds to a register twice"
    return None
