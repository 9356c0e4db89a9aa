"""Schedules of pipelines to begin with: every stage by itself, its rows shared out among threads.

In: the instance of a pipeline, how many threads there are, a generator. Out: a plan. Of the stages that
compute little, some are inlined; all else is computed once, in rows as long as images are: never far from
good, where a random schedule of many stages mostly is. What should be nearer to what is for a walk to find.
"""

from __future__ import annotations

import numpy as np

from spacedsl.engine.instance import Instance, Variable
from spacedsl.kernels.pipeline.backbone import FULL, Box, Kernel, Step
from spacedsl.search.cost_model import Plan
from spacedsl.search.pipeline_work import CALL, Work

MOST_TASKS = 16
"""For each thread, so many parts of a stage at most."""

INLINED = 0.8
"""The probability for what computes little, and for all accumulations over few points together."""

LITTLE = (0.0, 2.0, 6.0, 12.0)
"""Instructions of a point: of stages with no more, many are inlined; how many count as few is drawn."""


def plan(instance: Instance, work: dict[Step, Work], threads: int, rng: np.random.Generator) -> Plan:
    kernel = instance.kernel
    assert isinstance(kernel, Kernel)
    tasks = threads * int(rng.integers(1, MOST_TASKS + 1))
    few = float(rng.choice(LITTLE))
    are_sums_inlined = float(rng.random()) < INLINED
    found: list[tuple[Box | Step, str | int]] = []
    for step in kernel.inner:
        is_little = work[step].vector + CALL * work[step].scalar <= few and float(rng.random()) < INLINED
        is_inlined = step.is_inlinable and (are_sums_inlined if step.stage.updates else is_little)
        found.append((step, "INLINE" if is_inlined else "ROOT"))
    for step in kernel.inner:
        shared = _shared(step, tasks)
        found += [(box, shared.get(box, FULL)) for box in step.loops]
    return [_restriction(instance, item, value) for item, value in found]


def _shared(step: Step, tasks: int) -> dict[Box, int]:
    """The tiles of the outermost dimension that has as many points, or else of the longest: about so many."""
    points = {dim: _points(step, dim) for dim in step.variables}
    if not points:
        return {}
    longest = max(points, key=points.__getitem__)
    chosen = next((dim for dim in reversed(step.variables) if points[dim] >= tasks), longest)
    box, wanted = step.box(chosen, "TASK"), max(1, points[chosen] // tasks)
    return {box: max((size for size in box.sizes if size <= wanted), default=FULL)}


def _points(step: Step, dim: str) -> int:
    """Of all that is needed along a dimension."""
    reads = step.box(dim, "ROOT").reads
    return max(r.least + r.more for r in reads) - min(r.least for r in reads) + 1


def _restriction(instance: Instance, item: Box | Step, value: str | int) -> tuple[Variable, int]:
    variable = instance.variable("site" if isinstance(item, Step) else "tile", item)
    return variable, 1 << variable.universe.index(value)
