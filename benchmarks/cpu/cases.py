"""The kernels of the comparison, and what is aimed at for each.

Data only: a case names a kernel file and a problem of `problems.py`, which is to have the sizes of the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Aim:
    """The fastest of these peers (none named: of all) is to take at least `ratio` times as long as we do."""

    ratio: float
    peers: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.ratio:g} {'/'.join(self.peers)}".rstrip()


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    kernel: str
    """Stem of its file in `kernels/library`."""
    problem: str
    sizes: Mapping[str, int]
    """Of the problem."""
    aims: tuple[Aim, ...]
    limit_share: float = 0.0
    """The least share of the physical limit that is aimed at; 0: none is."""
    kernel_sizes: Mapping[str, int] = field(default_factory=dict)
    """Of the kernel file, over its own."""


@dataclass(frozen=True, slots=True)
class _Sized:
    """Cases of one kernel."""

    kernel: str
    problem: str
    aims: tuple[Aim, ...]
    limit_share: float = field(default=0.0)

    def __call__(self, name: str, **sizes: int) -> Case:
        return Case(name, self.kernel, self.problem, sizes, self.aims, self.limit_share)

    def resized(self, name: str, **sizes: int) -> Case:
        """Where the kernel file has other sizes, and calls them as the problem does."""
        return Case(name, self.kernel, self.problem, sizes, self.aims, self.limit_share, sizes)

    def cube(self, n: int) -> Case:
        """A product of square matrices."""
        return self.resized(f"{self.problem}-{n}", m=n, n=n, k=n)


_AXPY = _Sized("axpy", "axpy", (Aim(1.4, ("c", "numba", "torch")),), 0.9)
_SMALL = _Sized("matmul_small", "matmul", (Aim(1.1, ("tvm",)), Aim(1.5, ("torch",))))
_MATMUL = _Sized("matmul", "matmul", (Aim(1.05, ("numpy", "torch")),))
_RELU = _Sized("matmul_bias_relu", "matmul_bias_relu", (Aim(1.0, ("torch",)),))
_STRIDED = _Sized("matmul_strided", "matmul_strided", (Aim(1.2, ("torch",)),))
_BATCHED = _Sized("batched_matmul", "batched_matmul", (Aim(1.3, ("torch",)),))
_CONV = _Sized("conv2d_nhwc", "conv2d", (Aim(1.0, ("torch",)),))
_ROWS = {"m": 4096, "n": 1024}

CASES = (
    _AXPY("axpy", n=2**26),
    _SMALL("matmul-small", m=256, n=256, k=32),
    *map(_MATMUL.cube, (1024, 1000, 1023, 2048)),
    _MATMUL.resized("matmul-long-sums", m=512, n=512, k=16384),
    _RELU("matmul-relu", m=1024, n=1024, k=1024),
    _STRIDED("matmul-strided", m=1024, n=1024, k=1024),
    _BATCHED("batched-matmul", b=512, m=32, n=32, k=64),
    _Sized("matvec", "matvec", (Aim(1.0),))("matvec", m=4096, k=4096),
    _Sized("gesummv", "gesummv", (Aim(1.1),))("gesummv", m=4096, k=4096),
    _Sized("atax", "atax", (Aim(1.0),))("atax", m=4096, n=4096),
    _Sized("doitgen", "doitgen", (Aim(1.0),))("doitgen", r=128, q=128, p=128),
    _CONV("conv2d", h=56, w=56, c=64, f=64),
    _Sized("softmax", "softmax", (Aim(1.2, ("torch",)),))("softmax", **_ROWS),
    _Sized("layer_norm", "layer_norm", (Aim(1.2, ("torch",)),))("layer-norm", **_ROWS),
)
BY_NAME: Mapping[str, Case] = {case.name: case for case in CASES}
