"""The space of pipelines: its schedules compute what the algorithm says, in boxes as large as it says."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.decision import Decision
from spacedsl.engine.descent import DescentCounts
from spacedsl.engine.instance import Instance
from spacedsl.kernels.pipeline.backbone import BLOCK_WORK, FULL, SLOTS, TASK_WORK, Kernel, Step
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from tests.codegen.cuda.grids import device
from tests.codegen.pipeline import on_gpus
from tests.engine.agreement import Tally
from tests.engine.real_spaces import real_space
from tests.kernels.pipeline.cases import (
    FOUR_THREADS,
    IMAGE,
    PIPELINES,
    drawn,
    inputs_of,
    instance,
    named,
)
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.pointwise import elements
from tests.kernels.pipeline.scheduled import Scheduled, outputs_of

MOST_POINTS = 250
"""Of all stages of a generated plane."""


def try_schedules(file: PipelineFile, count: int, seed: int = 0) -> DescentCounts:
    """Random ones, each carried out."""
    inputs, counts = inputs_of(file), DescentCounts()
    expected = outputs_of(file.algorithm, elements(file.algorithm, file.boxes, inputs))
    for candidate in drawn(file, count, seed, counts):
        found = Scheduled(file.backbone, candidate, inputs).run()
        assert outputs_of(file.algorithm, found) == expected, candidate.decisions()
    return counts


@pytest.mark.parametrize("case", PIPELINES)
def test_schedules_compute_what_the_algorithm_says(case: str) -> None:
    counts = try_schedules(named(case), 24)
    assert counts.complete >= 21


@pytest.mark.parametrize("name", ["a stencil", "a sum", "a sum on a GPU"])
def test_the_engine_finds_the_schedules_that_cp_sat_counts(name: str, tmp_path: Path) -> None:
    """All of them, and on the way to some of them nothing that has a solution is removed."""
    space, tally = real_space(name, tmp_path), Tally()
    assert space.solutions is not None
    assert space.solutions > 900
    space.count(tally)
    for seed in range(3):
        space.walk(random.Random(seed), tally)
    assert tally.questions > 5


# ---- Generated pipelines ----------------------------------------------------------------------------------


@st.composite
def positions(draw: st.DrawFn) -> str:
    """Of `x`: stencils, down- and upsampling, mirrored, held by numbers."""
    times, by = draw(st.sampled_from([(1, 1)] * 4 + [(2, 1), (1, 2), (3, 2), (1, 3), (-1, 1), (-1, 2)]))
    found = f"({times} * x + {draw(st.integers(-2, 2))}) / {by}"
    kind = draw(st.integers(0, 7))
    if kind == 0:
        return f"clamp({found}, {draw(st.integers(-2, 1))}, {draw(st.integers(2, 5))})"
    return f"{found} + {draw(st.integers(1, 3))} * (x % {draw(st.integers(2, 3))})" if kind == 1 else found


@st.composite
def graphs(draw: st.DrawFn) -> str:
    """Stages of one variable, each read by some that follow it."""
    count = draw(st.integers(2, 12))
    lines = ["s0(x) = image(x, 0)"]
    for number in range(1, count):
        sources = [number - 1, *draw(st.lists(st.integers(0, number - 1), max_size=2))]
        taps = [f"{draw(st.integers(1, 3))} * s{n}({draw(positions())})" for n in sources]
        if draw(st.integers(0, 4)):
            lines.append(f"s{number}(x) = {' + '.join(taps)}")
        else:
            lines += [f"s{number}(x) = 1", f"s{number}(x) += r * ({' + '.join(taps)}) for r in 0:3"]
    return "\n".join(lines)


@st.composite
def planes(draw: st.DrawFn) -> str:
    """Stages of two variables, so that rows may slide; some are transposed."""
    lines = ["s0(x, y) = image(x, y)"]
    for number in range(1, draw(st.integers(3, 5))):
        sources = [number - 1, *draw(st.lists(st.integers(0, number - 1), max_size=1))]
        taps = []
        for source in sources:
            along, across = draw(positions()), draw(positions()).replace("x", "y")
            is_transposed = draw(st.integers(0, 6)) == 0
            taps.append(f"s{source}({across}, {along})" if is_transposed else f"s{source}({along}, {across})")
        terms = (f"{draw(st.integers(1, 3))} * {tap}" for tap in taps)
        lines.append(f"s{number}(x, y) = {' + '.join(terms)}")
    return "\n".join(lines)


def is_sliding(candidate: Candidate, kernel: Kernel) -> bool:
    """Whether some step of it does."""
    return any(candidate.value("window", step) == "SLIDING" for step in kernel.slidable)


@pytest.mark.parametrize("case", ["rows", "rows at two paces"])
def test_rows_slide(case: str) -> None:
    """In some schedules, which others of these tests carry out."""
    file = named(case)
    found = [c for c in drawn(file, 40, 0, DescentCounts()) if is_sliding(c, file.backbone)]
    assert len(found) >= 4


def test_rows_that_a_window_would_not_hold_do_not_slide() -> None:
    """Two dimensions that move together, what moves backwards, and what has one dimension."""
    stages = "a(x, y) = image(x, y)\nb(x, y) = a({}) + a({})\nc(x, y) = b(x, y)"
    for points, steps in [
        (("x, y", "x, y + 1"), {"a", "b"}),
        (("x + y, y", "x + y, y + 1"), {"b"}),
        (("x, -y", "x, 1 - y"), {"b"}),
    ]:
        file = pipeline(stages.format(*points), "{c: {x: 5, y: 6}}", IMAGE)
        assert {step.name for step in file.backbone.slidable} == steps


def plane(stages: str, width: int, height: int) -> PipelineFile:
    """Of so few points that each can be computed again and again."""
    last = stages.splitlines()[-1].split("(")[0]
    file = pipeline(stages, f"{{{last}: {{x: {width}, y: {height}}}}}", IMAGE)
    assume(sum(math.prod(e.size for e in box) for box in file.boxes.values()) <= MOST_POINTS)
    return file


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(planes(), st.integers(1, 4), st.integers(2, 9), st.integers(0, 2**32))
def test_schedules_of_generated_planes_compute_what_they_say(
    stages: str, width: int, height: int, seed: int
) -> None:
    try_schedules(plane(stages, width, height), 2, seed)


@settings(max_examples=25, deadline=None)
@given(graphs(), st.integers(1, 9), st.integers(0, 2**32))
def test_schedules_of_generated_pipelines_compute_what_they_say(stages: str, extent: int, seed: int) -> None:
    last = stages.splitlines()[-1].split("(")[0]
    try_schedules(pipeline(stages, f"{{{last}: {{x: {extent}}}}}", IMAGE), 3, seed)


# ---- Parallelism -----------------------------------------------------------------------------------------

SUMS = "f(x, y) = image(x, y) * 2\ns(x, y) = 0\ns(x, y) += f(x + r, y) for r in 0:4\ng(x, y) = s(x, y) - 1"


@pytest.mark.parametrize("width", [100, 700])
def test_where_there_is_work_for_all_no_thread_has_nothing_to_do(width: int) -> None:
    """At 100 points a row, of all steps at ROOT only the sum has enough of it, with its ranges."""
    file = pipeline(SUMS, f"{{g: {{x: {width}, y: 200}}}}", IMAGE)
    here = instance(file.backbone, FOUR_THREADS)
    root = here.root()
    assert root is not None
    for step in file.backbone.inner:
        whole: Candidate | None = here.decide(root, Decision("site", (step.name,), ("ROOT",)))
        for box in (step.box(dim, "TASK") for dim in step.dims):
            whole = whole and here.decide(whole, Decision("tile", (box.name,), (FULL,)))
        assert (whole is None) is (width == 700 or step.name == "s.1")
    for candidate in drawn(file, 60, 4, DescentCounts(), device=FOUR_THREADS):
        for step, tasks in numbers_of_roots("tasks", file.backbone, candidate):
            assert tasks >= min(FOUR_THREADS.threads, step.work // TASK_WORK)


def test_multiprocessors_have_blocks_and_warps_have_threads() -> None:
    file, gpu = pipeline(SUMS, "{g: {x: 700, y: 200}}", IMAGE), device()
    for candidate in on_gpus.drawn(file, 60, 4):
        lanes = dict(numbers_of_roots("lanes", file.backbone, candidate))
        for step, tasks in numbers_of_roots("tasks", file.backbone, candidate):
            assert tasks >= min(gpu.sms, step.work // BLOCK_WORK)
            assert lanes[step] >= gpu.warp // 2


def numbers_of_roots(quantity: str, kernel: Kernel, candidate: Candidate) -> list[tuple[Step, float]]:
    """Of each step at ROOT a quantity, which is decided."""
    found = {
        names[0]: ends
        for each, names, ends in candidate.instance.quantities(candidate.vector)
        if each.name == quantity
    }
    roots = [step for step in kernel.inner if candidate.value("site", step) == "ROOT"]
    assert all(found[step.name][0] == found[step.name][1] for step in roots)
    return [(step, found[step.name][0]) for step in roots]


# ---- Decisions of a kernel file ---------------------------------------------------------------------------


@pytest.mark.parametrize("of", [lambda file: instance(file.backbone), on_gpus.instance], ids=["cpu", "gpu"])
def test_a_kernel_file_may_decide_whatever_a_space_leaves_open(
    of: Callable[[PipelineFile], Instance],
) -> None:
    """Each choice has objects that a file can name."""
    stages, outputs = "b(x, y) = a(x, y)\ns(x) = 0\ns(x) += b(x, r) + b(x, r + 1) for r in 0:9", "{s: {x: 8}}"
    inputs = "{a: {dtype: i32, rank: 2}}"
    variables = of(pipeline(stages, outputs, inputs)).variables
    found = {variable.choice: variable for variable in variables}
    assert {"site", "tile", "reduce", "innermost"} <= found.keys()
    for variable in found.values():
        names = ", ".join(f"'{each}'" for each in variable.objects)
        value = variable.universe[0]
        entry = f"{{choice: {variable.choice}, objects: [{names}], values: [{value}]}}"
        assert pipeline(stages, outputs, inputs, f"decisions: [{entry}]\n").decisions


def test_a_tile_may_have_any_size_that_a_file_decides() -> None:
    """Also one that searches are not offered, and only there."""
    entry = "{choice: tile, objects: [b.x.TASK], values: [7]}"
    file = pipeline("b(x) = image(x, 0) + 1", "{b: {x: 20}}", IMAGE, f"decisions: [{entry}]\n")
    (step,) = (step for step in file.backbone.inner if step.name == "b")
    assert {slot for slot in SLOTS if 7 in step.box("x", slot).sizes} == {"TASK"}
    for end in drawn(file, 5, 0, DescentCounts()):
        assert end.value("tile", step.box("x", "TASK")) == 7
    assert try_schedules(file, 5).complete == 5
