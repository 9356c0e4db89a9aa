"""Partial results that the threads of a warp exchange: none is lost, and all come that are waited for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spacedsl.codegen.c.build import find_compiler
from spacedsl.codegen.cuda.nvrtc import QUICKLY, compile_cubin
from spacedsl.codegen.cuda.prediction import predict
from spacedsl.codegen.cuda.printer import print_cuda
from spacedsl.codegen.pipeline.schedule import CandidateDecisions, text
from spacedsl.codegen.pipeline.schedule import schedule as nests_of
from spacedsl.codegen.tree.errors import VerificationError
from spacedsl.codegen.tree.expressions import Shuffle
from spacedsl.codegen.tree.parts import expressions
from spacedsl.codegen.tree.program import Assign, PerThread, Program, Statement, Sweep
from spacedsl.codegen.tree.verify import verify
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.pipeline.affine import Linear, variable
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.search.costs.gpu_pipeline import GpuPipelineCosts
from spacedsl.search.costs.model import time_ns
from tests.codegen.cuda.grids import device
from tests.codegen.pipeline.on_gpus import drawn, grids_of, instance, schedule
from tests.codegen.pipeline.test_additions import differences, edited
from tests.kernels.pipeline.files import pipeline

LEVELS = "{levels: {dtype: f32, extents: [40, 13]}, small: {dtype: u8, extents: [40, 13]}}"

CASES: Mapping[str, tuple[str, str, Mapping[str, str], Mapping[str, int]]] = {
    "rows": (
        "s(y) = 0.5\ns(y) += levels(r, y) * 2 for r in 0:37 where r != y",
        "{s: {y: 13}}",
        {},
        {"s.1.y.TASK": 4, "s.1.y.LANE": 1, "s.1.r.CHUNK": 16, "s.1.r.LANE": 2},
    ),
    "one value of several ranges": (
        "m() = i32(small(3, 4))\nm() += i32(small(r, q)) for r in 0:40, q in 0:13",
        "{m: {}}",
        {},
        {"m.1.r.CHUNK": 32, "m.1.r.LANE": 1, "m.1.q.CHUNK": 4},
    ),
    "rows of a block": (
        "s(y) = f32(0)\ns(y) += levels(r, y) for r in 0:40\nf(x, y) = levels(x, y) / s(y)",
        "{f: {x: 40, y: 13}}",
        {"s": "TASK", "s.1": "TASK"},
        {
            "f.y.TASK": 3, "f.x.LANE": 8, "f.y.LANE": 1,
            "s.y.LANE": 1, "s.1.y.LANE": 1, "s.1.r.CHUNK": 24, "s.1.r.LANE": 3,
        },
    ),
    "half floats": (
        "s(y) = f16(1)\ns(y) += f16(small(r, y)) for r in 0:32\nh(y) = f32(s(y))",
        "{h: {y: 5}}",
        {},
        {"s.1.y.LANE": 1, "s.1.r.LANE": 8},
    ),
    "bits": (
        "b(y) = small(0, y)\nb(y) = b(y) & small(r, y) for r in 1:39\nc(y) = b(y) == 0",
        "{c: {y: 9}}",
        {},
        {"b.1.y.LANE": 1, "b.1.r.CHUNK": 4, "b.1.r.LANE": 1},
    ),
}  # fmt: skip
"""Pipelines, sites, tiles. Of `rows`, the last points and the last parts of a range have fewer threads."""


def sound(case: str) -> tuple[PipelineFile, Candidate, Program]:
    stages, outputs, sites, tiles = CASES[case]
    file = pipeline(stages, outputs, LEVELS)
    candidate = schedule(file, sites, tiles, reduce="SHUFFLE")
    assert {candidate.value("reduce", step) for step in file.backbone.reductions} == {"SHUFFLE"}
    return file, candidate, grids_of(file, candidate)


def shuffles(program: Program) -> list[Shuffle]:
    return [e for e in expressions(program.body) if isinstance(e, Shuffle)]


@pytest.mark.skipif(find_compiler().is_clang, reason="only twins built by GCC see races")
@pytest.mark.parametrize("case", CASES)
def test_what_is_exchanged_is_all_of_it(case: str, tmp_path: Path) -> None:
    file, _, program = sound(case)
    assert shuffles(program)
    assert differences(file, [program], tmp_path) == [""]


def test_code_is_taken_by_the_compiler_of_cuda() -> None:
    for case in CASES:
        compile_cubin(print_cuda(sound(case)[2]), device().compute_capability, QUICKLY)


def test_what_is_exchanged_is_shown() -> None:
    file, candidate, _ = sound("rows")
    shown = text(nests_of(file.backbone.steps, CandidateDecisions(candidate)), "gpu").splitlines()
    assert [line.strip() for line in shown if "SHUFFLE" in line] == ["for r in 8 of 2 (LANE, SHUFFLE)"]


def test_random_schedules_exchange() -> None:
    file = pipeline("s(y) = 0.5\ns(y) += levels(r, y) for r in 0:8", "{s: {y: 1}}", LEVELS)
    (step,) = file.backbone.reductions
    assert "SHUFFLE" in {candidate.value("reduce", step) for candidate in drawn(file, 40, 2)}


# ---- Mistakes ---------------------------------------------------------------------------------------------


def mutant(program: Program, edit: Callable[[Statement], Sequence[Statement]]) -> Program:
    return replace(program, body=edited(program.body, edit))


def test_all_neighbours_have_to_come() -> None:
    _, _, program = sound("rows")

    def within(statement: Statement) -> Sequence[Statement]:
        """Where fewer threads come to what is exchanged: those of the first parts."""
        if not isinstance(statement, PerThread):
            return (statement,)
        exchanged = [s for s in statement.body if isinstance(s, Assign) and shuffled(s)]
        others = [s for s in statement.body if s not in exchanged]
        if not exchanged:
            return (statement,)
        first = variable(statement.coordinates[-1].variable)
        return (replace(statement, body=(*others, Sweep("some", first, Linear(2), 1, tuple(exchanged)))),)

    with pytest.raises(VerificationError, match="not all threads of a warp come to"):
        verify(mutant(program, within))


def shuffled(statement: Assign) -> bool:
    return any(isinstance(e, Shuffle) for e in expressions((statement,)))


def test_one_of_them_stores() -> None:
    _, _, program = sound("rows")

    def all_of_them(statement: Statement) -> Sequence[Statement]:
        is_first = isinstance(statement, Sweep) and statement.variable.startswith("first")
        return (replace(statement, last=Linear(1)),) if is_first else (statement,)  # type: ignore[arg-type]

    with pytest.raises(VerificationError, match="may store to the same"):
        verify(mutant(program, all_of_them))


@pytest.mark.skipif(find_compiler().is_clang, reason="only twins built by GCC see races")
@pytest.mark.parametrize("case", ["rows", "one value of several ranges"])
def test_an_exchange_too_few_is_seen(case: str, tmp_path: Path) -> None:
    file, _, program = sound(case)
    farthest = max(each.distance for each in shuffles(program))

    def fewer(statement: Statement) -> Sequence[Statement]:
        found = [e for e in expressions((statement,)) if isinstance(e, Shuffle)]
        return (
            ()
            if isinstance(statement, Assign) and any(e.distance == farthest for e in found)
            else (statement,)
        )

    assert all(differences(file, [mutant(program, fewer)], tmp_path))


# ---- Models -----------------------------------------------------------------------------------------------


def test_of_sums_of_rows_warps_are_faster_than_threads() -> None:
    """Neighbours read neighbours then."""
    stages = "s(y) = f32(0)\ns(y) += levels(r, y) for r in 0:4096"
    file = pipeline(stages, "{s: {y: 4096}}", "{levels: {dtype: f32, rank: 2}}")
    begin = {"s.y.TASK": 256, "s.y.LANE": 1}

    def times_ns(tiles: Mapping[str, int], reduce: str) -> tuple[float, float]:
        candidate = schedule(file, {}, {**begin, **tiles}, reduce=reduce)
        predicted = predict(grids_of(file, candidate), device(), {})
        return time_ns(GpuPipelineCosts(candidate.instance, device()), candidate), predicted.time_ns

    alone = times_ns({"s.1.y.TASK": 32, "s.1.y.LANE": 1}, "SERIAL")
    warps = times_ns({"s.1.y.TASK": 8, "s.1.y.LANE": 1, "s.1.r.CHUNK": 128, "s.1.r.LANE": 4}, "SHUFFLE")
    for one, many in zip(alone, warps, strict=True):
        assert many < one / 2


def test_plans_exchange() -> None:
    file = pipeline("s(y) = 0.5\ns(y) += levels(r, y) for r in 0:37", "{s: {y: 13}}", LEVELS)
    here, rng = instance(file), np.random.default_rng(1)
    root = here.root()
    assert root is not None
    costs = GpuPipelineCosts(here, device())
    (step,) = file.backbone.reductions
    found = [here.restrict_allowed(root, costs.plan(rng)) for _ in range(20)]
    assert "SHUFFLE" in {candidate.value("reduce", step) for candidate in found}
