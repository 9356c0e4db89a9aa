"""Random expressions of all types, in generated C and in the interpreter."""

from __future__ import annotations

import ctypes
import math
import tempfile
from pathlib import Path
from typing import Any, get_args

import numpy as np
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from spacedsl.codegen.c.build import BuildError, build_library
from spacedsl.codegen.c.expressions import print_expression
from spacedsl.codegen.c.printer import print_c
from spacedsl.codegen.tree.expressions import (
    Add,
    Apply,
    BitOperator,
    Bitwise,
    Broadcast,
    Call,
    Compare,
    Convert,
    Div,
    Expression,
    FloorDiv,
    FloorMod,
    Fma,
    Index,
    Load,
    Max,
    Min,
    Mul,
    Neg,
    Not,
    Number,
    Select,
    Sub,
    Type,
)
from spacedsl.codegen.tree.parts import values
from spacedsl.codegen.tree.program import Loop, Program, Store
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import NUMPY_TYPE
from spacedsl.kernels.linalg.operations import Op
from spacedsl.kernels.pipeline.algorithm import Comparator
from spacedsl.kernels.tensors import Tensor
from tests.codegen.interpreter import interpret

TYPES = [dtype for dtype in DType if dtype.has_arithmetic]
NUMBERS = [dtype for dtype in TYPES if dtype is not DType.BOOL]
POINTS = 32
HELD = 30000
"""The greatest float that becomes an integer: it fits what every conversion goes through."""

_RANDOM = np.random.default_rng(8)


def _elements(dtype: DType) -> list[Any]:
    if dtype is DType.BOOL:
        return [bool(n) for n in _RANDOM.integers(0, 2, POINTS)]
    if dtype.is_float:
        edges = [0.0, -0.0, math.inf, -math.inf, math.nan, 0.5, -1.5]
        return [*edges, *(float(np.float32(x)) for x in _RANDOM.standard_normal(POINTS - len(edges)) * 100)]
    whole = [0, 1, 2, 7, dtype.greatest, dtype.least, dtype.greatest - 1, dtype.least + 1, -dtype.is_signed]
    return [
        *whole,
        *_RANDOM.integers(dtype.least, dtype.greatest, POINTS - len(whole), NUMPY_TYPE[dtype]).tolist(),
    ]


MEMORY = {f"{name}_{dtype.label}": _elements(dtype) for dtype in TYPES for name in "xy"}


@st.composite
def expressions(draw: st.DrawFn, dtype: DType, lanes: int, depth: int) -> Expression:
    """Floats that become integers are held between two numbers before."""

    def part(wanted: DType = dtype) -> Expression:
        return draw(expressions(wanted, lanes, depth - 1))

    def spread(number: float, wanted: DType = dtype) -> Expression:
        scalar = Number(number, Type(wanted))
        return scalar if lanes == 1 else Broadcast(scalar, lanes)

    if depth == 0 or draw(st.integers(0, 9)) == 0:
        name = draw(st.sampled_from("xy"))
        match draw(st.integers(0, 3)):
            case 0 if dtype.is_float:
                return spread(draw(st.sampled_from([0.0, 1.0, -2.5, 0.125])))
            case 0:
                return spread(draw(st.integers(dtype.least, dtype.greatest)))
            case 1 if lanes > 1:
                return Broadcast(Load(f"{name}_{dtype.label}", Index(3), Type(dtype)), lanes)
        return Load(f"{name}_{dtype.label}", Index(0, (("i", lanes),)), Type(dtype, lanes))
    if draw(st.integers(0, 4)) == 0:
        return Select(part(DType.BOOL), part(), part())
    if draw(st.integers(0, 4)) == 0:
        other = draw(st.sampled_from([t for t in TYPES if t is not dtype]))
        value = part(other)
        if other.is_float and dtype.is_integer:
            low = spread(0 if dtype is DType.U64 else -HELD, other)
            value = Min(Max(value, low), spread(HELD, other))
        elif dtype is DType.F32 and draw(st.booleans()):
            value, other = Convert(part(), DType.F16), DType.F16
        return Convert(value, dtype)
    if dtype is DType.BOOL:
        if draw(st.booleans()):
            compared = draw(st.sampled_from(NUMBERS))
            comparator = draw(st.sampled_from(get_args(Comparator)))
            return Compare(comparator, part(compared), part(compared))
        match draw(st.integers(0, 2)):
            case 0:
                return Not(part())
            case 1:
                return Compare(draw(st.sampled_from(("==", "!="))), part(), part())
        return Bitwise(draw(st.sampled_from(("&", "|", "^"))), part(), part())
    common: list[Any] = [Add, Sub, Mul, Max, Min]
    operation = draw(st.sampled_from([*common, Neg, *([Div, Call, Apply] if dtype.is_float else [
        Fma, FloorDiv, FloorMod, Bitwise, Not, *([Apply] if dtype.is_signed else [])
    ])]))  # fmt: skip
    if operation in (Neg, Not):
        return operation(part())  # type: ignore[no-any-return]
    if operation is Apply:
        return Apply(Op.ABS, part())
    if operation is Call:
        return Call(draw(st.sampled_from(("floor", "ceil", "trunc", "round"))), (part(),))
    if operation is Fma:
        return Fma(part(), part(), part())
    right = part()
    if operation in (FloorDiv, FloorMod, Bitwise) and draw(st.booleans()):
        right = spread(draw(st.sampled_from([0, 1, 3, 4, 7, 8, 100, 8 * dtype.nbytes - 1, dtype.least])))
    if operation is Bitwise:
        return Bitwise(draw(st.sampled_from(get_args(BitOperator))), part(), right)
    return operation(part(), right)  # type: ignore[no-any-return]


class Trees:
    """Several expressions, each of which is stored to an array of its own."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def __repr__(self) -> str:
        return "\n".join(print_expression(value)[:800] for value in values(self.program.body))


@st.composite
def programs(draw: st.DrawFn) -> Trees:
    lanes = draw(st.sampled_from([1, 2, 4, 8, 16]))
    inputs = [Tensor(name, DType.of(name[2:]), (POINTS,), (1,), False) for name in MEMORY]
    outputs, body = [], []
    for n in range(10):
        dtype = draw(st.sampled_from(TYPES))
        outputs.append(Tensor(f"out{n}", dtype, (POINTS,), (1,), True))
        value = draw(expressions(dtype, lanes, 4))
        body.append(Store(f"out{n}", Index(0, (("i", lanes),)), value))
    return Trees(Program("trees", (*inputs, *outputs), (), (Loop("i", POINTS // lanes, tuple(body)),)))


@settings(max_examples=15, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(programs())
def test_c_computes_what_an_expression_means(trees: Trees) -> None:
    program = verify(trees.program)
    memory = {name: list(numbers) for name, numbers in MEMORY.items()}
    arrays = {
        t.name: np.array(memory.get(t.name, [0] * POINTS), NUMPY_TYPE[t.dtype]) for t in program.tensors
    }
    outputs = [t for t in program.tensors if t.is_output]
    memory |= {t.name: [None] * POINTS for t in outputs}
    interpret(program, memory, {})
    with tempfile.TemporaryDirectory() as folder:
        # Products are rounded before they are added to something, as the interpreter rounds them.
        flags = ("-O1", "-ffp-contract=off")
        try:
            library = build_library(print_c(program, 1), Path(folder) / "trees.so", extra_flags=flags)
        except BuildError as error:
            # GCC 12.2 fails for some vectors of two, widened and chosen from: no fault of the code.
            assume("unable to generate reloads" not in str(error))
            raise
        ctypes.CDLL(str(library)).trees(*(ctypes.c_void_p(a.ctypes.data) for a in arrays.values()))
    for tensor, value in zip(outputs, values(program.body), strict=True):
        wanted = np.array(memory[tensor.name], NUMPY_TYPE[tensor.dtype])
        np.testing.assert_array_equal(arrays[tensor.name], wanted, print_expression(value))
