"""Sums that are added up in memory, so that one pass through a matrix serves two of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.linalg.lower import lower
from spacedsl.codegen.tree.parts import statements
from spacedsl.codegen.tree.program import Branch, ParallelLoop
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.kernel_file import load_kernel
from tests.codegen.candidates import random_candidate, space_of
from tests.codegen.kernels import parse
from tests.codegen.runs import (
    build,
    compiled_difference,
    integer_case,
    interpreted_difference,
    run_difference,
)
from tests.codegen.scripts import scripted
from tests.kernels.samples import LIBRARY

ATAX = """
kernel: atax
backbone: linalg
sizes: {{m: {m}, n: 13}}
tensors:
  A: {{dtype: f32, shape: [m, n]}}
  x: {{dtype: f32, shape: [n]}}
  y: {{dtype: f32, shape: [n], output: true}}
compute:
  - t[i] = sum[j](A[i, j] * x[j])
  - y[j] = sum[i](A[i, j] * t[i])
tiling: {{i: [[4]], j: [[8]]}}
"""

TOGETHER = """
    i0 {kind} *
      i1 U 4
        init
      j0 L *
        j1 V 8
          load_x
        i1 U 4
          j1 V 8
            load_A
        i1 U 4
          j1 V 8
            fma
      i1 U 4
        store_t
      j0 L *
        i1 U 4
          j1 V 8
            load_A_2
        i1 U 4
          load_t
        j1 V 8
          init_2
        i1 U 4
          j1 V 8
            fma_2
        j1 V 8
          store_y
"""

COLUMNS = """
kernel: columns
backbone: linalg
sizes: {h: 6, m: 4, n: 8}
tensors:
  A: {dtype: i32, shape: [h, m, n]}
  y: {dtype: i32, shape: [n], output: true}
compute:
  - y[k] = sum[i, j](A[i, j, k])
tiling: {i: [[2]], j: [], k: []}
"""

PLANES = """
    i0 {outer} 3
      j0 {inner} 4
        k0 V 8
          init
        i1 L 2
          k0 V 8
            load_A
          k0 V 8
            add
        k0 V 8
          store_y
"""


@pytest.mark.parametrize("rows", [24, 8, 4, 27, 7, 3])
@pytest.mark.parametrize("kind", ["L", "G", "P"])
def test_both_sums_are_right_whatever_becomes_of_the_last_tile(kind: str, rows: int, tmp_path: Path) -> None:
    kernel = parse(ATAX.format(m=rows))
    program = scripted(kernel, TOGETHER.format(kind=kind))
    case = integer_case(kernel)
    assert interpreted_difference(kernel, program, case) == ""
    assert compiled_difference(kernel, program, case, tmp_path) == ""


def test_threads_have_sums_of_their_own_and_loops_begin_in_their_first_iteration() -> None:
    kernel = parse(ATAX.format(m=24))
    (loop,) = (s for s in scripted(kernel, TOGETHER.format(kind="P")).body if isinstance(s, ParallelLoop))
    assert [(each.part.name, each.tensor) for each in loop.summed] == [("y_part", "y")]
    alone = [*statements(scripted(kernel, TOGETHER.format(kind="L")).body)]
    assert {(s.variable, s.limit) for s in alone if isinstance(s, Branch)} == {("i0", 1)}


@pytest.mark.parametrize("kinds", [("L", "L"), ("P", "L")])
def test_a_sum_over_two_indices_is_added_up_along_both(kinds: tuple[str, str], tmp_path: Path) -> None:
    kernel = parse(COLUMNS)
    outer, inner = kinds
    program = scripted(kernel, PLANES.format(outer=outer, inner=inner))
    case = integer_case(kernel)
    assert interpreted_difference(kernel, program, case) == ""
    assert compiled_difference(kernel, program, case, tmp_path) == ""


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("atax", {"m": 521, "n": 512}),
        ("bicg", {"m": 512, "n": 521}),
        ("mvt", {"n": 520}),
        ("gemver", {"n": 520}),
    ],
)
def test_random_implementations_with_one_pass_are_right(
    name: str, sizes: dict[str, int], tmp_path: Path
) -> None:
    kernel = load_kernel(LIBRARY / f"{name}.yaml", sizes)
    instance, case = space_of(kernel), integer_case(kernel)
    dims = [d for d in kernel.backbone.dimensions if d.is_parted]
    for seed in range(2):
        random = np.random.default_rng(seed)
        candidate = random_candidate(instance, random, {"summing": "ADDED", "order": "MERGED"})
        assert candidate is not None
        assert any(candidate.value("summing", d) == "ADDED" for d in dims)
        program = verify(lower(kernel.backbone, CandidateImplementation(candidate)))
        library = build(program, tmp_path / f"{seed}.so")
        assert run_difference(kernel, library, case) == ""
