"""The backbone: its relations on known kernels, and its meaning, by running it instruction by instruction."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from spacedsl.kernels.formats import numbers
from spacedsl.kernels.inputs import integer_inputs
from spacedsl.kernels.kernel_file import KernelFile, load_kernel
from spacedsl.kernels.linalg.backbone import (
    Accumulator,
    Dimension,
    Instruction,
    Kernel,
    Number,
    Op,
    Operand,
    ParameterValue,
    Value,
)
from spacedsl.kernels.linalg.tiling import inferred_factors, possible_sizes
from spacedsl.kernels.reference import evaluate, view
from tests.kernels.library_formulas import FIXED, swept_sizes
from tests.kernels.samples import LIBRARY, MATMUL, changed, check

ONCE = MATMUL + "tiling: {i: [[4]], j: [[4]], p: [[4]]}\n"
TWICE = MATMUL + "tiling: {i: [[4], [2]], j: [[4], [2]], p: [[4]]}\n"

Point = tuple[tuple[Dimension, int], ...]


def by_name(kernel: Kernel) -> dict[str, Instruction]:
    return {i.name: i for i in kernel.instructions}


def names(objects: tuple[Any, ...]) -> list[str]:
    return [o.name for o in objects]


def test_matmul_split_once_has_the_statements_of_the_paper() -> None:
    kernel = check(ONCE).backbone
    assert names(kernel.instructions) == ["load_A", "load_B", "init", "fma", "store_C"]
    assert (len(kernel.dimensions), len(kernel.statements)) == (22, 27)
    assert len(check(TWICE).backbone.statements) == 35


def test_ids_are_positions_among_the_statements() -> None:
    for position, statement in enumerate(check(ONCE).backbone.statements):
        assert statement.id == position


def test_values_flow_from_loads_and_initialiser_to_the_store() -> None:
    kernel = check(ONCE).backbone
    made = by_name(kernel)
    assert [names(i.consumers) for i in kernel.instructions] == [["fma"], ["fma"], ["fma"], ["store_C"], []]
    assert names(made["fma"].initialisers) == ["init"]
    assert names(made["fma"].reduced_dims) == ["fma.p0", "fma.p1"]
    assert names(made["fma"].free_dims) == ["fma.i0", "fma.i1", "fma.j0", "fma.j1"]
    mapped = {d.name: names(d.mapped_to) for d in kernel.dimensions}
    assert mapped["load_A.p1"] == ["fma.p1"]
    assert mapped["init.j0"] == ["fma.j0"]
    assert mapped["fma.i0"] == ["store_C.i0"]
    assert mapped["fma.p0"] == []
    assert mapped["store_C.i0"] == []


def test_a_load_is_foreign_to_the_indices_that_it_does_not_read() -> None:
    load = by_name(check(ONCE).backbone)["load_A"]
    expected = [f"{inst}.j{level}" for inst in ("load_B", "init", "fma", "store_C") for level in (0, 1)]
    assert names(load.foreign_dims) == expected


def test_twins_share_group_and_inner_levels_follow() -> None:
    kernel = check(TWICE).backbone
    dims = {d.name: d for d in kernel.dimensions}
    assert names(dims["fma.i1"].twins) == ["load_A.i1", "init.i1", "store_C.i1"]
    assert names(dims["fma.i0"].inner_levels) == ["fma.i1", "fma.i2"]
    assert len({d.group for d in kernel.dimensions}) == 8


def test_only_innermost_contiguous_dimensions_can_be_vectors() -> None:
    vectors = {d.name for d in check(ONCE).backbone.dimensions if d.is_vectorizable}
    assert vectors == {
        "load_A.p1",
        "load_B.j1",
        "init.i1",
        "init.j1",
        "fma.i1",
        "fma.j1",
        "fma.p1",
        "store_C.j1",
    }


def test_sizes_are_the_factors_that_divide_and_the_quotients_that_remain() -> None:
    kernel = check(MATMUL + "tiling: {i: [[4, 32, 7], [2, 4]], j: [[3, 5]]}\n").backbone
    sizes = {d.name: d.possible_sizes for d in kernel.dimensions}
    assert [sizes[f"fma.i{n}"] for n in range(3)] == [(1, 4, 8), (4, 32), (2, 4)]
    assert [sizes[f"fma.j{n}"] for n in range(2)] == [(16,), (3,)]
    assert {s.value for s in kernel.uneven_sizes} == {3}


def test_a_factor_that_fits_no_combination_is_not_on_offer() -> None:
    assert possible_sizes(12, [[2, 4], [6]]) == ((1,), (2,), (6,))
    assert possible_sizes(12, [[4], [4]]) is None


@pytest.mark.parametrize("extent", [*range(1, 200), 1000, 1021, 1024, 4096, 2**26, 97 * 61])
@pytest.mark.parametrize("is_only_reduced", [False, True])
def test_inferred_tilings_are_exact_and_hold_every_combination(extent: int, is_only_reduced: bool) -> None:
    factors = inferred_factors(extent, is_only_reduced)
    exact = possible_sizes(extent, factors)
    assert exact is not None
    brute = [
        (extent // int(np.prod(c)), *c) for c in itertools.product(*factors) if extent % int(np.prod(c)) == 0
    ]
    assert [set(level) for level in exact] == [set(level) for level in zip(*brute, strict=True)]
    assert len(factors) <= (1 if is_only_reduced else 2)


def test_a_prime_extent_is_not_split() -> None:
    assert inferred_factors(97, False) == ()


def test_indices_of_extent_1_are_left_out() -> None:
    kernel = load_kernel(LIBRARY / "matmul.yaml", {"m": 1, "n": 1, "k": 1}).backbone
    assert kernel.dimensions == ()
    assert names(kernel.instructions) == ["load_A", "load_B", "mul", "store_C"]


def test_a_tensor_read_twice_alike_is_one_load() -> None:
    text = changed(("sum[p](A[i, p] * B[p, j])", "sum[p](A[i, p] * A[i, p] * B[p, j])"))
    assert names(check(text).backbone.loads) == ["load_A", "load_B"]


def test_separate_sums_load_separately() -> None:
    text = changed(("sum[p](A[i, p] * B[p, j])", "sum[p](A[i, p]) * sum[q](A[i, q] * B[q, j])"))
    assert names(check(text).backbone.loads) == ["load_A", "load_A_2", "load_B"]


def test_what_is_stored_and_read_again_is_ordered_through_memory() -> None:
    kernel = check(TWO_LINES).backbone
    made = by_name(kernel)
    assert names(made["store_s"].readers) == ["load_s"]
    assert made["store_s"].consumers == ()


FUNCTIONS: Mapping[Op, Callable[[float], float]] = {
    Op.ABS: abs,
    Op.SQRT: math.sqrt,
    Op.EXP: math.exp,
    Op.TANH: math.tanh,
    Op.SIGMOID: lambda x: (1 + math.tanh(x / 2)) / 2,
    Op.GELU: lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}


# ---- The meaning: every instruction executed over its whole nest, in the order of the list ---------------


def run(kernel: Kernel, buffers: Mapping[str, Any], parameters: Mapping[str, float]) -> None:
    """Executes the backbone with the first size on offer that is exact, in plain Python, on flat buffers."""
    chosen = {d: _size(d) for d in kernel.dimensions}
    results: dict[Instruction, dict[Point, float]] = {}
    for instruction in kernel.instructions:
        made = results[instruction] = {}
        latest: dict[Point, float] = {}
        for position in itertools.product(*(range(chosen[d]) for d in instruction.dims)):
            point = dict(zip(instruction.dims, position, strict=True))
            free = tuple((d, n) for d, n in point.items() if not d.is_reduction)
            arguments = [_operand(o, point, free, results, latest, parameters) for o in instruction.operands]
            value = _apply(instruction, arguments, point, chosen, buffers)
            # The iterations of reduced dimensions come in order: the last one stands.
            latest[free] = made[free] = value


def _size(dim: Dimension) -> int:
    """The sizes of one exact tiling of the dimension's index, the same for all nests."""
    logical = next(g for g in dim.instruction.logical_dims if dim in g.dims)
    for sizes in itertools.product(*(d.possible_sizes for d in logical.dims)):
        if int(np.prod(sizes)) == logical.extent:
            return int(sizes[dim.level])
    raise AssertionError(f"no exact tiling of {logical}")


def _operand(
    operand: Operand,
    point: Mapping[Dimension, int],
    free: Point,
    results: Mapping[Instruction, Mapping[Point, float]],
    latest: Mapping[Point, float],
    parameters: Mapping[str, float],
) -> float:
    match operand:
        case Number(value):
            return value
        case ParameterValue(parameter):
            return parameters[parameter.name]
        case Value(instruction, mapping):
            used = dict(mapping)
            own = [d for d in instruction.dims if not d.is_reduction]
            return results[instruction][tuple((d, point[used[d]]) for d in own)]
        case Accumulator(initialiser, mapping, _):
            used = dict(mapping)
            start = results[initialiser][tuple((d, point[used[d]]) for d in initialiser.dims)]
            return latest.get(free, start)


def _apply(
    instruction: Instruction,
    arguments: list[float],
    point: Mapping[Dimension, int],
    chosen: Mapping[Dimension, int],
    buffers: Mapping[str, Any],
) -> float:
    address = None
    if instruction.access is not None:
        address = instruction.access.offset
        for logical, stride in instruction.access.strides:
            index = 0
            for dim in logical.dims:
                index = index * chosen[dim] + point[dim]
            address += index * stride
    match instruction.op, arguments:
        case Op.LOAD, []:
            assert instruction.access is not None
            return float(buffers[instruction.access.tensor.name][address])
        case Op.STORE, [value]:
            assert instruction.access is not None
            buffers[instruction.access.tensor.name][address] = value
            return value
        case Op.MOVE, [value]:
            return value
        case Op.NEG, [value]:
            return -value
        case Op.ADD, [a, b]:
            return a + b
        case Op.SUB, [a, b]:
            return a - b
        case Op.MUL, [a, b]:
            return a * b
        case Op.DIV, [a, b]:
            return a / b
        case Op.FMA, [a, b, c]:
            return a * b + c
        case Op.MAX, [a, b]:
            return max(a, b)
        case Op.MIN, [a, b]:
            return min(a, b)
        case function, [a]:
            return FUNCTIONS[function](a)
    raise AssertionError(f"{instruction.op} of {arguments}")


HEAD = "kernel: k\nbackbone: linalg\nsizes: {m: 6, n: 8}\n"
VECTORS = HEAD + (
    "tensors:\n  a: {dtype: f64, shape: [m]}\n  b: {dtype: f64, shape: [n]}\n"
    "  M: {dtype: f64, shape: [m, n], strides: [1, 7]}\n  S: {dtype: f64, shape: [m, m]}\n"
    "  out: {dtype: f64, shape: SHAPE, output: true}\nparams: {alpha: f64, beta: f64}\ncompute: [LINE]\n"
)
LINES = {
    "out[i] = alpha * a[i] + beta": "[m]",
    "out[i] = -a[i] * (2 - 3 * 4) - a[i] / 4": "[m]",
    "out[i] = alpha * sum[j](M[i, j] * b[j]) + beta * a[i]": "[m]",
    "out[i, j] = a[i] * b[j] + M[i, j] * alpha": "[m, n]",
    "out[i, j] = b[j]": "[m, n]",
    "out[i, j] = 1.5": "[m, n]",
    "out[j] = sum[i](a[i] * M[i, j] * a[i])": "[n]",
    "out = sum[i, j](a[i] * M[i, j] * b[j]) / m": "[]",
    "out[] = sum[i](a[i] + sum[j](M[i, j] - b[j]))": "[]",
    "out[i] = S[i, i] + sum[q](S[q, i] * S[i, q])": "[m]",
    "out[i] = sum[p](S[p, p] * a[i])": "[m]",
    "out[i, j] = sum[p](S[i, p] * (M[p, j] + b[j])) - sum[q](-S[i, q])": "[m, n]",
}
TWO_LINES = HEAD + (
    "tensors:\n  M: {dtype: f32, shape: [m, n]}\n  s: {dtype: f32, shape: [m], output: true}\n"
    "  y: {dtype: f32, shape: [m, n], output: true}\n"
    "compute:\n  - s[i] = sum[q](M[i, q])\n  - y[i, j] = M[i, j] * s[i] + s[i]\n"
)


def used_only(text: str, line: str) -> str:
    """Without the declarations that the line does not use: they would be refused."""
    kept = [
        row
        for row in text.splitlines()
        if not row.startswith("  ") or row.startswith("  out") or f"{row.strip()[0]}[" in line
    ]
    used = [name for name in ("alpha", "beta") if name in line]
    declared = "params: {" + ", ".join(f"{name}: f64" for name in used) + "}"
    return "\n".join(declared if row.startswith("params") else row for row in kept) + "\n"


def assert_backbone_means_reference(kernel: KernelFile) -> None:
    arguments = integer_inputs(kernel, np.random.default_rng(5))
    expected = evaluate(kernel, arguments.inputs, arguments.parameters)
    dtypes = {t.name: t.dtype for t in kernel.backbone.tensors}
    buffers: dict[str, Any] = {
        name: numbers(dtypes[name], array).astype(np.float64) for name, array in arguments.inputs.items()
    }
    for tensor in kernel.backbone.tensors:
        if tensor.is_output:
            buffers[tensor.name] = np.full(tensor.span, np.nan)
    for scratch in kernel.backbone.scratch:
        buffers[scratch.tensor.name] = np.full(scratch.tensor.span, 0.0 if scratch.is_zeroed else np.nan)
    run(kernel.backbone, buffers, arguments.parameters)
    tensors = {t.name: t for t in kernel.backbone.tensors}
    for name, result in expected.items():
        np.testing.assert_allclose(view(tensors[name], buffers[name]), result, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("line", LINES)
def test_the_backbone_means_what_the_line_says(line: str) -> None:
    text = used_only(changed(("SHAPE", LINES[line]), ("LINE", f"'{line}'"), text=VECTORS), line)
    assert_backbone_means_reference(check(text))


def test_a_value_passes_from_line_to_line_through_memory() -> None:
    assert_backbone_means_reference(check(TWO_LINES))


@pytest.mark.parametrize("path", sorted(LIBRARY.glob("*.yaml")), ids=lambda p: p.stem)
@pytest.mark.parametrize("size", [1, 7, 8, 12])
def test_the_backbone_of_a_library_kernel_means_what_it_says(path: Any, size: int) -> None:
    sizes = load_kernel(path).sizes
    many = sum(name not in FIXED for name in sizes) > 4
    # Of loops so deep, small ones take long enough.
    swept = swept_sizes(sizes, min(size, 4) if many else size, 0)
    assert_backbone_means_reference(
        load_kernel(path, {n: s + k % 2 for k, (n, s) in enumerate(swept.items())})
    )
