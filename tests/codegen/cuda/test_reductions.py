"""Threads that share a reduction end with all of it; what is left out of that is seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.tree.errors import VerificationError
from spacedsl.codegen.tree.expressions import Load, Register, Shuffle
from spacedsl.codegen.tree.parts import expressions, statements
from spacedsl.codegen.tree.program import Assign, Barrier, Grid, Program, Statement, Store, Where
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.kernel_file import load_kernel
from tests.codegen.cuda.grids import orders, twin
from tests.codegen.runs import integer_case, run_difference
from tests.codegen.scripts import script

KERNEL = load_kernel(Path("kernels/library/row_sum.yaml"), {"m": 2, "n": 1024}, "gpu")

HEAD = "i0 B 2\n  init\n  "
TAIL = "\n  store_s"
SHARED_OUT = {
    "some of a warp": ("j0 L 64\n    j1 T 8\n      j2 V 2\n        load_A\n      j2 U 2\n        add", 3, 0),
    "a warp": ("j0 L 8\n    j1 T 32\n      j2 V 4\n        load_A\n      j2 U 4\n        add", 5, 0),
    "threads that are apart": ("j0 L 64\n    j1 T 16 @2\n      j2 U 1\n        load_A\n        add", 4, 0),
    "warps alone": ("j0 L 32\n    j1 T 8 @128\n      j2 L 4\n        load_A\n        add", 0, 8),
    "a block": ("j0 L 2\n    j1 T 256\n      j2 V 2\n        load_A\n      j2 U 2\n        add", 5, 8),
    "two levels side by side": ("j0 T 4 @64\n    j1 T 64\n      j2 L 4\n        load_A\n        add", 5, 8),
    "two levels apart": ("j0 T 4 @256\n    j1 T 16 @4\n      j2 L 16\n        load_A\n        add", 3, 6),
    "further sums in each": (
        "j0 L 2\n    j1 T 128\n      j2 V 4\n        load_A\n      j2 U 4\n        add split", 5, 4
    ),
}  # fmt: skip
"""What is said of the loops of the sum; how many shuffles, how many values are read that warps have."""


def program(name: str) -> Program:
    text = HEAD + SHARED_OUT[name][0] + TAIL
    return verify(lower_grids(KERNEL.backbone, script(KERNEL.backbone, text)))


def difference(made: Program, folder: Path) -> str:
    case, library = integer_case(KERNEL), twin(made, folder)
    return "".join(run_difference(KERNEL, library, case) for _ in orders(library))


def _edited(body: tuple[Statement, ...]) -> Iterator[tuple[Statement, ...]]:
    """Without one of what combines the threads' sums, each in turn."""
    for at, statement in enumerate(body):
        is_combined = isinstance(statement, Assign) and any(
            isinstance(e, Shuffle) for e in expressions((statement,))
        )
        if is_combined or isinstance(statement, Barrier):
            yield (*body[:at], *body[at + 1 :])


@pytest.mark.parametrize("name", SHARED_OUT)
def test_all_threads_have_all_of_a_sum(name: str, tmp_path: Path) -> None:
    made = program(name)
    assert difference(made, tmp_path) == ""
    _, shuffles, read = SHARED_OUT[name]
    loads = [e for e in expressions(made.body) if isinstance(e, Load) and e.tensor != "A"]
    assert sum(isinstance(e, Shuffle) for e in expressions(made.body)) == shuffles
    assert len(loads) == read


@pytest.mark.parametrize("name", ["a warp", "a block", "two levels apart"])
def test_nothing_of_it_can_be_left_out(name: str, tmp_path: Path) -> None:
    made = program(name)
    (grid,) = (g for g in made.body if isinstance(g, Grid))
    mutants = list(_edited(grid.body))
    assert len(mutants) >= SHARED_OUT[name][1]
    for body in mutants:
        assert difference(replace(made, body=(replace(grid, body=body),)), tmp_path) != ""


def test_a_sum_of_several_registers_goes_through_memory_one_by_one(tmp_path: Path) -> None:
    """They share an array, which has to be read before it is written again."""
    kernel = load_kernel(Path("kernels/library/row_sum.yaml"), {"m": 8, "n": 1024}, "gpu")
    text = """
        i0 U 4
          i1 U 2
            init
        j0 L 2
          j1 T 256
            i0 U 4
              i1 U 2
                j2 V 2
                  load_A
            i0 U 4
              i1 U 2
                j2 U 2
                  add
        i0 U 4
          i1 U 2
            store_s
        """
    made = verify(lower_grids(kernel.backbone, script(kernel.backbone, text)))
    for order in (1, 3):
        assert run_difference(kernel, twin(made, tmp_path, order), integer_case(kernel)) == ""
    (grid,) = (g for g in made.body if isinstance(g, Grid))
    assert [t.elements for t in grid.shared] == [256]
    assert sum(isinstance(s, Barrier) for s in grid.body) == 15


def test_what_registers_of_a_thread_have_is_added_up_once() -> None:
    """Behind it, all of a sum is in one of them, and nobody asks for the others."""
    (grid,) = (g for g in program("further sums in each").body if isinstance(g, Grid))
    together = next(n for n, s in enumerate(grid.body) if isinstance(s, Assign) and len(_read((s,))) == 4)
    assert len(_read(grid.body[together + 1 :])) == 1


def _read(body: Sequence[Statement]) -> set[Register]:
    return {e for e in expressions(body) if isinstance(e, Register)}


def test_a_shuffle_is_for_all_threads() -> None:
    made = program("a warp")
    (grid,) = (g for g in made.body if isinstance(g, Grid))
    *others, shuffled, store = grid.body
    hidden = (*others, Where(((0, 8, 32),), (shuffled,)), store)
    with pytest.raises(VerificationError, match="a shuffle that not all threads of a warp come to"):
        verify(replace(made, body=(replace(grid, body=hidden),)))


def test_one_thread_stores_the_result() -> None:
    stores = [s for s in statements(program("a block").body) if isinstance(s, Where)]
    assert [(s.spans, [type(each) for each in s.body]) for s in stores] == [(((0, 1, 256),), [Store])]
