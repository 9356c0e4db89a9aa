"""Values for a kernel's inputs: random ones, and hard ones whose results can be compared exactly.

In: a kernel file and a random generator. Out: `Arguments`. Buffers are flat, of `tensor.span` elements; the
gaps between strided elements hold what must never be read (NaN, or the greatest integer). What the outputs
should be is the business of `reference.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacedsl.kernels.expression import Binary, Constant, walk
from spacedsl.kernels.kernel_file import KernelFile
from spacedsl.kernels.linalg.backbone import DType, Parameter, Tensor
from spacedsl.kernels.reference import greatest_magnitude, view

Array = NDArray[Any]
Draw = Callable[[int], Array]
"""That many values."""

NUMPY_TYPE: Mapping[DType, type[Any]] = {DType.F32: np.float32, DType.F64: np.float64, DType.I32: np.int32}

EXACT_BELOW: Mapping[DType, int] = {DType.F32: 2**24, DType.F64: 2**53, DType.I32: 2**31}
"""Integers of smaller magnitude are exact in every order of additions."""

LARGEST_INTEGER = 64
"""Of integer inputs: small enough that products of two of them, summed a thousand times, are exact in f32."""


@dataclass(frozen=True, slots=True, eq=False)
class Arguments:
    """One call: a flat buffer for each input, a value for each parameter."""

    name: str
    inputs: Mapping[str, Array]
    parameters: Mapping[str, float]
    is_exact: bool
    """Whether every correct program gives exactly the reference's results, in whatever order it adds."""


def random_inputs(kernel: KernelFile, rng: np.random.Generator) -> Arguments:
    """Floats between -1 and 1; integers, where the dtype asks for them, as `integer_inputs` gives them."""
    if any(t.dtype is DType.I32 for t in kernel.backbone.tensors):
        return integer_inputs(kernel, rng)
    return _arguments(kernel, "random", lambda count: rng.uniform(-1.0, 1.0, count))


def integer_inputs(kernel: KernelFile, rng: np.random.Generator) -> Arguments:
    """Random integers, as large as exact results allow; mostly zeros where even ones would sum up too far."""
    share = 1.0
    largest = LARGEST_INTEGER
    while True:
        arguments = _arguments(kernel, "integers", _Integers(rng, largest, share))
        if arguments.is_exact or not _is_integral(kernel) or share < 1e-9:
            return arguments
        if largest > 1:
            largest //= 2
        else:
            share /= 4


def adversarial_inputs(kernel: KernelFile, rng: np.random.Generator) -> Iterator[Arguments]:
    """Calls that single out mistakes: of indexing, of sign, of accumulation, of boundaries between tiles."""
    usual = integer_inputs(kernel, rng)
    yield usual
    bound = max(
        (int(np.nanmax(np.abs(a.astype(np.float64)), initial=1)) for a in _elements(kernel, usual)), default=1
    )
    yield _arguments(kernel, "zeros", np.zeros)
    yield _arguments(kernel, "signs", lambda count: 1 - 2 * (np.arange(count) % 2))
    yield _arguments(kernel, "mixed magnitudes", lambda count: np.where(rng.random(count) < 1 / 64, bound, 1))
    yield _arguments(kernel, "last element", lambda count: np.arange(count) == count - 1)
    yield _arguments(kernel, "one element", lambda count: np.arange(count) == rng.integers(count))


@dataclass(frozen=True, slots=True)
class _Integers:
    """Draws integers other than zero up to `largest`; all but a share of them are then zeros."""

    rng: np.random.Generator
    largest: int
    share: float

    def __call__(self, count: int) -> Array:
        values: Array = self.rng.integers(1, self.largest + 1, count) * self.rng.choice((-1, 1), count)
        if self.share < 1.0:
            values *= self.rng.random(count) < self.share
        return values


def _arguments(kernel: KernelFile, name: str, draw: Draw) -> Arguments:
    backbone = kernel.backbone
    inputs = {t.name: _buffer(t, draw(t.elements)) for t in backbone.tensors if not t.is_output}
    parameters = {p.name: _scalar(p, name, draw) for p in backbone.parameters}
    limit = min(EXACT_BELOW[t.dtype] for t in backbone.tensors)
    is_exact = (
        name != "random" and _is_integral(kernel) and greatest_magnitude(kernel, inputs, parameters) < limit
    )
    return Arguments(name, inputs, parameters, is_exact)


def _scalar(parameter: Parameter, name: str, draw: Draw) -> float:
    """A parameter that is zero hides everything that it multiplies, but where zeros are the point."""
    value = NUMPY_TYPE[parameter.dtype](np.asarray(draw(1))[0])
    return float(value) if value or name == "zeros" else 1.0


def _buffer(tensor: Tensor, values: Array) -> Array:
    dtype = NUMPY_TYPE[tensor.dtype]
    gap = np.iinfo(np.int32).max if tensor.dtype is DType.I32 else np.nan
    buffer = np.full(tensor.span, gap, dtype)
    view(tensor, buffer)[...] = values.reshape(tensor.shape)
    return buffer


def _elements(kernel: KernelFile, arguments: Arguments) -> Iterator[Array]:
    for tensor in kernel.backbone.tensors:
        if not tensor.is_output:
            yield view(tensor, arguments.inputs[tensor.name])


def _is_integral(kernel: KernelFile) -> bool:
    """Whether integers stay integers: no fractions, no quotients."""
    nodes = [n for line in kernel.computation.assignments for n in walk(line.value)]
    has_fraction = any(isinstance(n, Constant) and n.value != int(n.value) for n in nodes)
    return not has_fraction and not any(isinstance(n, Binary) and n.operator == "/" for n in nodes)
