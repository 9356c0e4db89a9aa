"""Which elements of its inputs a pipeline certainly reads, whatever its schedule.

In: an algorithm, its boxes. Out: for each input positions along its dimensions, all combinations of which are
read. Boxes say what may be read; this says what must be. A read counts that nothing stands before which a
compiler may leave out: no branch, no condition, no data in its position. So it is never too much, and often
too little: of several reads of one array, that of the most elements counts alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacedsl.kernels.formats import NUMBER_TYPE
from spacedsl.kernels.pipeline.algorithm import (
    Algorithm,
    Binary,
    Constant,
    Expression,
    Read,
    Scalar,
    Select,
    Stage,
    Update,
    Variable,
    operands,
    walk,
)
from spacedsl.kernels.pipeline.reductions import is_associative
from spacedsl.kernels.pipeline.reference import computed

Positions = NDArray[Any]
"""Along one dimension, each once."""
Points = tuple[Positions, ...]
"""All combinations of them, the innermost dimension first: one, of nothing, where there is no dimension."""


def certain_points(algorithm: Algorithm) -> dict[str, Points]:
    """Of stages and inputs that something certain is known of."""
    found: dict[str, Points] = {
        name: tuple(np.arange(e.low, e.high + 1) for e in box) for name, box in algorithm.outputs.items()
    }
    for stage in reversed(algorithm.stages):
        if stage.name not in found:
            continue
        for definition in definitions_of(stage):
            values = values_of(stage, definition, found[stage.name])
            for read in _reads(definition):
                if read.source != stage.name:
                    points = _image(read, values)
                    if points is not None and count(points) > count(found.get(read.source)):
                        found[read.source] = points
    return found


def count(points: Points | None) -> int:
    """How many there are; 0 where nothing is certain."""
    return 0 if points is None else math.prod(len(p) for p in points)


def definitions_of(stage: Stage) -> Iterator[Stage | Update]:
    """The definitions by which each value is made that somebody needs.

    Updates that only combine values with old ones need all before them. What others leave of earlier values
    is not known.
    """
    for update in reversed(stage.updates):
        if update.condition is None:
            yield update
        if not is_associative(stage, update):
            return
    yield stage


def values_of(stage: Stage, definition: Stage | Update, points: Points) -> dict[str, Positions]:
    """Of its variables and ranges."""
    own = dict(zip(stage.variables, points, strict=True))
    if isinstance(definition, Stage):
        return own
    kept = {v: own[v] for v in definition.variables(stage)}
    return kept | {r.name: np.arange(r.low, r.high) for r in definition.ranges}


def _reads(definition: Stage | Update) -> Iterator[Read]:
    """Those that nothing stands before."""
    pending = list(definition.values)
    while pending:
        node = pending.pop()
        if isinstance(node, Read):
            yield node
        pending.extend(certain_operands(node))


def certain_operands(node: Expression) -> tuple[Expression, ...]:
    """Those that are computed whatever the others are."""
    match node:
        case Select(condition):
            return (condition,)
        case Binary("&&" | "||", left):
            return (left,)
    return operands(node)


def _image(read: Read, values: Mapping[str, Positions]) -> Points | None:
    """Positions that are read: of several variables in one place, one moves and the others stand still.

    None where positions move with one another, or with data.
    """
    moving: set[str] = set()
    found = []
    for position in read.point:
        nodes = list(walk(position))
        names = {n.name for n in nodes if isinstance(n, Variable)}
        if any(isinstance(n, Read | Scalar) for n in nodes) or names & moving:
            return None
        free = max(sorted(names), key=lambda n: len(values[n]), default=None)
        given = {n: values[n] if n == free else values[n][:1] for n in names}
        found.append(np.unique(np.atleast_1d(evaluated(position, given))))
        moving |= names
    return tuple(found)


def evaluated(node: Expression, values: Mapping[str, Positions]) -> Any:
    match node:
        case Constant(value, dtype):
            return NUMBER_TYPE[dtype](value)
        case Variable(name):
            return values[name].astype(np.int32)
        case _:
            with np.errstate(all="ignore"):
                return computed(node, [evaluated(o, values) for o in operands(node)])
