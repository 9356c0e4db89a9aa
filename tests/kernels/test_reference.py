"""The reference, against NumPy written by hand and against plain Python loops."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from spacedsl.kernels import reference
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.expression import Binary, Constant, Expression, Name, Negation, Read, Reduction
from spacedsl.kernels.formats import elements, numbers
from spacedsl.kernels.inputs import integer_inputs, random_inputs
from spacedsl.kernels.kernel_file import KernelFile, load_kernel
from spacedsl.kernels.reference import evaluate, greatest_magnitude, view
from tests.kernels.library_formulas import DIRECT, swept_sizes
from tests.kernels.samples import LIBRARY, MATMUL, changed, check

Arrays = Mapping[str, Any]


def views(kernel: KernelFile, buffers: Arrays) -> dict[str, Any]:
    """The inputs in their shapes, by arithmetic on addresses rather than by strides."""
    arrays = {}
    for tensor in kernel.backbone.tensors:
        if not tensor.is_output:
            array, held = np.empty(tensor.shape), numbers(tensor.dtype, buffers[tensor.name])
            for position in np.ndindex(*tensor.shape):
                address = sum(n * s for n, s in zip(position, tensor.strides, strict=True))
                array[position] = held[address]
            arrays[tensor.name] = array
    return arrays


def test_every_library_kernel_has_a_direct_formula() -> None:
    assert set(DIRECT) == {path.stem for path in LIBRARY.glob("*.yaml")}


@pytest.mark.parametrize("name", DIRECT)
@pytest.mark.parametrize(("smallest", "step"), [(1, 0), (1, 3), (5, 3), (16, 3)])
def test_the_reference_equals_numpy_on_the_library(name: str, smallest: int, step: int) -> None:
    path = LIBRARY / f"{name}.yaml"
    sizes = load_kernel(path).sizes
    kernel = load_kernel(path, swept_sizes(sizes, smallest, step if len(sizes) < 5 else min(step, 1)))
    arguments = random_inputs(kernel, np.random.default_rng(1))
    results = list(evaluate(kernel, arguments.inputs, arguments.parameters).values())
    expected = DIRECT[name](views(kernel, arguments.inputs), arguments.parameters)
    for result, wanted in zip(results, expected if isinstance(expected, tuple) else (expected,), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-11, atol=1e-11)
        assert result.dtype == (np.int64 if name.endswith("i32") else np.float64)


def by_loops(kernel: KernelFile, arrays: dict[str, Any], parameters: Mapping[str, float]) -> dict[str, Any]:
    """Every assignment element by element in Python."""
    extents = kernel.computation.extents

    def value(node: Expression, at: Mapping[str, int]) -> float:
        match node:
            case Constant(value=number):
                return number
            case Name(name=name):
                return parameters[name]
            case Read(tensor=tensor, positions=positions):
                place = tuple(p.constant + sum(n * at[i] for i, n in p.terms) for p in positions)
                inside = all(0 <= n < extent for n, extent in zip(place, arrays[tensor].shape, strict=True))
                return float(arrays[tensor][place]) if inside else 0.0
            case Negation(operand=operand):
                return -value(operand, at)
            case Binary(operator=operator, left=left, right=right):
                a, b = value(left, at), value(right, at)
                return {"+": a + b, "-": a - b, "*": a * b}[operator] if operator != "/" else a / b
            case Reduction(operator=operator, indices=indices, body=body):
                points = itertools.product(*(range(extents[i]) for i in indices))
                combine: Mapping[str, Callable[..., float]] = {"sum": sum, "max": max, "min": min}
                terms = (value(body, {**at, **dict(zip(indices, p, strict=True))}) for p in points)
                return combine[operator](terms)
        raise AssertionError(node)

    outputs = {}
    for line in kernel.computation.assignments:
        indices = line.target.indices
        result = np.empty([extents[i] for i in indices])
        for point in np.ndindex(*result.shape):
            result[point] = value(line.value, dict(zip(indices, point, strict=True)))
        outputs[line.target.tensor] = arrays[line.target.tensor] = result
    return outputs


SHAPES = """\
kernel: k
backbone: linalg
sizes: {m: 5, n: 7}
tensors:
  A: {dtype: f64, shape: [m, n], strides: [1, 6], pad: [2, 0]}
  S: {dtype: f64, shape: [m, m]}
  x: {dtype: f64, shape: [n]}
  u: {dtype: f64, shape: [m], output: true}
  v: {dtype: f64, shape: [m, n], output: true}
  w: {dtype: f64, shape: [], output: true}
  y: {dtype: f64, shape: [3], output: true}
params: {alpha: f64}
compute:
  - u[i] = alpha * sum[h](A[i, h] * (x[h] - 2)) / n + S[i, i]
  - v[i, j] = -sum[p](S[i, p] * S[p, i] * A[p, j] + u[p]) + sum[q, h](A[q, h] * u[q]) * x[j]
  - w = sum[i](u[i] / (1 + S[i, i] * S[i, i])) - sum[i, j](v[i, j] * A[i, j] * sum[k](S[i, k]))
  - y[e] = max[i](S[4 - i, m - 1 - i] * u[i]) + min[i](A[e + i - 2, n - 1 - 2 * e])
"""


@pytest.mark.parametrize("block", [2**22, 8, 1])
def test_the_reference_equals_plain_loops_in_blocks_of_any_size(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "MOST_BROADCAST", block)
    kernel = check(SHAPES)
    arguments = random_inputs(kernel, np.random.default_rng(2))
    results = evaluate(kernel, arguments.inputs, arguments.parameters)
    expected = by_loops(kernel, views(kernel, arguments.inputs), arguments.parameters)
    assert results.keys() == expected.keys() == {"u", "v", "w", "y"}
    for name, result in results.items():
        np.testing.assert_allclose(result, expected[name], rtol=1e-11, atol=1e-11)


def test_integers_are_exact_where_float64_is_not() -> None:
    kernel = check(changed(("f32", "i32"), ("m: 64, n: 48, k: 32", "m: 2, n: 2, k: 3")))
    big = np.full(6, 2**30 + 1, np.int32)
    result = evaluate(kernel, {"A": big, "B": big}, {})["C"]
    assert result.dtype == np.int64
    assert result[0, 0] == DType.I32.wrapped(3 * (2**30 + 1) ** 2) != 0


def test_inputs_may_come_in_their_own_shape() -> None:
    kernel = check(MATMUL, {"m": 2, "n": 3, "k": 4})
    a, b = np.arange(8.0).reshape(2, 4), np.arange(12.0).reshape(4, 3)
    np.testing.assert_array_equal(evaluate(kernel, {"A": a, "B": b}, {})["C"], a @ b)


def test_a_view_writes_through_to_the_elements_of_its_buffer() -> None:
    tensor = load_kernel(LIBRARY / "matmul_strided.yaml", {"m": 2, "k": 3}).backbone.tensors[0]
    buffer = np.full(tensor.span, -1.0)
    view(tensor, buffer)[...] = [[0, 1, 2], [3, 4, 5]]
    assert {n: v for n, v in enumerate(buffer) if v >= 0} == {0: 0, 32: 1, 64: 2, 96: 3, 128: 4, 160: 5}


def test_a_short_buffer_is_refused() -> None:
    tensor = check(MATMUL).backbone.tensors[0]
    with pytest.raises(ValueError, match="2048 elements"):
        view(tensor, np.zeros(2047))


def test_the_greatest_magnitude_bounds_partial_sums_that_cancel() -> None:
    kernel = check(MATMUL, {"m": 1, "n": 1, "k": 4})
    inputs = {"A": np.array([3.0, 3.0, -3.0, -3.0]), "B": np.full(4, 5.0)}
    assert evaluate(kernel, inputs, {})["C"][0, 0] == 0
    assert greatest_magnitude(kernel, inputs, {}) == 60


@pytest.mark.parametrize(
    ("term", "expected"),
    [("max(a[i], n * n)", lambda a: np.maximum(a, 0)), ("a[i] * 65536 * 65536", lambda a: 0 * a),
     ("-(a[i] - a[i] - 2147483647 - 1)", lambda a: np.full(a.shape, -(2**31)))],
)  # fmt: skip
def test_integers_of_32_bits_wrap_around_wherever_they_are_computed(term: str, expected: Any) -> None:
    kernel = check(
        "kernel: k\nbackbone: linalg\nsizes: {n: 65536}\ntensors:\n  a: {dtype: i32, shape: [n]}\n"
        f"  b: {{dtype: i32, shape: [n], output: true}}\ncompute:\n  - b[i] = {term}\n"
    )
    a = np.arange(-3, 65533, dtype=np.int32)
    assert np.array_equal(evaluate(kernel, {"a": a}, {})["b"], expected(a))


def test_float32_arithmetic_is_exact_on_integer_inputs_in_any_order() -> None:
    kernel = check(MATMUL, {"k": 512})
    arguments = integer_inputs(kernel, np.random.default_rng(3))
    assert arguments.is_exact
    a, b = (arguments.inputs[n].reshape(s) for n, s in (("A", (64, 512)), ("B", (512, 48))))
    order = np.random.default_rng(4).permutation(512)
    total = np.zeros((64, 48), np.float32)
    for p in order:
        total += np.outer(a[:, p], b[p])
    np.testing.assert_array_equal(total, evaluate(kernel, arguments.inputs, {})["C"])


def test_results_can_be_written_into_arrays_of_the_callers() -> None:
    kernel = check(MATMUL)
    arguments = integer_inputs(kernel, np.random.default_rng(0))
    target = np.zeros((64, 48), np.float32)
    results = evaluate(kernel, arguments.inputs, {}, {"C": target})
    assert results["C"] is target
    np.testing.assert_array_equal(target, evaluate(kernel, arguments.inputs, {})["C"])


def test_a_result_is_read_as_it_has_been_stored() -> None:
    text = changed(("f32", "bf16"), ("  C:", "  D: {dtype: f32, shape: [m, n], output: true}\n  C:")) + (
        "  - D[i, j] = C[i, j] + C[i, j]\n"
    )
    kernel = check(text, {"m": 3, "n": 4, "k": 5})
    arguments = random_inputs(kernel, np.random.default_rng(1))
    dtypes = {t.name: t.dtype for t in kernel.backbone.tensors}
    rooms = {name: elements(dtypes[name], np.zeros((3, 4))) for name in "CD"}
    evaluate(kernel, arguments.inputs, {}, rooms)
    unrounded = evaluate(kernel, arguments.inputs, {})["C"]
    np.testing.assert_array_equal(rooms["C"], elements(dtypes["C"], unrounded))
    np.testing.assert_array_equal(rooms["D"], 2 * numbers(dtypes["C"], rooms["C"]))
    assert np.any(rooms["D"] != 2 * unrounded)


DTYPES = {
    "B[j, i] = A[i, j]": ("bf16", "bf16"),
    "B[j, i] = A[i, j] + A[i, j]": ("bf16", "f32"),
    "B[j, i] = A[i, j] * s": ("f16", "f32"),
    "B[j, i] = A[i, j] + D[i, j]": ("bf16", "f64"),
}


@pytest.mark.parametrize("line", DTYPES)
def test_what_a_line_computes_in_follows_from_its_tensors(line: str) -> None:
    dtype, wanted = DTYPES[line]
    tensors = [
        f"  A: {{dtype: {dtype}, shape: [3, 4]}}",
        f"  B: {{dtype: {dtype}, shape: [4, 3], output: true}}",
    ]
    tensors += ["  D: {dtype: f64, shape: [3, 4]}"] if "D[" in line else []
    parameters = ["params: {s: f64}"] if " s" in line else []
    text = "\n".join(
        ["kernel: k", "backbone: linalg", "tensors:", *tensors, *parameters, f"compute: ['{line}']"]
    )
    assert check(text).computation.computed_in["B"].label == wanted
    wide = check(text + "\naccumulate: f64\n").computation.computed_in["B"].label
    assert wide == ("bf16" if wanted == "bf16" else "f64")
