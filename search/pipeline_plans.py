"""Schedules of pipelines to begin with: every stage by itself, its points shared out among threads.

In: the instance of a pipeline, the work of its steps, a generator. Out: a plan. Of the stages that compute
little, some are inlined; all else is computed once, in rows as long as images are on a CPU, in small tiles of
a point for each thread on a GPU: never far from good, where a random schedule of many stages mostly is. What
should be nearer to what is for a walk to find.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from spacedsl.engine.instance import Instance
from spacedsl.kernels.pipeline.backbone import FULL, Box, Kernel, Step
from spacedsl.search.cost_model import Plan
from spacedsl.search.pipeline_work import CALL, Work

INLINED = 0.8
"""The probability for what computes little, and for all accumulations over few points together."""

LITTLE = (0.0, 2.0, 6.0, 12.0)
"""Instructions of a point: of stages with no more, many are inlined; how many count as few is drawn."""

MOST_TASKS = 16
"""For each thread of a CPU, so many parts of a stage at most."""

TILES = ((32, 4), (32, 8), (64, 4), (128, 1), (128, 2))
"""Of blocks of a GPU: points along rows, and rows. There is a thread for each of them."""


def cpu_plan(instance: Instance, work: Mapping[Step, Work], threads: int, rng: np.random.Generator) -> Plan:
    tasks = threads * int(rng.integers(1, MOST_TASKS + 1))
    return _plan(instance, work, lambda step: _rows(step, tasks), rng)


def gpu_plan(instance: Instance, work: Mapping[Step, Work], rng: np.random.Generator) -> Plan:
    tile = TILES[int(rng.integers(len(TILES)))]
    return _plan(instance, work, lambda step: dict(_threads(step, tile)), rng)


def _plan(
    instance: Instance,
    work: Mapping[Step, Work],
    tiles: Callable[[Step], Mapping[Box, int]],
    rng: np.random.Generator,
) -> Plan:
    kernel = instance.kernel
    assert isinstance(kernel, Kernel)
    few = float(rng.choice(LITTLE))
    are_sums_inlined = float(rng.random()) < INLINED
    found: list[tuple[Box | Step, str | int]] = []
    for step in kernel.inner:
        is_little = work[step].vector + CALL * work[step].scalar <= few and float(rng.random()) < INLINED
        is_inlined = step.is_inlinable and (are_sums_inlined if step.stage.updates else is_little)
        found.append((step, "INLINE" if is_inlined else "ROOT"))
    for step in kernel.inner:
        own = tiles(step)
        found += [(box, own.get(box, FULL)) for box in step.loops]
    variables = [instance.variable("site" if isinstance(item, Step) else "tile", item) for item, _ in found]
    return [(v, 1 << v.universe.index(value)) for v, (_, value) in zip(variables, found, strict=True)]


def _rows(step: Step, tasks: int) -> Mapping[Box, int]:
    """The tiles of the outermost dimension that has as many points, or else of the longest: about so many."""
    points = {dim: _points(step, dim) for dim in step.variables}
    if not points:
        return {}
    longest = max(points, key=points.__getitem__)
    chosen = next((dim for dim in reversed(step.variables) if points[dim] >= tasks), longest)
    return dict([_tile(step.box(chosen, "TASK"), points[chosen] // tasks)])


def _threads(step: Step, tile: tuple[int, int]) -> Iterator[tuple[Box, int]]:
    """Blocks of so many threads; along further dimensions, a block for each point."""
    for place, dim in enumerate(step.variables):
        yield _tile(step.box(dim, "TASK"), tile[place] if place < len(tile) else 1)
        yield _tile(step.box(dim, "LANE"), 1)


def _tile(box: Box, wanted: int) -> tuple[Box, int]:
    """The largest tile on offer with no more points; all of the box where there is none."""
    return box, max((size for size in box.sizes if size <= max(1, wanted)), default=FULL)


def _points(step: Step, dim: str) -> int:
    """Of all that is needed along a dimension."""
    reads = step.box(dim, "ROOT").reads
    return max(r.least + r.more for r in reads) - min(r.least for r in reads) + 1
