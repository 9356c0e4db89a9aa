"""Copies of inputs: which are offered, and that they change nothing."""

from __future__ import annotations

import numpy as np
import pytest

from spacedsl.kernels.formats import NUMBER_TYPE
from spacedsl.kernels.pipeline.arguments import held
from spacedsl.kernels.pipeline.copies import with_copies, without_copies
from spacedsl.kernels.pipeline.reference import evaluate, shape
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.test_library import CASES, load

INPUTS = "{a: {dtype: f32, rank: 2}, b: {dtype: f32, rank: 2}, t: {dtype: i32, extents: [9], values: [0, 8]}}"

OFFERED = {
    "a point each": ("f(x, y) = a(x, y) + b(y, x)", "{f: {x: 7, y: 5}}", {}),
    "neighbours": ("f(x, y) = a(x, y) + a(x + 1, y)", "{f: {x: 7, y: 5}}", {"a_copy": ("x", "y")}),
    "for each column": ("f(x, y) = a(y, 3)", "{f: {x: 7, y: 5}}", {"a_copy": ("y", "i1")}),
    "two stages": (
        "g(x, y) = a(x, y)\nf(x, y) = g(x, y) * a(x, y)", "{f: {x: 7, y: 5}}", {"a_copy": ("x", "y")},
    ),
    "a product": (
        "p(x, y) = 0.0\np(x, y) += a(k, y) * b(x, k) for k in 0:6",
        "{p: {x: 4, y: 3}}",
        {"a_copy": ("k", "y"), "b_copy": ("x", "k")},
    ),
    "colours": ("f(x) = a(x, 0) + a(x, 1) + a(x, 2)", "{f: {x: 7}}", {}),
    "a row": ("f(x) = t(x) + t(x + 1)", "{f: {x: 7}}", {}),
    "where values say": ("f(x) = a(t(x), 0) + a(t(x), 1) * a(x, 0)", "{f: {x: 7}}", {}),
    "a name that is taken": (
        "a_copy(x, y) = a(x, y) + a(x + 1, y)\nf(x, y) = a_copy(x, y) * 2",
        "{f: {x: 4, y: 3}}",
        {"a_copy_2": ("x", "y")},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OFFERED)
def test_inputs_that_are_read_again_may_be_copied(name: str) -> None:
    stages, outputs, expected = OFFERED[name]
    steps = pipeline(stages, outputs, INPUTS).backbone.steps
    assert {s.name: s.dims for s in steps if s.is_copy} == expected


@pytest.mark.parametrize("name", ["matmul", "conv_layer", "unsharp", "bgu", "lens_blur"])
def test_copies_change_nothing(name: str) -> None:
    file = load(name, CASES[name].sizes)
    copied, inputs = with_copies(file.algorithm, file.boxes)
    assert inputs
    assert without_copies(copied, inputs) == file.algorithm
    assert copied == file.backbone.algorithm
    boxes = {**file.backbone.needed, **held(copied, file.backbone.needed)}
    rng = np.random.default_rng(3)
    given = {
        i.name: rng.integers(0, 9, shape(boxes[i.name])).astype(NUMBER_TYPE[i.dtype])
        for i in file.algorithm.inputs
        if i.name in boxes
    }
    for output in file.algorithm.outputs:
        here, there = (evaluate(algorithm, boxes, given)[output] for algorithm in (file.algorithm, copied))
        for one, other in zip(here, there, strict=True):
            np.testing.assert_array_equal(one, other)
