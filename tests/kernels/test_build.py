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
    LogicalDim,
    Number,
    Operand,
    ParameterValue,
    Value,
)
from spacedsl.kernels.linalg.operations import Op
from spacedsl.kernels.linalg.tiling import (
    are_tiles_large,
    exact_sizes,
    grid_tiling,
    inferred_factors,
    of_problems,
    tiling,
)
from spacedsl.kernels.reference import evaluate, view
from tests.codegen.kernels import parse
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
    assert names(dims["fma.i1"].group.dims) == ["load_A.i1", "init.i1", "fma.i1", "store_C.i1"]
    assert {d.group.index for d in dims["fma.i1"].group.dims} == {dims["fma.i0"].group.index}
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


def test_sizes_are_the_factors_and_what_remains() -> None:
    kernel = check(MATMUL + "tiling: {i: [[4, 32], [2, 4]], j: [[3]]}\n").backbone
    sizes = {d.name: d.possible_sizes for d in kernel.dimensions}
    assert [sizes[f"fma.i{n}"] for n in range(3)] == [(1, 4, 8), (4, 32), (2, 4)]
    assert [sizes[f"fma.j{n}"] for n in range(2)] == [(16,), (3,)]
    assert {s.value for s in kernel.uneven_sizes} == {3}
    assert not kernel.ragged_dims


def test_a_factor_that_does_not_divide_makes_the_last_tile_smaller() -> None:
    kernel = check(MATMUL + "tiling: {i: [[4, 7], [2, 4]], j: [[16], [4]]}\n").backbone
    sizes = {d.name: d.possible_sizes for d in kernel.dimensions}
    assert [sizes[f"fma.i{n}"] for n in range(3)] == [(3, 4, 5, 8), (4, 7), (2, 4)]
    # Each factor divides 48, but no combination does: there is one whole tile of 64, and it is not.
    assert [sizes[f"fma.j{n}"] for n in range(3)] == [(1,), (16,), (4,)]
    ragged = {d.name for d in kernel.ragged_dims}
    assert ragged == {
        "load_A.i0",
        "load_B.j0",
        *(f"{n}.{x}0" for n in ("init", "fma", "store_C") for x in "ij"),
    }


def test_a_factor_that_fits_no_combination_is_not_on_offer() -> None:
    assert exact_sizes(12, [[2, 4], [6]]) == ((1,), (2,), (6,))
    assert exact_sizes(12, [[4], [4]]) is None


@pytest.mark.parametrize("extent", [*range(1, 200), 1000, 1021, 1024, 4096, 2**26, 97 * 61])
@pytest.mark.parametrize(
    ("is_only_reduced", "is_in_panels", "is_of_rows", "is_in_blocks"),
    [
        (False, False, False, False),
        (True, False, False, False),
        (True, False, False, True),
        (False, True, False, False),
        (False, False, True, False),
    ],
)
def test_inferred_tilings_hold_every_combination(
    extent: int, is_only_reduced: bool, is_in_panels: bool, is_of_rows: bool, is_in_blocks: bool
) -> None:
    factors = inferred_factors(extent, is_only_reduced, is_in_panels, is_of_rows, is_in_blocks)
    offered = tiling(extent, factors)
    tiles = [(math.prod(c), c) for c in itertools.product(*factors)]
    brute = [(-(-extent // tile), *c) for tile, c in tiles if offered.is_ragged or extent % tile == 0]
    assert [set(level) for level in offered.levels] == [set(level) for level in zip(*brute, strict=True)]
    assert offered.is_ragged == any(extent % f for level in factors for f in level)
    assert len(factors) <= (1 + is_in_blocks if is_only_reduced else 3 if is_in_panels else 2)


@pytest.mark.parametrize("extent", [5, 7, 23, 56, 100, 976, 1000, 1023, 4099])
def test_extents_that_powers_of_two_divide_badly_have_the_tiles_of_others(extent: int) -> None:
    offered = tiling(extent, inferred_factors(extent, is_only_reduced=False))
    assert offered.is_ragged
    vectors = {2, 4, 8, 16} if extent > 8 else {2, 4, 8}
    assert vectors <= set(offered.levels[-1])
    if extent >= 1000:
        assert offered.levels[1:] == tiling(1024, inferred_factors(1024, False)).levels[1:]


@pytest.mark.parametrize("extent", [8, 16, 32, 64, 96, 256, 480, 1024, 1056, 4096, 2**26])
def test_extents_that_powers_of_two_divide_well_have_exact_tilings_alone(extent: int) -> None:
    assert not tiling(extent, inferred_factors(extent, is_only_reduced=False)).is_ragged


@pytest.mark.parametrize(
    ("line", "levels"),
    [
        ("s = sqrt(sum[p](x[p] * x[p]))", {"p": 3}),
        ("s = sum[p](x[p]) + max[q](A[q, q])", {"p": 3, "q": 2}),
        ("s = sum[p, q](A[p, q])", {"p": 2, "q": 2}),
    ],
)
def test_what_is_reduced_to_a_single_number_has_partial_results_beside_vectors(
    line: str, levels: dict[str, int]
) -> None:
    names = [name for name in ("x", "A") if f"{name}[" in line]
    shapes = {"x": "[1000000]", "A": "[1000, 1000]"}
    tensors = "".join(f"  {n}: {{dtype: f32, shape: {shapes[n]}}}\n" for n in names)
    kernel = parse(
        f"kernel: single\nbackbone: linalg\ntensors:\n{tensors}"
        f"  s: {{dtype: f32, shape: [], output: true}}\ncompute:\n  - {line}\n"
    ).backbone
    found = {logical.index: len(logical.dims) for logical in kernel.logical_dims}
    assert found == levels
    middle = [d for d in kernel.dimensions if d.index == "p" and d.level == 1 and len(d.logical.dims) == 3]
    assert all(d.possible_sizes == (1, 2, 4, 8) and d.is_optional for d in middle)


@pytest.mark.parametrize("extent", [100, 1000, 50304, 300000, 1000000, 5000000])
def test_tiles_of_gpus_are_large_where_few_powers_of_two_divide(extent: int) -> None:
    assert not are_tiles_large(extent)
    offered = grid_tiling(extent, is_only_reduced=False)
    assert offered.is_ragged and offered.levels[0][0] <= -(-extent // 4096)
    text = (
        f"kernel: one\nbackbone: linalg\ntensors:\n  x: {{dtype: f32, shape: [{extent}]}}\n"
        f"  y: {{dtype: f32, shape: [{extent}], output: true}}\ncompute:\n  - y[i] = 2 * x[i]\n"
    )
    kernel = parse(text).made_for("gpu").backbone
    assert {logical.dims[0].possible_sizes for logical in kernel.logical_dims} == {offered.levels[0]}


@pytest.mark.parametrize("extent", [96, 1536, 1920, 4096, 11008, 12288, 7 * 2**20])
def test_tiles_of_gpus_divide_what_they_can(extent: int) -> None:
    assert are_tiles_large(extent)
    assert not grid_tiling(extent, is_only_reduced=False).is_ragged


def indices_with_six_rows(kernel: str) -> set[str]:
    file = load_kernel(LIBRARY / f"{kernel}.yaml")
    return {g.index for g in file.backbone.logical_dims if 6 in g.dims[-1].possible_sizes}


@pytest.mark.parametrize("kernel", ["matmul", "matmul_strided", "matmul_bias_relu"])
def test_long_rows_beside_columns_in_panels_have_tiles_of_six(kernel: str) -> None:
    assert indices_with_six_rows(kernel) == {"i"}


@pytest.mark.parametrize("kernel", ["matmul_small", "matmul_tn", "matvec", "transpose", "row_sum", "axpy"])
def test_other_indices_that_are_well_divided_have_no_tiles_of_six(kernel: str) -> None:
    assert not indices_with_six_rows(kernel)


def optional_levels(kernel: str, **sizes: int) -> set[str]:
    return {d.group.name for d in load_kernel(LIBRARY / f"{kernel}.yaml", sizes).backbone.optional_dims}


def test_columns_of_an_operand_that_is_used_for_other_rows_may_have_a_further_level() -> None:
    assert optional_levels("matmul") == {"*.j.1"}
    assert optional_levels("matmul_nt") == set(), "what lies side by side is summed up"
    assert optional_levels("matmul_tn") == {"*.i.1", "*.j.1"}
    assert optional_levels("matmul", n=512) == set(), "few columns"
    assert optional_levels("conv2d_nhwc", f=1024) == {"*.o.1"}


def test_what_is_read_once_or_is_one_row_has_no_further_level() -> None:
    assert all(not optional_levels(k) for k in ("axpy", "matvec", "column_sum", "softmax", "transpose"))


def test_a_level_that_the_file_gives_with_a_factor_of_1_is_optional_unless_it_is_innermost() -> None:
    kernel = check(MATMUL + "tiling: {i: [[1, 4], [1, 4]], j: [[3]]}\n").backbone
    assert {d.name for d in kernel.optional_dims} == {f"{n}.i1" for n in ("load_A", "init", "fma", "store_C")}


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


@pytest.mark.parametrize(
    ("term", "number"),
    [
        ("A[i, j] * (65536 * 65536)", 0),
        ("A[i, j] * (2147483647 + 1)", -(2**31)),
        ("A[i, j] * (123456789 * 987654321)", -67153019),
        ("A[i, j] * (-2147483647 - 2)", 2147483647),
        ("A[i, j] * -(-2147483647 - 1)", -(2**31)),
        ("A[i, j] * abs(-2147483647 - 1)", -(2**31)),
        ("A[i, j] * max(abs(-2147483647 - 1), 5)", 5),
    ],
)
def test_numbers_of_32_bits_wrap_around(term: str, number: int) -> None:
    """Also where floats would no longer hold the product."""
    text = changed(
        ("sum[p](A[i, p] * B[p, j])", f"{term} * B[i, j]"), ("[m, k]", "[m, n]"), ("[k, n]", "[m, n]")
    )
    kernel = check(changed(("f32", "i32"), (", k: 32", ""), text=text)).backbone
    numbers = [o.value for i in kernel.instructions for o in i.operands if isinstance(o, Number)]
    assert numbers == [number]


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
    """Executes the backbone with the first tiling on offer, in plain Python, on flat buffers."""
    chosen = {d: _size(d) for d in kernel.dimensions}
    results: dict[Instruction, dict[Point, float]] = {}
    for instruction in kernel.instructions:
        made = results[instruction] = {}
        latest: dict[Point, float] = {}
        for position in itertools.product(*(range(chosen[d]) for d in instruction.dims)):
            point = dict(zip(instruction.dims, position, strict=True))
            if any(_value(logical, point, chosen) >= logical.extent for logical in instruction.logical_dims):
                continue
            free = tuple((d, n) for d, n in point.items() if not d.is_reduction)
            arguments = [_operand(o, point, free, results, latest, parameters) for o in instruction.operands]
            value = _apply(instruction, arguments, point, chosen, buffers)
            # The iterations of reduced dimensions come in order: the last one stands.
            latest[free] = made[free] = value


def _size(dim: Dimension) -> int:
    """The sizes of one tiling of the dimension's index, the same for all nests."""
    for sizes in itertools.product(*(d.possible_sizes for d in dim.logical.dims)):
        covered, tile = math.prod(sizes), math.prod(sizes[1:])
        is_tiling = (
            covered - tile < dim.logical.extent <= covered
            if dim.logical.is_ragged
            else (covered == dim.logical.extent)
        )
        if is_tiling:
            return int(sizes[dim.level])
    raise AssertionError(f"no tiling of {dim.logical}")


def _value(logical: LogicalDim, point: Mapping[Dimension, int], sizes: Mapping[Dimension, int]) -> int:
    """Of the index, where each of its levels stands somewhere."""
    return sum(point[d] * math.prod(sizes[inner] for inner in d.inner_levels) for d in logical.dims)


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


SIZES = (1, 7, 8)


@pytest.mark.parametrize("path", sorted(LIBRARY.glob("*.yaml")), ids=lambda p: p.stem)
@pytest.mark.parametrize("size", SIZES)
def test_the_backbone_of_a_library_kernel_means_what_it_says(path: Any, size: int) -> None:
    sizes = load_kernel(path).sizes
    many = sum(name not in FIXED for name in sizes)
    # Of loops so deep, small ones take long enough.
    most = 4 if many > 4 else max(SIZES)
    if any(most <= smaller < size for smaller in SIZES):
        pytest.skip(f"sizes are {most} at most, as in another case")
    swept = swept_sizes(sizes, min(size, most), 0)
    assert_backbone_means_reference(
        load_kernel(path, {n: s + k % 2 for k, (n, s) in enumerate(swept.items())})
    )


@pytest.mark.parametrize(
    ("name", "numbered"),
    [("batched_matmul", {"h"}), ("softmax", {"i"}), ("axpy", set()), ("matmul", set()), ("transpose", set())],
)
def test_indices_that_number_problems(name: str, numbered: set[str]) -> None:
    """They have one level of tiles on a GPU, of which a tile may be one problem."""
    kernel = load_kernel(LIBRARY / f"{name}.yaml", {}, "gpu")
    tensors = {t.name: t for t in (*kernel.tensors, *kernel.computation.intermediates)}
    assert of_problems(kernel.computation, tensors) == numbered
    for index in numbered:
        assert sum(level.index.name == f"*.{index}" for level in kernel.backbone.levels) == 2
