"""Parallel loops inside each other: their iterations are shared out together."""

from __future__ import annotations

from pathlib import Path

import pytest

from spacedsl.codegen.c.printer import print_c
from spacedsl.codegen.linalg.lower import lower
from spacedsl.codegen.tree.errors import LoweringError
from spacedsl.codegen.tree.parts import shared_loops
from spacedsl.codegen.tree.program import ParallelLoop
from spacedsl.kernels.kernel_file import KernelFile
from tests.codegen.candidates import space_of
from tests.codegen.kernels import matmul, parse
from tests.codegen.runs import compiled_difference, integer_case, interpreted_difference
from tests.codegen.scripts import RefusedError, decide, script, scripted

PRODUCT = """
    i0 P {i0}
      j0 P {j0}
        i1 U 2
          j1 V 8
            init
        p0 L 5
          i1 U 2
            load_A
          j1 V 8
            load_B
          i1 U 2
            j1 V 8
              fma
        i1 U 2
          j1 V 8
            store_C
"""

COPIED = """
    i0 P 3
      j0 P 3
        p0 L 5
          j1 V 8
            load_B
        i1 U 2
          j1 V 8
            init
        p0 L 5
          i1 U 2
            load_A
          j1 V 8
            reload_B
          i1 U 2
            j1 V 8
              fma
        i1 U 2
          j1 V 8
            store_C
"""
"""Each iteration copies the part of B that it needs."""

COPIED_BETWEEN = """
    i0 P 3
      p0 L 5
        i1 U 2
          load_A
      j0 P 3
        i1 U 2
          j1 V 8
            init
        p0 L 5
          i1 U 2
            reload_A
          j1 V 8
            load_B
          i1 U 2
            j1 V 8
              fma
        i1 U 2
          j1 V 8
            store_C
"""
"""No thread that begins in the middle of i0 would have a copy of A."""

CHAIN = """
kernel: chain
backbone: linalg
sizes: {h: 3, m: 5, n: 8}
tensors:
  A: {dtype: f32, shape: [h, m, n]}
  C: {dtype: f32, shape: [h, m, n], output: true}
compute:
  - B[b, i, j] = A[b, i, j] + A[b, i, j]
  - C[b, i, j] = B[b, i, 7 - j] + A[b, i, j]
tiling: {b: [], i: [], j: []}
"""
CHAIN_FUSED = """
    b0 P 3
      i0 P 5
        j0 L 8
          load_A
          add
          store_B
        j0 L 8
          load_B
          load_A_2
          add_2
          store_C
"""


def product(m: int, n: int) -> KernelFile:
    return matmul(m, n, 5, "{i: [[2]], j: [[8]], p: []}")


CASES = {
    "whole tiles": (product(6, 24), PRODUCT.format(i0=3, j0=3)),
    "tiles that end early": (product(5, 21), PRODUCT.format(i0=3, j0=3)),
    "one iteration": (product(2, 24), PRODUCT.format(i0=1, j0=3)),
    "copies": (product(6, 24), COPIED),
    "an intermediate of each thread": (parse(CHAIN), CHAIN_FUSED),
}


@pytest.mark.parametrize("name", CASES)
def test_iterations_that_are_shared_out_together_compute_what_numpy_does(name: str, tmp_path: Path) -> None:
    kernel, text = CASES[name]
    program, case = scripted(kernel, text), integer_case(kernel)
    assert interpreted_difference(kernel, program, case) == ""
    assert compiled_difference(kernel, program, case, tmp_path) == ""


@pytest.mark.parametrize("name", CASES)
def test_the_space_has_loops_with_few_iterations_shared_out_together(name: str) -> None:
    kernel, text = CASES[name]
    instance = space_of(kernel)
    root = instance.root()
    assert root is not None
    assert decide(instance, root, script(kernel.backbone, text)).is_complete


def test_one_loop_runs_over_all_iterations() -> None:
    program = scripted(product(6, 24), PRODUCT.format(i0=3, j0=3))
    (parallel,) = program.body
    assert isinstance(parallel, ParallelLoop)
    assert [(loop.variable, loop.extent) for loop in shared_loops(parallel)] == [("i0", 3), ("j0", 3)]
    text = print_c(program, 2)
    assert "pool_run(pool_loop_i0, &in, 9);" in text
    assert "int64_t i0 = pool_iteration / 3;" in text
    assert "int64_t j0 = pool_iteration % 3;" in text


@pytest.mark.parametrize("text", [COPIED, CHAIN_FUSED], ids=["copy", "intermediate"])
def test_memory_of_each_thread_belongs_to_all_of_the_loops(text: str) -> None:
    kernel = product(6, 24) if text is COPIED else parse(CHAIN)
    program = scripted(kernel, text)
    (parallel,) = program.body
    assert isinstance(parallel, ParallelLoop)
    outer, inner = shared_loops(parallel)
    assert len(outer.private) == 1 and not inner.private and not program.scratch
    # What one iteration needs: 5 rows of 8 elements of B, or one row of the intermediate.
    assert outer.private[0].span == (40 if text is COPIED else 8)


def test_nothing_lies_between_loops_that_are_shared_out_together() -> None:
    kernel = product(6, 24)
    decided = script(kernel.backbone, COPIED_BETWEEN)
    with pytest.raises(LoweringError, match="beside something else"):
        lower(kernel.backbone, decided)
    instance = space_of(kernel)
    root = instance.root()
    assert root is not None
    with pytest.raises(RefusedError, match="the space refuses"):
        decide(instance, root, decided)


def test_a_loop_with_many_iterations_is_shared_out_alone() -> None:
    # However few iterations a tiling leaves: extents count, of which there are four for each thread.
    kernel = product(600, 24)
    instance = space_of(kernel)
    root = instance.root()
    assert root is not None
    with pytest.raises(RefusedError, match="the space refuses"):
        decide(instance, root, script(kernel.backbone, PRODUCT.format(i0=300, j0=3)))
