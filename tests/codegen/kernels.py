"""Kernels that the tests of code generation lower and run."""

from __future__ import annotations

from pathlib import Path

from spacedsl.diagnostics import Source
from spacedsl.kernels.kernel_file import KernelFile, check_kernel
from tests.products import product

AXPY = """
kernel: axpy
backbone: linalg
sizes: {{n: {n}}}
tensors:
  x: {{dtype: f32, shape: [n]}}
  y: {{dtype: f32, shape: [n]}}
  z: {{dtype: f32, shape: [n], output: true}}
params:
  alpha: f32
compute:
  - z[i] = alpha * x[i] + y[i]
tiling: {tiling}
"""

_DOT = """
kernel: dot
backbone: linalg
sizes: {{n: {n}}}
tensors:
  x: {{dtype: {dtype}, shape: [n]}}
  y: {{dtype: {dtype}, shape: [n]}}
  s: {{dtype: {dtype}, shape: [], output: true}}
compute:
  - s = sum[p](x[p] * y[p])
tiling: {tiling}
"""


def parse(text: str) -> KernelFile:
    return check_kernel(Source("kernel.yaml", text), Path("kernel.yaml"), {})


def matmul(m: int, n: int, k: int, tiling: str = "{i: [], j: [], p: []}", dtype: str = "f32") -> KernelFile:
    return parse(product(m, n, k, tiling, dtype))


def axpy(n: int, tiling: str = "{i: []}") -> KernelFile:
    return parse(AXPY.format(n=n, tiling=tiling))


def dot(n: int, tiling: str = "{p: []}", dtype: str = "f32") -> KernelFile:
    return parse(_DOT.format(n=n, tiling=tiling, dtype=dtype))
