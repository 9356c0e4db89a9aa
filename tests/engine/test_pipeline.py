"""The pipeline space on a small backbone: descents end in schedules that keep the rules."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

from spacedsl.compiler import compile_space
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.descent import Branches, DescentCounts, random_descent
from spacedsl.engine.enumerate import enumerate_solutions
from spacedsl.engine.instance import Instance, Variable, instantiate
from spacedsl.language.loader import load_space
from spacedsl.language.space import Space
from tests.engine.agreement import Agreement
from tests.engine.pipelines import (
    BLUR,
    FULL,
    HARRIS,
    POINT,
    SLOTS,
    SPACE,
    UP_X,
    Access,
    Box,
    Gpu,
    Graph,
    Pipeline,
    Stage,
    pipeline,
)

SITES = ("ROOT", "TASK", "CHUNK", "LANE", "REG", "INLINE")


@cache
def space() -> Space:
    return load_space(SPACE)


def instance(kernel: Pipeline, device: Gpu | None = None) -> Instance:
    return instantiate(compile_space(space()), kernel, device or Gpu())


def stagewise(here: Instance) -> Branches:
    """Stage by stage from the output on: site, store, tiles; value by value."""

    def key(variable: Variable) -> tuple[int, int]:
        place = variable.objects[0]
        stage = place if isinstance(place, Stage) else place.stage  # type: ignore[attr-defined]
        return stage.from_output, ("site", "store", "tile").index(variable.choice)

    order = sorted(here.variables, key=key)

    def branches(candidate: Candidate) -> tuple[Variable, Sequence[int]] | None:
        variable = next((v for v in order if candidate.is_open(v)), None)
        if variable is None:
            return None
        mask = candidate.mask(variable)
        return variable, [1 << bit for bit in range(mask.bit_length()) if mask >> bit & 1]

    return branches


class Schedule:
    """What a leaf means, computed from its decisions alone."""

    def __init__(self, leaf: Candidate, kernel: Pipeline) -> None:
        self.leaf, self.kernel = leaf, kernel
        self.site = {s: SITES.index(str(leaf.value("site", s))) for s in kernel.stages}

    def interval(self, box: Box) -> tuple[int, int]:
        if self.site[box.stage] < SLOTS.index(box.slot):
            assert box.outer is not None
            return 0, min(int(self.leaf.value("tile", box)), self.extent(box.outer)) - 1
        ends = []
        for read in box.reads:
            boxes = [(term.pos, self.interval(term.box)) for term in read.terms]
            ends.append(
                (
                    (sum(pos * low for pos, (low, _) in boxes) + read.c) // read.div,
                    (sum(pos * high for pos, (_, high) in boxes) + read.c + read.slack) // read.div,
                )
            )
        return min(low for low, _ in ends), max(high for _, high in ends)

    def extent(self, box: Box) -> int:
        low, high = self.interval(box)
        return max(1, high - low + 1)


SAMPLED: Graph = {"small": {}, "wide": {"small": UP_X}, "out": {"wide": Access(x=(-1, 0, 1), times=2)}}


@pytest.mark.parametrize(
    ("graph", "descents"), [(BLUR, 12), (SAMPLED, 8), (HARRIS, 2)], ids=["blur", "sampled", "harris"]
)
def test_descents_end_in_schedules_whose_sizes_are_those_of_the_decisions(
    graph: Graph, descents: int
) -> None:
    kernel = pipeline(graph)
    here = instance(kernel)
    root = here.root()
    assert root is not None
    counts, rng = DescentCounts(), np.random.default_rng(1)
    for _ in range(descents):
        leaf = random_descent(here, root, stagewise(here), rng, counts)
        if leaf is None:
            continue
        schedule = Schedule(leaf, kernel)
        for box in kernel.boxes:
            extent = schedule.extent(box)
            assert leaf.interval("extent", box) == (extent, extent)
        for stage in kernel.inner:
            assert stage.host is not None
            above = [schedule.site[x] for x in stage.between]
            realised = [site for site in above if SITES[site] != "INLINE"]
            assert SITES[schedule.site[stage]] == "INLINE" or schedule.site[stage] <= min(realised, default=5)
        for stage in kernel.stages:
            assert leaf.interval("shared", stage)[1] <= Gpu().shared_bytes
            assert leaf.interval("lanes", stage)[1] <= Gpu().max_threads
    assert counts.complete >= descents - 1


def test_a_site_whose_buffer_does_not_fit_is_removed_at_the_root() -> None:
    kernel = pipeline(BLUR, extent=64, tiles=(32,))
    blur_x = kernel.stages[0]
    small = instance(kernel, Gpu(shared_bytes=0)).root()
    large = instance(kernel, Gpu(shared_bytes=1 << 20)).root()
    assert small is not None
    assert large is not None
    assert small.possible("store", blur_x) == ("ROOT", "LANE", "REG", "INLINE")
    assert large.possible("store", blur_x) == ("ROOT", "TASK", "CHUNK", "LANE", "REG", "INLINE")


def test_all_schedules_of_a_tiny_pipeline_are_found() -> None:
    device = Gpu(shared_bytes=400)
    kernel = pipeline({"a": {}, "b": {"a": POINT}, "c": {"b": POINT}}, extent=8, tiles=())
    here = instance(kernel, device)
    objects: dict[str, object] = {x.name: x for x in kernel.stages}
    objects |= {x.name: x for x in kernel.boxes} | {x.name: x for x in kernel.slots}
    solutions = tuple(enumerate_solutions(space(), kernel, device))
    assert len(solutions) > 30
    found = Agreement(space(), here, solutions, objects)
    found.check_root()
    found.check_exhaustively()


def test_tiles_are_told_apart_where_a_loop_is_owned() -> None:
    kernel = pipeline({"a": {}, "b": {"a": POINT}}, extent=8, tiles=(4,))
    here = instance(kernel)
    root = here.root()
    assert root is not None
    output = kernel.stages[1]
    tasks = output.slots[0].boxes
    assert root.possible("tile", tasks[0]) == (4, FULL)
    assert root.possible("site", output) == ("ROOT",)
