"""Numba on parallel loops, with sums in any order."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numba
import numpy as np
from numba import prange

from benchmarks.cpu.peers import Variant
from benchmarks.cpu.problems import LAYER_NORM_EPSILON, Problem

ZERO = np.float32(0)
EPSILON = np.float32(LAYER_NORM_EPSILON)
_compiled = numba.njit(parallel=True, fastmath=True)


def variants(name: str, sizes: Mapping[str, int], problem: Problem, threads: int) -> dict[str, Variant]:
    function = _FUNCTIONS.get(name)
    if function is None:
        return {}
    numba.set_num_threads(threads)
    out = problem.output()
    inputs, target = list(problem.inputs), out
    if name == "doitgen":
        inputs[0], target = inputs[0].reshape(-1, inputs[1].shape[0]), out.reshape(-1, inputs[1].shape[0])
    scalars = [np.float32(value) for value in problem.scalars]
    return {"": Variant(lambda: function(*inputs, target, *scalars), out)}


@_compiled
def _axpy(x, y, z, alpha):
    for i in prange(x.size):
        z[i] = alpha * x[i] + y[i]


@_compiled
def _matmul(a, b, c):
    for i in prange(a.shape[0]):
        for j in range(b.shape[1]):
            c[i, j] = ZERO
        for p in range(a.shape[1]):
            for j in range(b.shape[1]):
                c[i, j] += a[i, p] * b[p, j]


@_compiled
def _matmul_bias_relu(a, b, bias, c):
    for i in prange(a.shape[0]):
        for j in range(b.shape[1]):
            c[i, j] = bias[j]
        for p in range(a.shape[1]):
            for j in range(b.shape[1]):
                c[i, j] += a[i, p] * b[p, j]
        for j in range(b.shape[1]):
            c[i, j] = max(c[i, j], ZERO)


@_compiled
def _batched_matmul(a, b, c):
    for t in prange(a.shape[0]):
        for i in range(a.shape[1]):
            for j in range(b.shape[2]):
                c[t, i, j] = ZERO
            for p in range(a.shape[2]):
                for j in range(b.shape[2]):
                    c[t, i, j] += a[t, i, p] * b[t, p, j]


@_compiled
def _matvec(a, x, y):
    for i in prange(a.shape[0]):
        total = ZERO
        for p in range(a.shape[1]):
            total += a[i, p] * x[p]
        y[i] = total


@_compiled
def _gesummv(a, b, x, y, alpha, beta):
    for i in prange(a.shape[0]):
        left, right = ZERO, ZERO
        for p in range(a.shape[1]):
            left += a[i, p] * x[p]
            right += b[i, p] * x[p]
        y[i] = alpha * left + beta * right


@_compiled
def _atax(a, x, y):
    result = np.zeros(a.shape[1], np.float32)
    for i in prange(a.shape[0]):
        total = ZERO
        for j in range(a.shape[1]):
            total += a[i, j] * x[j]
        result += a[i] * total
    y[:] = result


@_compiled
def _softmax(x, y):
    for i in prange(x.shape[0]):
        most = x[i, 0]
        for j in range(x.shape[1]):
            most = max(most, x[i, j])
        total = ZERO
        for j in range(x.shape[1]):
            y[i, j] = math.exp(x[i, j] - most)
            total += y[i, j]
        for j in range(x.shape[1]):
            y[i, j] /= total


@_compiled
def _layer_norm(x, gain, bias, y):
    for i in prange(x.shape[0]):
        mean, variance = ZERO, ZERO
        for j in range(x.shape[1]):
            mean += x[i, j]
        mean /= np.float32(x.shape[1])
        for j in range(x.shape[1]):
            variance += (x[i, j] - mean) ** 2
        scale = np.float32(1) / math.sqrt(variance / np.float32(x.shape[1]) + EPSILON)
        for j in range(x.shape[1]):
            y[i, j] = (x[i, j] - mean) * scale * gain[j] + bias[j]


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "axpy": _axpy,
    "matmul": _matmul,
    "matmul_bias_relu": _matmul_bias_relu,
    "matmul_strided": _matmul,
    "batched_matmul": _batched_matmul,
    "matvec": _matvec,
    "gesummv": _gesummv,
    "atax": _atax,
    "doitgen": _matmul,
    "softmax": _softmax,
    "layer_norm": _layer_norm,
}
