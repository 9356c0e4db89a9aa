"""What every kernel of the library computes, as NumPy says it: written by hand, apart from kernel files.

Inputs come as arrays in their shapes, parameters as numbers; the result is the output, or a tuple of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Values = Mapping[str, Any]


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def gelu(x: Array) -> Array:
    return np.asarray(x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


def convolution(image: Array, weights: Array, stride: int, zeros: int) -> Array:
    """[n, h, w, c] with [r, q, c, f], one tap after the other."""
    rows, columns = weights.shape[:2]
    padded = np.pad(image, ((0, 0), (zeros, zeros), (zeros, zeros), (0, 0)))
    height = (padded.shape[1] - rows) // stride + 1
    width = (padded.shape[2] - columns) // stride + 1
    result = np.zeros((image.shape[0], height, width, weights.shape[3]))
    for r, q in itertools.product(range(rows), range(columns)):
        bottom, right = r + stride * (height - 1) + 1, q + stride * (width - 1) + 1
        result += padded[:, r:bottom:stride, q:right:stride, :] @ weights[r, q]
    return result


def first_channels(t: Values) -> Array:
    last = convolution(t["I"].transpose(0, 2, 3, 1), t["W"].transpose(2, 3, 1, 0), 1, 1)
    return last.transpose(0, 3, 1, 2)


def gemver(t: Values, p: Values) -> tuple[Array, ...]:
    b = t["A"] + np.outer(t["u"], t["v"]) + np.outer(t["r"], t["s"])
    x = p["beta"] * t["y"] @ b + t["z"]
    return b, x, p["alpha"] * b @ x


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def layer_norm(t: Values) -> Array:
    x = t["X"]
    normal = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 0.00001)
    return np.asarray(normal * t["g"] + t["b"])


DIRECT: dict[str, Callable[[Values, Values], Any]] = {
    "axpy": lambda t, p: p["alpha"] * t["x"] + t["y"],
    "scal_add": lambda t, p: p["alpha"] * t["x"] + p["beta"] * t["y"],
    "dot": lambda t, _: t["x"] @ t["y"],
    "matmul": lambda t, _: t["A"] @ t["B"],
    "matmul_small": lambda t, _: t["A"] @ t["B"],
    "matmul_tn": lambda t, _: t["A"].T @ t["B"],
    "matmul_nt": lambda t, _: t["A"] @ t["B"].T,
    "matmul_tt": lambda t, _: t["A"].T @ t["B"].T,
    "matmul_deep": lambda t, _: np.tensordot(t["A"], t["B"], 2),
    "matmul_strided": lambda t, _: t["A"] @ t["B"],
    "matmul_colmajor": lambda t, _: t["A"] @ t["B"],
    "matmul_f64": lambda t, _: t["A"] @ t["B"],
    "matmul_i32": lambda t, _: t["A"] @ t["B"],
    "matmul_bias_relu": lambda t, _: np.maximum(t["A"] @ t["B"] + t["b"], 0),
    "matmul_bias_sigmoid": lambda t, _: sigmoid(t["A"] @ t["B"] + t["b"]),
    "matmul_bias_gelu": lambda t, _: gelu(t["A"] @ t["B"] + t["b"]),
    "batched_matmul": lambda t, _: t["A"] @ t["B"],
    "batched_matmul_shared": lambda t, _: t["A"] @ t["B"],
    "two_mm": lambda t, p: p["alpha"] * t["A"] @ t["B"] @ t["C"] + p["beta"] * t["E"],
    "three_mm": lambda t, _: (t["A"] @ t["B"]) @ (t["C"] @ t["D"]),
    "chain_sigmoid": lambda t, p: sigmoid(p["alpha"] * t["A"] @ t["B"] @ t["C"] + p["beta"] * t["D"]),
    "doitgen": lambda t, _: t["A"] @ t["C"],
    "matvec": lambda t, _: t["A"] @ t["x"],
    "matvec_t": lambda t, _: t["A"].T @ t["x"],
    "outer": lambda t, _: np.outer(t["a"], t["b"]),
    "ger": lambda t, p: t["A"] + p["alpha"] * np.outer(t["x"], t["y"]),
    "gesummv": lambda t, p: p["alpha"] * t["A"] @ t["x"] + p["beta"] * t["B"] @ t["x"],
    "gemver": gemver,
    "atax": lambda t, _: t["A"].T @ (t["A"] @ t["x"]),
    "bicg": lambda t, _: (t["A"].T @ t["r"], t["A"] @ t["p"]),
    "mvt": lambda t, _: (t["x"] + t["A"] @ t["y"], t["u"] + t["A"].T @ t["v"]),
    "conv2d_nhwc": lambda t, _: convolution(t["I"], t["W"], 1, 1),
    "conv2d_nhwc_strided": lambda t, _: convolution(t["I"], t["W"], 2, 1),
    "conv2d_nchw": lambda t, _: first_channels(t),
    "conv2d_valid": lambda t, _: convolution(t["I"], t["W"], 1, 0),
    "max_pool": lambda t, _: np.lib.stride_tricks.sliding_window_view(t["I"], (3, 3), axis=(1, 2))[
        :, ::2, ::2
    ].max(axis=(-2, -1)),
    "softmax": lambda t, _: softmax(t["X"]),
    "layer_norm": lambda t, _: layer_norm(t),
    "transpose": lambda t, _: t["A"].T,
    "elementwise": lambda t, _: (
        np.tanh(t["x"] * t["y"]) + np.maximum(t["x"] - t["y"], 0) / (1 + np.abs(t["y"]))
    ),
    "row_sum": lambda t, _: t["A"].sum(axis=1),
    "column_sum": lambda t, _: t["A"].sum(axis=0),
    "column_max": lambda t, _: t["A"].max(axis=0),
    "sum_all": lambda t, _: t["A"].sum(),
    "max_all": lambda t, _: t["A"].max(),
    "middle_sum": lambda t, _: t["A"].sum(axis=1),
    "column_sum_i32": lambda t, _: t["A"].sum(axis=0),
    "row_max_i32": lambda t, _: t["A"].max(axis=1),
    "outer_min_i32": lambda t, _: t["A"].min(axis=(0, 2)),
    "einsum": lambda t, _: np.einsum("bik,kjl,bl->bij", t["A"], t["B"], t["C"]),
    "axpy_f64": lambda t, p: p["alpha"] * t["x"] + t["y"],
    "axpy_i32": lambda t, p: int(p["alpha"]) * t["x"] + t["y"],
    "axpy_bf16": lambda t, p: p["alpha"] * t["x"] + t["y"],
    "dot_f64": lambda t, _: t["x"] @ t["y"],
    "dot_f32_f64": lambda t, _: t["x"] @ t["y"],
    "matvec_f64": lambda t, _: t["A"] @ t["x"],
    "matvec_i32": lambda t, _: t["A"] @ t["x"],
    "matmul_bf16": lambda t, _: t["A"] @ t["B"],
    "matmul_bf16_tensor": lambda t, _: t["A"] @ t["B"],
    "matmul_f16": lambda t, _: t["A"] @ t["B"],
    "matmul_bias_gelu_bf16": lambda t, _: gelu(t["A"] @ t["B"] + t["b"]),
    "softmax_bf16": lambda t, _: softmax(t["X"]),
    "transpose_bf16": lambda t, _: t["A"].T,
}

FIXED = ("taps", "stride", "zeros")
"""Sizes that belong to what is computed."""


def swept_sizes(sizes: Mapping[str, int], smallest: int, step: int = 3) -> dict[str, int]:
    """Sizes from `smallest` on, no two alike unless `step` is 0."""
    free = [name for name in sizes if name not in FIXED]
    return {name: smallest + step * n for n, name in enumerate(free)}
