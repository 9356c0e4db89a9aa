"""The cost model of pipelines on GPUs: of schedules that differ in one thing, and beside predictions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from spacedsl.codegen.cuda.prediction import predict
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.pipeline import backbone
from spacedsl.kernels.pipeline.backbone import FULL
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.search.costs.gpu_pipeline import GpuPipelineCosts
from spacedsl.search.costs.model import time_ns
from tests.codegen.cuda.grids import device
from tests.codegen.pipeline.on_gpus import drawn, grids_of, schedule
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.test_library import load


def times(candidate: Candidate, file: PipelineFile) -> tuple[float, float]:
    """By the cost model, and by the prediction of the code."""
    cost = time_ns(GpuPipelineCosts(candidate.instance, device()), candidate)
    return cost, predict(grids_of(file, candidate), device()).time_ns


GOOD = {
    "blur_y.x.TASK": 64, "blur_y.y.TASK": 32, "blur_y.x.LANE": 1, "blur_y.y.LANE": 8,
}  # fmt: skip
"""Threads along rows, each of which goes down some of them."""

WORSE: Mapping[str, tuple[Mapping[str, str], Mapping[str, int]]] = {
    "threads along columns": ({}, {**GOOD, "blur_y.x.LANE": FULL, "blur_y.y.LANE": 1}),
    "one block": ({}, {"blur_y.x.LANE": 8}),
    "one thread of a block": ({}, {"blur_y.x.TASK": 64, "blur_y.y.TASK": 32}),
    "one stage after the other": (
        {"blur_x": "ROOT"},
        {**GOOD, **{name.replace("blur_y", "blur_x"): tile for name, tile in GOOD.items()}},
    ),
}


@pytest.mark.parametrize("name", WORSE)
def test_what_is_clearly_slower_costs_more(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what the space leaves out, as nothing is worth a block here."""
    monkeypatch.setattr(backbone, "BLOCK_WORK", 1 << 62)
    file = load("blur", {"width": 6400, "height": 4800})
    sites, tiles = WORSE[name]
    good = times(schedule(file, {"blur_x": "INLINE"}, GOOD), file)
    worse = times(schedule(file, {"blur_x": "INLINE", **sites}, tiles), file)
    assert all(g < w for g, w in zip(good, worse, strict=True)), (good, worse)


def test_points_of_a_row_that_are_no_vector_cost_more() -> None:
    file = pipeline(
        "f(x, y) = image(x, y) * 2",
        "{f: {x: 4096, y: 2048}}",
        "{image: {dtype: f32, extents: [4096, 2048]}}",
    )
    single, three, four = (
        times(schedule(file, {}, {"f.x.TASK": 64 * n, "f.y.TASK": 8, "f.x.LANE": n, "f.y.LANE": 1}), file)
        for n in (1, 3, 4)
    )
    assert all(v < min(s, t) for s, t, v in zip(single, three, four, strict=True)), (single, three, four)


def test_several_values_may_have_more_bytes_than_a_vector() -> None:
    file = pipeline(
        "f(x, y) = (image(x, y) * 2, image(x, y) + 1, image(x, y) * 3)",
        "{f: {x: 256, y: 64}}",
        "{image: {dtype: f64, extents: [256, 64]}}",
    )
    single, two = (
        times(schedule(file, {}, {"f.x.TASK": 64 * n, "f.x.LANE": n, "f.y.LANE": 1, "f.y.TASK": 4}), file)
        for n in (1, 2)
    )
    assert two[0] == pytest.approx(single[0], rel=0.1)


def test_neighbours_along_columns_cost_more() -> None:
    file = load("blur", {"width": 6400, "height": 4800})
    tiles = {"blur_y.x.TASK": 64, "blur_y.y.TASK": 8, "blur_y.x.LANE": 1, "blur_y.y.LANE": 1}
    good, worse = (
        times(schedule(file, {"blur_x": "INLINE"}, tiles, {"blur_y.LANE": place}), file) for place in (0, 1)
    )
    assert all(g < w for g, w in zip(good, worse, strict=True)), (good, worse)


@pytest.mark.parametrize("name", ["blur", "unsharp"])
def test_costs_rank_as_predictions_do(name: str) -> None:
    """Random schedules, most of which are far from good."""
    file = load(name)
    pairs = [times(candidate, file) for candidate in drawn(file, 20, 3)]
    costs, predictions = (np.argsort(np.argsort(each)) for each in zip(*pairs, strict=True))
    assert np.corrcoef(costs, predictions)[0, 1] > 0.6


def test_names_of_variables_do_not_matter() -> None:
    """Also where what a thread computes is read by a step with other ones."""

    def cost(x: str, y: str) -> float:
        stages = f"b(x, y) = a(x, y) + a(x, y + 1)\ng({x}, {y}) = b({x}, {y}) * b({x}, {y} + 1)"
        file = pipeline(stages, f"{{g: {{{x}: 512, {y}: 512}}}}", "{a: {dtype: f32, rank: 2}}")
        sizes = {(x, "TASK"): 64, (y, "TASK"): 8, (x, "LANE"): 1, (y, "LANE"): 2}
        candidate = schedule(file, {"b": "LANE"}, {f"g.{dim}.{slot}": n for (dim, slot), n in sizes.items()})
        return time_ns(GpuPipelineCosts(candidate.instance, device()), candidate)

    assert cost("x", "y") == cost("i", "j")
