"""The kernels of the comparison on a GPU, and what is aimed at for each on an H200.

Data only: a case names a kernel file and sizes, and says what no code can do without.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

NAIVE, TORCH, COPY = "naive", "torch", "copy"
"""What an aim compares with: the naive kernel, torch (cuBLAS and cuDNN, without TF32), the copy bandwidth."""


@dataclass(frozen=True, slots=True)
class Aim:
    """A peer is to take `ratio` times as long as we do; of a bandwidth, we are to reach that share."""

    ratio: float
    of: str

    def __str__(self) -> str:
        return f"{self.ratio:g} {self.of}"


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    kernel: str
    """Stem of its file in `kernels/library`."""
    sizes: Mapping[str, int]
    """Of the kernel file, over its own."""
    flops: int
    """Of one call, a multiply-add as two."""
    nbytes: int
    """Distinct ones that one call reads and writes."""
    aims: tuple[Aim, ...] = field(default=())
    limit: str = "fma_f32_flops_per_ns"
    """The rate that its operations are bound by."""


def _product(name: str, kernel: str, *aims: Aim, m: int, n: int, k: int) -> Case:
    sizes = {"m": m, "n": n, "k": k}
    return Case(name, kernel, sizes, 2 * m * n * k, 4 * (m * k + k * n + m * n), aims)


def _bf16(n: int, *aims: Aim) -> Case:
    sizes = {"m": n, "n": n, "k": n}
    name, limit = f"matmul-bf16-{n}", "mma_bf16_flops_per_ns"
    return Case(name, "matmul_bf16_tensor", sizes, 2 * n**3, 8 * n * n, aims, limit)


_ROWS, _COLUMNS = 4096, 1024

CASES = (
    Case("axpy", "axpy", {"n": 2**26}, 2 * 2**26, 12 * 2**26, (Aim(0.93, COPY),)),
    _product("matmul-small", "matmul_small", Aim(1.2, TORCH), m=256, n=256, k=32),
    _product("matmul-1024", "matmul", Aim(0.8, TORCH), m=1024, n=1024, k=1024),
    _product("matmul-4096", "matmul", Aim(0.85, TORCH), m=4096, n=4096, k=4096),
    _product("matmul-strided", "matmul_strided", Aim(30, NAIVE), Aim(1.0, TORCH), m=1024, n=1024, k=1024),
    Case(
        "batched-matmul",
        "batched_matmul",
        {"b": 512, "m": 32, "n": 32, "k": 64},
        2 * 512 * 32 * 32 * 64,
        4 * 512 * (2 * 32 * 64 + 32 * 32),
        (Aim(1.5, TORCH),),
    ),
    Case(
        "matvec", "matvec", {"m": 8192, "k": 8192}, 2 * 8192**2, 4 * (8192**2 + 2 * 8192), (Aim(0.95, COPY),)
    ),
    Case("gesummv", "gesummv", {"m": 4096, "n": 4096}, 4 * 4096**2, 4 * (2 * 4096**2 + 2 * 4096)),
    Case(
        "conv2d",
        "conv2d_nhwc",
        {},
        2 * 56 * 56 * 64 * 64 * 9,
        4 * (2 * 56 * 56 * 64 + 9 * 64 * 64),
    ),
    Case(
        "softmax",
        "softmax",
        {"m": _ROWS, "n": _COLUMNS},
        5 * _ROWS * _COLUMNS,
        8 * _ROWS * _COLUMNS,
        (Aim(1.2, TORCH),),
    ),
    _bf16(1024),
    _bf16(4096, Aim(0.5, TORCH)),
)
BY_NAME: Mapping[str, Case] = {case.name: case for case in CASES}
