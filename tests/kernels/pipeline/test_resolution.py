"""What the names of a definition mean."""

from __future__ import annotations

from spacedsl.kernels.pipeline.reference import evaluate
from tests.kernels.pipeline.files import pipeline


def test_a_range_may_have_the_name_of_a_variable_that_it_stands_for() -> None:
    file = pipeline("f(x, s) = x\nf(x, s) = f(x, s - 1) * 2 for s in 1:4", "{f: {x: 3, s: 4}}")
    (update,) = file.algorithm.stage("f").updates
    assert update.variables(file.algorithm.stage("f")) == ("x",)
    (f,) = evaluate(file.algorithm, file.boxes, {})["f"]
    assert f.tolist() == [[0, 1, 2], [0, 2, 4], [0, 4, 8], [0, 8, 16]]
