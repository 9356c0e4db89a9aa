"""Tiles that are copied ahead are there when they are used; what is left out of that is seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.tree.errors import VerificationError
from spacedsl.codegen.tree.expressions import Index
from spacedsl.codegen.tree.parts import statements
from spacedsl.codegen.tree.program import (
    Barrier,
    Branch,
    CommitCopies,
    CopyAhead,
    Grid,
    Loop,
    Program,
    Statement,
    WaitForCopies,
)
from spacedsl.codegen.tree.verify import verify
from spacedsl.diagnostics import Source
from spacedsl.engine.decision import Decision
from spacedsl.kernels.kernel_file import check_kernel, load_kernel
from tests.codegen.cuda.grids import orders, space_of, twin
from tests.codegen.runs import integer_case, run_difference
from tests.codegen.scripts import script

KERNEL = load_kernel(Path("kernels/library/matmul.yaml"), {"m": 16, "n": 32, "k": 64}, "gpu")

PRODUCT = """
i0 B 2
  i1 T 8 @8
    j0 T 8
      j1 U 4
        init
  p0 L 8
    p1 L 1
      i1 T 8 @8
        p2 T 8
          load_A
    p1 L 1
      p2 T 8 @8
        j0 T 8
          j1 V 4
            load_B
    p1 L 1
      p2 L 8
        i1 T 8 @8
          j0 T 8
            reload_A {A}
            j1 V 4
              reload_B {B}
            j1 U 4
              fma
  i1 T 8 @8
    j0 T 8
      j1 V 4
        store_C
"""
"""A tile of A and one of B for each of eight steps of the sum."""

ROOMS = {
    "two tiles": ("shared x2", "shared x2"),
    "more tiles than there are": ("shared x9", "shared x9"),
    "tiles of one operand": ("shared", "shared x3"),
    "different numbers of tiles": ("shared word x2", "shared vector x4"),
    "rows apart, copies apart": ("shared vector x3", "shared spread x3"),
}


def program(name: str) -> Program:
    a, b = ROOMS[name]
    return verify(lower_grids(KERNEL.backbone, script(KERNEL.backbone, PRODUCT.format(A=a, B=b))))


def difference(made: Program, folder: Path) -> str:
    case, library = integer_case(KERNEL), twin(made, folder)
    return "".join(run_difference(KERNEL, library, case) for _ in orders(library))


@pytest.mark.parametrize("name", ROOMS)
def test_a_tile_is_there_when_it_is_used(name: str, tmp_path: Path) -> None:
    made = program(name)
    assert difference(made, tmp_path) == ""
    assert any(isinstance(s, CopyAhead) for s in statements(made.body))


def _without(body: tuple[Statement, ...], kinds: tuple[type, ...]) -> Iterator[tuple[Statement, ...]]:
    """Without one statement of these kinds, in the body or in its loops; each in turn."""
    for at, statement in enumerate(body):
        if isinstance(statement, kinds):
            yield (*body[:at], *body[at + 1 :])
        elif isinstance(statement, Loop | Branch):
            for inner in _without(statement.body, kinds):
                yield (*body[:at], replace(statement, body=inner), *body[at + 1 :])


def test_nothing_of_it_can_be_left_out(tmp_path: Path) -> None:
    made = program("two tiles")
    (grid,) = (s for s in made.body if isinstance(s, Grid))
    mutants = list(_without(grid.body, (CopyAhead, CommitCopies, WaitForCopies, Barrier)))
    assert len(mutants) == 8
    for body in mutants:
        assert difference(replace(made, body=(replace(grid, body=body),)), tmp_path) != ""


def test_one_barrier_serves_an_iteration() -> None:
    loops = [s for s in statements(program("two tiles").body) if isinstance(s, Loop)]
    loop = next(s for s in loops if isinstance(s.body[0], WaitForCopies))
    assert isinstance(loop.body[1], Barrier)
    assert sum(isinstance(s, Barrier) for s in statements(loop.body)) == 1


def test_a_loop_that_is_run_again_waits_for_its_last_tile(tmp_path: Path) -> None:
    """Its first tile would be copied to where others still compute with the last one."""
    again = PRODUCT.replace("i0 B 2", "i0 L 2").format(A="shared x7", B="shared x7")
    made = verify(lower_grids(KERNEL.backbone, script(KERNEL.backbone, again)))
    assert difference(made, tmp_path) == ""
    (grid,) = (s for s in made.body if isinstance(s, Grid))
    (outer,) = (s for s in grid.body if isinstance(s, Loop))
    at = next(n for n, s in enumerate(outer.body) if isinstance(s, Barrier))
    late = replace(outer, body=(*outer.body[:at], *outer.body[at + 1 :]))
    assert difference(replace(made, body=(replace(grid, body=(late,)),)), tmp_path) != ""


def test_what_is_copied_ahead_has_a_size_that_there_is() -> None:
    made = program("two tiles")
    (grid,) = (s for s in made.body if isinstance(s, Grid))
    copy = next(s for s in statements(made.body) if isinstance(s, CopyAhead))
    wrong = CopyAhead("C", Index(0), replace(copy.source, index=Index(0)))
    with pytest.raises(VerificationError, match="f32 is copied ahead from A to C"):
        verify(replace(made, body=(replace(grid, body=(wrong, *grid.body)),)))


@pytest.mark.parametrize(("dtype", "is_offered"), [("f16", False), ("bf16", False), ("f32", True)])
def test_single_elements_of_two_bytes_are_not_copied_ahead(dtype: str, is_offered: bool) -> None:
    """Nothing is computed with them: they are what they are in memory."""
    text = f"""\
kernel: spread
backbone: linalg
tensors:
  A: {{dtype: {dtype}, shape: [8]}}
  B: {{dtype: {dtype}, shape: [12, 4, 4], output: true}}
tiling: {{k: [[2, 3]], i: [[2]], j: [[2]]}}
compute: ["B[k, i, j] = A[2 * i]"]
"""
    instance = space_of(check_kernel(Source("spread.yaml", text), Path("spread.yaml"), kind="gpu"))
    root = instance.root()
    assert root is not None
    copied = instance.decide(root, Decision("storage", ("load_A",), ("SHARED",)))
    assert copied is not None
    (ahead,) = (v for v in instance.variables_of("buffers") if copied.is_present(v))
    assert (instance.restrict(copied, ahead, 0b0010) is not None) == is_offered
