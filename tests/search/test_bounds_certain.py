"""What every implementation must do: against enumerated addresses, and on kernels with something to merge."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacedsl.kernels.linalg.backbone import (
    Access,
    DType,
    Instruction,
    Kernel,
    LogicalDim,
    Op,
    Tensor,
    Value,
)
from spacedsl.search.bounds.certain import (
    LINE_BYTES,
    distinct_elements,
    distinct_indices,
    distinct_lines,
    footprints,
    operations,
    varying_indices,
)

from .linalg import MATMUL, parse

ELEMENTWISE = """
kernel: elementwise
backbone: linalg
sizes: {{n: 100}}
tensors:
  {inputs}
  y: {{dtype: {dtype}, shape: [n], output: true}}
  z: {{dtype: {dtype}, shape: [n], output: true}}
compute:
  - y[i] = {y}
  - z[i] = {z}
"""


def elementwise(y: str, z: str = "c[i]", dtype: str = "f32") -> Kernel:
    read = [name for name in "abc" if f"{name}[" in y + z]
    inputs = "\n  ".join(f"{name}: {{dtype: {dtype}, shape: [n]}}" for name in read)
    return parse(ELEMENTWISE.format(y=y, z=z, dtype=dtype, inputs=inputs)).backbone


def work(kernel: Kernel) -> dict[str, int]:
    """Certain iterations by unit."""
    return {
        unit: sum(min(o.iterations for o in members) for members in classes)
        for unit, classes in operations(kernel).items()
    }


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


# ---- Operations ----------------------------------------------------------------------------------------


def test_a_matrix_product_needs_all_its_multiply_adds() -> None:
    assert work(parse(MATMUL).backbone) == {"multiply": 64 * 64 * 2048, "add": 0, "any": 64 * 64 * 2048}


@pytest.mark.parametrize(
    ("y", "z", "multiply", "add", "any_unit"),
    [
        pytest.param("a[i] + b[i]", "c[i]", 0, 100, 100, id="addition"),
        pytest.param("a[i] * b[i]", "c[i]", 100, 0, 100, id="multiplication"),
        pytest.param("a[i] / b[i]", "c[i]", 0, 0, 100, id="division"),
        pytest.param("-a[i]", "c[i]", 0, 0, 0, id="a sign is flipped for nothing"),
        pytest.param("a[i] * 1", "c[i]", 0, 0, 0, id="a factor of one is folded"),
        pytest.param("a[i] * 2", "c[i]", 0, 0, 100, id="twice is a sum"),
        pytest.param("a[i] - 0", "c[i]", 0, 0, 0, id="nothing is not subtracted"),
        pytest.param("c[i] - a[i] * b[i]", "c[i]", 100, 0, 100, id="a product is fused with a difference"),
        pytest.param("a[i] + b[i]", "b[i] + a[i]", 0, 100, 100, id="equal sums are one"),
        pytest.param("a[i] * b[i]", "b[i] * a[i] + c[i]", 100, 0, 200, id="equal products are one"),
    ],
)
def test_only_what_no_compiler_saves_is_counted(
    y: str, z: str, multiply: int, add: int, any_unit: int
) -> None:
    assert work(elementwise(y, z)) == {"multiply": multiply, "add": add, "any": any_unit}


def test_a_convolution_needs_all_its_multiply_adds() -> None:
    text = """
kernel: convolution
backbone: linalg
sizes: {y: 5, f: 4, c: 3, taps: 3}
tensors:
  I: {dtype: f32, shape: [2 * y + taps, c]}
  W: {dtype: f32, shape: [taps, c, f]}
  R: {dtype: f32, shape: [y, f], output: true}
compute:
  - R[i, o] = sum[r, p](I[2 * i + r, p] * W[r, p, o])
"""
    assert work(parse(text).backbone)["multiply"] == 5 * 4 * 3 * 3


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


def test_integers_may_be_regrouped_so_that_only_accumulations_are_certain() -> None:
    assert work(elementwise("a[i] * b[i] + c[i]", dtype="i32")) == {"multiply": 0, "add": 0, "any": 0}
    found = work(parse(MATMUL.replace("f32", "i32")).backbone)
    assert found == {"multiply": 0, "add": 0, "any": 64 * 64 * 2047}


def test_bytes_are_those_of_memory_and_arithmetic_that_of_what_is_computed_in() -> None:
    halves = parse(MATMUL.replace("dtype: f32", "dtype: bf16")).backbone
    assert work(halves) == work(parse(MATMUL).backbone)
    assert {f.tensor.name: f.nbytes for f in footprints(halves)} == {
        "A": 64 * 2048 * 2, "B": 64 * 2048 * 2, "C": 64 * 64 * 2
    }  # fmt: skip


def test_one_operation_of_f32_in_f64_may_be_done_in_f32() -> None:
    assert narrow("a[i] + b[i]") == {"multiply": 0, "add": 0, "any": 0}
    assert narrow("a[i] + b[i] - c[i]")["any"] == 200
    assert work(parse(MATMUL + "accumulate: f64\n").backbone) == work(parse(MATMUL).backbone)


def narrow(y: str) -> dict[str, int]:
    """What is certain of a line of f32 that computes in f64."""
    inputs = "\n  ".join(f"{name}: {{dtype: f32, shape: [n]}}" for name in "abc" if f"{name}[" in y)
    text = ELEMENTWISE.format(y=y, z="a[i]", dtype="f32", inputs=inputs)
    return work(parse(text + "accumulate: f64\n").backbone)


def test_what_does_not_vary_along_a_loop_is_hoisted_out_of_it() -> None:
    text = MATMUL.replace("sum[p](A[i, p] * B[p, j])", "sum[p]((A[i, p] * 3) * B[p, j])")
    multiplications = work(parse(text).backbone)["multiply"]
    assert multiplications == 64 * 64 * 2048 + 64 * 2048


def test_a_tensor_that_the_kernel_writes_needs_no_loads() -> None:
    found = {f.tensor.name: f for f in footprints(elementwise("a[i] + b[i]", "y[i] + c[i]"))}
    assert not found["y"].loads
    assert found["y"].stores
    assert found["a"].loads
