"""The data of each case and what is to come out, in NumPy alone: the same for the product and for every peer.

In: the name of a problem and its sizes. Out: a `Problem`. All operands begin with a page and are filled from
one seed. References are computed in 64 bits. Needs nothing of the product, so that peers can live in another
environment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.arrays import aligned

Array = NDArray[Any]

_STRIDE = 32
"""Elements between neighbours in the operand of `matmul_strided`."""

EPSILON = 2.0**-24
"""Of one rounding to f32."""


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Operands, scalars and the expected result of one call; work and traffic that no code can do without."""

    inputs: tuple[Array, ...]
    scalars: tuple[float, ...]
    expected: Array
    terms: int
    """Of the sum that an element of the result is, if it is one; each is at most 1."""
    flops: int

    @property
    def read_bytes(self) -> int:
        return sum(array.nbytes for array in self.inputs)

    @property
    def written_bytes(self) -> int:
        return 4 * self.expected.size

    @property
    def signature(self) -> str:
        """Shapes of operands and result, for a message."""
        shapes = " ".join(str(array.shape) for array in self.inputs)
        return f"{shapes} {len(self.scalars)} -> {self.expected.shape}"

    def output(self) -> Array:
        """Room for the result."""
        return aligned(self.expected.shape)

    def error(self, result: Array) -> str:
        """What is wrong with a result; empty: nothing.

        An element may be off by two roundings to 1 for each term, or by 64 roundings of the greatest result.
        Leaving out one product of operands between -1 and 1 is far above that.
        """
        if result.shape != self.expected.shape:
            return f"its shape is {result.shape}, not {self.expected.shape}"
        allowed = EPSILON * max(2 * self.terms, 64 * float(np.abs(self.expected).max()))
        worst = 0.0
        for got, wanted in zip(_blocks(result), _blocks(self.expected), strict=True):
            off = float(np.abs(got - wanted).max())
            if math.isnan(off):
                return "it is not a number somewhere"
            worst = max(worst, off)
        return "" if worst <= allowed else f"it is off by {worst:.2g}, where {allowed:.2g} is allowed"


def _blocks(array: Array) -> list[Array]:
    return np.array_split(array.reshape(-1), 1 + array.size // 2**22)


def make(name: str, sizes: Mapping[str, int]) -> Problem:
    return _MAKERS[name](_Random(), **sizes)


class _Random:
    """Arrays of numbers from -1 to 1."""

    def __init__(self) -> None:
        self._generator = np.random.default_rng(0)

    def __call__(self, *shape: int) -> Array:
        array = aligned(shape)
        for block in _blocks(array):
            block[:] = self._generator.uniform(-1, 1, block.size)
        return array


def _wide(*arrays: Array) -> list[Array]:
    return [array.astype(np.float64) for array in arrays]


def _axpy(random: _Random, n: int) -> Problem:
    x, y = random(n), random(n)
    alpha = 2.5
    expected = np.empty(n, np.float32)
    for at in range(0, n, 2**22):
        part = slice(at, at + 2**22)
        expected[part] = alpha * x[part].astype(np.float64) + y[part]
    return Problem((x, y), (alpha,), expected, 2, 2 * n)


def _product(a: Array, b: Array) -> Problem:
    terms = a.shape[-1]
    wide = np.matmul(*_wide(a, b))
    return Problem((a, b), (), wide, terms, 2 * terms * wide.size)


def _matmul(random: _Random, m: int, n: int, k: int) -> Problem:
    return _product(random(m, k), random(k, n))


def _matmul_bias_relu(random: _Random, m: int, n: int, k: int) -> Problem:
    """A bias for each column."""
    a, b, bias = random(m, k), random(k, n), random(n)
    product = _product(a, b)
    expected = np.maximum(product.expected + bias, 0)
    return Problem((a, b, bias), (), expected, k + 1, product.flops + 2 * m * n)


def _matmul_strided(random: _Random, m: int, n: int, k: int) -> Problem:
    return _product(random(m, k, _STRIDE)[:, :, 0], random(k, n))


def _batched_matmul(random: _Random, b: int, m: int, n: int, k: int) -> Problem:
    return _product(random(b, m, k), random(b, k, n))


def _matvec(random: _Random, m: int, k: int) -> Problem:
    return _product(random(m, k), random(k))


def _gesummv(random: _Random, m: int, k: int) -> Problem:
    alpha, beta = 0.5, 0.25
    a, b, x = random(m, k), random(m, k), random(k)
    wide_a, wide_b, wide_x = _wide(a, b, x)
    expected = alpha * (wide_a @ wide_x) + beta * (wide_b @ wide_x)
    return Problem((a, b, x), (alpha, beta), expected, 2 * k, 4 * m * k)


def _atax(random: _Random, m: int, n: int) -> Problem:
    a, x = random(m, n), random(n)
    wide_a, wide_x = _wide(a, x)
    return Problem((a, x), (), wide_a.T @ (wide_a @ wide_x), m + n, 4 * m * n)


def _doitgen(random: _Random, r: int, q: int, p: int) -> Problem:
    return _product(random(r, q, p), random(p, p))


def _conv2d(random: _Random, h: int, w: int, c: int, f: int) -> Problem:
    """One image in NHWC, with zeros around it; 3 x 3 weights in HWIO."""
    image, weights = random(1, h, w, c), random(3, 3, c, f)
    wide, kernel = _wide(image, weights)
    wide = np.pad(wide, ((0, 0), (1, 1), (1, 1), (0, 0)))
    expected = sum(wide[:, i : i + h, j : j + w] @ kernel[i, j] for i in range(3) for j in range(3))
    return Problem((image, weights), (), np.asarray(expected), 9 * c, 18 * h * w * c * f)


def _softmax(random: _Random, m: int, n: int) -> Problem:
    """Over each row; an exponential is counted as one operation."""
    x = random(m, n)
    (wide,) = _wide(x)
    powers = np.exp(wide - wide.max(1, keepdims=True))
    return Problem((x,), (), powers / powers.sum(1, keepdims=True), 0, 5 * m * n)


def _layer_norm(random: _Random, m: int, n: int) -> Problem:
    """Over each row, with a gain and a bias for each column."""
    x, gain, bias = random(m, n), random(n), random(n)
    wide, wide_gain, wide_bias = _wide(x, gain, bias)
    centred = wide - wide.mean(1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(1, keepdims=True) + LAYER_NORM_EPSILON)
    return Problem((x, gain, bias), (), centred / deviation * wide_gain + wide_bias, 0, 8 * m * n)


LAYER_NORM_EPSILON = 1e-5

_MAKERS: Mapping[str, Callable[..., Problem]] = {
    "axpy": _axpy,
    "matmul": _matmul,
    "matmul_bias_relu": _matmul_bias_relu,
    "matmul_strided": _matmul_strided,
    "batched_matmul": _batched_matmul,
    "matvec": _matvec,
    "gesummv": _gesummv,
    "atax": _atax,
    "doitgen": _doitgen,
    "conv2d": _conv2d,
    "softmax": _softmax,
    "layer_norm": _layer_norm,
}
