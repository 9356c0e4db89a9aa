"""At how many points a step is read for a point of its host: as many as differ, whatever the ways to them."""

from __future__ import annotations

import pytest

from spacedsl.kernels.pipeline.spread import MANY
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.test_library import CASES, load

SPREAD = {
    "a chain": ("f(x) = t(x)\ng(x) = f(x - 1) + f(x + 1)\nh(x) = g(x) + g(x + 2)", {"f": 2, "g": 2}),
    "two ways to a point": (
        "f(x) = t(x)\ng(x) = f(x) + f(x + 1)\nk(x) = f(x) * f(x + 1)\nh(x) = g(x) + k(x + 1)",
        {"f": 3, "g": 1},
    ),
    "all turns of a sum": ("f(x) = t(x)\nh(x) = sum[i in 0:5](f(x + i)) + f(x + 4)", {"f": 5}),
    "where values say": ("f(x) = t(x)\nh(x) = f(clamp(i32(t(x)), 0, 5)) + f(x)", {"f": MANY}),
    "halves": ("f(x) = t(x)\ng(x) = f(x / 2)\nh(x) = g(x) + g(x + 1) + g(x + 2) + f(x)", {"f": 4}),
}  # fmt: skip


@pytest.mark.parametrize("name", SPREAD)
def test_points_that_differ_count(name: str) -> None:
    stages, expected = SPREAD[name]
    file = pipeline(stages, "{h: {x: 30}}", "{t: {dtype: f32, rank: 1}}")
    steps = {step.name: step for step in file.backbone.inner}
    assert {name: steps[name].spread for name in expected} == expected


def test_small_stencils_one_behind_the_other_may_be_one_expression() -> None:
    steps = {step.name: step for step in load("harris", CASES["harris"].sizes).backbone.inner}
    assert (steps["gray"].spread, steps["ix"].spread, steps["iy"].spread) == (25, 9, 9)
