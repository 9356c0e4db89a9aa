"""Compiled code as a function on NumPy arrays: what it accepts, converts and refuses."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from spacedsl.codegen.c.interface import prototype
from spacedsl.codegen.native import Function, build_function
from spacedsl.diagnostics import Source
from spacedsl.kernels.backbones import check_file
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import numbers
from spacedsl.kernels.kernel_file import check_kernel
from spacedsl.kernels.pipeline.kernel_file import PipelineFile

# Row i of x lies 8 elements after row i - 1: there are gaps.
TEXT = """
kernel: scale
backbone: linalg
sizes: {m: 3, n: 5}
tensors:
  x: {dtype: f32, shape: [m, n], strides: [8, 1]}
  w: {dtype: f64, shape: [n]}
  z: {dtype: f32, shape: [m, n], output: true}
  v: {dtype: f64, shape: [n], output: true}
params: {alpha: f32}
compute:
  - z[i, j] = alpha * x[i, j]
  - v[j] = w[j] + w[j]
"""
BODY = """{
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 5; ++j)
      z[i * 5 + j] = alpha * x[i * 8 + j];
  for (int j = 0; j < 5; ++j)
    v[j] = w[j] + w[j];
}
"""


@pytest.fixture(scope="module")
def scale() -> Function:
    kernel = check_kernel(Source("scale", TEXT), Path("scale.yaml")).backbone
    return build_function(kernel, prototype(kernel.name, kernel.tensors, kernel.parameters) + BODY)


X = np.arange(15, dtype=np.float32).reshape(3, 5)
W = np.linspace(0, 1, 5)


def check(
    outputs: object, x: np.ndarray[tuple[int, int], np.dtype[np.float32]] = X, alpha: float = 0.5
) -> None:
    assert isinstance(outputs, tuple)
    z, v = outputs
    assert (z.dtype, v.dtype) == (np.float32, np.float64)
    np.testing.assert_array_equal(z, np.float32(alpha) * x)
    np.testing.assert_array_equal(v, 2 * W)


def test_a_parameter_may_be_called_self() -> None:
    text = TEXT.replace("params: {alpha: f32}", "params: {self: f32}").replace("alpha * x", "self * x")
    kernel = check_kernel(Source("scale", text), Path("scale.yaml")).backbone
    body = BODY.replace("alpha", "self")
    scaled = build_function(kernel, prototype(kernel.name, kernel.tensors, kernel.parameters) + body)
    z, _ = scaled(X, W, self=2)
    assert np.array_equal(z, 2 * X)


def test_inputs_and_parameters_go_by_position_or_by_name(scale: Function) -> None:
    check(scale(X, W, 0.5))
    check(scale(X, alpha=0.5, w=W))


def test_an_array_with_other_strides_is_copied_and_one_with_these_is_not(scale: Function) -> None:
    check(scale(np.asfortranarray(X), W, 0.5))
    check(scale(X[:, ::-1], W, 0.5), X[:, ::-1])
    wide = np.zeros((3, 8), np.float32)
    wide[:, :5] = X
    check(scale(wide[:, :5], W, 0.5))


def test_other_types_of_the_same_kind_are_converted(scale: Function) -> None:
    check(scale(X.astype(np.float64), W.astype(np.float32).astype(np.float64), np.float64(2)), alpha=2)
    check(scale([list(row) for row in X], W, 2), alpha=2)


@pytest.mark.parametrize("number", [1e300, -1e39, 2**200, 2**2000])
def test_a_number_that_is_too_large_for_its_type_does_not_become_infinite(
    number: float, scale: Function
) -> None:
    with pytest.raises(ValueError, match="`alpha` is of the type f32, which does not hold"):
        scale(X, W, number)
    check(scale(X, W, 2**70), alpha=2.0**70)
    z, _ = scale(X, W, np.inf)
    assert np.isinf(z[X > 0]).all()


def test_the_inputs_are_left_as_they_were(scale: Function) -> None:
    x, w = X.copy(), W.copy()
    scale(x, w, 3)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(w, W)


def room() -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    return np.full((3, 5), np.nan, np.float32), np.full(5, np.nan)


def test_outputs_are_written_where_the_caller_wants_them(scale: Function) -> None:
    out = room()
    returned = scale(X, W, 0.5, out=out)
    assert isinstance(returned, tuple)
    assert all(a is b for a, b in zip(returned, out, strict=True))
    check(out)
    # Rows of a larger array are as good; what lies beside them is left alone.
    large = np.full((9, 5), 7, np.float32)
    check(scale(X, W, 0.5, out=(large[3:6], out[1])))
    assert (large[:3] == 7).all() and (large[6:] == 7).all()


def test_an_output_may_take_the_place_of_an_input_that_was_copied(scale: Function) -> None:
    x = X.copy()
    check(scale(x, W, 0.5, out=(x, room()[1])))
    np.testing.assert_array_equal(x, 0.5 * X)


@pytest.mark.parametrize(
    ("out", "said"),
    [
        (lambda z, v: z, r"a tuple of as many arrays as there are outputs \(z, v\), not one ndarray"),
        (lambda z, v: [z, v], "not one list"),
        (lambda z, v: (z, v, v), "not a tuple of 3"),
        (lambda z, v: (z, v.tolist()), "`out` for `v` must be an array, not list"),
        (lambda z, v: (z.astype(float), v), "`z` must be of the dtype float32, not float64"),
        (lambda z, v: (z.astype(">f4"), v), "`z` must be of the dtype float32, not >f4"),
        (lambda z, v: (z.T, v), r"`z` must be of the shape \(3, 5\), not \(5, 3\)"),
        (lambda z, v: (np.asfortranarray(z), v), r"with the strides \(20, 4\) in bytes, not \(4, 12\)"),
        (lambda z, v: (np.zeros(61, "u1")[1:].view("f4").reshape(3, 5), v), "`z` must be aligned"),
        (lambda z, v: (np.broadcast_to(z[:1], (3, 5)), v), r"not \(0, 4\)"),
        (lambda z, v: (z, np.frombuffer(v.tobytes())), "`v` must be writable"),
        (lambda z, v: (z, W), "`out` for `v` overlaps with `w`"),
        (lambda z, v: (v.base[5:].view("f4")[:15].reshape(3, 5), v), "`out` for `v` overlaps with `z`"),
    ],
)
def test_an_output_that_the_code_cannot_write_to_is_refused_before_it_runs(
    scale: Function, out: Callable[..., Any], said: str
) -> None:
    z, _ = room()
    v = np.zeros(15)[3:8]
    before = W.copy()
    with pytest.raises(ValueError, match=said):
        scale(X, W, 0.5, out=out(z, v))
    assert np.isnan(z).all()
    np.testing.assert_array_equal(W, before)


def test_a_forked_process_is_told_to_load_it_anew(scale: Function) -> None:
    """It has none of the threads that a call waits for."""
    in_child = dataclasses.replace(scale, process=os.getppid())
    with pytest.raises(RuntimeError, match="scale was loaded before this process was forked: load it here"):
        in_child(X, W, 0.5)


def test_wrong_arguments_are_refused_before_the_code_runs(scale: Function) -> None:
    with pytest.raises(TypeError, match=r"scale takes \(x, w, alpha\)"):
        scale(X, W)
    with pytest.raises(TypeError, match="takes"):
        scale(X, W, 0.5, 0.5)
    with pytest.raises(TypeError, match="takes"):
        scale(X, W, 0.5, x=X)
    with pytest.raises(TypeError, match="takes"):
        scale(X, W, 0.5, beta=X)
    with pytest.raises(ValueError, match=r"`x` must have the shape \(3, 5\), not \(5, 3\)"):
        scale(X.T, W, 0.5)
    with pytest.raises(TypeError, match="`x` is of the dtype float32, to which complex64 is not converted"):
        scale(X.astype(np.complex64), W, 0.5)
    with pytest.raises(TypeError, match="`alpha` is of the dtype float32, to which complex128 is not"):
        scale(X, W, 1j)
    with pytest.raises(ValueError, match="`alpha` is a number, not an array"):
        scale(X, W, [0.5])


INTEGERS = """
kernel: raised
backbone: pipeline
inputs: {x: {dtype: u8, extents: [5]}}
params: {more: {dtype: u8, value: 3}}
stages: |
  y(i) = i32(x(i)) + i32(more)
outputs: {y: {i: 5}}
"""


@pytest.fixture(scope="module")
def raised() -> Function:
    kernel = check_file(Source("raised", INTEGERS), Path("raised.yaml"))
    assert isinstance(kernel, PipelineFile)
    body = "{ for (int i = 0; i < 5; ++i) y[i] = x[i] + more; }"
    entry = prototype(kernel.name, kernel.tensors, kernel.parameters)
    return build_function(kernel, f"#include <stdint.h>\n{entry}{body}")


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.uint64, np.int8])
def test_integers_that_fit_are_converted(dtype: type, raised: Function) -> None:
    found = raised(np.arange(5).astype(dtype), 3)
    np.testing.assert_array_equal(found, [3, 4, 5, 6, 7])


def test_integers_that_do_not_fit_and_floats_in_their_place_are_refused(raised: Function) -> None:
    x = np.arange(5, dtype=np.uint8)
    with pytest.raises(ValueError, match="`x` is of the dtype uint8, which does not hold 256"):
        raised(np.arange(252, 257), 3)
    with pytest.raises(ValueError, match="`x` is of the dtype uint8, which does not hold -1"):
        raised([0, 1, -1, 2, 3], 3)
    with pytest.raises(ValueError, match="`more` is of the dtype uint8, which does not hold 300"):
        raised(x, 300)
    with pytest.raises(TypeError, match="`x` is of the dtype uint8, to which float64 is not converted"):
        raised(x / 1, 3)
    with pytest.raises(TypeError, match="`more` is of the dtype uint8, to which float64 is not converted"):
        raised(x, 0.5)


@pytest.mark.parametrize("number", [2**70, -(2**70)])
def test_integers_that_no_array_holds_are_refused_by_their_size(number: int, raised: Function) -> None:
    with pytest.raises(ValueError, match=f"`more` is of the dtype uint8, which does not hold {number}"):
        raised(np.arange(5, dtype=np.uint8), number)
    with pytest.raises(ValueError, match="`x` is of the dtype uint8, which does not hold"):
        raised([number] * 5, 3)


def test_it_shows_itself_as_its_prototype(scale: Function) -> None:
    assert repr(scale).startswith(
        "<void scale(const float *restrict x, const double *restrict w, float *restrict z"
    )


@pytest.fixture(scope="module")
def halves() -> Function:
    """z = x, which is bf16, and v = w, which is f16."""
    text = TEXT.replace("dtype: f32", "dtype: bf16").replace("dtype: f64", "dtype: f16")
    text = text.replace("alpha * x", "x").replace("w[j] + w[j]", "w[j]").replace("params: {alpha: f32}\n", "")
    kernel = check_kernel(Source("scale", text), Path("scale.yaml")).backbone
    entry = prototype(kernel.name, kernel.tensors, kernel.parameters)
    body = BODY.replace("alpha * x", "x").replace("w[j] + w[j]", "w[j]")
    return build_function(kernel, f"#include <stdint.h>\n{entry}{body}")


def test_bf16_is_given_as_bits_or_rounded_from_numbers(halves: Function) -> None:
    bits, weights = np.arange(15, dtype=np.uint16).reshape(3, 5) * 1000, W.astype(np.float16)
    as_floats = numbers(DType.BF16, bits)
    for given in (bits, as_floats, as_floats.astype(np.float64), bits.view(ml_dtypes.bfloat16)):
        found = halves(given, weights)
        assert isinstance(found, tuple)
        assert [array.dtype.name for array in found] == ["uint16", "float16"]
        np.testing.assert_array_equal(found[0], bits)
        np.testing.assert_array_equal(found[1], weights)
    out = (np.empty((3, 5), ml_dtypes.bfloat16), np.empty(W.shape, np.float16))
    halves(bits, weights, out=out)
    np.testing.assert_array_equal(out[0].view(np.uint16), bits)
    rounded = halves(np.full((3, 5), 1 + 2.0**-8), W)[0]
    np.testing.assert_array_equal(rounded, np.full((3, 5), 0x3F80))


@pytest.mark.parametrize("dtype", ["i4", "u4", "u1", "bool"])
def test_integers_are_no_bf16(dtype: str, halves: Function) -> None:
    with pytest.raises(TypeError, match="`x` is bf16: bits are uint16"):
        halves(np.ones((3, 5), dtype), W)
