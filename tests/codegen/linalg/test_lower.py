"""Scripted implementations become programs that compute what NumPy computes; others are refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from spacedsl.codegen.linalg.implementation import Statement
from spacedsl.codegen.linalg.lower import lower
from spacedsl.codegen.tree.errors import LoweringError, VerificationError
from spacedsl.codegen.tree.expressions import Broadcast, FirstLane, Fma, Number
from spacedsl.codegen.tree.parts import blocks
from spacedsl.codegen.tree.program import Assign, Program
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.kernel_file import KernelFile
from tests.codegen.kernels import axpy, dot, matmul, parse
from tests.codegen.listings import AXPY_VECTOR, DOT_PARALLEL, DOT_SPLIT, MATMUL_SCALAR, MATMUL_TILED
from tests.codegen.runs import compiled_difference, integer_case, interpreted_difference
from tests.codegen.scripts import Script, script


def assert_right(kernel: KernelFile, text: str, folder: Path) -> None:
    program = verify(lower(kernel.backbone, script(kernel.backbone, text)))
    case = integer_case(kernel)
    assert interpreted_difference(kernel, program, case) == ""
    assert compiled_difference(kernel, program, case, folder) == ""


def assignments(program: Program) -> Iterator[Assign]:
    pending = list(program.body)
    while pending:
        statement = pending.pop()
        if isinstance(statement, Assign):
            yield statement
        pending += [inner for block in blocks(statement) for inner in block]


def test_a_tiled_vectorised_parallel_product_is_right(tmp_path: Path) -> None:
    kernel = matmul(32, 64, 9, "{i: [[2], [8]], j: [[2], [16]], p: []}")
    assert_right(kernel, MATMUL_TILED.format(i0=2, i1=2, j0=2, k=9), tmp_path)


def test_a_vectorised_parallel_axpy_is_right(tmp_path: Path) -> None:
    assert_right(axpy(480, "{i: [[10], [16]]}"), AXPY_VECTOR.format(i0=3, i1=10), tmp_path)


@pytest.mark.parametrize("sizes", [(97, 61, 53), (7, 5, 3), (2, 3, 2)])
def test_a_plain_loop_nest_is_right_at_odd_sizes(sizes: tuple[int, int, int], tmp_path: Path) -> None:
    m, n, k = sizes
    assert_right(matmul(m, n, k), MATMUL_SCALAR.format(m=m, n=n, k=k), tmp_path)


def test_a_product_of_single_elements_needs_no_loop(tmp_path: Path) -> None:
    kernel = matmul(1, 1, 1)
    names = [i.name for i in kernel.backbone.instructions]
    assert_right(kernel, "\n".join(names), tmp_path)


@pytest.mark.parametrize("dtype", ["f64", "i32"])
def test_other_element_types_are_right(dtype: str, tmp_path: Path) -> None:
    kernel = matmul(16, 32, 5, "{i: [[2], [8]], j: [[2], [8]], p: []}", dtype)
    text = MATMUL_TILED.format(i0=1, i1=2, j0=2, k=5).replace("V 16", "V 8")
    assert_right(kernel, text, tmp_path)


def test_unrolled_reductions_accumulate_in_one_register(tmp_path: Path) -> None:
    kernel = matmul(3, 5, 12, "{i: [], j: [], p: [[4]]}")
    text = """
        i0 U 3
          j0 L 5
            init
            p0 L 3
              p1 U 4
                load_A
                load_B
                fma
            store_C
    """
    # The space would refuse loops inside an unrolled dimension; lowering need not.
    assert_right(kernel, text, tmp_path)


MERGED = """
    i0 L 3
      init merged
      p0 L {p0}
        {q0}
          q1 {q1}
            load_A
            {reduction}{split}
      store_x
"""


@pytest.mark.parametrize("function", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize(
    ("sizes", "q0", "q1", "split"),
    [
        ((5, 12), "q0 L 3", "U 4", ""),
        ((5, 12), "q0 L 3", "U 4", " split"),
        ((5, 12), "q0 L 3", "V 4", ""),
        ((2, 12), "q0 L 3", "U 4", ""),
        ((5, 4), "q0 L 1", "U 4", " split"),
        ((5, 11), "q0 L 3", "U 4", " split"),
        ((5, 11), "q0 G 3", "U 4", ""),
        ((5, 7), "q0 G 2", "U 4", " split"),
        ((5, 7), "q0 G 2", "V 4", ""),
        ((5, 3), "q0 L 1", "U 4", " split"),
        ((5, 3), "q0 L 1", "V 4", ""),
    ],
)
def test_the_first_iteration_of_all_loops_starts_a_sum(
    sizes: tuple[int, int], q0: str, q1: str, split: str, function: str, tmp_path: Path
) -> None:
    p, q = sizes
    kernel = parse(f"""
kernel: rows
backbone: linalg
tensors:
  A: {{dtype: f32, shape: [3, {p}, {q}]}}
  x: {{dtype: f32, shape: [3], output: true}}
compute:
  - x[i] = {function}[p, q](A[i, p, q])
tiling: {{i: [], p: [], q: [[4]]}}
""")
    reduction = next(i for i in kernel.backbone.reductions).name
    text = MERGED.format(p0=p, q0=q0, q1=q1, reduction=reduction, split=split)
    assert_right(kernel, text, tmp_path)
    program = lower(kernel.backbone, script(kernel.backbone, text))
    unmerged = lower(kernel.backbone, script(kernel.backbone, text.replace(" merged", "")))
    starts, before = ([a for a in assignments(each) if _is_number(a)] for each in (program, unmerged))
    is_part = q1 == "V 4" and q < 4
    assert len(starts) + (not is_part) <= len(before)


def _is_number(assignment: Assign) -> bool:
    value = assignment.value
    while isinstance(value, Broadcast | FirstLane):
        value = value.value
    return isinstance(value, Number)


@pytest.mark.parametrize("kind", ["L", "P"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32"])
def test_terms_that_are_split_have_accumulators_of_their_own(dtype: str, kind: str, tmp_path: Path) -> None:
    kernel = dot(144, "{p: [[6], [8]]}", dtype)
    text = DOT_SPLIT.format(kind=kind, p0=3, p1=6)
    assert_right(kernel, text, tmp_path)
    program = lower(kernel.backbone, script(kernel.backbone, text))
    updated = [a.register.name for a in assignments(program) if isinstance(a.value, Fma)]
    assert len(updated) == len(set(updated)) == 6


@pytest.mark.parametrize("function", ["sum", "prod", "max", "min"])
def test_free_and_reduced_copies_are_split_at_once(function: str, tmp_path: Path) -> None:
    kernel = parse(f"""
kernel: rows
backbone: linalg
sizes: {{m: 4, n: 5, k: 6}}
tensors:
  A: {{dtype: i32, shape: [m, n, k]}}
  y: {{dtype: i32, shape: [m], output: true}}
compute:
  - y[i] = {function}[p, q](A[i, p, q])
tiling: {{i: [[2]], p: [], q: [[3]]}}
""")
    reduction = kernel.backbone.reductions[0].name
    text = f"""
        i0 P 2
          i1 U 2
            init
          q0 L 2
            i1 U 2
              p0 U 5
                q1 U 3
                  load_A
                  {reduction} split
          i1 U 2
            store_y
    """
    assert_right(kernel, text, tmp_path)
    program = lower(kernel.backbone, script(kernel.backbone, text))
    # One for each of 2 rows and 15 terms; the first of a row is what the row began with.
    names = {a.register.name for a in assignments(program)}
    assert len([n for n in names if n.startswith(reduction)]) == 2 * 14


def test_a_load_that_is_repeated_in_a_foreign_loop_is_right(tmp_path: Path) -> None:
    kernel = matmul(4, 6, 8)
    text = """
        i0 P 4
          j0 L 6
            init
            p0 L 8
              load_B
              load_A
              fma
            store_C
    """
    assert_right(kernel, text, tmp_path)


def test_a_vector_that_is_streamed_around_the_caches_is_right(tmp_path: Path) -> None:
    text = AXPY_VECTOR.format(i0=3, i1=10).replace("store_z", "store_z streamed")
    assert_right(axpy(480, "{i: [[10], [16]]}"), text, tmp_path)


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32"])
def test_the_accumulators_of_all_threads_are_added_up(dtype: str, tmp_path: Path) -> None:
    assert_right(dot(480, "{p: [[20], [8]]}", dtype), DOT_PARALLEL.format(p0=3, p1=20), tmp_path)


def test_a_vectorised_reduction_keeps_a_partial_sum_for_each_lane(tmp_path: Path) -> None:
    kernel = parse("""
kernel: matvec
backbone: linalg
sizes: {m: 3, k: 32}
tensors:
  A: {dtype: f32, shape: [m, k]}
  x: {dtype: f32, shape: [k]}
  y: {dtype: f32, shape: [m], output: true}
compute:
  - y[i] = sum[p](A[i, p] * x[p])
tiling: {i: [], p: [[8]]}
""")
    text = """
        i0 P 3
          init
          p0 L 4
            p1 V 8
              load_A
            p1 V 8
              load_x
            p1 V 8
              fma
          store_y
    """
    assert_right(kernel, text, tmp_path)


def test_strided_and_transposed_operands_are_right(tmp_path: Path) -> None:
    kernel = parse("""
kernel: strided
backbone: linalg
sizes: {m: 4, n: 6, k: 5}
tensors:
  A: {dtype: f32, shape: [k, m], strides: [3 * m, 3]}
  B: {dtype: f32, shape: [n, k]}
  C: {dtype: f32, shape: [m, n], strides: [2 * n + 1, 2], output: true}
compute:
  - C[i, j] = sum[p](A[p, i] * B[j, p])
tiling: {i: [], j: [], p: []}
""")
    assert_right(kernel, MATMUL_SCALAR.format(m=4, n=6, k=5), tmp_path)


# ---- What is refused, or computes something else ----------------------------------------------------------


def _changed(kernel: KernelFile, decided: Script, pair: tuple[str, str], value: str) -> Script | None:
    """The same decisions but for one pair, whatever that makes of the rest; None where nothing changes."""
    statements = {s.name: s for s in kernel.backbone.statements}
    a, b = statements[pair[0]], statements[pair[1]]
    inverse = {"BEFORE": "AFTER", "AFTER": "BEFORE", "INNER": "OUTER", "OUTER": "INNER", "MERGED": "MERGED"}

    class Changed(Script):
        def order(self, lhs: Statement, rhs: Statement) -> str:
            if (lhs, rhs) == (a, b):
                return value
            return inverse[value] if (lhs, rhs) == (b, a) else decided.order(lhs, rhs)

    if decided.order(a, b) == value:
        return None
    return Changed(**{each.name: getattr(decided, each.name) for each in fields(decided)})


@pytest.mark.parametrize("value", ["BEFORE", "AFTER", "INNER", "OUTER", "MERGED"])
@pytest.mark.parametrize(
    "pair", [("load_A", "fma"), ("init.i0", "fma.i0"), ("fma", "fma.p0"), ("store_C", "fma.p0")]
)
def test_an_order_that_contradicts_itself_is_refused(pair: tuple[str, str], value: str) -> None:
    kernel = matmul(2, 3, 4)
    decided = script(kernel.backbone, MATMUL_SCALAR.format(m=2, n=3, k=4))
    changed = _changed(kernel, decided, pair, value)
    if changed is not None:
        with pytest.raises((LoweringError, VerificationError)):
            verify(lower(kernel.backbone, changed))


def test_a_use_before_the_value_is_made_is_refused() -> None:
    kernel = matmul(2, 3, 4)
    text = MATMUL_SCALAR.format(m=2, n=3, k=4).replace(
        "        store_C\n", "", 1
    ).replace("        init\n", "        store_C\n        init\n")  # fmt: skip
    with pytest.raises(VerificationError, match="register init has no value here"):
        verify(lower(kernel.backbone, script(kernel.backbone, text)))


TWICE = """
kernel: twice
backbone: linalg
sizes: {m: 2, k: 4}
tensors:
  A: {dtype: f32, shape: [m, k]}
  y: {dtype: f32, shape: [m], output: true}
compute:
  - y[i] = 2 * sum[p](A[i, p])
tiling: {i: [], p: []}
"""
"""What memory cannot add up."""


def test_an_initialiser_inside_the_reduction_gives_a_wrong_result() -> None:
    kernel = parse(TWICE)
    text = """
        i0 L 2
          p0 L 4
            init
            load_A
            add
            mul
            store_y
    """
    program = verify(lower(kernel.backbone, script(kernel.backbone, text)))
    assert interpreted_difference(kernel, program, integer_case(kernel)) != ""


def test_registers_do_not_cross_threads() -> None:
    kernel = axpy(8)
    text = """
        i0 U 8
          load_x
        i0 U 8
          load_y
        i0 P 8
          fma
          store_z
    """
    with pytest.raises((LoweringError, VerificationError)):
        verify(lower(kernel.backbone, script(kernel.backbone, text)))


def test_a_vector_access_that_is_not_contiguous_is_refused() -> None:
    kernel = matmul(8, 3, 4)
    text = """
        j0 L 3
          i0 V 8
            init
          p0 L 4
            load_B
            i0 V 8
              load_A
            i0 V 8
              fma
          i0 V 8
            store_C
    """
    with pytest.raises(LoweringError, match=r"accesses every 4th element along load_A\.i0"):
        lower(kernel.backbone, script(kernel.backbone, text))
