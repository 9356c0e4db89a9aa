"""Windows on a GPU: what a block has computed of a step in one chunk is kept for the next one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from spacedsl.codegen.c.build import find_compiler
from spacedsl.codegen.cuda.nvrtc import QUICKLY, compile_cubin
from spacedsl.codegen.cuda.printer import print_cuda
from spacedsl.codegen.tree.errors import VerificationError
from spacedsl.codegen.tree.parts import statements
from spacedsl.codegen.tree.program import Barrier, Grid, Program, Statement, Store, Sweep
from spacedsl.codegen.tree.verify import verify
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.pipeline.affine import Remainder
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.search.costs.gpu_pipeline import GpuPipelineCosts
from spacedsl.search.costs.model import time_ns
from tests.codegen.cuda.grids import device
from tests.codegen.pipeline.on_gpus import drawn, grids_of, schedule
from tests.codegen.pipeline.test_additions import differences, edited
from tests.kernels.pipeline.files import pipeline

IMAGE = "{image: {dtype: f32, extents: [50, 70]}}"

COLUMNS = "a(x, y) = image(x, y) * 2\nb(x, y) = a(x, y) + a(x, y + 1) * a(x, y + 2)"

PACES = (
    "a(x, y) = image(x, y) + 1\nd(x, y) = a(x, 2 * y) - a(x, 2 * y + 1)\n"
    "u(x, y) = d(x, y / 2) + 3 * d(x, (y + 1) / 2)\nb(x, y) = u(x, y) * u(x, y + 1)"
)

CASES: Mapping[str, tuple[str, Mapping[str, str], Mapping[str, int]]] = {
    "a row for each thread": (
        COLUMNS,
        {"a": "CHUNK"},
        {"b.x.TASK": 16, "b.y.CHUNK": 2, "b.x.LANE": 1, "b.y.LANE": 1, "a.x.LANE": 1},
    ),
    "threads along the window": (
        COLUMNS,
        {"a": "CHUNK"},
        {"b.x.TASK": 16, "b.y.CHUNK": 4, "b.x.LANE": 1, "b.y.LANE": 1, "a.x.LANE": 2, "a.y.LANE": 1},
    ),
    "two windows": (
        PACES,
        {"a": "INLINE", "d": "CHUNK", "u": "CHUNK"},
        {
            "b.x.TASK": 24, "b.y.TASK": 16, "b.y.CHUNK": 3, "b.x.LANE": 1, "u.x.LANE": 4, "u.y.LANE": 1,
            "d.y.LANE": 1,
        },
    ),
}  # fmt: skip
"""Stages, sites, tiles."""


def sound(case: str) -> tuple[PipelineFile, Candidate, Program]:
    stages, sites, tiles = CASES[case]
    file = pipeline(stages, "{b: {x: 40, y: 29}}", IMAGE)
    sliding = [name for name, site in sites.items() if site == "CHUNK"]
    candidate = schedule(file, sites, tiles, sliding=sliding)
    return file, candidate, grids_of(file, candidate)


def folded(program: Program) -> list[Store]:
    """Stores to where a window is that goes along."""
    stores = (s for s in statements(program.body) if isinstance(s, Store))
    return [s for s in stores if any(isinstance(atom, Remainder) for atom, _ in s.index.atoms)]


@pytest.mark.skipif(find_compiler().is_clang, reason="only twins built by GCC see races")
@pytest.mark.parametrize("case", CASES)
def test_what_is_kept_is_what_is_needed(case: str, tmp_path: Path) -> None:
    file, _, program = sound(case)
    assert folded(program)
    assert differences(file, [program], tmp_path) == [""]


def test_code_is_taken_by_the_compiler_of_cuda() -> None:
    compile_cubin(print_cuda(sound("two windows")[2]), device().compute_capability, QUICKLY)


@pytest.mark.skipif(find_compiler().is_clang, reason="only twins built by GCC see races")
def test_random_schedules_with_windows_are_right(tmp_path: Path) -> None:
    file = pipeline(PACES, "{b: {x: 9, y: 11}}", IMAGE)
    found = [grids_of(file, candidate) for candidate in drawn(file, 150, 3)]
    sliding = [program for program in found if folded(program)]
    assert len(sliding) > 3
    assert not any(differences(file, sliding[:12], tmp_path))


def test_in_a_window_less_is_computed() -> None:
    """By the cost model, of a stage that many rows are read of."""
    reads = " + ".join(f"exp(a(x, y + {n}))" for n in range(16))
    stages = f"a(x, y) = exp(image(x, y)) * exp(image(x + 1, y))\nb(x, y) = {reads}"
    file = pipeline(stages, "{b: {x: 4096, y: 4096}}", "{image: {dtype: f32, rank: 2}}")
    tiles = {"b.x.TASK": 64, "b.y.TASK": 256, "b.y.CHUNK": 2, "b.x.LANE": 1, "b.y.LANE": 1, "a.x.LANE": 1}
    slides, anew = (schedule(file, {"a": "CHUNK"}, tiles, sliding=names) for names in (["a"], []))
    costs = GpuPipelineCosts(slides.instance, device())
    assert time_ns(costs, slides) < time_ns(costs, anew)


# ---- Mistakes ---------------------------------------------------------------------------------------------


def _shorter(program: Program, rows: int) -> Program:
    """With a window of fewer rows."""

    def fewer(statement: Statement) -> Sequence[Statement]:
        if not isinstance(statement, Store) or not statement.index.atoms:
            return (statement,)
        atoms = tuple(
            (Remainder(atom.dividend, rows), n) if isinstance(atom, Remainder) else (atom, n)
            for atom, n in statement.index.atoms
        )
        return (replace(statement, index=replace(statement.index, atoms=atoms)),)

    return replace(program, body=edited(program.body, fewer))


def test_rows_that_share_a_place_are_refused() -> None:
    """Of four rows that threads compute side by side, two in one place."""
    _, _, program = sound("threads along the window")
    verify(_shorter(program, 6))
    with pytest.raises(VerificationError, match="may store to the same"):
        verify(_shorter(program, 3))


@pytest.mark.skipif(find_compiler().is_clang, reason="only twins built by GCC see races")
@pytest.mark.parametrize("case", ["a row for each thread", "two windows"])
def test_mistakes_are_seen(case: str, tmp_path: Path) -> None:
    """What stands before the first chunk left out, and where threads wait in each of them."""
    file, _, program = sound(case)

    def without(kind: type[Statement]) -> Program:
        grids = []
        for grid in program.body:
            assert isinstance(grid, Grid)
            body = list(grid.body)
            at = next(n for n, s in enumerate(body) if isinstance(s, Sweep))
            if kind is Sweep:
                body = [s for s in body[:at] if not hasattr(s, "coordinates")] + body[at:]
            else:
                loop = body[at]
                assert isinstance(loop, Sweep)
                kept = tuple(s for s in loop.body if not isinstance(s, Barrier))
                body[at] = replace(loop, body=kept)
            grids.append(replace(grid, body=tuple(body)))
        return replace(program, body=tuple(grids))

    assert all(differences(file, [without(Sweep), without(Barrier)], tmp_path))
