"""A corner of a kernel computes what the kernel does, of fewer elements at the same places."""

from __future__ import annotations

import numpy as np
import pytest

from spacedsl.kernels.corner import corner, enclosing
from spacedsl.kernels.inputs import random_inputs
from spacedsl.kernels.kernel_file import KernelFile, load_kernel
from spacedsl.kernels.reference import evaluate, view
from tests.codegen.kernels import parse
from tests.kernels.samples import LIBRARY

TWICE = """
kernel: twice
backbone: linalg
sizes: {n: 40}
tensors:
  A: {dtype: f32, shape: [n, n]}
  B: {dtype: f32, shape: [n, n]}
  D: {dtype: f32, shape: [n, n], output: true}
compute:
  - T[i, j] = 2 * A[i, j]
  - D[i, j] = sum[p](T[p, i] * B[n - 1 - p, j])
"""


def extents_of(kernel: KernelFile, **wanted: int) -> dict[str, int]:
    whole = kernel.computation.extents
    return enclosing(kernel.computation, lambda index, n: min(whole[index], max(n, wanted.get(index, 1))))


def arrays(kernel: KernelFile) -> dict[str, np.ndarray]:
    return dict(random_inputs(kernel, np.random.default_rng(3)).inputs)


def test_a_corner_of_a_product_is_that_of_corners() -> None:
    kernel = load_kernel(LIBRARY / "matmul.yaml", {"m": 50, "n": 60, "k": 70})
    cut = corner(kernel, {"i": 7, "j": 9, "p": 11})
    assert [(t.shape, t.strides) for t in cut.backbone.tensors] == [
        ((7, 11), (70, 1)), ((11, 9), (60, 1)), ((7, 9), (60, 1))
    ]  # fmt: skip
    inputs = arrays(cut)
    a, b = (view(t, inputs[t.name]).astype(float) for t in cut.backbone.tensors[:2])
    np.testing.assert_allclose(evaluate(cut, inputs, {})["C"], a @ b)
    assert np.isnan(inputs["A"].reshape(-1)[11:70]).all()


def test_what_is_read_has_been_written() -> None:
    kernel = parse(TWICE)
    extents = extents_of(kernel, i=3, j=5, p=8)
    # T is read in 8 rows and 3 columns, and j, which runs over its columns, goes further anyway.
    assert extents == {"i": 8, "j": 8, "p": 8}
    cut = corner(kernel, extents)
    shapes = {t.name: t.shape for t in (*cut.backbone.tensors, *cut.computation.intermediates)}
    assert shapes == {"A": (8, 8), "B": (40, 8), "D": (8, 8), "T": (8, 8)}
    inputs = arrays(cut)
    a, b = (view(t, inputs[t.name]).astype(float) for t in cut.backbone.tensors[:2])
    np.testing.assert_allclose(evaluate(cut, inputs, {})["D"], (2 * a).T @ b[39:31:-1])


def test_zeros_around_an_input_stay_around_it() -> None:
    kernel = load_kernel(LIBRARY / "conv2d_nhwc.yaml", {"y": 20, "x": 30, "c": 4, "f": 8})
    extents = extents_of(kernel, i=5, j=6, o=8, r=3, q=3, p=4)
    cut = corner(kernel, extents)
    image, weights, result = cut.backbone.tensors
    # The zeros are around the corner, too.
    assert image.shape == (1, 5, 6, 4)
    assert result.shape == (1, 5, 6, 8)
    inputs = arrays(cut)
    padded = np.pad(view(image, inputs["I"]).astype(float), [(0, 0), (1, 1), (1, 1), (0, 0)])
    w = view(weights, inputs["W"]).astype(float)
    expected = sum(padded[:, r : r + 5, q : q + 6, :] @ w[r, q] for r in range(3) for q in range(3))
    np.testing.assert_allclose(evaluate(cut, inputs, {})["R"], expected)


@pytest.mark.parametrize("name", ["matmul", "softmax", "two_mm", "conv2d_nchw", "layer_norm", "gemver"])
def test_a_corner_may_be_all_of_it(name: str) -> None:
    kernel = load_kernel(LIBRARY / f"{name}.yaml")
    cut = corner(kernel, kernel.computation.extents)
    assert cut.backbone.tensors == kernel.backbone.tensors
    assert cut.computation == kernel.computation
    assert cut.backbone.scratch == kernel.backbone.scratch
