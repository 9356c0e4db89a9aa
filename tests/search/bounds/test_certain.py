"""What every implementation must do: against enumerated addresses, and on kernels with something to merge."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.linalg.backbone import Access, Instruction, LogicalDim, Value
from spacedsl.kernels.linalg.operations import Op
from spacedsl.kernels.tensors import Tensor
from spacedsl.search.bounds.certain import (
    LINE_BYTES,
    distinct_elements,
    distinct_indices,
    distinct_lines,
    footprints,
    varying_indices,
)
from tests.search.linalg import MATMUL, elementwise, parse

# ---- Addresses -----------------------------------------------------------------------------------------


def access(extents: list[int], strides: list[int], dtype: DType = DType.F32) -> Access:
    dims = tuple(LogicalDim(f"load.{n}", str(n), extent) for n, extent in enumerate(extents))
    tensor = Tensor("A", dtype, tuple(extents), tuple(strides), is_output=False)
    return Access(tensor, 0, tuple(zip(dims, strides, strict=True)))


def addresses(extents: list[int], strides: list[int]) -> set[int]:
    indices = itertools.product(*(range(n) for n in extents))
    return {sum(i * s for i, s in zip(index, strides, strict=True)) for index in indices}


patterns = st.integers(1, 3).flatmap(
    lambda rank: st.tuples(
        st.lists(st.integers(2, 9), min_size=rank, max_size=rank),
        st.lists(st.integers(0, 70), min_size=rank, max_size=rank),
    )
)


@given(patterns)
def test_no_more_elements_are_counted_than_there_are(pattern: tuple[list[int], list[int]]) -> None:
    assert distinct_elements(access(*pattern)) <= len(addresses(*pattern))


@given(patterns)
def test_the_kept_indices_lead_to_different_elements(pattern: tuple[list[int], list[int]]) -> None:
    extents, strides = pattern
    kept = {int(i) for i in distinct_indices(access(extents, strides))}
    chosen = [(extents[i], strides[i]) for i in sorted(kept)]
    found = addresses([n for n, _ in chosen], [s for _, s in chosen])
    assert len(found) == math.prod(n for n, _ in chosen)


@given(patterns)
def test_no_more_lines_are_counted_than_are_touched_at_any_alignment(
    pattern: tuple[list[int], list[int]],
) -> None:
    elements = LINE_BYTES // DType.F32.nbytes
    touched = min(
        len({(address + shift) // elements for address in addresses(*pattern)}) for shift in range(elements)
    )
    assert distinct_lines(access(*pattern)) <= touched


@pytest.mark.parametrize(
    ("extents", "strides", "lines"),
    [([64], [1], 4), ([64, 64], [64, 1], 256), ([64, 64], [2048, 32], 64 * 64), ([10, 5], [8, 1], 5)],
)
def test_regular_accesses_are_counted_exactly(extents: list[int], strides: list[int], lines: int) -> None:
    assert distinct_lines(access(extents, strides)) == lines


def test_gaps_of_strides_count_as_whole_lines_of_loads_and_not_of_stores() -> None:
    text = MATMUL.replace(
        "A: {dtype: f32, shape: [m, k]}", "A: {dtype: f32, shape: [m, k], strides: [65536, 32]}"
    )
    text = text.replace(
        "C: {dtype: f32, shape: [m, n], output: true}",
        "C: {dtype: f32, shape: [m, n], strides: [2048, 32], output: true}",
    )
    found = {f.tensor.name: f for f in footprints(parse(text).backbone)}
    assert found["A"].line_bytes == 64 * 2048 * LINE_BYTES
    assert found["A"].nbytes == 64 * 2048 * 4
    assert found["C"].line_bytes == 64 * 64 * 4


# ---- Kernels -------------------------------------------------------------------------------------------


several = st.lists(st.integers(2, 5), min_size=3, max_size=3).flatmap(
    lambda extents: st.tuples(
        st.just(extents),
        st.lists(st.lists(st.integers(0, 12), min_size=3, max_size=3), min_size=1, max_size=3),
    )
)


@given(several)
def test_no_two_iterations_that_count_read_the_same_addresses(
    pattern: tuple[list[int], list[list[int]]],
) -> None:
    extents, strides = pattern
    loads = [
        Instruction(0, "load", Op.LOAD, DType.F32, access=access(extents, each), consumers=())
        for each in strides
    ]
    user = Instruction(
        1,
        "add",
        Op.ADD,
        DType.F32,
        operands=tuple(Value(load, ()) for load in loads),
        logical_dims=tuple(LogicalDim(f"add.{n}", str(n), extent) for n, extent in enumerate(extents)),
    )
    counted = varying_indices(user)
    ranges = [range(n) if str(x) in counted else range(1) for x, n in enumerate(extents)]
    read = [
        tuple(sum(i * s for i, s in zip(index, each, strict=True)) for each in strides)
        for index in itertools.product(*ranges)
    ]
    assert len(set(read)) == len(read)


def test_a_tensor_that_the_kernel_writes_needs_no_loads() -> None:
    found = {f.tensor.name: f for f in footprints(elementwise("a[i] + b[i]", "y[i] + c[i]"))}
    assert not found["y"].loads
    assert found["y"].stores
    assert found["a"].loads
