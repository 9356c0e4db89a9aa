"""Inputs that tests and runs feed to kernels."""

from __future__ import annotations

import numpy as np
import pytest

from spacedsl.kernels.formats import elements, numbers
from spacedsl.kernels.inputs import adversarial_inputs, integer_inputs, plain_buffer, random_inputs
from spacedsl.kernels.kernel_file import load_kernel
from spacedsl.kernels.reference import evaluate, greatest_magnitude
from tests.kernels.samples import LIBRARY, MATMUL, changed, check


def test_the_same_seed_gives_the_same_inputs() -> None:
    first, second = (random_inputs(check(MATMUL), np.random.default_rng(7)) for _ in range(2))
    for name, array in first.inputs.items():
        np.testing.assert_array_equal(array, second.inputs[name])


def test_gaps_between_elements_hold_nan_and_no_element_does() -> None:
    kernel = load_kernel(LIBRARY / "matmul_strided.yaml", {"m": 3, "n": 2, "k": 4})
    arguments = random_inputs(kernel, np.random.default_rng(0))
    buffer = arguments.inputs["A"]
    assert np.isnan(buffer).sum() == buffer.size - 12
    assert np.isfinite(evaluate(kernel, arguments.inputs, {})["C"]).all()


LARGEST = {"f32": 2**24, "f64": 2**53, "i32": 2**31, "bf16": 2**24, "f16": 65504}
"""Integers that sums of a type do not reach."""


@pytest.mark.parametrize("dtype", LARGEST)
def test_integer_inputs_stay_exact_and_are_no_trivial_ones(dtype: str) -> None:
    kernel = check(changed(("f32", dtype)), {"k": 2000})
    arguments = integer_inputs(kernel, np.random.default_rng(0))
    assert arguments.is_exact
    assert greatest_magnitude(kernel, arguments.inputs, {}) < LARGEST[dtype]
    assert all(len(np.unique(a)) >= 6 and not (a == 0).all() for a in arguments.inputs.values())


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_exact_sums_that_are_rounded_once_can_be_compared_exactly(dtype: str) -> None:
    kernel = check(changed(("f32", dtype)), {"k": 2000})
    arguments = integer_inputs(kernel, np.random.default_rng(0))
    (output,) = (t for t in kernel.backbone.tensors if t.is_output)
    held = plain_buffer(output).reshape(output.shape)
    evaluate(kernel, arguments.inputs, {}, {"C": held})
    shapes = {t.name: t.shape for t in kernel.backbone.tensors}
    a, b = (numbers(output.dtype, arguments.inputs[n]).reshape(shapes[n]).astype(np.int64) for n in "AB")
    exact = a @ b
    np.testing.assert_array_equal(held, elements(output.dtype, exact))
    if dtype == "bf16":
        assert np.count_nonzero(numbers(output.dtype, held) != exact), "some of them had to be rounded"


def test_a_very_long_sum_gets_mostly_zeros() -> None:
    text = (
        "kernel: total\nbackbone: linalg\nsizes: {n: 20000000}\n"
        "tensors:\n  x: {dtype: f32, shape: [n]}\n  s: {dtype: f32, shape: [], output: true}\n"
        "compute: ['s = sum[p](x[p])']\n"
    )
    arguments = integer_inputs(check(text), np.random.default_rng(0))
    assert arguments.is_exact
    assert 0 < np.count_nonzero(arguments.inputs["x"]) < 20_000_000


def test_quotients_and_fractions_are_not_called_exact() -> None:
    for value in ("x[i] / 3", "0.5 * x[i]"):
        text = (
            "kernel: k\nbackbone: linalg\nsizes: {n: 4}\n"
            "tensors:\n  x: {dtype: f32, shape: [n]}\n  y: {dtype: f32, shape: [n], output: true}\n"
            f"compute: ['y[i] = {value}']\n"
        )
        assert not integer_inputs(check(text), np.random.default_rng(0)).is_exact


def test_random_floats_are_not_called_exact() -> None:
    assert not random_inputs(check(MATMUL), np.random.default_rng(0)).is_exact


def test_adversarial_inputs_are_exact_and_cover_the_known_weaknesses() -> None:
    kernel = load_kernel(LIBRARY / "axpy.yaml", {"n": 300})
    found = {a.name: a for a in adversarial_inputs(kernel, np.random.default_rng(0))}
    assert list(found) == ["integers", "zeros", "signs", "mixed magnitudes", "last element", "one element"]
    assert all(a.is_exact for a in found.values())
    assert not found["zeros"].inputs["x"].any()
    assert set(found["signs"].inputs["x"]) == {-1, 1}
    assert np.flatnonzero(found["last element"].inputs["x"]).tolist() == [299]
    assert np.count_nonzero(found["one element"].inputs["y"]) == 1
    assert len(set(found["mixed magnitudes"].inputs["x"])) == 2
    assert found["one element"].parameters["alpha"] == 1.0


LARGE_COPY = (
    "kernel: copy\nbackbone: linalg\nsizes: {n: 4200000}\n"
    "tensors:\n  x: {dtype: f32, shape: [n]}\n  y: {dtype: f32, shape: [n], output: true}\n"
    "compute: ['y[i] = x[i]']\n"
)


def test_values_of_large_tensors_repeat_at_no_round_distance() -> None:
    values = random_inputs(check(LARGE_COPY), np.random.default_rng(0)).inputs["x"]
    for distance in [2**k for k in range(22)] + [1000, 10**6]:
        assert not np.array_equal(values[:1000], values[distance : distance + 1000])


def test_a_large_kernel_has_all_weaknesses_in_one_call() -> None:
    (patchwork,) = adversarial_inputs(check(LARGE_COPY), np.random.default_rng(0))
    assert patchwork.name == "patchwork" and patchwork.is_exact
    values = patchwork.inputs["x"]
    usual, zeros, _, signs, _, mixed, _, last, _, one = np.split(values, range(997, 11 * 997, 997))[:10]
    assert len(np.unique(usual)) > 10 and usual.all()
    assert not zeros.any()
    assert (signs[1:] == -signs[:-1]).all()
    assert set(mixed) == {1, patchwork.largest}
    assert np.flatnonzero(last).tolist() == [996]
    assert np.count_nonzero(one) == 1


def test_a_large_kernel_without_room_for_weaknesses_gets_exact_integers() -> None:
    text = LARGE_COPY.replace(
        "{dtype: f32, shape: [n], output: true}", "{dtype: f32, shape: [], output: true}"
    )
    kernel = check(text.replace("y[i] = x[i]", "y = sum[i](x[i] * 5)"))
    (arguments,) = adversarial_inputs(kernel, np.random.default_rng(0))
    assert arguments.name == "integers" and arguments.is_exact


def test_buffers_lie_where_they_are_asked_to() -> None:
    kernel = check(MATMUL)
    buffers = {t: np.zeros(t.span, np.float32) for t in kernel.backbone.tensors}
    arguments = integer_inputs(kernel, np.random.default_rng(0), buffers.__getitem__)
    assert all(arguments.inputs[t.name] is buffers[t] for t in buffers if not t.is_output)


def test_a_few_elements_far_apart_are_as_large_as_the_memory_between_them() -> None:
    def calls(stride: int) -> int:
        text = f"""
kernel: sparse
backbone: linalg
sizes: {{n: 4}}
tensors:
  x: {{dtype: f32, shape: [n], strides: [{stride}]}}
  y: {{dtype: f32, shape: [n], output: true}}
compute:
  - y[i] = x[i] + 1
"""
        return sum(1 for _ in adversarial_inputs(check(text), np.random.default_rng(0)))

    assert calls(1000) > 1
    assert calls(1 << 21) == 1


def test_integers_that_wrap_around_are_exact_and_no_zeros() -> None:
    """In any order of additions and products they are the same."""
    text = (
        "kernel: k\nbackbone: linalg\nsizes: {n: 100}\n"
        "tensors:\n  x: {dtype: i32, shape: [n]}\n  y: {dtype: i32, shape: [n], output: true}\n"
        "compute: ['y[i] = x[i] * 100000 * 100000']\n"
    )
    kernel = check(text)
    calls = [
        random_inputs(kernel, np.random.default_rng(0)),
        *adversarial_inputs(kernel, np.random.default_rng(0)),
    ]
    assert all(arguments.is_exact for arguments in calls)
    assert {"signs", "mixed magnitudes", "last element", "one element"} <= {a.name for a in calls}
    assert all(len(np.unique(a.inputs["x"])) > 20 for a in calls if a.name == "integers")
