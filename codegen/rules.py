"""The rules for a single node of a program tree.

In: nodes, with the types of their operands. Out: what is wrong with one, or None. What is visible at its
place, which threads come there and which elements are accessed is for `verify.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from spacedsl.codegen.program import (
    WARP,
    Add,
    Apply,
    Bits,
    Blend,
    Broadcast,
    Convert,
    Div,
    Expression,
    FirstLane,
    Fma,
    Index,
    Lane,
    LaneReduction,
    LoadMatrix,
    Max,
    Min,
    Mul,
    Multiply,
    Neg,
    Number,
    Pack,
    PartialLoad,
    Shuffle,
    Span,
    Sub,
    Type,
    is_conversion,
)
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.linalg.fragments import ROW_BYTES
from spacedsl.kernels.linalg.operations import FUNCTIONS, Op

_MULTIPLIED = (DType.BF16, DType.F16, DType.F32)
"""By tensor cores."""


def type_fault(expression: Expression, types: Sequence[Type]) -> str | None:
    """Of an expression. `types`: of its operands."""
    if not isinstance(expression, Convert | Broadcast | Lane | Pack | Bits) and any(
        not t.dtype.has_arithmetic for t in types
    ):
        return f"there is no arithmetic in {types[0]}"
    match expression:
        case PartialLoad(_, _, kind, count):
            return part_fault(kind, count)
        case Number(_, kind):
            return "a number is a scalar" if kind.lanes != 1 else None
        case Convert(_, dtype) if not is_conversion(types[0].dtype, dtype):
            return f"there is no conversion from {types[0].dtype.label} to {dtype.label}"
        case Apply(function) if function not in FUNCTIONS or (
            types[0].dtype is DType.I32 and function is not Op.ABS
        ):
            return f"there is no function {function.value} of {types[0]}"
        case Fma() | Add() | Sub() | Mul() | Div() | Max() | Min() | Neg() if len(set(types)) != 1:
            return f"operands of different types: {', '.join(map(str, types))}"
    return _lane_fault(expression, types) or _warp_fault(expression, types)


def _lane_fault(expression: Expression, types: Sequence[Type]) -> str | None:
    match expression:
        case Lane(_, number) if not number < types[0].lanes or types[0].lanes == 1:
            return f"there is no lane {number} in {types[0]}"
        case Pack() if len(set(types)) != 1 or types[0].lanes != 1 or len(types) < 2:
            return f"no vector: {', '.join(map(str, types))}"
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


def addition_fault(kind: Type) -> str | None:
    """Memory adds up single numbers of these types."""
    is_added = kind.lanes == 1 and kind.dtype in (DType.F32, DType.F64, DType.I32)
    return None if is_added else f"no memory adds up {kind}"


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


def is_aligned(index: Index, elements: int) -> bool:
    """Whether it is a multiple of so many elements, whatever variables are."""
    steps = (*(stride for _, stride in index.terms), *(share.stride for _, share in index.shares))
    return all(step % elements == 0 for step in (index.constant, *steps))


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
