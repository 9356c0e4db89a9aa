"""What making and checking code asks of a backbone: one place for what differs between them.

In: a kernel file. Out: its `Generation`, functions on such kernel files. How code is built, run and timed is
the same for all, and for others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from spacedsl.codegen.cuda.corners import PARTS_OF_TILES, WHOLE_TILES, corner_program
from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.linalg.implementation import CandidateImplementation, check_decisions
from spacedsl.codegen.linalg.lower import lower
from spacedsl.codegen.pipeline import cases as pipeline_cases
from spacedsl.codegen.pipeline import corners as pipeline_corners
from spacedsl.codegen.pipeline.grids import lower_grids as lower_pipeline_grids
from spacedsl.codegen.pipeline.lower import Made
from spacedsl.codegen.pipeline.lower import lower as lower_pipeline
from spacedsl.codegen.pipeline.schedule import CandidateDecisions
from spacedsl.codegen.pipeline.schedule import check_decisions as check_schedule
from spacedsl.codegen.running import cases
from spacedsl.codegen.running.cases import Case
from spacedsl.codegen.tree.program import Program
from spacedsl.diagnostics import Diagnostic, Source, Span
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.backbones import MeasurableKernel
from spacedsl.kernels.corner import corner, enclosing
from spacedsl.kernels.device import CpuDevice
from spacedsl.kernels.inputs import Allocate, plain_buffer
from spacedsl.kernels.inputs import most_calls as linalg_calls
from spacedsl.kernels.kernel_file import KernelFile, Kind, locate
from spacedsl.kernels.pipeline.algorithm import Box, Extent
from spacedsl.kernels.pipeline.corner import corner as pipeline_corner
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.kernels.tensors import Tensor
from spacedsl.language.space import Space


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
class Generation:
    """Of one backbone; `Any` is its kernel file."""

    check: Callable[[Space, Source, Kind], None]
    """Raises `DiagnosticError` (SP420) for a space that does not decide what lowering reads."""
    lower: Callable[[Any, CpuDevice, Candidate, Made], Program]
    """The program of a complete candidate, not yet verified; raises `LoweringError`. Takes parts of it from
    what was made before of the same kernel, and adds others to that."""
    lower_grids: Callable[[Any, Candidate], Program]
    """The same for GPUs."""
    corners: Callable[[Any, Candidate], Iterator[Iterator[tuple[Part, Program]]]]
    """On what implementations for GPUs are checked: parts of the kernel, as JSON can say them, each with the
    program of a complete candidate there. Of each series, smaller and smaller ones, one is enough."""
    corner: Callable[[Any, Part], Any]
    """The kernel of such a part."""
    tried: Callable[[Any], Part]
    """A part on which it is found out whether there are test cases at all."""
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


def generation(kernel: MeasurableKernel) -> Generation:
    return _GENERATIONS[type(kernel)]


TRIED_EXTENT = 64


def _corners(kernel: KernelFile, candidate: Candidate) -> Iterator[Iterator[tuple[Part, Program]]]:
    def smaller() -> Iterator[tuple[Part, Program]]:
        for kept in (WHOLE_TILES, PARTS_OF_TILES):
            cut, program = corner_program(kernel, candidate, kept)
            yield dict(cut.computation.extents), program

    yield smaller()


def _tried(kernel: KernelFile) -> Part:
    extents = kernel.computation.extents
    return enclosing(kernel.computation, lambda i, n: min(extents[i], max(n, TRIED_EXTENT)))


def _pipeline_corners(kernel: PipelineFile, candidate: Candidate) -> Iterator[Iterator[tuple[Part, Program]]]:
    for series in pipeline_corners.corners(kernel, CandidateDecisions(candidate)):
        yield (
            (_said(cut.algorithm.outputs), lower_pipeline_grids(cut.backbone, made)) for cut, made in series
        )


def _pipeline_tried(kernel: PipelineFile) -> Part:
    rank = max(len(box) for box in kernel.algorithm.outputs.values())
    return _said(pipeline_corners.part(kernel, [TRIED_EXTENT] * rank, is_end=False))


def _said(outputs: Mapping[str, Box]) -> Part:
    return {name: [[e.low, e.size] for e in box] for name, box in outputs.items()}


def _pipeline_corner(kernel: PipelineFile, part: Part) -> PipelineFile:
    return pipeline_corner(kernel, {n: tuple(Extent(*extent) for extent in box) for n, box in part.items()})


_GENERATIONS: dict[type, Generation] = {
    KernelFile: Generation(
        check=check_decisions,
        lower=lambda kernel, device, candidate, made: lower(
            kernel.backbone, CandidateImplementation(candidate)
        ),
        lower_grids=lambda kernel, candidate: lower_grids(
            kernel.backbone, CandidateImplementation(candidate)
        ),
        corners=_corners,
        corner=corner,
        tried=_tried,
        make_cases=cases.make_cases,
        most_cases=lambda kernel: linalg_calls(kernel.backbone),
        making_bytes=lambda kernel: 0,
        not_finite=cases.not_finite,
        own_arrays=lambda kernel: tuple(s.tensor for s in kernel.backbone.scratch),
        declared=lambda kernel, tensor: locate(kernel, "tensors", tensor.name),
    ),
    PipelineFile: Generation(
        check=check_schedule,
        lower=lambda kernel, device, candidate, made: lower_pipeline(
            kernel.backbone, CandidateDecisions(candidate), device.vector_bytes, made
        ),
        lower_grids=lambda kernel, candidate: lower_pipeline_grids(
            kernel.backbone, CandidateDecisions(candidate)
        ),
        corners=_pipeline_corners,
        corner=_pipeline_corner,
        tried=_pipeline_tried,
        make_cases=pipeline_cases.make_cases,
        most_cases=pipeline_cases.most_calls,
        making_bytes=pipeline_cases.making_bytes,
        not_finite=pipeline_cases.not_finite,
        own_arrays=lambda kernel: (),
        declared=pipeline_cases.declared,
    ),
}
