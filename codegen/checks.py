"""What checking code asks of a backbone: one place for what differs between them.

In: a kernel file. Out: its `Checks`, functions on such kernel files. Making code is for `generation.py`: the
processes in which code runs need none of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from spacedsl.codegen.pipeline import cases as pipeline_cases
from spacedsl.codegen.running import cases
from spacedsl.codegen.running.cases import Case, NotFiniteError
from spacedsl.diagnostics import Diagnostic, DiagnosticError, Span
from spacedsl.kernels.backbones import MeasurableKernel
from spacedsl.kernels.corner import corner
from spacedsl.kernels.inputs import Allocate, plain_buffer
from spacedsl.kernels.inputs import most_calls as linalg_calls
from spacedsl.kernels.kernel_file import KernelFile, locate
from spacedsl.kernels.pipeline.algorithm import Extent
from spacedsl.kernels.pipeline.corner import corner as pipeline_corner
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.kernels.tensors import Tensor


class MakeCases(Protocol):
    """The case that implementations are timed on first; raises `NotFiniteError`."""

    def __call__(
        self,
        kernel: Any,
        random: np.random.Generator,
        allocate: Allocate = plain_buffer,
        *,
        is_brief: bool = False,
    ) -> Iterator[Case]: ...


Part = Mapping[str, Any]
"""Of a kernel: how much of its indices, or of its outputs."""


@dataclass(frozen=True, slots=True)
class Checks:
    """Of one backbone; `Any` is its kernel file."""

    corner: Callable[[Any, Part], Any]
    """The kernel of such a part."""
    make_cases: MakeCases
    most_cases: Callable[[Any], int]
    making_bytes: Callable[[Any], int]
    """Of memory that making a case takes beside its arrays, where that is much."""
    not_finite: Callable[[Any, int], Diagnostic]
    """What is said of a kernel that `make_cases` finds no numbers in."""
    own_arrays: Callable[[Any], Sequence[Tensor]]
    """What every implementation allocates for itself."""
    declared: Callable[[Any, Tensor], Span]
    """Where the file says what an argument is."""


def checks(kernel: MeasurableKernel) -> Checks:
    return _CHECKS[type(kernel)]


@contextmanager
def finite(kernel: MeasurableKernel) -> Iterator[None]:
    """Where test cases are made: a kernel without any is a diagnostic (KF047)."""
    try:
        yield
    except NotFiniteError as error:
        raise DiagnosticError([checks(kernel).not_finite(kernel, error.line)]) from None


def _pipeline_corner(kernel: PipelineFile, part: Part) -> PipelineFile:
    return pipeline_corner(kernel, {n: tuple(Extent(*extent) for extent in box) for n, box in part.items()})


_CHECKS: dict[type, Checks] = {
    KernelFile: Checks(
        corner=corner,
        make_cases=cases.make_cases,
        most_cases=linalg_calls,
        making_bytes=lambda kernel: 0,
        not_finite=cases.not_finite,
        own_arrays=lambda kernel: tuple(s.tensor for s in kernel.backbone.scratch),
        declared=lambda kernel, tensor: locate(kernel, "tensors", tensor.name),
    ),
    PipelineFile: Checks(
        corner=_pipeline_corner,
        make_cases=pipeline_cases.make_cases,
        most_cases=pipeline_cases.most_calls,
        making_bytes=pipeline_cases.making_bytes,
        not_finite=pipeline_cases.not_finite,
        own_arrays=lambda kernel: (),
        declared=pipeline_cases.declared,
    ),
}
