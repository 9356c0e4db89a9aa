"""PyTorch in eager mode (MKL, oneDNN), with results written in place where an operation offers that."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.cpu.peers import Variant
from benchmarks.cpu.problems import LAYER_NORM_EPSILON, Array, Problem

_Runs = dict[str, Callable[[], object]]


def variants(name: str, sizes: Mapping[str, int], problem: Problem, threads: int) -> dict[str, Variant]:
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    inputs = [torch.from_numpy(array) for array in problem.inputs]
    if name in _RETURNING:
        runs = _RETURNING[name](*inputs)
        return {label: Variant(run, view=_as_array) for label, run in runs.items()}
    out = problem.output()
    runs = _WRITING[name](torch.from_numpy(out), *inputs, *problem.scalars)
    return {label: Variant(run, out) for label, run in runs.items()}


def _as_array(tensor: Tensor) -> Array:
    array: Array = tensor.numpy()
    return array


def _axpy(z: Tensor, x: Tensor, y: Tensor, alpha: float) -> _Runs:
    return {"": lambda: torch.add(y, x, alpha=alpha, out=z)}


def _matmul(c: Tensor, a: Tensor, b: Tensor) -> _Runs:
    return {"": lambda: torch.matmul(a, b, out=c)}


def _matmul_bias_relu(c: Tensor, a: Tensor, b: Tensor, bias: Tensor) -> _Runs:
    return {"": lambda: torch.addmm(bias, a, b, out=c).relu_()}


def _gesummv(y: Tensor, a: Tensor, b: Tensor, x: Tensor, alpha: float, beta: float) -> _Runs:
    def run() -> None:
        torch.mv(a, x, out=y)
        torch.addmv(y, b, x, beta=alpha, alpha=beta, out=y)

    return {"": run}


def _atax(y: Tensor, a: Tensor, x: Tensor) -> _Runs:
    return {"": lambda: torch.mv(a.T, torch.mv(a, x), out=y)}


def _softmax(y: Tensor, x: Tensor) -> _Runs:
    return {"": lambda: torch.softmax(x, 1, out=y)}


def _conv2d(image: Tensor, weights: Tensor) -> _Runs:
    """The image is in NHWC; torch counts channels first, wherever they lie."""
    first = image.permute(0, 3, 1, 2)
    filters = weights.permute(3, 2, 0, 1)
    nhwc = [t.contiguous(memory_format=torch.channels_last) for t in (first, filters)]
    nchw = [t.contiguous() for t in (first, filters)]
    return {
        "NHWC": lambda: functional.conv2d(*nhwc, padding=1).permute(0, 2, 3, 1),
        "NCHW": lambda: functional.conv2d(*nchw, padding=1).permute(0, 2, 3, 1),
    }


def _layer_norm(x: Tensor, gain: Tensor, bias: Tensor) -> _Runs:
    return {"": lambda: functional.layer_norm(x, gain.shape, gain, bias, LAYER_NORM_EPSILON)}


_WRITING: Mapping[str, Callable[..., _Runs]] = {
    "axpy": _axpy,
    "matmul": _matmul,
    "matmul_bias_relu": _matmul_bias_relu,
    "matmul_strided": _matmul,
    "batched_matmul": _matmul,
    "matvec": _matmul,
    "gesummv": _gesummv,
    "atax": _atax,
    "doitgen": _matmul,
    "softmax": _softmax,
}
_RETURNING: Mapping[str, Callable[..., _Runs]] = {"conv2d": _conv2d, "layer_norm": _layer_norm}
