"""Values for a kernel's inputs: random ones, and hard ones whose results can be compared exactly.

In: a kernel file, a random generator, and where the buffers shall lie. Out: `Arguments`. Buffers are flat,
of `tensor.span` elements; the gaps between strided elements hold what must never be read (NaN, or the
greatest integer). What the outputs should be is the business of `reference.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.expression import INTEGER_FUNCTIONS, Binary, Call, Constant, walk
from spacedsl.kernels.formats import NUMPY_TYPE, elements, numbers
from spacedsl.kernels.kernel_file import KernelFile
from spacedsl.kernels.linalg.backbone import Access, Instruction, Kernel, Operand, Value
from spacedsl.kernels.linalg.operations import Op
from spacedsl.kernels.magnitude import largest_partial
from spacedsl.kernels.reference import greatest_magnitude, view
from spacedsl.kernels.tensors import Parameter, Tensor

Array = NDArray[Any]
Draw = Callable[[int], Array]
"""That many values."""
Allocate = Callable[[Tensor], Array]
"""A flat buffer of `tensor.span` elements of the tensor's dtype."""

EXACT_BELOW: Mapping[DType, int] = {
    DType.F32: 2**24, DType.F64: 2**53, DType.I32: 2**31, DType.F16: 2**15, DType.BF16: 2**23
}  # fmt: skip
"""Integers of smaller magnitude are exact in every order of additions. What is kept in 16 bits is summed
up in f32, and rounded in the end in one way, for which bf16 leaves room; f16 knows no larger numbers."""

_TF32_BELOW = 2**11
"""Factors of tf32 have that many bits. Inputs have fewer; what a kernel has made of them may have more."""

LARGEST_INTEGER = 64
"""Of integer inputs: small enough that products of two of them, summed a thousand times, are exact in f32."""

LARGE_ELEMENTS = 1 << 22
LARGE_POINTS = 1 << 28
"""Of a tensor, and of the iterations of an instruction: larger kernels get one call with all weaknesses
instead of one for each, since its arrays, its reference and plain code for it cost seconds."""

PERIOD = 1_000_003
"""Values of large tensors repeat after this many: a prime, so that no tile size hides an error."""

_STRETCH = 997
"""Elements of one kind in a row where one call has all kinds."""


@dataclass(frozen=True, slots=True)
class RandomKind:
    """Floats from `scale`/2 to 3/2 `scale`."""

    scale: float = 1.0
    is_signed: bool = True


RANDOM_KINDS = tuple(
    RandomKind(scale, signed) for scale in (1.0, 2.0**-5, 2.0**-10) for signed in (True, False)
)
"""In the order in which they are tried: exponentials overflow, logarithms want positive values."""


RANDOM = "random"
"""The name of what has no pattern."""

LAST, ONE = "last element", "one element"
_SINGLE = (LAST, ONE)
"""The names of what has one element that is not zero."""


@dataclass(frozen=True, slots=True, eq=False)
class Arguments:
    """One call: a flat buffer for each input, a value for each parameter."""

    name: str
    inputs: Mapping[str, Array]
    parameters: Mapping[str, float]
    largest: float
    """Magnitude of any of these values."""
    is_exact: bool
    """Whether every correct program gives exactly the reference's results, in whatever order it adds."""


def plain_buffer(tensor: Tensor) -> Array:
    """Flat room for a tensor's elements and what lies between them; its values mean nothing."""
    return np.empty(tensor.span, NUMPY_TYPE[tensor.dtype])


def is_exact_everywhere(kernel: KernelFile, arguments: Arguments) -> bool:
    """Whether no partial result can reach integers that are not exact. Those that wrap around all are."""
    if _stays_exact(kernel, arguments.largest):
        return True
    return greatest_magnitude(kernel, arguments.inputs, arguments.parameters) < _exact_below(kernel)


def _stays_exact(kernel: KernelFile, largest: float) -> bool:
    """The same for any inputs up to this magnitude."""
    return _wraps_around(kernel) or largest_partial(kernel.backbone, largest) < _exact_below(kernel)


def _exact_below(kernel: KernelFile) -> int:
    """Integers of smaller magnitude are exact in all of the kernel's dtypes, and in factors of tf32."""
    backbone = kernel.backbone
    computed = (i.dtype for i in backbone.instructions if i.dtype.has_arithmetic)
    below = min(EXACT_BELOW[dtype] for dtype in (*computed, *(t.dtype for t in backbone.tensors)))
    return min(below, _TF32_BELOW) if kernel.precision == "tf32" and _makes_factors(backbone) else below


def _wraps_around(kernel: KernelFile) -> bool:
    """Whether all that it computes with are integers, whose results are the same in any order."""
    backbone = kernel.backbone
    dtypes = {*(i.dtype for i in backbone.instructions), *(t.dtype for t in backbone.tensors)}
    return dtypes == {DType.I32} and _is_integral(kernel)


def _makes_factors(kernel: Kernel) -> bool:
    """Whether products are summed up of what the kernel itself has computed."""
    given = [t for t in kernel.tensors if not t.is_output]

    def is_given(operand: Operand) -> bool:
        match operand:
            case Value(Instruction(op=Op.LOAD, access=Access(tensor=tensor))):
                return tensor in given
            case _:
                return False

    summed = (i.operands for i in kernel.instructions if i.op is Op.FMA)
    return any(not is_given(factor) for a, b, *_ in summed for factor in (a, b))


def random_inputs(
    kernel: KernelFile,
    rng: np.random.Generator,
    allocate: Allocate = plain_buffer,
    kind: RandomKind = RANDOM_KINDS[0],
) -> Arguments:
    """Floats of random sign, from 1/2 to 3/2: no sum loses a term, and quotients stay small.

    `kind` may ask for smaller ones, or for positive ones, which some functions want.
    Integers for integer tensors, and as `integer_inputs` gives them where all are.
    """
    if all(t.dtype is DType.I32 for t in kernel.backbone.tensors):
        return integer_inputs(kernel, rng, allocate)

    signs = (-1.0, 1.0) if kind.is_signed else (1.0, 1.0)

    def draw(count: int) -> Array:
        values: Array = (rng.random(count) + 0.5) * rng.choice(signs, count)
        return values * kind.scale if kind.scale != 1 else values

    integers = _Integers(rng, _largest_integer(kernel), 1.0)
    return _arguments(kernel, RANDOM, draw, allocate, integers)


def integer_inputs(
    kernel: KernelFile, rng: np.random.Generator, allocate: Allocate = plain_buffer
) -> Arguments:
    """Random integers, as large as exact results allow; mostly zeros where even ones would sum up too far."""
    largest, share = _largest_integer(kernel), 1.0
    # Every attempt overwrites the one before.
    room = functools.cache(allocate)
    while True:
        arguments = _arguments(kernel, "integers", _Integers(rng, largest, share), room)
        if arguments.is_exact or not _is_integral(kernel) or share < 1e-9:
            return arguments
        share /= 4


def adversarial_inputs(
    kernel: KernelFile,
    rng: np.random.Generator,
    allocate: Allocate = plain_buffer,
    *,
    is_brief: bool = False,
) -> Iterator[Arguments]:
    """Calls that single out mistakes: of indexing, of sign, of accumulation, of boundaries between tiles.

    The first has random integers. A large kernel has one call, and so has what `is_brief`: integers between
    stretches of all the others where that is exact, and integers alone elsewhere; also single elements, where
    results are compared within a tolerance, which in a long sum is that of many terms.
    """
    largest = _largest_integer(kernel)
    kinds = _weaknesses(rng, largest)
    if not is_brief and not is_large(kernel.backbone):
        yield integer_inputs(kernel, rng, allocate)
        for name, draw in kinds.items():
            yield _arguments(kernel, name, draw, allocate)
    elif _is_integral(kernel) and _stays_exact(kernel, largest):
        patchwork = _Patchwork(_Integers(rng, largest, 1.0), tuple(kinds.values()))
        yield _arguments(kernel, "patchwork", patchwork, allocate)
    else:
        yield integer_inputs(kernel, rng, allocate)
        if not _is_integral(kernel):
            for name in _SINGLE:
                yield _arguments(kernel, name, kinds[name], allocate, is_repeated=False)


def most_calls(kernel: KernelFile) -> int:
    """How many calls a kernel gets at most: a random one, and the adversarial ones."""
    if is_large(kernel.backbone):
        return 2 if _is_integral(kernel) else 2 + len(_SINGLE)
    return 2 + len(_weaknesses(np.random.default_rng(), 1))


def _weaknesses(rng: np.random.Generator, largest: int) -> Mapping[str, Draw]:
    def mixed(count: int) -> Array:
        values: Array = np.where(rng.random(count) < 1 / 64, largest, 1)
        return values

    def single(place: Callable[[int], int]) -> Draw:
        def draw(count: int) -> Array:
            values = np.zeros(count, np.int8)
            values[place(count)] = 1
            return values

        return draw

    return {
        "zeros": np.zeros,
        "signs": lambda count: 1 - 2 * (np.arange(count) % 2),
        "mixed magnitudes": mixed,
        LAST: single(lambda count: count - 1),
        ONE: single(lambda count: int(rng.integers(count))),
    }


def _largest_integer(kernel: KernelFile) -> int:
    """Up to which all integers give exact results; 1 where even ones do not."""
    largest = LARGEST_INTEGER
    while largest > 1 and not _stays_exact(kernel, largest):
        largest //= 2
    return largest


def is_large(kernel: Kernel) -> bool:
    """Whether a call costs enough to be sparing with."""
    points = max(i.instances for i in kernel.instructions)
    return points > LARGE_POINTS or any(t.span > LARGE_ELEMENTS for t in kernel.tensors)


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


@dataclass(frozen=True, slots=True)
class _Patchwork:
    """Usual values; every other stretch of them is replaced by values of one kind, of each kind in turn."""

    usual: Draw
    kinds: tuple[Draw, ...]

    def __call__(self, count: int) -> Array:
        values = self.usual(count)
        for number, start in enumerate(range(_STRETCH, count, 2 * _STRETCH)):
            part = values[start : start + _STRETCH]
            part[...] = self.kinds[number % len(self.kinds)](part.size)
        return values


def _arguments(
    kernel: KernelFile,
    name: str,
    draw: Draw,
    allocate: Allocate,
    integers: Draw | None = None,
    *,
    is_repeated: bool = True,
) -> Arguments:
    """A call of drawn values, of `integers` for integer tensors; large tensors repeat some of them."""
    backbone = kernel.backbone

    def drawn(dtype: DType) -> Draw:
        return integers if integers is not None and dtype is DType.I32 else draw

    largest = 0.0
    inputs: dict[str, Array] = {}
    for tensor in backbone.tensors:
        if not tensor.is_output:
            count = PERIOD if is_repeated and tensor.elements > LARGE_ELEMENTS else tensor.elements
            values = elements(tensor.dtype, drawn(tensor.dtype)(count))
            largest = max(largest, float(np.abs(numbers(tensor.dtype, values)).max(initial=0)))
            inputs[tensor.name] = _fill(tensor, values, allocate(tensor))
    parameters = {p.name: _scalar(p, name, drawn(p.dtype)) for p in backbone.parameters}
    largest = max([largest, *map(abs, parameters.values())])
    arguments = Arguments(name, inputs, parameters, largest, is_exact=False)
    may_be_exact = name != RANDOM and _is_integral(kernel)
    return replace(arguments, is_exact=may_be_exact and is_exact_everywhere(kernel, arguments))


def _scalar(parameter: Parameter, name: str, draw: Draw) -> float:
    """A parameter that is zero hides everything that it multiplies, but where zeros are the point."""
    value = NUMPY_TYPE[parameter.dtype](np.asarray(draw(1))[0])
    return float(value) if value or name == "zeros" else 1.0


def _fill(tensor: Tensor, values: Array, buffer: Array) -> Array:
    """The buffer with the values, over and over, as elements."""
    if _is_packed(tensor):
        _repeat(values, buffer)
        return buffer
    packed = np.empty(tensor.elements, values.dtype)
    _repeat(values, packed)
    between = np.iinfo(np.int32).max if tensor.dtype is DType.I32 else np.nan
    buffer[...] = elements(tensor.dtype, between)
    view(tensor, buffer)[...] = packed.reshape(tensor.shape)
    return buffer


def _repeat(values: Array, target: Array) -> None:
    whole = target.size // values.size * values.size
    target[:whole].reshape(-1, values.size)[...] = values
    target[whole:] = values[: target.size - whole]


def _is_packed(tensor: Tensor) -> bool:
    packed, step = [], 1
    for extent in reversed(tensor.shape):
        packed.append(step)
        step *= extent
    return tuple(reversed(packed)) == tensor.strides


def _is_integral(kernel: KernelFile) -> bool:
    """Whether integers stay integers: no fractions, no quotients, no functions but their own."""
    nodes = [n for line in kernel.computation.assignments for n in walk(line.value)]
    has_fraction = any(isinstance(n, Constant) and n.value != int(n.value) for n in nodes)
    has_function = any(isinstance(n, Call) and n.function.name not in INTEGER_FUNCTIONS for n in nodes)
    return (
        not has_fraction
        and not has_function
        and not any(isinstance(n, Binary) and n.operator == "/" for n in nodes)
    )
