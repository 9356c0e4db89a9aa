"""Kernel files for the tests of this folder, as text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from spacedsl.diagnostics import Source
from spacedsl.kernels.kernel_file import KernelFile, check_kernel

LIBRARY = Path(__file__).resolve().parents[2] / "kernels" / "library"

MATMUL = """\
kernel: matmul
backbone: linalg
sizes: {m: 64, n: 48, k: 32}
tensors:
  A: {dtype: f32, shape: [m, k]}
  B: {dtype: f32, shape: [k, n]}
  C: {dtype: f32, shape: [m, n], output: true}
compute:
  - C[i, j] = sum[p](A[i, p] * B[p, j])
"""


def check(text: str, sizes: Mapping[str, int] | None = None) -> KernelFile:
    return check_kernel(Source("test.yaml", text), Path("test.yaml"), sizes or {})


def changed(*edits: tuple[str, str], text: str = MATMUL) -> str:
    """The text after replacements, each of which must apply."""
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text
