"""Schedules in Halide's words: they compute what the algorithm says, and say what the candidate does."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from spacedsl.codegen.halide.export import schedule_text
from spacedsl.codegen.pipeline.schedule import CandidateDecisions
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.descent import DescentCounts
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from tests.codegen.halide.running import Job, differences
from tests.codegen.halide.test_algorithms import check, jobs
from tests.codegen.pipeline.test_cases import cases_of
from tests.kernels.pipeline.cases import PIPELINES, drawn, instance, named
from tests.kernels.pipeline.cases import scheduled as schedule
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.test_library import load

pytest.importorskip("halide", reason="the package `halide` runs what is printed for it")

VECTOR_BYTES = (16, 32, 64)
REFUSAL = re.compile("HalideError: .*Input buffer .* is accessed at .*, which is be")


def scheduled(file: PipelineFile, candidate: Candidate, vector_bytes: int) -> str:
    return schedule_text(file, CandidateDecisions(candidate), vector_bytes)


def test_schedules_of_small_pipelines_of_every_kind(tmp_path: Path) -> None:
    """None is wrong. For a few, Halide asks inputs for more than they have, and says so when it runs."""
    made = {}
    for number, name in enumerate(PIPELINES):
        file = named(name)
        (job,) = jobs(file, 1)
        (candidate,) = drawn(file, 1, number, DescentCounts())
        made[name] = Job(file, scheduled(file, candidate, VECTOR_BYTES[number % 3]), job.case)
    found = dict(zip(made, differences([*made.values()], tmp_path), strict=True))
    refused = [name for name, said in found.items() if REFUSAL.search(said)]
    assert {name: said for name, said in found.items() if said and name not in refused} == {}
    assert len(refused) <= 3, refused


APPLICATIONS = ("bilateral_grid", "blur", "conv_layer", "harris", "matmul")


def test_schedules_of_applications(tmp_path: Path) -> None:
    wanted = {}
    for name in APPLICATIONS:
        file, (random, *_) = cases_of(name)
        candidates = list(drawn(file, 1, 6, DescentCounts()))
        wanted[name] = [Job(file, scheduled(file, c, 32), random) for c in candidates]
    check(wanted, tmp_path)


# ---- Text -------------------------------------------------------------------------------------------------

CHOSEN: Mapping[str, Mapping[str, str | int]] = {
    "blur": {
        "blur_x": "CHUNK", "blur_y.y.TASK": 64, "blur_y.y.CHUNK": 4, "blur_y.x.LANE": 96, "blur_y.y.REG": 1,
    },
    "harris": {
        **dict.fromkeys(("ixx", "iyy", "ixy", "det", "trace", "sxx", "syy", "sxy", "gray"), "INLINE"),
        **dict.fromkeys(("ix", "iy"), "TASK"),
        **dict.fromkeys(("sxx_sum", "syy_sum", "sxy_sum", "sxx_sum.1", "syy_sum.1", "sxy_sum.1"), "CHUNK"),
        "harris.y.TASK": 96, "harris.x.TASK": 384, "harris.y.CHUNK": 1,
    },
}  # fmt: skip
"""Sites of steps and sizes of tiles; all others are at root, and have no tiles."""


def chosen(file: PipelineFile, name: str) -> Candidate:
    sites = {n: str(value) for n, value in CHOSEN[name].items() if isinstance(value, str)}
    tiles = {n: int(value) for n, value in CHOSEN[name].items() if isinstance(value, int)}
    return schedule(instance(file.backbone), sites, tiles)


@pytest.mark.parametrize("name", CHOSEN)
def test_a_schedule_is_readable(name: str, golden: Callable[[str, str], None]) -> None:
    file = load(name, {})
    golden(f"{name}.py.txt", scheduled(file, chosen(file, name), 64))


def test_the_page_shows_what_is_printed() -> None:
    page = (Path(__file__).parents[3] / "docs" / "halide.md").read_text(encoding="utf-8")
    shown = page.split("```python\n")[1].split("```")[0].splitlines()
    file = load("blur", {})
    printed = iter(scheduled(file, chosen(file, "blur"), 64).splitlines())
    assert all(line in printed for line in shown if line)


def test_tasks_with_parts_of_a_range_are_factored(tmp_path: Path) -> None:
    """Where Halide knows how to combine them; others are computed one after the other."""
    made = {}
    for name, tiles, is_factored in (
        ("a histogram", {"h.1.r.TASK": 2, "h.1.i.CHUNK": 8, "rows.1.r.TASK": 3, "rows.1.y.CHUNK": 2}, True),
        ("a histogram of each column", {"h.1.r.TASK": 2, "h.1.x.CHUNK": 4}, True),
        ("reductions of every kind", {"s.1.q.TASK": 2, "m.1.r.TASK": 2, "m.2.r.TASK": 1}, True),
        ("one value", {"t.1.q.TASK": 2}, False),
        ("the best of many", {"f.1.q.TASK": 2, "f.2.r.TASK": 2, "l.1.r.TASK": 4}, False),
    ):
        file = named(name)
        text = scheduled(file, schedule(instance(file.backbone), {}, tiles), 16)
        assert ("h.update(0).rfactor" in text or "m.update(1).rfactor" in text) is is_factored
        made[name] = [Job(file, text, jobs(file, 1)[0].case)]
    check(made, tmp_path)


def test_what_is_kept_by_columns_is_stored_and_computed_so(tmp_path: Path) -> None:
    file = pipeline(
        "t(x, y) = image(x, y) * 3\nf(x, y) = t(y, x) + 1",
        "{f: {x: 19, y: 13}}",
        "{image: {dtype: i32, extents: [40, 40]}}",
    )
    (job,) = jobs(file, 1)
    written = scheduled(file, schedule(instance(file.backbone), {}, {}, layouts={"t": 1}), 16)
    assert "t.reorder_storage(y, x)" in written
    assert re.search(r"t\.split\(y, y, y_vector, 4,", written)
    assert differences([Job(file, written, job.case)], tmp_path) == [""]


def test_accumulators_in_loops_of_their_update_have_a_copy_with_these_loops(tmp_path: Path) -> None:
    file = named("a product")
    sites = {"f_sum": "CHUNK", "f": "INLINE"}
    candidate = schedule(instance(file.backbone), sites, {"f_sum.1.y.TASK": 2, "f_sum.1.x.CHUNK": 2})
    text = scheduled(file, candidate, 16)
    assert "f_sum_copy = f_sum.in_()" in text
    assert "f_sum.compute_at(f_sum_copy, x_chunk)" in text
    assert "f_sum_copy.parallel(y_task)" in text
    (job,) = jobs(file, 1)
    check({"a product": [Job(file, text, job.case)]}, tmp_path)
