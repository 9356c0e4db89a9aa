"""Test cases: exact where they say so, sensitive where they are not."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest

from spacedsl.codegen.cases import (
    CASES,
    Case,
    integer_case,
    largest_partial,
    random_case,
    reduction_length,
    share,
)
from spacedsl.codegen.worker import first_difference
from spacedsl.kernels.kernel_file import KernelFile
from spacedsl.kernels.reference import greatest_magnitude
from tests.codegen.kernels import axpy, matmul, parse
from tests.codegen.zoo import zoo

ZOO = zoo()


def made(kernel: KernelFile) -> tuple[Case, Case]:
    """The random and the integer case, of one generator as in a shared file."""
    random = np.random.default_rng(1)
    return random_case(kernel, random), integer_case(kernel, random)


@pytest.mark.parametrize("name", [n for n in ZOO if n != "quotients"])
def test_no_partial_result_is_larger_than_the_bound(name: str) -> None:
    kernel = ZOO[name]
    for case in made(kernel):
        values = [np.nanmax(np.abs(array)) for array in case.inputs.values()]
        magnitude = float(max([*values, *map(abs, case.parameters.values())]))
        observed = greatest_magnitude(kernel, case.inputs, case.parameters)
        assert observed <= largest_partial(kernel.backbone, magnitude)


def test_integers_are_compared_exactly_unless_there_is_a_quotient() -> None:
    for name, kernel in ZOO.items():
        exact = all(t == 0 for t in made(kernel)[1].tolerances.values())
        assert exact == (name != "quotients")


def test_sums_that_could_leave_the_exact_integers_are_compared_within_a_tolerance() -> None:
    kernel = parse("""
kernel: cube
backbone: linalg
sizes: {k: 5000}
tensors:
  x: {dtype: f32, shape: [k]}
  y: {dtype: f32, shape: [1], output: true}
compute:
  - y[i] = sum[p](x[p] * 4096 * x[p] * 1024)
""")
    assert largest_partial(kernel.backbone, 1) >= 2**24
    assert made(kernel)[1].tolerances["y"] > 0


def test_a_missing_term_shows_within_the_tolerance_of_random_values() -> None:
    kernel = matmul(3, 4, 1024)
    case = made(kernel)[0]
    assert reduction_length(kernel.backbone) == 1024
    a, b = case.inputs["A"].reshape(3, 1024), case.inputs["B"].reshape(1024, 4)
    assert first_difference(a @ b, case.expected["C"], case.tolerances["C"]) == ""
    assert first_difference(a[:, 1:] @ b[1:], case.expected["C"], case.tolerances["C"]) != ""


def test_the_kernels_own_tolerance_holds() -> None:
    text = """
kernel: copy
backbone: linalg
sizes: {n: 8}
tolerance: 0.5
tensors:
  x: {dtype: f32, shape: [n]}
  y: {dtype: f32, shape: [n], output: true}
compute:
  - y[i] = x[i]
"""
    assert 0.5 <= made(parse(text))[0].tolerances["y"] <= 0.75


def test_large_arrays_repeat_at_no_round_distance() -> None:
    values = made(axpy(2_100_000))[0].inputs["x"]
    for distance in itertools.chain((2**k for k in range(21)), (1000, 10**6)):
        assert not np.array_equal(values[:1000], values[distance : distance + 1000])


def test_gaps_between_strided_elements_hold_no_number() -> None:
    case = made(ZOO["integers"])[0]
    assert case.inputs["A"].size == 12
    strided = parse("""
kernel: copy
backbone: linalg
sizes: {n: 4}
tensors:
  x: {dtype: f32, shape: [n], strides: [3]}
  y: {dtype: f32, shape: [n], output: true}
compute:
  - y[i] = x[i]
""")
    buffer = made(strided)[0].inputs["x"]
    assert np.isnan(buffer).tolist() == [n % 3 != 0 for n in range(10)]


def test_the_shared_file_holds_every_array() -> None:
    both = made(ZOO["gemm"])
    assert (random_case, integer_case) == CASES
    shared = share(ZOO["gemm"], np.random.default_rng(1))
    try:
        for case, layout in zip(both, shared.layout, strict=True):
            for name, array in {**case.inputs, **case.expected}.items():
                offset = {**layout["inputs"], **layout["expected"]}[name]
                assert os.pread(shared.descriptor, array.nbytes, offset) == array.tobytes()
    finally:
        shared.close()


def test_the_first_difference_is_named() -> None:
    expected = np.arange(12.0).reshape(3, 4)
    found = expected.copy()
    assert first_difference(found, expected, 0) == ""
    found[1, 2] = 7
    found[2, 3] = np.nan
    message = "[1, 2] is 7.0, expected 6.0; 2 of 12 elements differ"
    assert first_difference(found, expected, 0) == message
    assert first_difference(found, expected, 0.5) == message
    assert first_difference(found, expected, 1).startswith("[2, 3] is nan")
