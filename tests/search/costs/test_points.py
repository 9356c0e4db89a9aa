"""What a point of a step takes with all that is inlined: equal points count once."""

from __future__ import annotations

from collections.abc import Collection

from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.search.costs.points import Points, Total
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.test_library import CASES, load


def total(
    file: PipelineFile, name: str, inlined: Collection[str], rows: tuple[tuple[str, int], ...] = ()
) -> Total:
    steps = file.backbone.inner
    (step,) = (s for s in steps if s.name == name)
    chosen = frozenset(s for s in steps if s.name in inlined)
    return Points(steps).total(step, chosen, next(iter(step.stage.variables), None), rows)


def reads(found: Total, source: str) -> float:
    return sum(count for access, count in found.accesses.items() if access.source == source)


def test_what_two_ways_lead_to_is_computed_once() -> None:
    file = load("harris", CASES["harris"].sizes)
    all_of_it = [s.name for s in file.backbone.inner if s.name != "harris"]
    found = total(file, "harris", all_of_it)
    gray = total(file, "gray", ())
    assert reads(found, "image") == 25 * reads(gray, "image")
    assert 25 * gray.vector < found.vector < 25 * gray.vector + 500


def test_points_that_are_unrolled_share_what_they_read() -> None:
    stages = "p(x, y) = 0.0\np(x, y) += a(k, y) * b(x, k) for k in 0:6"
    file = pipeline(stages, "{p: {x: 4, y: 8}}", "{a: {dtype: f32, rank: 2}, b: {dtype: f32, rank: 2}}")
    copies = {s.name for s in file.backbone.inner if s.is_copy}
    alone, together = (total(file, "p.1", copies, rows) for rows in ((), (("y", 4),)))
    assert (reads(alone, "a"), reads(alone, "b")) == (1, 1)
    assert (reads(together, "a"), reads(together, "b")) == (1, 1 / 4)
    assert together.products == alone.products == 1


def test_how_a_stage_lies_decides_whether_neighbours_read_neighbours() -> None:
    stages = "t(x, y) = image(x, y) * 3\nf(x, y) = t(y, x) + 1"
    file = pipeline(stages, "{f: {x: 30, y: 30}}", "{image: {dtype: f32, rank: 2}}")
    steps = {step.name: step for step in file.backbone.inner}
    points = Points([*steps.values()])

    def pattern(name: str, along: str, layout: int) -> list[str]:
        copies = frozenset(step for step in steps.values() if step.is_copy)
        found = points.total(steps[name], copies, along, layouts={"t": layout} if layout else {})
        return [access.pattern for access in found.accesses]

    assert [pattern("f", "x", layout) for layout in (0, 1)] == [["apart"], ["beside"]]
    assert [pattern("f", "y", layout) for layout in (0, 1)] == [["beside"], ["apart"]]
    # How it lies itself is nothing to what it reads.
    assert [pattern("t", "y", layout) for layout in (0, 1)] == [["apart"], ["apart"]]


def test_even_and_odd_points_read_neighbours() -> None:
    file = pipeline("f(x) = t(x / 2) + t((x + 1) / 2)", "{f: {x: 30}}", "{t: {dtype: f32, rank: 1}}")
    found = total(file, "f", ())
    assert {access.pattern for access in found.accesses} == {"beside"}
    # Of both: t(x), t(x) again, t(x + 1).
    assert reads(found, "t") == 2 / 2
    apart = pipeline("f(x) = t(x / 2) + t(x)", "{f: {x: 30}}", "{t: {dtype: f32, rank: 1}}")
    assert {access.pattern for access in total(apart, "f", ()).accesses} == {"woven", "beside"}


def test_what_a_table_says_is_found_lane_by_lane() -> None:
    stages = "table(i) = f32(i) * 2\nf(x) = table(clamp(i32(t(x)), 0, 9))"
    file = pipeline(stages, "{f: {x: 30}}", "{t: {dtype: f32, rank: 1}}")
    assert {a.pattern for a in total(file, "f", ()).accesses if a.source == "table"} == {"apart"}
    assert not reads(total(file, "f", ("table",)), "table")
