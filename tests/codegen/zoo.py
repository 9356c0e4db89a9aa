"""Kernels of many shapes, small enough to be interpreted: what lowering must be able to express."""

from __future__ import annotations

from spacedsl.kernels.kernel_file import KernelFile
from tests.codegen.kernels import axpy, matmul, parse

_TEXTS = {
    "gemm": """
kernel: gemm
backbone: linalg
sizes: {m: 4, n: 8, k: 3}
tensors:
  A: {dtype: f32, shape: [m, k]}
  B: {dtype: f32, shape: [k, n]}
  D: {dtype: f32, shape: [m, n]}
  C: {dtype: f32, shape: [m, n], output: true}
params: {alpha: f32, beta: f32}
compute:
  - C[i, j] = alpha * sum[p](A[i, p] * B[p, j]) + beta * D[i, j]
tiling: {i: [[2]], j: [[4]], p: []}
""",
    "two lines": """
kernel: lines
backbone: linalg
sizes: {n: 12}
tensors:
  x: {dtype: f32, shape: [n]}
  t: {dtype: f32, shape: [n], output: true}
  z: {dtype: f32, shape: [n], output: true}
compute:
  - t[i] = 2 * x[i] - 1
  - z[i] = t[i] * t[i]
tiling: {i: [[2, 4]]}
""",
    "normalised rows": """
kernel: rows
backbone: linalg
sizes: {m: 3, n: 8}
tensors:
  A: {dtype: f64, shape: [m, n]}
  s: {dtype: f64, shape: [m], output: true}
  B: {dtype: f64, shape: [m, n], output: true}
compute:
  - s[i] = sum[j](A[i, j])
  - B[i, j] = A[i, j] - s[i]
tiling: {i: [], j: [[2, 4]]}
""",
    "product of sums": """
kernel: sums
backbone: linalg
sizes: {m: 4, k: 6}
tensors:
  A: {dtype: f32, shape: [m, k]}
  x: {dtype: f32, shape: [k]}
  y: {dtype: f32, shape: [m], output: true}
compute:
  - y[i] = sum[p](A[i, p] * x[p]) * sum[q](x[q])
tiling: {i: [], p: [[2]], q: [[3]]}
""",
    "dot": """
kernel: dot
backbone: linalg
sizes: {n: 24}
tensors:
  x: {dtype: f32, shape: [n]}
  y: {dtype: f32, shape: [n]}
  s: {dtype: f32, shape: [], output: true}
compute:
  - s = sum[p](x[p] * y[p])
tiling: {p: [[2, 3], [2, 4]]}
""",
    "gram": """
kernel: gram
backbone: linalg
sizes: {m: 4, k: 5}
tensors:
  A: {dtype: f32, shape: [m, k]}
  G: {dtype: f32, shape: [m, m], output: true}
compute:
  - G[i, j] = sum[p](A[i, p] * A[j, p])
tiling: {i: [[2]], j: [[2]], p: []}
""",
    "integers": """
kernel: integers
backbone: linalg
sizes: {m: 4, n: 8, k: 3}
tensors:
  A: {dtype: i32, shape: [k, m]}
  B: {dtype: i32, shape: [k, n]}
  C: {dtype: i32, shape: [m, n], strides: [n + 3, 1], output: true}
compute:
  - C[i, j] = sum[p](A[p, i] * B[p, j])
tiling: {i: [[2]], j: [[4, 8]], p: []}
""",
    "outer": """
kernel: outer
backbone: linalg
sizes: {m: 4, n: 8}
tensors:
  x: {dtype: f32, shape: [m]}
  y: {dtype: f32, shape: [n]}
  C: {dtype: f32, shape: [m, n], output: true}
compute:
  - C[i, j] = x[i] * y[j]
tiling: {i: [[2, 4]], j: [[4, 8]]}
""",
    "dot product": """
kernel: dot
backbone: linalg
sizes: {k: 12}
tensors:
  x: {dtype: f32, shape: [k]}
  y: {dtype: f32, shape: [k]}
  z: {dtype: f32, shape: [1], output: true}
compute:
  - z[i] = sum[p](x[p] * y[p])
tiling: {p: [[2, 3], [2]]}
""",
    "quotients": """
kernel: quotients
backbone: linalg
sizes: {n: 8}
tensors:
  x: {dtype: f64, shape: [n]}
  y: {dtype: f64, shape: [n]}
  z: {dtype: f64, shape: [n], output: true}
params: {c: f64}
compute:
  - z[i] = -(x[i] - c) / (y[i] + y[i])
tiling: {i: [[2, 4, 8]]}
""",
    "functions": """
kernel: functions
backbone: linalg
sizes: {n: 8}
tensors:
  x: {dtype: f32, shape: [n]}
  y: {dtype: f64, shape: [n]}
  a: {dtype: f32, shape: [n], output: true}
  b: {dtype: f64, shape: [n], output: true}
compute:
  - a[i] = exp(x[i]) + sigmoid(x[i]) * gelu(x[i]) - max(x[i], 0.5)
  - b[i] = tanh(y[i]) + log(2 + abs(y[i])) * sqrt(abs(y[i])) + min(y[i], 1)
tiling: {i: [[2, 4, 8]]}
""",
    "reductions": """
kernel: reductions
backbone: linalg
sizes: {m: 4, n: 8}
tensors:
  A: {dtype: f32, shape: [m, n]}
  top: {dtype: f32, shape: [m], output: true}
  low: {dtype: f32, shape: [], output: true}
  all: {dtype: f32, shape: [n], output: true}
compute:
  - top[i] = max[j](A[i, j])
  - low = min[i, j](A[i, j] * 2 + 1)
  - all[j] = prod[i](A[i, j])
tiling: {i: [[2]], j: [[4, 8]]}
""",
    "integer reductions": """
kernel: clipped
backbone: linalg
sizes: {m: 4, n: 8}
tensors:
  A: {dtype: i32, shape: [m, n]}
  low: {dtype: i32, shape: [], output: true}
  y: {dtype: i32, shape: [n], output: true}
compute:
  - low = min[i, j](abs(A[i, j]) - 7)
  - y[j] = max[i](max(A[i, j], -3)) + prod[p](relu(min(A[p, j], 2)))
tiling: {i: [[2]], j: [[4, 8]]}
""",
    "ragged lines": """
kernel: ragged
backbone: linalg
sizes: {m: 3, n: 11}
tensors:
  X: {dtype: f32, shape: [m, n]}
  Y: {dtype: f32, shape: [m, n], output: true}
  s: {dtype: f32, shape: [m], output: true}
compute:
  - T[i, j] = X[i, j] * 2
  - top[i] = max[j](T[i, j] - 9)
  - Y[i, j] = T[i, j] - top[i]
  - s[i] = sum[j](Y[i, j])
tiling: {i: [[2]], j: [[4, 5]]}
""",
    "computed operand": """
kernel: computed
backbone: linalg
sizes: {m: 4, n: 8, k: 6}
tensors:
  A: {dtype: f32, shape: [m, k]}
  x: {dtype: f32, shape: [k]}
  B: {dtype: f32, shape: [k, n]}
  C: {dtype: f32, shape: [m, n], output: true}
compute:
  - C[i, j] = sum[p]((A[i, p] - x[p]) * B[p, j])
tiling: {i: [[2]], j: [[2, 4]], p: [[2, 3]]}
""",
    "awkward names": """
kernel: pool
backbone: linalg
sizes: {n: 4}
tensors:
  begin: {dtype: f32, shape: [n]}
  pool_run: {dtype: f32, shape: [n], output: true}
params: {load_begin: f32}
compute:
  - pool_run[i] = load_begin * begin[i]
tiling: {i: [[2]]}
""",
}


def zoo() -> dict[str, KernelFile]:
    """By name; new objects at each call."""
    kernels = {name: parse(text) for name, text in _TEXTS.items()}
    kernels["matmul"] = matmul(8, 16, 6, "{i: [[2, 4]], j: [[4, 8]], p: [[2, 3]]}")
    kernels["copied operands"] = matmul(4, 8, 6, "{i: [[2]], j: [[2, 4]], p: [[2, 3]]}")
    kernels["matmul of single elements"] = matmul(1, 1, 1)
    kernels["ragged matmul"] = matmul(7, 19, 5, "{i: [[2, 4]], j: [[2], [4, 8]], p: [[2, 3]]}")
    kernels["matmul of primes"] = matmul(5, 7, 3)
    kernels["axpy"] = axpy(48, "{i: [[2, 3], [2, 4, 8]]}")
    return kernels
