"""Test cases of a kernel: inputs, parameters, and what an independent reference says the outputs must be.

In: a kernel file, a random generator, and where arrays shall lie. Out: `Case`s. The first has values of
random sign and size, compared within a tolerance; implementations are timed on it. The second has random
integers, whose results are exact in any order. The others are the adversarial ones of `kernels.inputs`.
A kernel whose results are no numbers in the first case has none: nothing could be judged by it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from spacedsl.diagnostics import Diagnostic
from spacedsl.kernels.formats import numbers
from spacedsl.kernels.inputs import (
    RANDOM,
    RANDOM_KINDS,
    Allocate,
    Arguments,
    Array,
    RandomKind,
    adversarial_inputs,
    is_exact_everywhere,
    plain_buffer,
    random_inputs,
)
from spacedsl.kernels.kernel_file import KernelFile
from spacedsl.kernels.reference import evaluate, view
from spacedsl.kernels.rounding import Spreads, rounding_errors

TIMED_CASE = 0
"""The random one: it makes the arithmetic that users have, and no value of it is special."""

ALWAYS_CHECKED = 2
"""So many of the first cases are run by every implementation, the others by those that would be the best.

Of a large kernel that is all of them: its second case has every weakness."""


Tolerance = float | Array
"""Absolute, of all elements of an output or of each of them; 0 asks for equality."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """Flat buffers by tensor, of inputs and of what outputs must be, and how far outputs may be off."""

    name: str
    inputs: Mapping[str, Array]
    parameters: Mapping[str, float]
    expected: Mapping[str, Array]
    """What lies between the elements of a strided output means nothing."""
    tolerances: Mapping[str, Tolerance]
    """By output."""


class NotFiniteError(Exception):
    """A line of a kernel gives infinities, or what is no number at all, on the random inputs."""

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line} of the computation is not finite on random inputs")
        self.line = line
        """Among the assignments of the computation, from 0; of a pipeline, among its outputs."""


def not_finite(kernel: KernelFile, line: int) -> Diagnostic:
    """What is said of such a line."""
    assignment = kernel.computation.assignments[line]
    message = (
        f"`{assignment.target.tensor}` is not finite on random inputs: no implementation could be checked"
    )
    hint = (
        "inputs are drawn from 1/2 to 3/2, of either sign or positive, also a thousandth of that: look for a "
        "divisor that is 0, or for huge values"
    )
    return Diagnostic("KF047", message, assignment.span, hint)


def make_cases(
    kernel: KernelFile,
    random: np.random.Generator,
    allocate: Allocate = plain_buffer,
    *,
    is_brief: bool = False,
) -> Iterator[Case]:
    """The random case, then those of the adversarial ones that can be judged.

    That is, whose results are numbers (a kernel may divide by an input that is zero) and whose sums do not
    grow past the integers that are exact, where a correct order of evaluation may lose every further term.
    `is_brief`: one that has all weaknesses in place of one for each, as large kernels have.
    Raises `NotFiniteError` where the results of the random case are no numbers.
    """
    yield _random_case(kernel, random, allocate)
    for arguments in adversarial_inputs(kernel, random, allocate, is_brief=is_brief):
        if arguments.is_exact or is_exact_everywhere(kernel, arguments):
            case = _evaluated(kernel, arguments, allocate)
            if arguments.is_exact or all(_is_finite(kernel, case, name) for name in case.expected):
                yield case


def _random_case(kernel: KernelFile, random: np.random.Generator, allocate: Allocate) -> Case:
    """The case that says most: with inputs of the first kind whose results are finite and not all rounding.

    Raises `NotFiniteError` where there are none of any kind.
    """
    room = functools.cache(allocate)  # every attempt overwrites the one before
    blurred: RandomKind | None = None
    for kind in RANDOM_KINDS:
        case = _evaluated(kernel, random_inputs(kernel, random, room, kind), room)
        if all(_is_finite(kernel, case, name) for name in case.expected):
            if all(_is_sharp(kernel, case, name) for name in case.expected):
                return case
            blurred = blurred or kind
    case = _evaluated(kernel, random_inputs(kernel, random, room, blurred or RANDOM_KINDS[0]), room)
    for number, line in enumerate(kernel.computation.assignments):
        if line.target.tensor in case.expected and not _is_finite(kernel, case, line.target.tensor):
            raise NotFiniteError(number)
    return case


def _elements(kernel: KernelFile, case: Case, output: str) -> Array:
    (tensor,) = (t for t in kernel.backbone.tensors if t.name == output)
    return numbers(tensor.dtype, view(tensor, case.expected[output]))


def _is_finite(kernel: KernelFile, case: Case, output: str) -> bool:
    return bool(np.isfinite(_elements(kernel, case, output)).all())


def _is_sharp(kernel: KernelFile, case: Case, output: str) -> bool:
    """Whether a wrong value would not pass for a rounded one."""
    values = _elements(kernel, case, output)
    return bool(np.all(case.tolerances[output] <= _largest(values) / 16))


def _largest(values: Array) -> float:
    return max(float(values.max()), -float(values.min()))


def _evaluated(kernel: KernelFile, arguments: Arguments, allocate: Allocate) -> Case:
    outputs = [t for t in kernel.backbone.tensors if t.is_output]
    expected = {t.name: allocate(t) for t in outputs}
    elements = {t.name: view(t, expected[t.name]) for t in outputs}
    spreads = None if arguments.is_exact else Spreads()
    with np.errstate(all="ignore"):
        evaluate(kernel, arguments.inputs, arguments.parameters, elements, spreads)
    results = {t.name: numbers(t.dtype, elements[t.name]) for t in outputs}
    tolerances: dict[str, Tolerance] = dict.fromkeys(expected, 0.0)
    if spreads is not None and kernel.tolerance is not None:
        tolerances = {name: kernel.tolerance * _largest(values) for name, values in results.items()}
    elif spreads is not None:
        errors = rounding_errors(kernel, spreads, is_random=arguments.name == RANDOM)
        tolerances = {name: errors[name] for name in results}
    return Case(arguments.name, arguments.inputs, arguments.parameters, expected, tolerances)
