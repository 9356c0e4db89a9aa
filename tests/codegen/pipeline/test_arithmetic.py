"""What integers make before a program runs is what the interpreter makes of them as it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacedsl.codegen.pipeline.arithmetic import cast, computed
from spacedsl.codegen.tree.expressions import (
    Add,
    Convert,
    Expression,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mul,
    Neg,
    Number,
    Register,
    Sub,
    Type,
)
from spacedsl.codegen.tree.parts import expressions
from spacedsl.kernels.dtypes import DType
from tests.codegen.interpreter import Interpreter
from tests.codegen.pipeline.test_lower import lowered
from tests.kernels.pipeline.cases import instance, scheduled
from tests.kernels.pipeline.files import pipeline

INTEGERS = [dtype for dtype in DType if not dtype.is_float and dtype is not DType.BOOL]
OPERATIONS: tuple[Callable[..., Expression], ...] = (Add, Sub, Mul, Min, Max, FloorDiv, FloorMod)


def carried_out(node: Expression, **registers: Any) -> Any:
    return Interpreter({}, {}).value(node, {}, {name: [value] for name, value in registers.items()})


def integers(dtype: DType) -> st.SearchStrategy[int]:
    ends = st.sampled_from([dtype.least, dtype.greatest, 0, 1])
    return ends | st.integers(dtype.least, dtype.greatest) | st.integers(max(-3, dtype.least), 3)


@settings(max_examples=300, derandomize=True)
@given(st.data())
def test_numbers_are_computed_with_as_programs_do(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(INTEGERS))
    left, right = (Number(data.draw(integers(dtype)), Type(dtype)) for _ in range(2))
    operation = data.draw(st.sampled_from(OPERATIONS))
    found = computed(dtype, operation, left, right)
    assert isinstance(found, Number) and found.type == Type(dtype)
    assert [found.value] == carried_out(operation(left, right))
    negative = computed(dtype, Neg, left)
    assert isinstance(negative, Number)
    assert [negative.value] == carried_out(Neg(left))
    other = data.draw(st.sampled_from([d for d in DType if d.has_arithmetic]))
    assert carried_out(cast(left, other)) == carried_out(Convert(left, other))


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_what_makes_no_difference_is_left_out(operation: Callable[..., Expression], number: int) -> None:
    x, known = Register("x", Type(DType.I16)), Number(number, Type(DType.I16))
    for pair in ((x, known), (known, x)):
        found = computed(DType.I16, operation, *pair)
        assert (found is x) == ((operation, number) in ((Add, 0), (Mul, 1)))
        for value in (-3, 0, 7):
            assert carried_out(found, x=value) == carried_out(operation(*pair), x=value)


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
def test_sums_of_floats_keep_their_zeros(dtype: DType) -> None:
    """Minus zero and zero are zero, which is not what there was."""
    x, zero = Register("x", Type(dtype)), Number(0.0, Type(dtype))
    assert computed(dtype, Add, x, zero) == Add(x, zero)
    assert isinstance(cast(Number(2**60 + 1, Type(DType.I64)), dtype), Convert)


def test_weights_of_a_stencil_are_numbers() -> None:
    stages = "f(x) = sum[i in -1:2](u16((i + 3) * (i - 5)) * a(x + i))"
    file = pipeline(stages, "{f: {x: 64}}", "{a: {dtype: u16, rank: 1}}")
    body = lowered(
        file, scheduled(instance(file.backbone), {"f_sum": "INLINE", "f_sum.1": "INLINE"}, {})
    ).body
    found = {int(v.value) for v in expressions(body) if isinstance(v, Number)}
    assert {2**16 - 12, 2**16 - 15, 2**16 - 16} <= found
    assert not any(isinstance(v, Convert) for v in expressions(body))
