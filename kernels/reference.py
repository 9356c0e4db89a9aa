"""What a kernel should compute: its `compute:` lines evaluated with NumPy in 64 bits.

In: a kernel file, arrays for its inputs, values for its parameters. Out: one array for each output. It
follows the syntax tree and knows neither the backbone's instructions nor generated code, so that it can judge
both.
Sums of products go through `einsum` (a product of 1024 x 1024 matrices takes about 0.1 s); anything else is
broadcast, in blocks where it is large.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from spacedsl.kernels.computation import Computation
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.expression import (
    Assignment,
    Binary,
    Call,
    Constant,
    Expression,
    Name,
    Negation,
    Read,
    Reduction,
    indices_of,
    walk,
)
from spacedsl.kernels.formats import elements, numbers
from spacedsl.kernels.kernel_file import KernelFile
from spacedsl.kernels.tensors import Tensor

Array = NDArray[Any]

Watch = Callable[[Expression, Array], None]
"""Sees an expression and values of it."""

MOST_BROADCAST = 2**22
"""Elements of an intermediate array; what is larger is computed in blocks."""

MOST_ELEMENTWISE = 2**17
"""The same for lines without sums: arrays that are so small stay in a cache, and their memory is used again
instead of being mapped, cleared and unmapped for each operation (2**26 elements: 0.4 s instead of 2.4 s)."""

MOST_EXACT = 2**53
"""Integers below it are exact in float64, whose products of matrices are faster than those of integers."""


def view(tensor: Tensor, buffer: Array) -> Array:
    """The elements of a tensor, in its shape, inside a flat buffer of at least `tensor.span` elements."""
    if buffer.ndim != 1 or buffer.size < tensor.span:
        raise ValueError(f"`{tensor.name}` needs a flat buffer of {tensor.span} elements, not {buffer.shape}")
    strides = tuple(s * buffer.itemsize for s in tensor.strides)
    step = buffer.strides[0] // buffer.itemsize if buffer.size > 1 else 1
    return as_strided(buffer, tensor.shape, tuple(s * step for s in strides))


def evaluate(
    kernel: KernelFile,
    inputs: Mapping[str, Array],
    parameters: Mapping[str, float],
    into: Mapping[str, Array] = MappingProxyType({}),
    watch: Watch | None = None,
) -> dict[str, Array]:
    """The outputs, each an array of its tensor's shape: float64 for floats, int64 for integers.

    An input is a flat buffer of `tensor.span` elements, or an array of the tensor's shape.
    Integer results are those of exact arithmetic, as long as they fit 64 bits.
    An output that has an array in `into` is rounded to its elements, in blocks, and is that array.
    `watch` sees the values of every expression, a block at a time.
    """
    return _evaluate(kernel, inputs, parameters, watch, into)


def greatest_magnitude(
    kernel: KernelFile, inputs: Mapping[str, Array], parameters: Mapping[str, float]
) -> float:
    """The largest that a partial result can be in any order of evaluation, for these inputs.

    Evaluates with the magnitudes of all values and with additions for subtractions, so that every partial
    sum is at most its final one. Quotients are not bounded by it.
    """
    largest = 0.0

    def watch(node: Expression, values: Array) -> None:
        nonlocal largest
        if values.size and not isinstance(node, Constant):
            largest = max(largest, float(values.max()))

    dtypes = {t.name: t.dtype for t in kernel.backbone.tensors}
    magnitudes = {name: np.abs(numbers(dtypes[name], array)) for name, array in inputs.items()}
    absolute = {name: abs(p) for name, p in parameters.items()}
    _evaluate(kernel, magnitudes, absolute, watch, is_magnitude=True)
    return largest


def _evaluate(
    kernel: KernelFile,
    inputs: Mapping[str, Array],
    parameters: Mapping[str, float],
    watch: Watch | None,
    into: Mapping[str, Array] = MappingProxyType({}),
    *,
    is_magnitude: bool = False,
) -> dict[str, Array]:
    values: dict[str, Array] = {}
    for tensor in kernel.backbone.tensors:
        if not tensor.is_output:
            given = inputs[tensor.name]
            values[tensor.name] = given if given.shape == tensor.shape else view(tensor, given)
            if tensor.pad:
                values[_padded(tensor.name)] = np.pad(values[tensor.name], [(p, p) for p in tensor.pad])
    intermediates = kernel.computation.intermediates
    tensors = {t.name: t for t in (*kernel.backbone.tensors, *intermediates)}
    for line in kernel.computation.assignments:
        name = line.target.tensor
        evaluator = _Evaluator(values, parameters, kernel.computation, tensors, name, watch, is_magnitude)
        values[name] = evaluator.assignment(line, into.get(name))
    return {t.name: values[t.name] for t in kernel.backbone.tensors if t.is_output}


@dataclass(frozen=True, slots=True)
class _Labelled:
    """An array and the index that each of its axes runs over, no index twice."""

    array: Array
    indices: tuple[str, ...]


Ranges = Mapping[str, slice]
"""The part of an index that is being computed; all of it for those that are absent."""


class _Evaluator:
    """Evaluates one line, showing every result to `watch`; with `is_magnitude`, as magnitudes."""

    def __init__(
        self,
        values: Mapping[str, Array],
        parameters: Mapping[str, float],
        computation: Computation,
        tensors: Mapping[str, Tensor],
        target: str,
        watch: Watch | None,
        is_magnitude: bool,
    ) -> None:
        self.values = values
        self.parameters = parameters
        self.extents = computation.extents
        self.tensors = tensors
        self.target = tensors[target]
        self.type = np.int64 if computation.computed_in[target] is DType.I32 else np.float64
        self.watch = watch
        self.is_magnitude = is_magnitude

    def assignment(self, line: Assignment, result: Array | None) -> Array:
        """The whole target, a block of its first index at a time where it is large."""
        indices = line.target.indices
        shape = tuple(self.extents[i] for i in indices)
        is_rounded = result is not None
        if result is None:
            result = np.empty(shape, self.type)
        if not indices:
            self.put(line, result, self.value(line.value, {}).array, is_rounded)
            return result
        has_sums = any(isinstance(node, Reduction) for node in walk(line.value))
        most = MOST_BROADCAST if has_sums else MOST_ELEMENTWISE
        rows = max(1, most // max(1, math.prod(shape[1:])))
        for start in range(0, shape[0], rows):
            part = slice(start, min(start + rows, shape[0]))
            values = self.aligned(self.value(line.value, {indices[0]: part}), indices)
            self.put(line, result[part], values, is_rounded)
        return result

    def put(self, line: Assignment, result: Array, values: Array, is_rounded: bool) -> None:
        """Gives a part of the target its values, as elements where it is to be rounded to them."""
        result[...] = elements(self.target.dtype, values) if is_rounded else values
        if self.watch is not None:
            self.watch(line.target, numbers(self.target.dtype, result) if is_rounded else result)

    def length(self, index: str, ranges: Ranges) -> int:
        part = ranges.get(index)
        return self.extents[index] if part is None else part.stop - part.start

    def aligned(self, value: _Labelled, indices: tuple[str, ...]) -> Array:
        """The array with one axis for each of `indices`, of length 1 where it does not depend on it."""
        own = [i for i in indices if i in value.indices]
        array = value.array.transpose([value.indices.index(i) for i in own])
        lengths = iter(array.shape)
        return array.reshape([next(lengths) if i in own else 1 for i in indices])

    def value(self, node: Expression, ranges: Ranges) -> _Labelled:
        value = self.compute(node, ranges)
        if self.type is np.int64 and not self.is_magnitude and not isinstance(node, Read):
            value = _Labelled(value.array.astype(np.int32).astype(np.int64), value.indices)
        if self.watch is not None:
            self.watch(node, value.array)
        return value

    def compute(self, node: Expression, ranges: Ranges) -> _Labelled:
        match node:
            case Constant(value=number):
                return self.scalar(number)
            case Name(name=name):
                return self.scalar(self.parameters[name])
            case Read():
                return self.read(node, ranges)
            case Negation(operand=operand):
                inner = self.value(operand, ranges)
                return inner if self.is_magnitude else _Labelled(-inner.array, inner.indices)
            case Binary(operator=operator, left=left, right=right):
                return self.binary(operator, self.value(left, ranges), self.value(right, ranges))
            case Reduction():
                return self.reduction(node, ranges)
            case Call(function=function, arguments=arguments):
                return self.call(function.name, [self.value(a, ranges) for a in arguments])

    def scalar(self, number: float) -> _Labelled:
        value = abs(number) if self.is_magnitude else number
        return _Labelled(np.asarray(value, self.type), ())

    def read(self, node: Read, ranges: Ranges) -> _Labelled:
        """The elements at the values of the indices: a view that starts at the first one, copied."""
        pad = self.tensors[node.tensor].pad
        array = self.values[_padded(node.tensor) if pad else node.tensor]
        indices = node.indices
        strides = dict.fromkeys(indices, 0)
        corner: list[slice] = []
        for axis, position in enumerate(node.positions):
            start = position.constant + (pad[axis] if pad else 0)
            for index, number in position.terms:
                strides[index] += number * array.strides[axis]
                start += number * (ranges[index].start if index in ranges else 0)
            corner.append(slice(start, start + 1))
        shape = tuple(self.length(i, ranges) for i in indices)
        read = as_strided(array[tuple(corner)], shape, tuple(strides.values()))
        return _Labelled(numbers(self.tensors[node.tensor].dtype, read).astype(self.type), indices)

    def binary(self, operator: str, left: _Labelled, right: _Labelled) -> _Labelled:
        indices = tuple(dict.fromkeys((*left.indices, *right.indices)))
        a, b = self.aligned(left, indices), self.aligned(right, indices)
        if operator == "+" or (operator == "-" and self.is_magnitude):
            return _Labelled(a + b, indices)
        if operator == "-":
            return _Labelled(a - b, indices)
        if operator == "*":
            return _Labelled(a * b, indices)
        with np.errstate(divide="ignore", invalid="ignore"):
            return _Labelled(a / b, indices)

    def call(self, function: str, arguments: list[_Labelled]) -> _Labelled:
        indices = tuple(dict.fromkeys(i for a in arguments for i in a.indices))
        with np.errstate(all="ignore"):
            values = _CALL[function](*(self.aligned(a, indices) for a in arguments))
        return _Labelled(np.asarray(values, self.type), indices)

    def reduction(self, node: Reduction, ranges: Ranges) -> _Labelled:
        if node.operator != "sum":
            return self.other_reduction(node, ranges)
        factors = _factors(node.body)
        largest = max(self.size(f, ranges) for f in factors)
        if largest > MOST_BROADCAST and not all(isinstance(f, Read) for f in factors):
            total = self.in_blocks(node, largest, ranges)
            if total is not None:
                return total
        return self.product_sum([self.value(f, ranges) for f in factors], node.indices)

    def other_reduction(self, node: Reduction, ranges: Ranges) -> _Labelled:
        largest = self.size(node.body, ranges)
        if largest > MOST_BROADCAST:
            whole = self.in_blocks(node, largest, ranges)
            if whole is not None:
                return whole
        body = self.value(node.body, ranges)
        axes = tuple(n for n, i in enumerate(body.indices) if i in node.indices)
        free = tuple(i for i in body.indices if i not in node.indices)
        return _Labelled(_COMBINE[node.operator].reduce(body.array, axes), free)

    def product_sum(self, factors: list[_Labelled], summed: tuple[str, ...]) -> _Labelled:
        indices = tuple(dict.fromkeys(i for f in factors for i in f.indices))
        free = tuple(i for i in indices if i not in summed)
        axis = {index: number for number, index in enumerate(indices)}
        arrays = [f.array for f in factors]
        is_exact = self.type is np.int64 and self.bound(factors, summed) < MOST_EXACT
        if is_exact:
            arrays = [a.astype(np.float64) for a in arrays]
        operands: list[Any] = []
        for array, factor in zip(arrays, factors, strict=True):
            operands += [array, [axis[i] for i in factor.indices]]
        result = np.asarray(np.einsum(*operands, [axis[i] for i in free], optimize=True))
        # An index on which no factor depends cannot occur: the checker refuses it.
        return _Labelled(result.astype(self.type), free)

    def bound(self, factors: list[_Labelled], summed: tuple[str, ...]) -> int:
        terms = math.prod(self.extents[i] for i in summed)
        return terms * math.prod(int(np.abs(f.array).max(initial=0)) for f in factors)

    def in_blocks(self, node: Reduction, largest: int, ranges: Ranges) -> _Labelled | None:
        """The reduction in blocks of the longest index that is reduced; None where none can be divided."""
        index = max(node.indices, key=lambda i: self.length(i, ranges))
        length = self.length(index, ranges)
        if length == 1:
            return None
        start = ranges[index].start if index in ranges else 0
        step = max(1, min(length // 2, length * MOST_BROADCAST // largest))
        total: _Labelled | None = None
        for block in range(start, start + length, step):
            part = {**ranges, index: slice(block, min(block + step, start + length))}
            term = self.reduction(node, part)
            total = term if total is None else self.combined(node.operator, total, term)
        return total

    def combined(self, operator: str, left: _Labelled, right: _Labelled) -> _Labelled:
        array = _COMBINE[operator](left.array, self.aligned(right, left.indices))
        return _Labelled(array, left.indices)

    def size(self, node: Expression, ranges: Ranges) -> int:
        """Elements of the largest array that evaluating `node` makes."""
        match node:
            case Read(indices=indices):
                return math.prod(self.length(i, ranges) for i in set(indices))
            case Negation(operand=operand):
                return self.size(operand, ranges)
            case Binary(left=left, right=right):
                both = indices_of(left) | indices_of(right)
                here = math.prod(self.length(i, ranges) for i in both)
                return max(here, self.size(left, ranges), self.size(right, ranges))
            case Reduction():
                return math.prod(self.length(i, ranges) for i in indices_of(node))
            case Call(arguments=arguments):
                here = math.prod(self.length(i, ranges) for i in indices_of(node))
                return max(here, *(self.size(a, ranges) for a in arguments))
            case _:
                return 1


_COMBINE: Mapping[str, np.ufunc] = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum
}  # fmt: skip

_CALL: Mapping[str, Callable[..., Array]] = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "gelu": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "relu": lambda x: np.maximum(x, 0),
    "abs": np.abs,
    "max": np.maximum,
    "min": np.minimum,
}


def _padded(tensor: str) -> str:
    """Where the evaluation keeps an input with its zeros; no tensor is called so."""
    return f"{tensor} with zeros"


def _factors(node: Expression) -> list[Expression]:
    """The factors of a product of products."""
    if isinstance(node, Binary) and node.operator == "*":
        return [*_factors(node.left), *_factors(node.right)]
    return [node]
