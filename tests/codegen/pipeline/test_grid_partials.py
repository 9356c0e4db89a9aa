"""Partial results on a GPU: threads have parts of a range, and what they make is combined."""

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
from spacedsl.codegen.tree.expressions import Compare, Register, Select
from spacedsl.codegen.tree.parts import combined_into, stored
from spacedsl.codegen.tree.program import Assign, Grid, Program, Statement, Store, Sweep
from spacedsl.codegen.tree.verify import verify
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.pipeline.affine import Linear
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.search.costs.gpu_pipeline import GpuPipelineCosts
from spacedsl.search.costs.model import time_ns
from spacedsl.search.run import ContradictionError
from tests.codegen.cuda.grids import device
from tests.codegen.pipeline.on_gpus import drawn, grids_of, instance, schedule
from tests.codegen.pipeline.test_additions import differences, edited, file_of
from tests.codegen.pipeline.test_partials import EQUALS, backward
from tests.kernels.pipeline.files import pipeline

PARTS: Mapping[str, Mapping[str, int]] = {
    "a histogram": {"h.1.r.TASK": 2, "h.1.i.LANE": 1, "rows.1.r.LANE": 1, "rows.1.y.TASK": 2},
    "a histogram of each column": {"h.1.r.LANE": 2, "h.1.x.LANE": 1},
    "a product": {"f_sum.1.k.TASK": 3, "f_sum.1.k.CHUNK": 2, "f_sum.1.k.LANE": 1, "f_sum.1.x.LANE": 1},
    "two updates": {"f.1.r.TASK": 2, "f.2.r.LANE": 1},
    "one value": {"t.1.q.TASK": 1, "t.1.r.TASK": 4, "t.1.r.LANE": 1},
    "floats": {"s.1.x.LANE": 1, "s.1.y.TASK": 1, "d.1.x.TASK": 8},
    "two values": {"f.1.r.LANE": 2, "f.1.x.TASK": 3},
    "reductions of every kind": {
        "s.1.r.LANE": 2, "s.1.q.TASK": 1, "b.1.r.LANE": 2, "b.1.x.LANE": 4, "m.1.r.TASK": 1, "m.2.r.LANE": 2,
    },
    "the best of many": {"f.1.q.TASK": 2, "f.2.r.TASK": 3, "f.2.r.LANE": 1, "f.2.x.LANE": 2, "l.1.r.LANE": 2},
}  # fmt: skip
"""`one value` and `floats` have more parts than are combined at a time."""


def sound(case: str) -> tuple[PipelineFile, Candidate, Program]:
    file = file_of(case)
    candidate = schedule(file, {}, PARTS[case], reduce="PARTIAL")
    return file, candidate, grids_of(file, candidate)


def grids(program: Program, stage: str) -> list[Grid]:
    return [s for s in program.body if isinstance(s, Grid) and s.name.startswith(f"{stage}_grid")]


@pytest.mark.skipif(find_compiler().is_clang, reason="only twins built by GCC see races")
@pytest.mark.parametrize("case", PARTS)
def test_partial_results_are_combined(case: str, tmp_path: Path) -> None:
    file, _, program = sound(case)
    assert not combined_into(program.body)
    assert differences(file, [program], tmp_path) == [""]


def test_many_partial_results_are_combined_some_at_a_time() -> None:
    """What a stage begins with, what parts do, all points, and 45 parts as 2, which the result takes."""
    _, _, program = sound("one value")
    assert len(grids(program, "t")) == 5


def test_code_is_taken_by_the_compiler_of_cuda() -> None:
    for case in ("reductions of every kind", "floats"):
        compile_cubin(print_cuda(sound(case)[2]), device().compute_capability, QUICKLY)


def test_what_is_shared_out_is_shown() -> None:
    file, candidate, _ = sound("two updates")
    shown = text(nests_of(file.backbone.steps, CandidateDecisions(candidate)), "gpu").splitlines()
    assert "  for r in 2 of 2 (TASK, PARTIAL)" in shown
    assert "  for r in 3 of 1 (LANE, PARTIAL)" in shown


def test_random_schedules_share_reductions_out() -> None:
    file = file_of("reductions of every kind")
    ways = [
        candidate.value("reduce", step)
        for candidate in drawn(file, 10, 2)
        for step in file.backbone.reductions
    ]
    assert set(ways) == {"SERIAL", "PARTIAL", "SHUFFLE"}


BEST = "the best of many"


def test_what_keeps_the_best_is_shared_out_in_the_order_of_points() -> None:
    """Which decides between equals: threads that come back for another chunk have parts in no order."""
    file = file_of(BEST)
    here = instance(file)
    root = here.root()
    assert root is not None
    assert len(file.backbone.reductions) == 3
    for step in file.backbone.reductions:
        way = here.variable("reduce", step)
        assert [*way.values(root.mask(way))] == ["SERIAL", "PARTIAL"]
    in_chunks = {**PARTS[BEST], "l.1.r.CHUNK": 6}
    with pytest.raises(ContradictionError):
        schedule(file, {}, in_chunks, reduce="PARTIAL")
    (first,) = (step for step in file.backbone.reductions if step.name == "f.1")
    assert all(first.box("r", slot).is_ordered for slot in ("TASK", "CHUNK", "LANE"))


def test_mistakes_in_what_keeps_the_best_are_seen(tmp_path: Path) -> None:
    """Equals that take each other's place, parts from behind, and only some of all values that are taken."""
    file, _, program = sound(BEST)

    def other_equals(statement: Statement) -> Sequence[Statement]:
        match statement:
            case Assign(Register(name), Compare() as compared) if name.startswith("is_better"):
                turned = replace(compared, comparator=EQUALS[compared.comparator])
                return (replace(statement, value=turned),)
        return (statement,)

    def from_behind(statement: Statement) -> Sequence[Statement]:
        match statement:
            case Sweep(variable, _, last, _, body) if variable.startswith("part"):
                backwards = tuple(backward(inner, variable, last.constant) for inner in body)
                return (replace(statement, body=backwards),)
        return (statement,)

    def not_all(statement: Statement) -> Sequence[Statement]:
        match statement:
            case Assign(Register(name), Select(_, Register(), Register())) if name.startswith("best"):
                return () if name in ("best", "best_4") else (statement,)
        return (statement,)

    mistakes = [mutant(program, edit) for edit in (other_equals, from_behind, not_all)]
    assert all(differences(file, mistakes, tmp_path))


# ---- Mistakes ---------------------------------------------------------------------------------------------


def mutant(program: Program, edit: Callable[[Statement], Sequence[Statement]]) -> Program:
    return replace(program, body=edited(program.body, edit))


@pytest.mark.parametrize("case", ["one value", "floats"])
def test_parts_that_threads_share_are_refused(case: str) -> None:
    """As where two parts lie in one place."""
    _, _, program = sound(case)

    def same(statement: Statement) -> Sequence[Statement]:
        if isinstance(statement, Store) and statement.tensor.endswith("_parts"):
            return (replace(statement, index=replace(statement.index, terms=())),)
        return (statement,)

    with pytest.raises(VerificationError, match="may store to the same"):
        verify(mutant(program, same))


@pytest.mark.skipif(find_compiler().is_clang, reason="only twins built by GCC see races")
@pytest.mark.parametrize("case", ["one value", "floats"])
def test_mistakes_are_seen(case: str, tmp_path: Path) -> None:
    """The last part left out, and the first grid: what partial results begin with."""
    file, _, program = sound(case)

    def fewer(statement: Statement) -> Sequence[Statement]:
        if isinstance(statement, Sweep) and statement.variable.startswith("part"):
            return (replace(statement, last=Linear(0)),)
        return (statement,)

    begins = next(
        n
        for n, s in enumerate(program.body)
        if isinstance(s, Grid) and any(t.endswith("_parts") for t in stored(s.body))
    )
    without = replace(program, body=(*program.body[:begins], *program.body[begins + 1 :]))
    assert all(differences(file, [mutant(program, fewer), without], tmp_path))


# ---- Models -----------------------------------------------------------------------------------------------


def greatest() -> PipelineFile:
    stages = "m() = f32(0)\nm() max= levels(x, y) for x in 0:1024, y in 0:2048"
    return pipeline(stages, "{m: {}}", "{levels: {dtype: f32, rank: 2}}")


def times_ns(tiles: Mapping[str, int]) -> tuple[float, float]:
    """By the cost model, and by the prediction of its code."""
    file = greatest()
    candidate = schedule(file, {}, tiles, reduce="PARTIAL")
    predicted = predict(grids_of(file, candidate), device(), {})
    return time_ns(GpuPipelineCosts(candidate.instance, device()), candidate), predicted.time_ns


def test_the_greatest_of_many_takes_less_in_parts() -> None:
    tiles = {"m.1.x.TASK": 256, "m.1.x.LANE": 1, "m.1.y.TASK": 32}
    for serial, parts in zip(times_ns({}), times_ns(tiles), strict=True):
        assert parts < serial / 50


def test_of_columns_that_are_summed_up_neighbours_are_read_by_neighbours() -> None:
    """Where threads have parts of a range, too, the order of loops says which of them these are."""
    stages = "s(x) = f32(0)\ns(x) += levels(x, r) for r in 0:256"
    file = pipeline(stages, "{s: {x: 16384}}", "{levels: {dtype: f32, rank: 2}}")
    tiles = {"s.x.TASK": 256, "s.x.LANE": 1, "s.1.x.TASK": 32, "s.1.x.LANE": 1, "s.1.r.LANE": 8}

    def times(place: int) -> tuple[float, float]:
        candidate = schedule(file, {}, tiles, {"s.1.LANE": place}, "PARTIAL")
        predicted = predict(grids_of(file, candidate), device(), {})
        return time_ns(GpuPipelineCosts(candidate.instance, device()), candidate), predicted.time_ns

    for along_the_range, along_rows in zip(times(0), times(1), strict=True):
        assert along_rows < along_the_range


def test_plans_keep_to_the_memory_that_partial_results_may_take() -> None:
    stages = "m() = f32(0)\nm() max= levels(x, y) for x in 0:4096, y in 0:4096"
    file = pipeline(stages, "{m: {}}", "{levels: {dtype: f32, rank: 2}}")
    here = instance(file)
    root = here.root()
    assert root is not None
    costs = GpuPipelineCosts(here, device())
    ways = []
    for seed in range(9):
        planned = here.restrict_allowed(root, costs.plan(np.random.default_rng(seed)))
        assert planned.is_complete
        ways.append(planned.value("reduce", next(s for s in file.backbone.reductions)))
    assert set(ways) == {"PARTIAL", "SHUFFLE"}
