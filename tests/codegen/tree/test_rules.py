"""The rules for single nodes of a program tree: which operations there are for which types."""

from __future__ import annotations

import pytest

from spacedsl.codegen.tree.errors import VerificationError
from spacedsl.codegen.tree.expressions import (
    Add,
    Apply,
    Bitwise,
    Broadcast,
    Call,
    Compare,
    Convert,
    Counted,
    Div,
    Expression,
    FloorDiv,
    FloorMod,
    LaneReduction,
    Max,
    Not,
    Number,
    Position,
    Register,
    Select,
    Type,
    type_of,
)
from spacedsl.codegen.tree.expressions import Index as At
from spacedsl.codegen.tree.parts import operands
from spacedsl.codegen.tree.program import Grid, Program, Store
from spacedsl.codegen.tree.rules import type_fault
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.linalg.operations import Combine, Op
from spacedsl.kernels.tensors import Tensor


def value(dtype: DType, lanes: int = 1) -> Expression:
    return Register("x", Type(dtype, lanes))


I8, U16, I64, F32, F64, F16, BOOL = (
    value(d) for d in (DType.I8, DType.U16, DType.I64, DType.F32, DType.F64, DType.F16, DType.BOOL)
)

REFUSED: dict[str, Expression] = {
    "there is no arithmetic in bool": Add(BOOL, BOOL),
    "there is no arithmetic in boolx8": LaneReduction(value(DType.BOOL, 8), Combine.MAX),
    "there is no arithmetic in f16": Max(F16, F16),
    "operands of different types: i8, u16": FloorMod(I8, U16),
    "operands of different types: u16, f32": Compare("<", U16, F32),
    "operands of different types: f32, f64": Call("pow", (F32, F64)),
    "FloorDiv is of integers, not of f32": FloorDiv(F32, F32),
    "FloorDiv is of integers, not of bool": FloorDiv(BOOL, BOOL),
    "Bitwise is of integers, not of bool": Bitwise("<<", BOOL, BOOL),
    "Bitwise is of integers, not of f64": Bitwise("&", F64, F64),
    "Not is of integers, not of f32": Not(F32),
    "Div is of floats, not of i64": Div(I64, I64),
    "there is no arithmetic in bool ": Compare("<=", BOOL, BOOL),
    "a selection by i8 of f32 and f32": Select(I8, F32, F32),
    "a selection by bool of f32 and f64": Select(BOOL, F32, F64),
    "a selection by bool of f32x4 and f32x4": Select(BOOL, value(DType.F32, 4), value(DType.F32, 4)),
    "there is no function sin of i8": Call("sin", (I8,)),
    "there is no function atan2 of f32": Call("atan2", (F32,)),
    "there is no function floor of f32, f32": Call("floor", (F32, F32)),
    "there is no function abs of u16": Apply(Op.ABS, U16),
    "there is no function exp of i64": Apply(Op.EXP, I64),
    "there is no conversion from f16 to u16": Convert(F16, DType.U16),
    "there is no conversion from i8 to i8": Convert(I8, DType.I8),
    "256 is no u8": Number(256, Type(DType.U8)),
    "-1 is no u64": Number(-1, Type(DType.U64)),
    "2 is no bool": Number(2, Type(DType.BOOL)),
    "0.5 is no i32": Number(0.5, Type(DType.I32)),
}

ACCEPTED: tuple[Expression, ...] = (
    Select(BOOL, F16, F16),
    Select(value(DType.BOOL, 4), value(DType.U16, 4), value(DType.U16, 4)),
    Compare("!=", BOOL, BOOL),
    Bitwise("^", BOOL, BOOL),
    Not(BOOL),
    Apply(Op.ABS, I8),
    Call("round", (F64,)),
    Convert(BOOL, DType.I64),
    Convert(F64, DType.BOOL),
    Convert(F32, DType.F16),
    Number(2**64 - 1, Type(DType.U64)),
    Number(-(2**63), Type(DType.I64)),
)


def fault(expression: Expression) -> str | None:
    return type_fault(expression, [type_of(part) for part in operands(expression)])


@pytest.mark.parametrize("message", REFUSED)
def test_what_there_is_not_for_a_type_is_refused(message: str) -> None:
    assert fault(REFUSED[message]) == message.strip()


@pytest.mark.parametrize("expression", ACCEPTED, ids=str)
def test_what_there_is_for_a_type_is_accepted(expression: Expression) -> None:
    assert fault(expression) is None


PAIR = Broadcast(Number(1.0, Type(DType.F32)), 2)

ONLY_ON_CPUS: dict[str, tuple[Expression, DType]] = {
    "there is no Broadcast of u8x8 on a GPU": (Broadcast(Number(1.0, Type(DType.U8)), 8), DType.U8),
    "there is no Broadcast of i64x4 on a GPU": (Broadcast(Number(1.0, Type(DType.I64)), 4), DType.I64),
    "there is no Compare of boolx2 on a GPU": (Select(Compare("<", PAIR, PAIR), PAIR, PAIR), DType.F32),
    "there is no Call of f32x2 on a GPU": (Call("sin", (PAIR,)), DType.F32),
    "there is no Counted of i32x2 on a GPU": (Counted(Position(1), Type(DType.I32, 2)), DType.I32),
}  # fmt: skip


@pytest.mark.parametrize("message", ONLY_ON_CPUS)
def test_what_is_for_cpus_alone_is_refused_in_a_grid(message: str) -> None:
    expression, dtype = ONLY_ON_CPUS[message]
    output = Tensor("y", dtype, (8,), (1,), True)
    grid = Grid("g", 1, 1, (), (), (Store("y", At(0), expression),))
    with pytest.raises(VerificationError) as refused:
        verify(Program("p", (output,), (), (grid,)))
    assert str(refused.value) == message
