"""Schedules on parts of outputs: the same decisions, which leave the same boxes where as much is wanted."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from spacedsl.codegen.pipeline.cases import make_cases
from spacedsl.codegen.pipeline.corners import (
    HARDLY_MORE,
    LESS,
    MOST_POINTS,
    CornerDecisions,
    corners,
    part,
)
from spacedsl.codegen.pipeline.grids import lower_grids
from spacedsl.codegen.pipeline.schedule import CandidateDecisions
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.pipeline.algorithm import Extent
from spacedsl.kernels.pipeline.backbone import VECTOR
from spacedsl.kernels.pipeline.corner import corner, needed
from spacedsl.kernels.pipeline.work import points
from tests.codegen.pipeline.on_gpus import built, drawn, twin_difference
from tests.kernels.pipeline.cases import PIPELINES, named
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.test_library import load


@pytest.mark.parametrize("case", [*PIPELINES][::3])
def test_of_the_whole_they_are_what_the_space_computes(case: str) -> None:
    file = named(case)
    for candidate in drawn(file, 4, 6):
        made = CandidateDecisions(candidate)
        again = CornerDecisions(file.backbone, made, corner(file, file.algorithm.outputs).backbone)
        for own, whole in zip(again.kernel.boxes, file.backbone.boxes, strict=True):
            assert again.extent(own) == made.extent(whole)
            assert whole.outer is None or again.trips(own) == made.trips(whole)


def test_what_is_not_wanted_is_not_computed() -> None:
    file = named("blur")
    (output,) = file.algorithm.outputs
    cut = corner(file, {output: (Extent(4, 3), Extent(5, 2))})
    assert cut.boxes["bx"] == (Extent(4, 3), Extent(5, 4))
    assert cut.boxes["image"] == (Extent(4, 4), Extent(5, 4))


@pytest.mark.parametrize("name", ["interpolate", "harris"])
def test_parts_that_cost_hardly_less_are_left_out(name: str) -> None:
    """Of a pyramid, all levels are needed of the smallest part as well."""
    file = load(name)
    (output,) = file.algorithm.outputs
    candidate = next(drawn(file, 5, 2))
    made = CandidateDecisions(candidate)
    smallest = part(file, [8] * len(file.algorithm.outputs[output]), is_end=False)
    least = points(file.algorithm, needed(file, smallest))
    for series in corners(file, made):
        counts = [points(cut.algorithm, cut.boxes) for cut, _ in (each.cut() for each in series)]
        assert counts == [each.points for each in series]
        assert all(after * LESS <= before for before, after in pairwise(counts))
        assert counts[0] <= max(MOST_POINTS, HARDLY_MORE * least)


@pytest.mark.parametrize("name", ["blur", "unsharp"])
def test_a_large_pipeline_is_checked_at_both_ends(name: str, tmp_path: Path) -> None:
    """In parts that become smaller and smaller; the smallest are right."""
    file = load(name)
    (output,) = file.algorithm.outputs
    whole = file.algorithm.outputs[output]
    candidate = next(drawn(file, 5, 1))
    programs = []
    for is_end, series in enumerate(corners(file, CandidateDecisions(candidate))):
        parts = [each.cut() for each in series]
        sizes = [np.prod([e.size for e in cut.algorithm.outputs[output]]) for cut, _ in parts]
        assert sizes == sorted(sizes, reverse=True)
        cut, made = parts[-1]
        for extent, all_of_it in zip(cut.algorithm.outputs[output], whole, strict=True):
            assert extent.high == all_of_it.high if is_end else extent.low == all_of_it.low
        for each, _ in parts:
            # Vectors begin where they do in the whole.
            assert (each.algorithm.outputs[output][0].size - whole[0].size) % VECTOR == 0
        programs.append((cut, verify(lower_grids(cut.backbone, made))))
    assert len(programs) == 2
    library = built([program for _, program in programs], tmp_path)
    for number, (cut, _) in enumerate(programs):
        (case, *_) = make_cases(cut, np.random.default_rng(0))
        assert twin_difference(cut, library, f"program_{number}", case) == ""


def test_an_output_that_needs_all_of_the_image_anyway_stays_whole() -> None:
    """Of sums over rows, no more is computed than is wanted of it."""
    stages = """\
      rows(i, y) = 0
      rows(i32(clamp(image(r, y), 0, 99)), y) += 1 for r in 0:60
      counts(i) = 0
      counts(i) += rows(i, r) for r in 0:40
      sums(x) = sum[r in 0:40, s in 0:40](image(x, r) * image(x, s))
      shown(x, y) = counts(i32(clamp(image(x, y), 0, 99))) + sums(x)"""
    outputs = "{shown: {x: 60, y: 40}, counts: {i: 100}, sums: {x: 60}}"
    file = pipeline(stages, outputs, "{image: {dtype: f32, extents: [60, 40]}}")
    sizes = {n: [e.size for e in box] for n, box in part(file, [8, 8], is_end=False).items()}
    assert sizes == {"shown": [8, 8], "counts": [100], "sums": [8]}


def test_of_an_input_a_part_needs_only_what_it_reads() -> None:
    """All of it is there; a copy is of what the part of the output comes to."""
    file = load("unsharp")
    (output,) = file.algorithm.outputs
    cut = corner(file, {output: (Extent(4, 3), Extent(5, 2), Extent(0, 3))})
    assert cut.boxes["image"] == tuple(Extent(0, n) for n in file.algorithm.inputs[0].extents)
    assert cut.backbone.needed["image_copy"] == (Extent(1, 9), Extent(2, 8), Extent(0, 3))
