"""Test cases of a kernel: inputs, parameters, and what an independent reference says the outputs must be.

In: a kernel file and a random generator. Out: two `Case`s, and their arrays in one shared file that
worker processes read. The first case has values of random sign and size, compared within a tolerance;
the second has small integers, whose sums and products are exact in any order, compared exactly wherever
the kernel's arithmetic allows it.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacedsl.kernels.kernel_file import KernelFile
from spacedsl.kernels.linalg.backbone import (
    DType,
    Instruction,
    Kernel,
    Number,
    Op,
    Operand,
    ParameterValue,
    Tensor,
    Value,
)
from spacedsl.kernels.reference import evaluate, view

Array = NDArray[Any]
Draw = Callable[[int], Array]
"""That many random values."""

NUMPY_TYPES: Mapping[DType, type[Any]] = {DType.F32: np.float32, DType.F64: np.float64, DType.I32: np.int32}
_EXACT_BELOW = {DType.F32: 2**24, DType.F64: 2**53, DType.I32: 2**31}

_LARGEST_RANDOM = 1.5

_PERIOD = 1_000_003
"""Values of large arrays repeat after this many elements: a prime, so that no tile size hides an error."""


@dataclass(frozen=True, slots=True)
class Case:
    """Flat input buffers by tensor, outputs in the shape of their tensors, and how far these may be off."""

    inputs: Mapping[str, Array]
    parameters: Mapping[str, float]
    expected: Mapping[str, Array]
    tolerances: Mapping[str, float]
    """Absolute, by output; 0 asks for equality."""


def random_case(kernel: KernelFile, random: np.random.Generator) -> Case:
    """Random signs and sizes, compared within a tolerance; integers where the kernel has only those."""

    # Magnitudes from 1/2 to `_LARGEST_RANDOM`: no sum loses a term, and quotients stay small.
    def draw(count: int) -> Array:
        values: Array = (random.random(count) + 0.5) * random.choice((-1.0, 1.0), count)
        return values

    has_integers = any(t.dtype is DType.I32 for t in kernel.backbone.tensors)
    return integer_case(kernel, random) if has_integers else _case(kernel, draw, is_exact=False)


def integer_case(kernel: KernelFile, random: np.random.Generator) -> Case:
    """Small integers, compared exactly where no order of evaluation can round."""
    limit = min(_EXACT_BELOW[t.dtype] for t in kernel.backbone.tensors)
    case: Case | None = None
    for magnitude in (4, 2, 1):
        values = np.setdiff1d(np.arange(-magnitude, magnitude + 1), [0])

        def draw(count: int, values: Array = values) -> Array:
            return random.choice(values, count)

        inputs, parameters = _inputs(kernel.backbone, draw)
        is_exact = _is_integral(kernel.backbone) and largest_partial(kernel.backbone, magnitude) < limit
        case = _evaluated(kernel, inputs, parameters, is_exact=is_exact)
        if is_exact:
            break
    assert case is not None
    return case


def _is_integral(kernel: Kernel) -> bool:
    """Whether integers stay integers."""
    numbers = [o.value for i in kernel.instructions for o in i.operands if isinstance(o, Number)]
    return all(n.is_integer() for n in numbers) and all(i.op is not Op.DIV for i in kernel.instructions)


def _case(kernel: KernelFile, draw: Draw, *, is_exact: bool) -> Case:
    inputs, parameters = _inputs(kernel.backbone, draw)
    return _evaluated(kernel, inputs, parameters, is_exact=is_exact)


def _inputs(kernel: Kernel, draw: Draw) -> tuple[dict[str, Array], dict[str, float]]:
    inputs = {t.name: _fill(t, draw) for t in kernel.tensors if not t.is_output}
    parameters = {p.name: float(NUMPY_TYPES[p.dtype](draw(1)[0])) for p in kernel.parameters}
    return inputs, parameters


def _fill(tensor: Tensor, draw: Draw) -> Array:
    """A flat buffer with values for the elements; in gaps between them lie values that must not be read."""
    dtype = NUMPY_TYPES[tensor.dtype]
    values = _repeat(draw(min(tensor.elements, _PERIOD)).astype(dtype), tensor.elements)
    if tensor.span == tensor.elements and _is_packed(tensor):
        return values
    buffer = np.full(tensor.span, np.iinfo(np.int32).max if tensor.dtype is DType.I32 else np.nan, dtype)
    view(tensor, buffer)[...] = values.reshape(tensor.shape)
    return buffer


def _repeat(values: Array, count: int) -> Array:
    result = np.empty(count, values.dtype)
    whole = count // values.size * values.size
    result[:whole].reshape(-1, values.size)[...] = values
    result[whole:] = values[: count - whole]
    return result


def _is_packed(tensor: Tensor) -> bool:
    packed, step = [], 1
    for extent in reversed(tensor.shape):
        packed.append(step)
        step *= extent
    return tuple(reversed(packed)) == tensor.strides


def _evaluated(
    kernel: KernelFile, inputs: Mapping[str, Array], parameters: Mapping[str, float], *, is_exact: bool
) -> Case:
    results = evaluate(kernel, inputs, parameters)
    outputs = [t for t in kernel.backbone.tensors if t.is_output]
    expected = {t.name: np.ascontiguousarray(results[t.name], NUMPY_TYPES[t.dtype]) for t in outputs}
    tolerances = dict.fromkeys(expected, 0.0)
    if not is_exact:
        largest = largest_partial(kernel.backbone, _LARGEST_RANDOM)
        for tensor in outputs:
            tolerances[tensor.name] = _tolerance(kernel, tensor, expected[tensor.name], largest)
    return Case(inputs, parameters, expected, tolerances)


def _tolerance(kernel: KernelFile, tensor: Tensor, expected: Array, largest: float) -> float:
    """Rounding errors of a sum of n values of random sign grow like sqrt(n), relative to its size."""
    if tensor.dtype is DType.I32:
        return 0.0
    terms = reduction_length(kernel.backbone)
    scale = max(float(np.abs(expected).max()), largest / math.sqrt(terms))
    relative = kernel.tolerance
    if relative is None:
        relative = float(np.finfo(NUMPY_TYPES[tensor.dtype]).eps) * (8 + 2 * math.sqrt(terms))
    return relative * scale


def reduction_length(kernel: Kernel) -> int:
    """The most values that one reduction combines."""
    lengths = [1]
    for instruction in kernel.reductions:
        reduced = [g.extent for g in instruction.logical_dims if g.dims[0].is_reduction]
        lengths.append(math.prod(reduced))
    return max(lengths)


def largest_partial(kernel: Kernel, magnitude: float) -> float:
    """A bound on every intermediate result, in any order of evaluation, for inputs of at most this magnitude.

    Quotients are taken to be no larger than twice their numerators: denominators are 1/2 or more.
    """
    made: dict[Instruction, float] = {}
    stored: dict[str, float] = {}

    def bound(operand: Operand) -> float:
        match operand:
            case Number(value):
                return abs(value)
            case ParameterValue():
                return magnitude
            case Value(instruction):
                return made[instruction]
            case _:
                return made[operand.initialiser]

    for instruction in kernel.instructions:
        values = [bound(o) for o in instruction.operands]
        terms = math.prod(g.extent for g in instruction.logical_dims if g.dims[0].is_reduction)
        match instruction.op, values:
            case Op.LOAD, _:
                assert instruction.access is not None
                made[instruction] = stored.get(instruction.access.tensor.name, magnitude)
            case Op.STORE, [a]:
                assert instruction.access is not None
                stored[instruction.access.tensor.name] = a
            case Op.MUL, [a, b]:
                made[instruction] = a * b
            case Op.DIV, [a, _]:
                made[instruction] = 2 * a
            case Op.FMA, [a, b, c]:
                made[instruction] = terms * a * b + c
            case _:
                # Sums, differences and moves; of a reduction, the accumulator is among the operands.
                made[instruction] = terms * sum(values)
    return max([magnitude, *made.values()])


CASES = (random_case, integer_case)
"""In the order in which workers number them."""


# ---- The shared file -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SharedCases:
    """The arrays of all cases in one file without a name, and where each of them lies."""

    descriptor: int
    layout: tuple[dict[str, Any], ...]
    """Plain data for each case: offsets of `inputs` and `expected`, `parameters`, `tolerances`."""

    def close(self) -> None:
        os.close(self.descriptor)


def share(kernel: KernelFile, random: np.random.Generator) -> SharedCases:
    """The cases of a kernel in a file that the caller closes; one at a time is in memory besides."""
    descriptor = os.memfd_create("spacedsl-cases")
    layout: list[dict[str, Any]] = []
    for make in CASES:
        case = make(kernel, random)
        layout.append(
            {
                "inputs": {name: _append(descriptor, array) for name, array in case.inputs.items()},
                "expected": {name: _append(descriptor, array) for name, array in case.expected.items()},
                "parameters": dict(case.parameters),
                "tolerances": dict(case.tolerances),
            }
        )
    return SharedCases(descriptor, tuple(layout))


def _append(descriptor: int, array: Array) -> int:
    """Writes the array at the next page of the file; returns its offset."""
    offset = _round_up(os.fstat(descriptor).st_size)
    data = array.reshape(-1).view(np.uint8).data
    os.ftruncate(descriptor, offset + len(data))
    written = 0
    while written < len(data):
        written += os.pwrite(descriptor, data[written:], offset + written)
    return offset


def _round_up(nbytes: int) -> int:
    return -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
