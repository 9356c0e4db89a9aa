"""How much a pipeline computes, each point of what is needed once.

In: an algorithm and its boxes. Out: numbers of points and of floating-point operations. Schedules may compute
points again, and compilers need not compute all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from spacedsl.kernels.pipeline.algorithm import (
    Algorithm,
    Apply,
    Binary,
    Box,
    Stage,
    Unary,
    Update,
    expressions,
    walk,
)
from spacedsl.kernels.pipeline.reductions import turn_count


def size(box: Box) -> int:
    """Points of a box."""
    return math.prod(extent.size for extent in box)


def points(algorithm: Algorithm, boxes: Mapping[str, Box]) -> int:
    """Of all definitions, each point of the ranges of an update for itself."""
    return sum(count for _, count in definitions(algorithm, boxes))


def flops(algorithm: Algorithm, boxes: Mapping[str, Box]) -> int:
    """Arithmetic and functions of floats, one each."""
    return sum(_operations(definition) * count for definition, count in definitions(algorithm, boxes))


def definitions(algorithm: Algorithm, boxes: Mapping[str, Box]) -> Iterator[tuple[Stage | Update, int]]:
    """All definitions, and for how many points."""
    for stage in algorithm.stages:
        if stage.name not in boxes:
            continue
        yield stage, size(boxes[stage.name])
        extents = dict(zip(stage.variables, boxes[stage.name], strict=True))
        for update in stage.updates:
            turns = turn_count(update)
            yield update, turns * math.prod(extents[v].size for v in update.variables(stage))


def _operations(definition: Stage | Update) -> int:
    nodes = (node for expression in expressions(definition) for node in walk(expression))
    return sum(isinstance(node, Binary | Unary | Apply) and node.dtype.is_float for node in nodes)
