"""Test cases: exact where they say so, sensitive where they are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spacedsl.codegen.running.cases import ALWAYS_CHECKED, TIMED_CASE, Case, make_cases
from spacedsl.codegen.running.differences import first_difference
from spacedsl.diagnostics import Source
from spacedsl.kernels.kernel_file import KernelFile, check_kernel
from spacedsl.kernels.reference import view
from tests.codegen.kernels import axpy, matmul, parse
from tests.codegen.zoo import zoo

ZOO = zoo()

COPY = """
kernel: copy
backbone: linalg
sizes: {n: 8}
tensors:
  x: {dtype: f32, shape: [n]}
  y: {dtype: f32, shape: [n], output: true}
compute:
  - y[i] = x[i]
"""


def made(kernel: KernelFile) -> dict[str, Case]:
    return {case.name: case for case in make_cases(kernel, np.random.default_rng(1))}


def test_the_timed_case_is_random_and_the_next_one_exact() -> None:
    cases = list(make_cases(ZOO["gemm"], np.random.default_rng(1)))
    assert cases[TIMED_CASE].name == "random"
    assert "integers" in [case.name for case in cases[:ALWAYS_CHECKED]]
    assert len(cases) > ALWAYS_CHECKED


def test_all_but_random_floats_are_compared_exactly_unless_there_are_quotients_or_functions() -> None:
    for name, kernel in ZOO.items():
        for case in made(kernel).values():
            exact = all(t == 0 for t in case.tolerances.values())
            is_random_float = case.name == "random" and name != "integers"
            assert exact == (name not in ("quotients", "functions") and not is_random_float), (
                name,
                case.name,
            )


def test_inputs_whose_results_are_no_numbers_are_left_out() -> None:
    cases = made(ZOO["quotients"])
    assert "zeros" not in cases
    assert {"random", "integers", "signs"} <= set(cases)


def test_inputs_whose_sums_leave_the_exact_integers_are_left_out() -> None:
    kernel = parse("""
kernel: cube
backbone: linalg
sizes: {k: 5000}
tensors:
  x: {dtype: f32, shape: [k]}
  y: {dtype: f32, shape: [1], output: true}
compute:
  - y[i] = sum[p](x[p] * 4096 * x[p] * 8192)
""")
    cases = made(kernel)
    assert "signs" not in cases and "last element" not in cases
    assert "zeros" in cases
    assert cases["random"].tolerances["y"] > 0


def test_a_missing_term_shows_within_the_tolerance_of_random_values() -> None:
    case = made(matmul(3, 4, 1024))["random"]
    a, b = case.inputs["A"].reshape(3, 1024), case.inputs["B"].reshape(1024, 4)
    expected = case.expected["C"].reshape(3, 4)
    assert first_difference(a @ b, expected, case.tolerances["C"]) == ""
    assert first_difference(a[:, 1:] @ b[1:], expected, case.tolerances["C"]) != ""


def test_the_kernels_own_tolerance_holds() -> None:
    kernel = parse(COPY.replace("tensors:", "tolerance: 0.5\ntensors:"))
    assert 0.5 <= made(kernel)["random"].tolerances["y"] <= 0.75


def test_arrays_lie_where_they_are_asked_to() -> None:
    kernel = axpy(48)
    buffers = {t: np.zeros(t.span, np.float32) for t in kernel.backbone.tensors}
    case = next(make_cases(kernel, np.random.default_rng(1), buffers.__getitem__))
    for tensor, buffer in buffers.items():
        assert ({**case.inputs, **case.expected})[tensor.name] is buffer


def test_expected_values_lie_as_the_output_does() -> None:
    kernel = ZOO["integers"]
    (tensor,) = (t for t in kernel.backbone.tensors if t.is_output)
    case = made(kernel)["integers"]
    assert case.expected["C"].size == tensor.span > tensor.elements
    a, b = case.inputs["A"].reshape(3, 4), case.inputs["B"].reshape(3, 8)
    np.testing.assert_array_equal(view(tensor, case.expected["C"]), a.T @ b)


@pytest.mark.parametrize("tolerance", [0, 0.5])
def test_the_first_difference_is_named(tolerance: float) -> None:
    expected = np.arange(12.0).reshape(3, 4)
    found = expected.copy()
    assert first_difference(found, expected, tolerance) == ""
    found[1, 2] = 7
    found[2, 3] = np.nan
    message = "[1, 2] is 7.0, expected 6.0; 2 of 12 elements differ"
    assert first_difference(found, expected, tolerance) == message
    assert first_difference(found, expected, 1).startswith("[2, 3] is nan")


@pytest.mark.parametrize(
    ("dtype", "found", "expected", "is_near"),
    [
        ("u1", 0, 255, False), ("u1", 9, 10, True), ("u1", 10, 9, True),
        ("i1", -128, 127, False), ("i1", 3, 5, True), ("i1", 3, 6, False), ("?", True, False, True),
        ("f4", np.inf, np.inf, True), ("f4", np.nan, np.nan, True), ("f4", np.nan, 0, False),
        ("f4", 0, np.nan, False), ("f4", -np.inf, np.inf, False), ("f4", 1, np.inf, False),
    ],
)  # fmt: skip
def test_a_tolerance_is_of_numbers_whatever_type_they_have(
    dtype: str, found: float, expected: float, is_near: bool
) -> None:
    arrays = [np.full(3, value, dtype) for value in (found, expected)]
    for tolerance in (2.0, np.full(3, 2, np.float32)):
        assert (first_difference(arrays[0], arrays[1], tolerance) == "") == is_near


@pytest.mark.parametrize("count", [40, 4096, 300_000])
def test_long_sums_may_be_added_one_after_the_other(count: int) -> None:
    """Where all terms are alike, all of them are rounded the same way: beside sums of few, much is lost."""
    kernel = parse(
        f"kernel: total\nbackbone: linalg\ntensors:\n  x: {{dtype: f32, shape: [{count}]}}\n"
        "  s: {dtype: f32, shape: [], output: true}\ncompute:\n  - s = sum[p](exp(x[p]))\n"
    )
    named = {case.name: case for case in make_cases(kernel, np.random.default_rng(5))}
    assert {"random", "signs", "mixed magnitudes"} <= set(named)
    for case in named.values():
        terms = np.exp(case.inputs["x"])
        chains = (1, 2, 8, 2 * 16)
        sums = [
            np.cumsum(terms[: count // n * n].reshape(-1, n) if way else terms.reshape(n, -1).T, 0)[-1]
            for n in chains
            if count % n == 0
            for way in (True, False)
        ]
        wanted, tolerance = float(case.expected["s"][0]), case.tolerances["s"]
        assert isinstance(tolerance, float) and tolerance < wanted / 32
        for found in sums:
            assert abs(float(found.sum()) - wanted) <= tolerance, case.name


@pytest.mark.parametrize("count", [1 << 18, 1 << 20, 1 << 22])
def test_small_terms_may_be_lost_beside_a_long_sum(count: int) -> None:
    """Most squares of differences are small: they are rounded down more often than up."""
    kernel = parse(
        f"kernel: apart\nbackbone: linalg\ntensors:\n  x: {{dtype: f32, shape: [{count}]}}\n"
        f"  y: {{dtype: f32, shape: [{count}]}}\n  s: {{dtype: f32, shape: [], output: true}}\n"
        "compute:\n  - s = sum[p]((x[p] - y[p]) * (x[p] - y[p]))\n"
    )
    case = made(kernel)["random"]
    apart = case.inputs["x"] - case.inputs["y"]
    wanted, tolerance = float(case.expected["s"][0]), case.tolerances["s"]
    assert isinstance(tolerance, float) and tolerance < wanted / 16
    assert abs(float(np.cumsum(apart * apart)[-1]) - wanted) <= tolerance


@pytest.mark.parametrize("count", [3000, (1 << 22) + 100, 1 << 24])
def test_the_last_term_of_a_mean_is_missed(count: int) -> None:
    """Within the tolerance of a long sum, one term is as good as none: unless it is the only one."""
    kernel = parse(
        f"kernel: mean\nbackbone: linalg\ntensors:\n  x: {{dtype: f32, shape: [{count}]}}\n"
        f"  s: {{dtype: f32, shape: [], output: true}}\ncompute:\n  - s = sum[p](x[p]) / {count}\n"
    )

    def is_right(case: Case, terms: int) -> bool:
        found = np.array([case.inputs["x"][:terms].sum(dtype=np.float32) / count], np.float32)
        return first_difference(found, case.expected["s"], case.tolerances["s"]) == ""

    found = [(is_right(case, count), is_right(case, count - 1)) for case in made(kernel).values()]
    assert all(whole for whole, _ in found)
    assert not all(part for _, part in found)


MASKED = """
kernel: masked
backbone: linalg
sizes: {n: 64}
tensors:
  x: {dtype: f32, shape: [n]}
  mask: {dtype: i32, shape: [n]}
  y: {dtype: f32, shape: [n], output: true}
  count: {dtype: i32, shape: [n], output: true}
compute:
  - y[i] = log(x[i])
  - count[i] = mask[i] + 1
"""


def test_floats_are_drawn_as_floats_beside_integers() -> None:
    case = made(parse(MASKED))["random"]
    assert (case.inputs["x"] > 0).all() and len(np.unique(case.inputs["x"])) == 64
    assert len(np.unique(case.inputs["mask"])) > 8 and case.inputs["mask"].dtype == np.int32
    assert case.tolerances["count"] == 0


CHAIN = """
kernel: chain
backbone: linalg
precision: tf32
sizes: {n: 16}
tensors:
  A: {dtype: f32, shape: [n, n]}
  B: {dtype: f32, shape: [n, n]}
  C: {dtype: f32, shape: [n, n]}
  D: {dtype: f32, shape: [n, n], output: true}
compute:
  - T[i, j] = sum[p](A[i, p] * B[p, j])
  - D[i, j] = sum[p](T[i, p] * C[p, j])
"""


def test_products_of_products_are_compared_exactly_where_tf32_holds_them() -> None:
    """A factor of tf32 is cut off to 11 bits, which the first product may not need more than."""
    kernel = check_kernel(Source("chain.yaml", CHAIN), Path("chain.yaml"), {}, kind="gpu")
    cases = made(kernel)
    assert "integers" in cases and cases["integers"].tolerances["D"] == 0
    for case in cases.values():
        if case.tolerances["D"] == 0:
            a, b = (case.inputs[n].reshape(16, 16) for n in "AB")
            assert np.abs(a @ b).max() <= 2**11, case.name
