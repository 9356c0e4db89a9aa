"""Lines that are added for a GPU: where there are any, and that results are the same."""

from __future__ import annotations

import numpy as np
import pytest

from spacedsl.kernels.expression import Reduction
from spacedsl.kernels.inputs import random_inputs
from spacedsl.kernels.kernel_file import KernelFile, Kind
from spacedsl.kernels.reference import evaluate
from tests.codegen.kernels import parse

FILE = """
kernel: sample
backbone: linalg
tensors:
  A: {{dtype: f32, shape: [{m}, {n}]}}{b}
  y: {{dtype: f32, shape: [{shape}], output: true}}
params: {{{alpha}}}
compute:
  - y{line}
"""


def sample(line: str, m: int = 6, n: int = 16384, kind: Kind = "gpu") -> KernelFile:
    shape, b = m if line.startswith("[i]") else "", f"\n  b: {{dtype: f32, shape: [{m}]}}" * ("b[" in line)
    text = FILE.format(m=m, n=n, shape=shape, line=line, b=b, alpha="alpha: f32" * ("alpha" in line))
    return parse(text).made_for(kind)


def lines(kernel: KernelFile) -> list[tuple[str, tuple[str, ...], bool]]:
    """Targets with their indices, and whether it is a reduction that is assigned."""
    return [
        (line.target.tensor, line.target.indices, isinstance(line.value, Reduction))
        for line in kernel.computation.assignments
    ]


@pytest.mark.parametrize(
    ("line", "added"),
    [
        ("[i] = alpha * sum[p](A[i, p])", [("y_sum", ("i",))]),
        ("[i] = b[i] + sqrt(sum[p](A[i, p] * A[i, p]))", [("y_sum", ("i",))]),
        ("[i] = -max[p](A[i, p] - alpha) / sum[q](A[i, q])", [("y_max", ("i",)), ("y_sum", ("i",))]),
        (" = 2 * sum[i, p](A[i, p] * b[i])", [("y_sum", ())]),
        ("[i] = exp(b[i] - sum[j, p](A[j, p]))", [("y_sum", ())]),
        ("[i] = alpha * min[p](A[i, p] * sum[j](b[j]))", [("y_min", ("i",))]),
    ],
)
def test_a_long_reduction_with_few_results_has_a_line_of_its_own(
    line: str, added: list[tuple[str, tuple[str, ...]]]
) -> None:
    kernel = sample(line)
    assert lines(kernel)[:-1] == [(name, indices, True) for name, indices in added]
    assert lines(kernel)[-1][0] == "y" and not lines(kernel)[-1][2]
    assert [t.shape for t in kernel.computation.intermediates] == [(6,) * len(i) for _, i in added]
    whole = sample(line, kind="cpu")
    assert len(lines(whole)) == 1
    arguments = random_inputs(whole, np.random.default_rng(3))
    found, wanted = (evaluate(k, arguments.inputs, arguments.parameters)["y"] for k in (kernel, whole))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize(
    ("line", "m", "n"),
    [
        ("[i] = sum[p](A[i, p])", 6, 16384),
        ("[i] = alpha * sum[p](A[i, p])", 6, 16383),
        ("[i] = alpha * sum[p](A[i, p])", 257, 16384),
        ("[i] = b[i] * alpha - A[i, 5] * A[i, 6]", 6, 16384),
    ],
)
def test_all_else_stays_as_it_is(line: str, m: int, n: int) -> None:
    assert len(lines(sample(line, m=m, n=n))) == 1


def test_a_name_that_is_taken_is_not_taken_again() -> None:
    kernel = parse(
        """
kernel: sample
backbone: linalg
tensors:
  x: {dtype: f32, shape: [16384]}
  y_sum: {dtype: f32, shape: []}
  y: {dtype: f32, shape: [], output: true}
compute:
  - y = y_sum * sum[p](x[p])
"""
    ).made_for("gpu")
    (added, _), (target, _) = ((line.target.tensor, line) for line in kernel.computation.assignments)
    assert added not in ("y", "y_sum") and target == "y"
