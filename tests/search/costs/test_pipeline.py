"""The cost model of pipelines: what it says of schedules that differ in one thing alone."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.descent import DescentCounts
from spacedsl.kernels.device import DEVICES, load_device
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.search.costs.model import time_ns
from spacedsl.search.costs.pipeline import PipelineCosts
from spacedsl.search.descent import Descent
from spacedsl.search.neighbours import Neighbourhood
from spacedsl.search.orderings import select_ordering
from spacedsl.search.rollouts import Cut
from tests.kernels.pipeline.cases import drawn, instance, scheduled
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.test_library import CASES, load
from tests.search.toy import NoBound

DEVICE = load_device(DEVICES / "generic-x86-64.yaml")
IMAGE = "{image: {dtype: f32, rank: 2}}"


def schedule(file: PipelineFile, sites: Mapping[str, str], tiles: Mapping[str, int]) -> Candidate:
    return scheduled(instance(file.backbone), sites, tiles)


def cost(file: PipelineFile, sites: Mapping[str, str], tiles: Mapping[str, int]) -> float:
    candidate = schedule(file, sites, tiles)
    return time_ns(PipelineCosts(candidate.instance, DEVICE), candidate)


def blur() -> PipelineFile:
    stages = """
        b(x, y) = image(x, y) + image(x + 1, y) + image(x + 2, y)
        c(x, y) = b(x, y) + b(x, y + 1) + b(x, y + 2)
    """
    return pipeline(stages, "{c: {x: 2048, y: 2048}}", IMAGE)


def test_what_runs_in_parallel_takes_less() -> None:
    """Four threads have four times the arithmetic of one, but twice its bandwidth to memory."""
    assert DEVICE.memory[-1].bytes_per_ns_all == 2 * DEVICE.memory[-1].bytes_per_ns
    gain = cost(blur(), {"b": "INLINE"}, {}) / cost(blur(), {"b": "INLINE"}, {"c.y.TASK": 64})
    assert 2 < gain < 3


def test_rows_that_slide_are_computed_once() -> None:
    """One row of `b` for each of `c`, and not three."""
    file, tiles = blur(), {"c.y.TASK": 64, "c.y.CHUNK": 1}
    here = instance(file.backbone)
    costs, step = PipelineCosts(here, DEVICE), next(s for s in file.backbone.steps if s.name == "b")
    fresh, sliding = (
        costs.estimate(scheduled(here, {"b": "CHUNK"}, tiles, slides)).iterations(step, "REG")
        for slides in ((), ("b",))
    )
    assert sliding == pytest.approx(fresh * 66 / (3 * 64))


def histogram(height: int = 2048) -> PipelineFile:
    stages = f"h(i) = 0\nh(levels(x, y)) += 1 for x in 0:1024, y in 0:{height}"
    return pipeline(stages, "{h: {i: 256}}", "{levels: {dtype: u8, rank: 2}}")


def test_parts_of_a_range_take_less_but_not_too_many_of_them() -> None:
    whole, parts, rows = (
        cost(histogram(), {}, tiles) for tiles in ({}, *({"h.1.y.TASK": n} for n in (128, 1)))
    )
    assert parts < whole / 3
    assert parts < rows
    assert cost(histogram(2), {}, {"h.1.y.TASK": 1}) > cost(histogram(2), {}, {})


def test_plans_give_tasks_parts_of_what_few_points_sum_up() -> None:
    here = instance(histogram().backbone)
    costs = PipelineCosts(here, DEVICE)
    names = set()
    for seed in range(4):
        plan = costs.plan(np.random.default_rng(seed))
        names |= {str(v.values(mask)[0]) for v, mask in plan if v.choice == "reduce"}
    assert names == {"PARTIAL"}


def test_rows_of_vectors_take_less_than_columns() -> None:
    narrow = cost(blur(), {"b": "INLINE"}, {"c.y.TASK": 64, "c.x.CHUNK": 1})
    wide = cost(blur(), {"b": "INLINE"}, {"c.y.TASK": 64, "c.x.CHUNK": 64})
    assert wide < narrow / 4


def test_what_stays_in_caches_takes_less_than_what_goes_to_memory_and_back() -> None:
    near = cost(blur(), {"b": "TASK"}, {"c.y.TASK": 16})
    far = cost(blur(), {}, {"c.y.TASK": 16, "b.y.TASK": 16})
    assert near < far


def test_what_is_computed_again_costs_again() -> None:
    some = cost(blur(), {"b": "TASK"}, {"c.y.TASK": 32})
    much = cost(blur(), {"b": "TASK"}, {"c.y.TASK": 1})
    assert some < 0.9 * much


def test_products_of_tiles_load_less() -> None:
    file = load("matmul", {"n": 1024})
    steps = {s.name: s for s in file.backbone.steps}
    update = next(s for s in steps.values() if s.update is not None)
    x, y = update.variables[:2]
    flat = cost(file, {}, {f"{update.name}.{y}.TASK": 8})
    tiled = cost(file, {}, {f"{update.name}.{y}.TASK": 8, f"{update.name}.{x}.CHUNK": 64})
    assert tiled < flat


@pytest.mark.parametrize("better", [0, 1])
def test_what_is_large_is_best_read_once(better: int) -> None:
    """Of both operands of a product, that of which a tile needs more: the second cache has all of it."""
    file = load("matmul", {"n": 1024})
    update = next(s for s in file.backbone.steps if s.update is not None)
    x, y = update.variables[:2]
    sizes = {x: 128, y: 32} if better else {x: 32, y: 128}
    tiles = {f"{update.name}.{dim}.CHUNK": size for dim, size in sizes.items()}
    tiles |= {f"{update.name}.{y}.TASK": 512, f"{update.name}.{x}.REG": 16, f"{update.name}.{y}.REG": 4}
    places = {0: 0, 1: update.dims.index(y)}
    here = instance(file.backbone)
    costs = PipelineCosts(here, DEVICE)
    times = {
        place: time_ns(costs, scheduled(here, {}, tiles, innermost={f"{update.name}.CHUNK": at}))
        for place, at in places.items()
    }
    assert times[better] < times[1 - better]


def test_vectors_that_are_unrolled_share_what_they_load() -> None:
    """And do not wait for each other, as one sum alone does for itself."""
    file = load("matmul", {"n": 1024})
    update = next(s for s in file.backbone.steps if s.update is not None)
    x, y = update.variables[:2]
    tiles = {f"{update.name}.{y}.TASK": 64, f"{update.name}.{x}.CHUNK": 64}
    apart = cost(file, {}, {**tiles, f"{update.name}.{y}.REG": 1, f"{update.name}.{x}.REG": 8})
    together = cost(file, {}, {**tiles, f"{update.name}.{y}.REG": 4})
    assert together < 0.6 * apart


@pytest.mark.parametrize(("registers", "rows"), [(16, 4), (32, 8)])
def test_sums_beyond_the_registers_wait_for_memory(registers: int, rows: int) -> None:
    """8 rows of two vectors load less than 4, and are 16 sums."""
    file = load("matmul", {"n": 1024})
    update = next(s for s in file.backbone.steps if s.update is not None)
    x, y = update.variables[:2]
    device = DEVICE.model_copy(update={"vector_registers": registers})
    here = instance(file.backbone)
    costs = PipelineCosts(here, device)
    tiles = {f"{update.name}.{y}.TASK": 64, f"{update.name}.{x}.CHUNK": 64, f"{update.name}.{x}.REG": 16}
    times = {n: time_ns(costs, scheduled(here, {}, {**tiles, f"{update.name}.{y}.REG": n})) for n in (4, 8)}
    assert min(times, key=lambda n: times[n]) == rows


@pytest.mark.parametrize(("registers", "best"), [(16, (8, 4)), (32, (32, 3))])
def test_one_sum_too_many_waits_for_memory(registers: int, best: tuple[int, int]) -> None:
    """Three rows of four vectors need one register more than there are 16; four of one vector, few."""
    file = load("matmul", {"n": 1024})
    update = next(s for s in file.backbone.steps if s.update is not None)
    x, y = update.variables[:2]
    here = instance(file.backbone)
    costs = PipelineCosts(here, DEVICE.model_copy(update={"vector_registers": registers}))
    times = {}
    for columns, rows in ((8, 4), (32, 3)):
        tiles = {f"{update.name}.{y}.TASK": 64, f"{update.name}.{x}.CHUNK": 64}
        tiles |= {f"{update.name}.{x}.REG": columns, f"{update.name}.{y}.REG": rows}
        times[columns, rows] = time_ns(costs, scheduled(here, {}, tiles))
    assert min(times, key=lambda tile: times[tile]) == best


def test_rows_are_summed_up_by_vectors() -> None:
    """As columns are; where each third element is read, it takes longer."""
    times = [
        cost(pipeline(f"s(y) = f32(0)\ns(y) += image({at}) for k in 0:1024", "{s: {y: 1024}}", IMAGE), {}, {})
        for at in ("k, y", "y, k", "3 * k, y")
    ]
    assert times[0] < 2 * times[1]
    assert times[0] < times[2]


def test_of_colours_one_is_computed() -> None:
    values = "(x, 0) * 3 + 1, image(x, 1) * 5 - 2, image(x, 2) * 7 + 3"
    inputs = "{image: {dtype: f32, rank: 2}}"
    one, all_of_them = (
        pipeline(f"f(x, y, c) = {chosen}image{values})", "{f: {x: 999, y: 99, c: 3}}", inputs)
        for chosen in ("mux(c, ", "max(")
    )
    assert cost(one, {}, {}) < cost(all_of_them, {}, {})


@pytest.mark.parametrize("name", CASES)
def test_every_implementation_costs_something(name: str) -> None:
    file = load(name, CASES[name].sizes)
    costs = PipelineCosts(instance(file.backbone), DEVICE)
    for candidate in drawn(file, 2, 5, DescentCounts()):
        assert 0 < time_ns(costs, candidate) < math.inf
        assert time_ns(costs, candidate) == time_ns(costs, candidate)


@pytest.mark.parametrize("name", ["harris", "camera_pipe", "local_laplacian"])
def test_plans_lead_to_what_costs_less_than_random_schedules(name: str) -> None:
    """At full size, and where a plan has been kept to as far as the constraints allow it."""
    candidates = [*drawn(load(name), 6, 7, DescentCounts())]
    here, rng = candidates[0].instance, np.random.default_rng(4)
    root = here.root()
    assert root is not None
    costs = PipelineCosts(here, DEVICE)
    near = Neighbourhood(Descent(here, select_ordering(here, here.space, None), NoBound()), root)
    planned = [near.planned(costs.plan(rng), Cut(None, 1.0), rng) for _ in range(9)]
    found = [time_ns(costs, each) for each in planned if each is not None]
    assert len(found) == 9
    assert sorted(found)[4] < min(time_ns(costs, each) for each in candidates)
