"""Outputs in pieces: the same as at once, and no more work than that is worth."""

from __future__ import annotations

import numpy as np
import pytest

from spacedsl.kernels.pipeline import pieces as module
from spacedsl.kernels.pipeline.pieces import parts, pieces
from spacedsl.kernels.pipeline.reference import evaluate
from spacedsl.kernels.pipeline.work import points
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.test_library import CASES, load, random_input


@pytest.mark.parametrize("name", ["blur", "camera_pipe", "nl_means", "matmul", "toy_trig"])
def test_pieces_are_together_what_is_computed_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_POINTS", 60)
    monkeypatch.setattr(module, "MOST_WORK", 4)
    monkeypatch.setattr(module, "LEAST_ROWS", 3)
    file, rng = load(name, CASES[name].sizes), np.random.default_rng(2)
    inputs = {i.name: random_input(file, i, rng) for i in file.algorithm.inputs}
    cut = pieces(file.algorithm, file.boxes)
    assert len(cut) > 2
    (output,) = file.algorithm.outputs
    ((expected,),) = [evaluate(file.algorithm, file.boxes, inputs)[output]]
    seen = np.zeros(expected.shape, int)
    for part in parts(file.algorithm, cut, inputs):
        np.testing.assert_array_equal(part.elements, expected[part.place])
        seen[part.place] += 1
    assert np.all(seen == 1)


def test_what_looks_at_a_whole_image_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_POINTS", 100)
    for name in ("iir_blur", "interpolate"):
        file = load(name, CASES[name].sizes)
        assert len(pieces(file.algorithm, file.boxes)) == 1


def test_several_outputs_and_parts_of_one_that_others_read_are_whole() -> None:
    file = pipeline("a(x) = x * x\nb(x) = a(x) + a(x + 9)", "{a: {x: 1:3}, b: {x: 2}}")
    found = {p.name: p for p in parts(file.algorithm, pieces(file.algorithm, file.boxes), {})}
    np.testing.assert_array_equal(found["a"].elements, [1, 4])
    np.testing.assert_array_equal(found["b"].elements, [81, 101])


def test_work_is_the_points_of_all_definitions() -> None:
    file = pipeline("a(x) = x\na(x) += r for r in 0:5\nb(x) = a(x) + a(x + 1)", "{b: {x: 4}}")
    assert points(file.algorithm, file.boxes) == 5 + 5 * 5 + 4
