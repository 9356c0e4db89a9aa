"""What is certainly read: elements of inputs that make a difference, and no others."""

from __future__ import annotations

import numpy as np
import pytest

from spacedsl.kernels.pipeline.arguments import held
from spacedsl.kernels.pipeline.footprints import certain_points, count
from spacedsl.kernels.pipeline.reference import evaluate, shape
from tests.kernels.pipeline.files import pipeline

IMAGE = "{a: {dtype: i32, extents: [9, 8]}, t: {dtype: i32, extents: [40]}}"

READ = {
    "a stencil": ("f(x, y) = a(x, y) + a(x + 2, y)", "{f: {x: 7, y: 8}}", {"a": 7 * 8}),
    "two stages": ("g(x, y) = a(x + 1, y)\nf(x) = g(x, 3) + g(x, 4)", "{f: {x: 5}}", {"a": 5}),
    "every second element": ("f(x) = t(2 * x + 1)", "{f: {x: 6}}", {"t": 6}),
    "each element twice": ("f(x) = t(x / 2 + 3)", "{f: {x: 13}}", {"t": 7}),
    "backwards": ("f(x) = t(9 - x)", "{f: {x: 2:8}}", {"t": 6}),
    "an edge": ("f(x, y) = repeat_edge(a, x - 3, y)", "{f: {x: 20, y: 8}}", {"a": 9 * 8}),
    "a range": ("f(x) = 0\nf(x) += t(x + r) for r in 0:30", "{f: {x: 5}}", {"t": 30}),
    "a range of one value": ("f() = sum[r in 0:30](t(r))", "{f: {}}", {"t": 30}),
    "one value for all": (
        "g() = sum[r in 0:30](t(r + 2))\nf(x) = g() + a(x, 0)",
        "{f: {x: 5}}",
        {"t": 30, "a": 5},
    ),
    "one value of one": ("g() = t(7)\nh() = g() + a(3, 2)\nf() = h()", "{f: {}}", {"t": 1, "a": 1}),
    "a table at a diagonal": ("f(x) = a(x, x)", "{f: {x: 8}}", {}),
    "data in a position": ("f(x) = t(clamp(a(x, 0), 0, 39))", "{f: {x: 8}}", {"a": 8}),
    "a branch": ("f(x) = select(x > 3, t(x), 7)", "{f: {x: 8}}", {}),
    "the condition of a branch": ("f(x) = select(t(x) > 3, t(x + 9), 7)", "{f: {x: 8}}", {"t": 8}),
    "a condition on an update": ("f(x) = 0\nf(x) += t(r) for r in 0:9 where r > x", "{f: {x: 8}}", {}),
    "values that are overwritten": ("f(x) = t(x)\nf(x) = a(x, 1)", "{f: {x: 8}}", {"a": 8}),
    "values that are added to": ("f(x) = t(x)\nf(x) += a(x, 1)", "{f: {x: 8}}", {"t": 8, "a": 8}),
}


@pytest.mark.parametrize("name", READ)
def test_what_is_counted_makes_a_difference(name: str) -> None:
    stages, outputs, expected = READ[name]
    file = pipeline(stages, outputs, IMAGE)
    found = certain_points(file.algorithm)
    assert {name: count(found[name]) for name in ("a", "t") if name in found} == expected
    rng = np.random.default_rng(3)
    boxes = {**file.boxes, **held(file.algorithm, file.boxes)}
    read = [i.name for i in file.algorithm.inputs if i.name in boxes]
    inputs = {n: rng.integers(100, 200, shape(boxes[n]), np.int32) for n in read}
    before = evaluate(file.algorithm, boxes, inputs)["f"][0]
    for array in expected:
        for place in np.ndindex(*(len(p) for p in reversed(found[array]))):
            at = tuple(int(p[n]) for p, n in zip(reversed(found[array]), place, strict=True))
            changed = {n: a.copy() for n, a in inputs.items()}
            changed[array][at] = -5
            assert np.any(evaluate(file.algorithm, boxes, changed)["f"][0] != before), at
