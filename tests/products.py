"""The product of two matrices as a kernel file, for tests of all packages.

In: sizes, and where they matter tiling, element type and name. Out: text.
"""

from __future__ import annotations


def product(
    m: int, n: int, k: int, tiling: str | None = None, dtype: str = "f32", name: str = "matmul"
) -> str:
    """`C[i, j] = sum[p](A[i, p] * B[p, j])`; without `tiling`, one is inferred."""
    text = f"""\
kernel: {name}
backbone: linalg
sizes: {{m: {m}, n: {n}, k: {k}}}
tensors:
  A: {{dtype: {dtype}, shape: [m, k]}}
  B: {{dtype: {dtype}, shape: [k, n]}}
  C: {{dtype: {dtype}, shape: [m, n], output: true}}
compute:
  - C[i, j] = sum[p](A[i, p] * B[p, j])
"""
    return text if tiling is None else f"{text}tiling: {tiling}\n"
