"""Lines that are added: where there are any, and that results are the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spacedsl.kernels.expression import Reduction
from spacedsl.kernels.inputs import random_inputs
from spacedsl.kernels.kernel_file import KernelFile, Kind
from spacedsl.kernels.reference import evaluate
from tests.codegen.candidates import random_candidate, space_of
from tests.codegen.cuda.grids import space_of as space_of_grids
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
        for line in kernel.built.assignments
    ]


@pytest.mark.parametrize(
    ("line", "added"),
    [
        ("[i] = alpha * sum[p](A[i, p])", [("y_sum", ("i",))]),
        ("[i] = b[i] + sqrt(sum[p](A[i, p] * A[i, p]))", [("y_sum", ("i",))]),
        ("[i] = -max[p](A[i, p] - alpha) / sum[q](A[i, q])", [("y_max", ("i",)), ("y_sum", ("i",))]),
        (" = 2 * sum[i, p](A[i, p] * b[i])", [("y_sum", ())]),
        ("[i] = exp(b[i] - sum[j, p](A[j, p]))", [("y_sum", ())]),
        ("[i] = alpha * min[p](A[i, p] * sum[j](b[j]))", [("y_min_sum", ()), ("y_min", ("i",))]),
    ],
)
def test_a_long_reduction_with_few_results_has_a_line_of_its_own(
    line: str, added: list[tuple[str, tuple[str, ...]]]
) -> None:
    kernel = sample(line)
    assert lines(kernel)[:-1] == [(name, indices, True) for name, indices in added]
    assert lines(kernel)[-1][0] == "y" and not lines(kernel)[-1][2]
    assert [t.shape for t in kernel.built.intermediates] == [(6,) * len(i) for _, i in added]
    whole = sample(line, kind="cpu")
    assert len(lines(whole)) == 1 + ("sum[j" in line)
    arguments = random_inputs(whole, np.random.default_rng(3))
    apart = replace(kernel, computation=kernel.built)
    found, wanted = (evaluate(k, arguments.inputs, arguments.parameters)["y"] for k in (apart, whole))
    assert len(kernel.computation.assignments) == 1
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


TAKEN = """
kernel: sample
backbone: linalg
tensors:
  A: {{dtype: f32, shape: [6, 16384]}}{declared}
  y: {{dtype: f32, shape: [6], output: true}}
compute:{before}
  - y[i] = y_sum[i] * sum[p](A[i, p])
"""


@pytest.mark.parametrize(
    ("declared", "before"),
    [("\n  y_sum: {dtype: f32, shape: [6]}", ""), ("", "\n  - y_sum[i] = 2 * A[i, 0]")],
)
def test_a_name_that_is_taken_is_not_taken_again(declared: str, before: str) -> None:
    kernel = parse(TAKEN.format(declared=declared, before=before)).made_for("gpu")
    names = [line.target.tensor for line in kernel.built.assignments]
    assert len(set(names)) == len(names) == (3 if before else 2)
    (added,) = {t.name for t in kernel.built.intermediates} - {"y_sum"}
    assert added in names and added != "y_sum"


def test_an_index_of_one_value_stays_a_dimension() -> None:
    kernel = parse(
        """
kernel: sample
backbone: linalg
tensors:
  A: {dtype: f32, shape: [3, 1, 16384]}
  y: {dtype: f32, shape: [3, 1], output: true}
params: {alpha: f32}
compute:
  - y[i, j] = alpha * sum[p](A[i, j, p])
"""
    ).made_for("gpu")
    arguments = random_inputs(kernel, np.random.default_rng(3))
    apart = replace(kernel, computation=kernel.built)
    assert len(lines(kernel)) == 2
    found, wanted = (evaluate(k, arguments.inputs, arguments.parameters)["y"] for k in (apart, kernel))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


NESTED = """
kernel: nested
backbone: linalg
sizes: {{n: {n}}}
tensors:
  A: {{dtype: f32, shape: [n, n]}}
  B: {{dtype: f32, shape: [n, n]}}
  D: {{dtype: f32, shape: [n, n], output: true}}
compute:
  - D[i, j] = {value}
"""


@pytest.mark.parametrize(
    ("value", "added"),
    [
        ("sum[p](sum[q](A[i, q] * B[q, p]) * B[p, j])", [("D_sum", ("i", "p"))]),
        ("max[p](sum[q](A[i, q] * B[q, p]) + B[p, j])", [("D_sum", ("i", "p"))]),
        ("sum[q](A[i, q] * sum[p](A[q, p] * B[p, 0])) * B[0, j]", [("D_sum", ("q",))]),
        ("sum[p](max[q](A[q, p]) * B[p, j] * A[i, p])", [("D_max", ("p",))]),
        ("A[i, j] * sum[q](B[q, j]) + sum[p](A[i, p])", [("D_sum", ("j",)), ("D_sum_2", ("i",))]),
        (
            "sum[p](A[i, p] * sum[q](B[p, q] * sum[k](A[q, k])) * B[p, j])",
            [("D_sum_sum", ("q",)), ("D_sum", ("p",))],
        ),
        ("exp(A[i, j] - max[q](A[i, q])) / sum[q](exp(A[i, q] - max[p](A[i, p]))) + B[i, j]", []),
        ("max[q](A[q, j]) * B[i, j]", []),
        ("sum[p](sum[q](A[i, q] * B[p, q]) * B[j, 0])", [("D_sum", ("i", "p"))]),
        ("sum[p](A[i, p] * B[p, j]) + sum[q](A[i, q] * A[q, j])", []),
    ],
)
def test_a_reduction_without_a_place_among_the_loops_has_a_line_of_its_own(
    value: str, added: list[tuple[str, tuple[str, ...]]]
) -> None:
    """And with that there are implementations, however many values there are to sum up beside each other."""
    kernel = parse(NESTED.format(n=1024, value=value))
    assert [(target, indices) for target, indices, _ in lines(kernel)[:-1]] == added
    assert random_candidate(space_of(kernel), np.random.default_rng(1)) is not None
    small = parse(NESTED.format(n=6, value=value))
    arguments = random_inputs(small, np.random.default_rng(3))
    found, wanted = (
        evaluate(k, arguments.inputs, arguments.parameters)["D"]
        for k in (replace(small, computation=small.built), small)
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    a, b = (arguments.inputs[n].reshape(6, 6).astype(np.float64) for n in "AB")
    if value.startswith("sum[p](sum[q](A[i, q] * B[q, p]) * B"):
        np.testing.assert_allclose(wanted, a @ b @ b, rtol=1e-5)


ALONE = """
kernel: alone
backbone: linalg
sizes: {{n: {n}}}
tensors:
  A: {{dtype: f32, shape: [n, n]}}
  x: {{dtype: f32, shape: [n]}}
  s: {{dtype: f32, shape: []}}
  D: {{dtype: f32, shape: [n, n], output: true}}
params: {{alpha: f32, beta: f32}}
compute:
  - D[i, j] = {value} + alpha * beta * s * x[0] * A[0, 0]
"""


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
@pytest.mark.parametrize(
    ("value", "added"),
    [
        ("-alpha * sum[p](A[i, p] * A[p, j])", ["D_scalar"]),
        ("alpha / beta * A[i, j]", ["D_scalar"]),
        ("A[i, j] / sqrt(s)", ["D_sqrt"]),
        ("A[i, j] / sqrt(sum[p](x[p] * x[p]))", ["D_sqrt"]),
        ("sum[p](exp(s * alpha) * A[i, p]) * x[j]", ["D_exp"]),
        ("alpha * A[i, j] + s * x[j] + 2 * 3", []),
    ],
)
def test_what_has_no_index_keeps_no_loop_to_one_thread(value: str, added: list[str], kind: Kind) -> None:
    kernel = parse(ALONE.format(n=512, value=value)).made_for(kind)
    others = ["D_scalar_2" if "D_scalar" in added else "D_scalar"]
    assert [target for target, _, _ in lines(kernel)[:-1]] == [*added, *others]
    instance = space_of_grids(kernel) if kind == "gpu" else space_of(kernel)
    root = instance.root()
    assert root is not None
    wanted = "BLOCK" if kind == "gpu" else "PARALLEL"
    (store,) = (i for i in kernel.backbone.instructions if i.name == "store_D")
    for dim in store.dims:
        if dim.level == 0 and dim.index == "i":
            (variable,) = (v for v in instance.variables_of("dim_kind") if v.objects == (dim,))
            assert wanted in variable.values(root.mask(variable)), dim
    small = parse(ALONE.format(n=6, value=value)).made_for(kind)
    arguments = random_inputs(small, np.random.default_rng(3))
    found, wanted_values = (
        evaluate(k, arguments.inputs, arguments.parameters)["D"]
        for k in (replace(small, computation=small.built), small)
    )
    np.testing.assert_allclose(found, wanted_values, rtol=1e-6)


def test_where_nothing_varies_all_stays_in_its_line() -> None:
    kernel = parse(ALONE.format(n=1, value="A[i, j] / sqrt(s)"))
    assert len(lines(kernel)) == 1
