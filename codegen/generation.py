"""What making code asks of a backbone: one place for what differs between them.

In: a kernel file. Out: its `Generation`, functions on such kernel files. What code is checked on is for
`checks.py`; how it is built, run and timed is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from spacedsl.codegen.checks import Part
from spacedsl.codegen.cuda.corners import PARTS_OF_TILES, WHOLE_TILES, Kept, corner_program
from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.linalg.implementation import CandidateImplementation, check_decisions
from spacedsl.codegen.linalg.lower import lower
from spacedsl.codegen.pipeline import corners as pipeline_corners
from spacedsl.codegen.pipeline.grids import lower_grids as lower_pipeline_grids
from spacedsl.codegen.pipeline.lower import Made
from spacedsl.codegen.pipeline.lower import lower as lower_pipeline
from spacedsl.codegen.pipeline.schedule import CandidateDecisions
from spacedsl.codegen.pipeline.schedule import check_decisions as check_schedule
from spacedsl.codegen.tree.program import Program
from spacedsl.diagnostics import Source
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.backbones import MeasurableKernel
from spacedsl.kernels.corner import enclosing
from spacedsl.kernels.device import CpuDevice
from spacedsl.kernels.kernel_file import KernelFile, Kind
from spacedsl.kernels.pipeline.algorithm import Box
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.language.space import Space


@dataclass(frozen=True, slots=True)
class Corner:
    """A part of a kernel, on which an implementation for GPUs can be checked."""

    work: float
    """Beside that of others, about; 0 where nothing is known of it."""
    lower: Callable[[], tuple[Part, Program]]
    """The part, as JSON can say it, and the program of a complete candidate there; raises `LoweringError`."""


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
    corners: Callable[[Any, Candidate], Iterator[Sequence[Corner]]]
    """On what implementations for GPUs are checked: smaller and smaller ones, of which one is enough for
    each series."""
    tried: Callable[[Any], Part]
    """A part on which it is found out whether there are test cases at all."""


def generation(kernel: MeasurableKernel) -> Generation:
    return _GENERATIONS[type(kernel)]


TRIED_EXTENT = 64


def _corners(kernel: KernelFile, candidate: Candidate) -> Iterator[Sequence[Corner]]:
    def lowered(kept: Kept) -> tuple[Part, Program]:
        cut, program = corner_program(kernel, candidate, kept)
        return dict(cut.computation.extents), program

    yield [Corner(0, partial(lowered, kept)) for kept in (WHOLE_TILES, PARTS_OF_TILES)]


def _tried(kernel: KernelFile) -> Part:
    extents = kernel.computation.extents
    return enclosing(kernel.computation, lambda i, n: min(extents[i], max(n, TRIED_EXTENT)))


def _pipeline_corners(kernel: PipelineFile, candidate: Candidate) -> Iterator[Sequence[Corner]]:
    def lowered(corner: pipeline_corners.Smaller) -> tuple[Part, Program]:
        cut, made = corner.cut()
        return _said(cut.algorithm.outputs), lower_pipeline_grids(cut.backbone, made)

    for series in pipeline_corners.corners(kernel, CandidateDecisions(candidate)):
        yield [Corner(each.points, partial(lowered, each)) for each in series]


def _pipeline_tried(kernel: PipelineFile) -> Part:
    rank = max(len(box) for box in kernel.algorithm.outputs.values())
    return _said(pipeline_corners.part(kernel, [TRIED_EXTENT] * rank, is_end=False))


def _said(outputs: Mapping[str, Box]) -> Part:
    return {name: [[e.low, e.size] for e in box] for name, box in outputs.items()}


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
        tried=_tried,
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
        tried=_pipeline_tried,
    ),
}
