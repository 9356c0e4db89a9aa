"""Test cases of a pipeline: inputs, and what the reference says the outputs must be.

In: a kernel file, a random generator, and where arrays shall lie. Out: `Case`s. The first has random values,
and implementations are timed on it; the others are the hard ones of `kernels/pipeline/inputs.py`. Parameters
have the values of the file. Outputs are equal where they are exact; elsewhere each element has a tolerance of
its own (`kernels/pipeline/rounding.py`), or all of them have the one that the file says. A case by which too
little of the outputs could be judged is left out.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from spacedsl.codegen.running.cases import Case, NotFiniteError, Tolerance
from spacedsl.diagnostics import Diagnostic, Span
from spacedsl.kernels.formats import as_numbers
from spacedsl.kernels.inputs import RANDOM, Allocate, Array, plain_buffer
from spacedsl.kernels.kernel_file import locate
from spacedsl.kernels.pipeline.arguments import value_names
from spacedsl.kernels.pipeline.inputs import FLOATS, Draw, patchwork, random_values, weaknesses
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.kernels.pipeline.pieces import most_bytes, parts, pieces
from spacedsl.kernels.pipeline.work import points
from spacedsl.kernels.reference import view
from spacedsl.kernels.tensors import Tensor

LARGE_POINTS = 1 << 22
"""Of all stages together: a larger pipeline gets one call with all weaknesses instead of one for each."""

_SHARP = 1 / 16
"""Of the largest result: with a tolerance up to it, a wrong value does not pass for a rounded one."""

_MOSTLY = 0.99
"""Elements with such a tolerance in a good case, of all."""

_LEAST_SHARP = 1 / 64
"""The same in a case that is used at all."""


def make_cases(
    kernel: PipelineFile,
    random: np.random.Generator,
    allocate: Allocate = plain_buffer,
    *,
    is_brief: bool = False,
) -> Iterator[Case]:
    """The random case, then the hard ones; of large pipelines, and where it `is_brief`, one of these alone.

    Raises `NotFiniteError`, with the number of an output, where its random results are no numbers.
    """
    judge = _Judge(kernel, allocate)
    yield judge.random_case(random)
    if all(tensor.is_output for tensor in kernel.tensors):
        return
    kinds = {"patchwork": patchwork(random)} if is_brief or is_large(kernel) else weaknesses(random)
    for name, draw in kinds.items():
        case = judge.case(name, draw, allocate)
        if min(judge.sharp_shares(case)) >= _LEAST_SHARP:
            yield case


def most_calls(kernel: PipelineFile) -> int:
    """How many cases there are at most."""
    return 2 if is_large(kernel) else 1 + len(weaknesses(np.random.default_rng()))


def making_bytes(kernel: PipelineFile) -> int:
    """Of memory that making the cases takes beside their arrays; tolerances stay."""
    kept = sum(4 * t.elements for t in kernel.tensors if t.is_output)
    return most_calls(kernel) * kept + most_bytes(kernel.algorithm, pieces(kernel.algorithm, kernel.boxes))


def is_large(kernel: PipelineFile) -> bool:
    """Whether a case costs enough to be sparing with."""
    return points(kernel.algorithm, kernel.boxes) > LARGE_POINTS


def not_finite(kernel: PipelineFile, number: int) -> Diagnostic:
    """What is said of an output that cannot be judged."""
    name = list(kernel.algorithm.outputs)[number]
    message = (
        f"no implementation could be checked: on random inputs, `{name}` is not finite, or rounding may "
        "change all of it"
    )
    hint = (
        "inputs are drawn from 0 to 1, and from 1/2 to 3/2, integers from all of their range: look for a "
        "divisor that is 0, for huge values, or for a long sum in bf16 or f16, which f32 could hold; "
        "`tolerance:` says how far results may be off"
    )
    return Diagnostic("KF047", message, locate(kernel, "outputs", name), hint)


def declared(kernel: PipelineFile, tensor: Tensor) -> Span:
    """Where the file says what an argument is."""
    if not tensor.is_output:
        return locate(kernel, "inputs", tensor.name)
    stages = map(kernel.algorithm.stage, kernel.algorithm.outputs)
    return locate(kernel, "outputs", next(s.name for s in stages if tensor.name in value_names(s)))


class _Judge:
    """Makes cases of one kernel, all with the same pieces."""

    def __init__(self, kernel: PipelineFile, allocate: Allocate) -> None:
        self.kernel = kernel
        self.allocate = allocate
        self.pieces = pieces(kernel.algorithm, kernel.boxes)

    def random_case(self, random: np.random.Generator) -> Case:
        """With the first kind of inputs by which nearly all of the outputs can be judged, else the best."""
        algorithm = self.kernel.algorithm
        has_floats = any(i.dtype.is_float for i in algorithm.inputs if i.name in self.kernel.boxes)
        room = functools.cache(self.allocate)
        found: list[tuple[float, int]] = []
        for number, floats in enumerate(FLOATS if has_floats else FLOATS[:1]):
            state = random.bit_generator.state
            case = self.case(RANDOM, random_values(random, floats), room)
            shares = self.sharp_shares(case)
            if min(shares) >= _MOSTLY:
                return case
            found.append((min(shares), -number))
            random.bit_generator.state = state
        share, number = max(found)
        if share == 0:
            raise NotFiniteError(shares.index(0))
        return self.case(RANDOM, random_values(random, FLOATS[-number]), room)

    def case(self, name: str, draw: Draw, allocate: Allocate) -> Case:
        tensors = {t.name: t for t in self.kernel.tensors}
        inputs: dict[str, Array] = {}
        for given in self.kernel.algorithm.inputs:
            if given.name in tensors:
                inputs[given.name] = allocate(tensors[given.name])
                as_numbers(given.dtype, inputs[given.name])[...] = draw(given, inputs[given.name].size)
        expected = {t.name: allocate(t) for t in tensors.values() if t.is_output}
        elements = {
            n: as_numbers(tensors[n].dtype, view(tensors[n], a)) for n, a in (inputs | expected).items()
        }
        tolerances: dict[str, Tolerance] = dict.fromkeys(expected, 0.0)
        values = {n: elements[n] for n in inputs}
        for part in parts(self.kernel.algorithm, self.pieces, values, is_random=name == RANDOM):
            elements[part.name][part.place] = part.elements
            if part.error is not None:
                known = tolerances[part.name]
                if isinstance(known, float):
                    known = tolerances[part.name] = np.zeros(elements[part.name].shape, np.float32)
                known[part.place] = part.error
        if self.kernel.tolerance is not None:
            for output in (n for n, known in tolerances.items() if not isinstance(known, float)):
                tolerances[output] = self.kernel.tolerance * _largest(elements[output])
        parameters = {p.name: p.value for p in self.kernel.algorithm.parameters}
        return Case(name, inputs, parameters, expected, tolerances)

    def sharp_shares(self, case: Case) -> list[float]:
        """By output, how many of its elements are numbers that a wrong one would not pass for; a tolerance
        that the file says is wanted as it is.
        """
        shares = []
        for stage in map(self.kernel.algorithm.stage, self.kernel.algorithm.outputs):
            counts = []
            for name, dtype in zip(value_names(stage), stage.dtypes, strict=True):
                values = as_numbers(dtype, case.expected[name])
                is_sharp = np.isfinite(values)
                if self.kernel.tolerance is None:
                    is_sharp &= np.ravel(case.tolerances[name]) <= _SHARP * _largest(values)
                counts.append(np.mean(is_sharp))
            shares.append(float(min(counts)))
        return shares


def _largest(values: Array) -> float:
    """Of those that are numbers."""
    found = np.max(np.abs(values.astype(np.float64)), initial=0, where=np.isfinite(values))
    return float(found)
