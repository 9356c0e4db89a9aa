"""Boxes at the places that they are given: everything is computed before it is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spacedsl.codegen.pipeline import placement
from spacedsl.codegen.pipeline.placement import (
    IsShifted,
    PlacedNest,
    Placement,
    Span,
    Spans,
    Start,
    Window,
    never,
)
from spacedsl.codegen.pipeline.schedule import CandidateDecisions, Level, Loop, Nest, schedule
from spacedsl.codegen.tree.program import Let
from spacedsl.diagnostics import Source
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.descent import DescentCounts
from spacedsl.kernels.located_yaml import parse_document
from spacedsl.kernels.pipeline.affine import Linear
from spacedsl.kernels.pipeline.backbone import Step
from spacedsl.kernels.pipeline.kernel_file import PipelineFile, check_pipeline
from spacedsl.kernels.pipeline.sites import Sites
from spacedsl.kernels.unique_names import UniqueNames
from tests.codegen.interpreter import position
from tests.kernels.pipeline.cases import IMAGE, PIPELINES, drawn, inputs_of, instance, named, scheduled
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.pointwise import Elements, Point, compute, elements, inlined
from tests.kernels.pipeline.scheduled import outputs_of
from tests.kernels.pipeline.test_space import graphs, plane, planes

LIBRARY = Path(__file__).parents[3] / "kernels" / "library" / "pipelines"


class Placed:
    """Carries out placed nests, one loop after the other."""

    def __init__(
        self,
        file: PipelineFile,
        candidate: Candidate,
        inputs: Mapping[str, Callable[[Point], Any]],
        is_shifted: IsShifted = never,
    ) -> None:
        self.file, self.is_shifted = file, is_shifted
        self.decisions = CandidateDecisions(candidate)
        self.sites = Sites(file.backbone.steps, self.decisions.site)
        self.last = {step.stage.name: step for step in self.sites.steps}
        self.inputs = inputs
        self.scalars = {p.name: p.value for p in file.algorithm.parameters}
        self.stored: dict[str, Elements] = {}
        self.windows: dict[str, tuple[int, int, int]] = {}
        """Of stages that slide: which dimension, from which point, how many."""

    def run(self) -> dict[str, Elements]:
        steps = self.file.backbone.steps
        placement, fresh = Placement(self.sites, self.decisions, self.is_shifted), UniqueNames().fresh
        nests = [placement.nest(nest, fresh) for nest in schedule(steps, self.decisions)]
        with np.errstate(all="ignore"):
            self.nests(nests, {})
        return outputs_of(self.file.algorithm, self.stored)

    def nests(self, nests: Sequence[PlacedNest], at: Mapping[str, int]) -> None:
        for nest in nests:
            step, name = nest.step, nest.step.stage.name
            site = self.sites.of[step]
            is_first = step.before is None or self.sites.of[step.before] != site
            if is_first and self.sites.of[self.last[name]] == site and name not in self.windows:
                self.stored[name] = {}
            self.level(nest, 0, at)

    def level(self, nest: PlacedNest, number: int, at: Mapping[str, int]) -> None:
        if number == len(nest.levels):
            region = {dim: self.range(nest.body, dim, at) for dim in nest.step.dims}
            into = self.stored[nest.step.stage.name]
            compute(nest.step.stage, nest.step.update, region, into, self.scalars, self.read)
            self.fold(nest.step, region)
            return
        self.loops(nest, number, 0, at)

    def fold(self, step: Step, region: Mapping[str, tuple[int, int]]) -> None:
        """What is computed takes the places of what lay there."""
        name = step.stage.name
        if name in self.windows:
            dimension, first, size = self.windows[name]
            low, high = region[step.dims[dimension]]
            taken = {(point - first) % size: point for point in range(low, high + 1)}
            points = {where: where[dimension] for where in self.stored[name]}
            for where, point in points.items():
                if taken.get((point - first) % size, point) != point:
                    del self.stored[name][where]

    def begin(self, windows: Mapping[Step, Window], start: Start, at: Mapping[str, int]) -> None:
        """What is done before the innermost loop of a level."""
        for step, window in windows.items():
            first = position(window.first, at)
            self.windows[step.stage.name] = step.stage.variables.index(window.dim), first, window.size
            self.stored[step.stage.name] = {}
        self.nests(start.guests, self.given(start.lets, at))

    def loops(self, nest: PlacedNest, number: int, inner: int, at: Mapping[str, int]) -> None:
        """From a loop of a level on inwards."""
        level = nest.levels[number]
        if inner < len(level.loops):
            loop = level.loops[inner]
            first, last = (position(end, at) for end in (loop.first, loop.last))
            if level.start is not None and inner + 1 == len(level.loops):
                self.begin(level.windows, level.start, at)
            for start in range(first, last + 1, loop.step):
                self.loops(nest, number, inner + 1, {**at, loop.variable: start})
            return
        here = self.given(level.lets, at)
        for spans in level.needed.values():
            for dim in spans:
                self.range(spans, dim, here)
        self.nests(level.guests, here)
        self.level(nest, number + 1, here)

    def given(self, lets: Sequence[Let], at: Mapping[str, int]) -> Mapping[str, int]:
        found = dict(at)
        for let in lets:
            found[let.variable] = position(let.position, found)
        return found

    def range(self, spans: Spans, dim: str, at: Mapping[str, int]) -> tuple[int, int]:
        span = spans[dim]
        low, high = (position(end, at) for end in (span.first, span.last))
        # Of what slides, there may be nothing left.
        assert low <= high or self.windows
        assert high < low + span.most, f"{high - low + 1} points, at most {span.most}"
        assert not span.is_full or high == low + span.most - 1
        return low, high

    def read(self, source: str, where: Point, element: int) -> Any:
        if source in self.inputs:
            return self.inputs[source](where)
        stage = self.last[source].stage
        if self.sites.of[self.last[source]] == "INLINE":
            return inlined(stage, where, element, self.scalars, self.read)
        assert where in self.stored.get(source, {}), f"{source}{where} has not been computed"
        return self.stored[source][where][element]


def wherever_it_may(nest: Nest, level: Level, loop: Loop, outer: Span) -> bool:
    """Points of definitions may be computed again, where nothing else is computed inside of their loops."""
    return nest.step.update is None and level is nest.levels[-1] and not level.guests


def try_placements(file: PipelineFile, count: int, seed: int) -> None:
    inputs = inputs_of(file)
    expected = outputs_of(file.algorithm, elements(file.algorithm, file.boxes, inputs))
    for candidate in drawn(file, count, seed, DescentCounts()):
        for is_shifted in (never, wherever_it_may):
            assert Placed(file, candidate, inputs, is_shifted).run() == expected, candidate.decisions()


@pytest.mark.parametrize("case", PIPELINES)
def test_boxes_lie_where_they_are_needed(case: str) -> None:
    try_placements(named(case), 25, 2)


@settings(max_examples=25, deadline=None)
@given(graphs(), st.integers(1, 9), st.integers(0, 2**32))
def test_boxes_of_generated_pipelines_lie_where_they_are_needed(stages: str, extent: int, seed: int) -> None:
    last = stages.splitlines()[-1].split("(")[0]
    try_placements(pipeline(stages, f"{{{last}: {{x: {extent}}}}}", IMAGE), 3, seed)


def _smaller(window: Window) -> Window:
    return replace(window, size=max(1, window.size - 1))


def _further(span: Span) -> Span:
    return replace(span, first=span.first + Linear(1))


@pytest.mark.parametrize("mistake", ["a row too few is kept", "a row is left out", "nothing before"])
def test_mistakes_of_what_slides_are_seen(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, behind, begun = placement._Placer.window, placement._behind, placement._Placer.start
    if mistake == "a row too few is kept":
        monkeypatch.setattr(placement._Placer, "window", lambda *given: _smaller(made(*given)))
    elif mistake == "a row is left out":
        monkeypatch.setattr(placement, "_behind", lambda *given: _further(behind(*given)))
    else:
        monkeypatch.setattr(
            placement._Placer, "start", lambda *given: replace(begun(*given), lets=(), guests=())
        )
    with pytest.raises(AssertionError):
        try_placements(named("rows"), 40, 0)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(planes(), st.integers(1, 4), st.integers(2, 9), st.integers(0, 2**32))
def test_boxes_of_generated_planes_lie_where_they_are_needed(
    stages: str, width: int, height: int, seed: int
) -> None:
    try_placements(plane(stages, width, height), 2, seed)


@pytest.mark.parametrize("name", ["blur", "harris", "unsharp", "iir_blur", "matmul", "toy_blur"])
def test_schedules_of_applications_compute_what_they_say(name: str) -> None:
    """Sums of floats may be in another order."""
    path = LIBRARY / f"{name}.yaml"
    sizes = {"n": 6} if name == "matmul" else {"width": 10, "height": 8}
    file = check_pipeline(parse_document(Source.read(path), "KF"), path, sizes)
    inputs = inputs_of(file)
    expected = outputs_of(file.algorithm, elements(file.algorithm, file.boxes, inputs))
    for candidate in drawn(file, 2, 3, DescentCounts()):
        found = Placed(file, candidate, inputs).run()
        for output, points in expected.items():
            got = [found[output][point] for point in points]
            assert np.allclose(got, [*points.values()], rtol=1e-4, equal_nan=True)


def test_a_shifted_tile_is_as_long_as_others_where_there_is_room_for_it() -> None:
    file = pipeline("b(x) = image(x, 0) * 2", "{b: {x: 21}}", IMAGE)

    def placed(tile: int, is_shifted: IsShifted) -> PlacedNest:
        candidate = scheduled(instance(file.backbone), {}, {"b.x.LANE": tile})
        decisions = CandidateDecisions(candidate)
        steps = file.backbone.steps
        (nest,) = schedule(steps, decisions)
        return Placement(Sites(steps, decisions.site), decisions, is_shifted).nest(nest, UniqueNames().fresh)

    def boxes(nest: PlacedNest) -> list[tuple[int, int]]:
        (level,) = nest.levels
        (loop,) = level.loops
        found = []
        for at in range(position(loop.first, {}), position(loop.last, {}) + 1, loop.step):
            here = {loop.variable: at}
            for let in level.lets:
                here[let.variable] = position(let.position, here)
            span = nest.body["x"]
            found.append((position(span.first, here), position(span.last, here)))
        return found

    assert boxes(placed(8, never)) == [(0, 7), (8, 15), (16, 20)]
    assert boxes(placed(8, wherever_it_may)) == [(0, 7), (8, 15), (13, 20)]
    assert placed(8, wherever_it_may).body["x"].is_full
    assert not placed(8, never).body["x"].is_full


def test_steps_are_placed_by_name() -> None:
    """The loops around a body, and what begins where."""
    file = named("a chain")
    candidate = next(
        c for c in drawn(file, 50, 0, DescentCounts()) if c.value("site", _step(file, "c")) == "TASK"
    )
    decisions = CandidateDecisions(candidate)
    steps = file.backbone.steps
    (nest,) = [n for n in schedule(steps, decisions) if n.step.name == "d"]
    outermost = Placement(Sites(steps, decisions.site), decisions).nest(nest, UniqueNames().fresh)
    first = outermost.levels[0]
    assert [loop.variable for loop in first.loops] == ["d_x"]
    assert [let.variable for let in first.lets] == ["d_x_last"]
    guest = next(g for g in first.guests if g.step.name == "c")
    assert guest.spans["x"].most == first.needed[outermost.step]["x"].most + 2


def _step(file: PipelineFile, name: str) -> Step:
    return next(step for step in file.backbone.steps if step.name == name)
