"""NumPy as its users write it, with results written in place; its products are OpenBLAS's."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from benchmarks.cpu.peers import Variant
from benchmarks.cpu.problems import LAYER_NORM_EPSILON, Array, Problem

F = np.float32


def variants(name: str, sizes: Mapping[str, int], problem: Problem, threads: int) -> dict[str, Variant]:
    make = _MAKERS.get(name)
    out = problem.output()
    if make is None:
        return {}
    return {label: Variant(run, out) for label, run in make(problem, out).items()}


_Runs = dict[str, Callable[[], object]]


def _axpy(problem: Problem, z: Array) -> _Runs:
    (x, y), (alpha,) = problem.inputs, problem.scalars

    def run() -> None:
        np.multiply(x, F(alpha), out=z)
        np.add(z, y, out=z)

    return {"": run}


def _matmul(problem: Problem, c: Array) -> _Runs:
    a, b = problem.inputs
    return {"": lambda: np.matmul(a, b, out=c)}


def _matmul_bias_relu(problem: Problem, c: Array) -> _Runs:
    a, b, bias = problem.inputs

    def run() -> None:
        np.matmul(a, b, out=c)
        np.add(c, bias, out=c)
        np.maximum(c, 0, out=c)

    return {"": run}


def _matmul_strided(problem: Problem, c: Array) -> _Runs:
    a, b = problem.inputs
    return {
        "": lambda: np.matmul(a, b, out=c),
        "copied first": lambda: np.matmul(np.ascontiguousarray(a), b, out=c),
    }


def _gesummv(problem: Problem, y: Array) -> _Runs:
    (a, b, x), (alpha, beta) = problem.inputs, problem.scalars
    return {"": lambda: np.add(F(alpha) * (a @ x), F(beta) * (b @ x), out=y)}


def _atax(problem: Problem, y: Array) -> _Runs:
    a, x = problem.inputs
    return {"": lambda: np.matmul(a.T, a @ x, out=y)}


def _doitgen(problem: Problem, s: Array) -> _Runs:
    a, c4 = problem.inputs
    flat, target = a.reshape(-1, a.shape[-1]), s.reshape(-1, a.shape[-1])
    return {"as one product": lambda: np.matmul(flat, c4, out=target)}


def _softmax(problem: Problem, y: Array) -> _Runs:
    (x,) = problem.inputs

    def run() -> None:
        np.subtract(x, x.max(1, keepdims=True), out=y)
        np.exp(y, out=y)
        np.divide(y, y.sum(1, keepdims=True), out=y)

    return {"": run}


def _layer_norm(problem: Problem, y: Array) -> _Runs:
    x, gain, bias = problem.inputs

    def run() -> None:
        np.subtract(x, x.mean(1, keepdims=True), out=y)
        variance = np.einsum("ij,ij->i", y, y)[:, None] / F(x.shape[1])
        np.divide(y, np.sqrt(variance + F(LAYER_NORM_EPSILON)), out=y)
        np.multiply(y, gain, out=y)
        np.add(y, bias, out=y)

    return {"": run}


_MAKERS: Mapping[str, Callable[[Problem, Array], _Runs]] = {
    "axpy": _axpy,
    "matmul": _matmul,
    "matmul_bias_relu": _matmul_bias_relu,
    "matmul_strided": _matmul_strided,
    "batched_matmul": _matmul,
    "matvec": _matmul,
    "gesummv": _gesummv,
    "atax": _atax,
    "doitgen": _doitgen,
    "softmax": _softmax,
    "layer_norm": _layer_norm,
}
