"""Algorithms with one mistake: a tap is missing, an index or an edge is off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.algorithm import (
    Algorithm,
    Binary,
    Box,
    Constant,
    Expression,
    Read,
    Stage,
    Update,
    walk,
)

_OFF = "an index is off by one"


def faulty(algorithm: Algorithm, boxes: Mapping[str, Box]) -> Iterator[tuple[str, Algorithm]]:
    """Each with one mistake, and what it is."""
    for number, stage in enumerate(algorithm.stages):
        for what, other in _of_stage(stage, boxes):
            stages = (*algorithm.stages[:number], other, *algorithm.stages[number + 1 :])
            yield f"{stage.name}: {what}", replace(algorithm, stages=stages)


def _of_stage(stage: Stage, boxes: Mapping[str, Box]) -> Iterator[tuple[str, Stage]]:
    for what, values in _of_values(stage.values, stage.name, boxes):
        yield what, replace(stage, values=values)
    for number, update in enumerate(stage.updates):
        for what, values in _of_values(update.values, stage.name, boxes):
            other: Update = replace(update, values=values)
            yield what, replace(stage, updates=(*stage.updates[:number], other, *stage.updates[number + 1 :]))


def _of_values(
    values: tuple[Expression, ...], stage: str, boxes: Mapping[str, Box]
) -> Iterator[tuple[str, tuple[Expression, ...]]]:
    for at, value in enumerate(values):
        for what, other in _expressions(value, stage, boxes):
            yield what, (*values[:at], other, *values[at + 1 :])


def _expressions(node: Any, stage: str, boxes: Mapping[str, Box]) -> Iterator[tuple[str, Any]]:
    """The expression with one mistake somewhere in it."""
    match node:
        case Binary("+", left, right) if not _reads_itself(left, stage):
            yield "a tap is missing", left
            yield "a tap is missing", right
        case Read(source, point, dtype, element) if source != stage:
            for at, position in enumerate(point):
                off = ((_OFF, other) for other in _beside(position, boxes[source][at].high))
                for what, other in (*off, *(("an edge is off by one", e) for e in _edges(position))):
                    yield what, Read(source, (*point[:at], other, *point[at + 1 :]), dtype, element)
            return
    for field in fields(node) if hasattr(node, "__dataclass_fields__") else ():
        part = getattr(node, field.name)
        if isinstance(part, tuple):
            for at, each in enumerate(part):
                for what, other in _expressions(each, stage, boxes):
                    yield what, replace(node, **{field.name: (*part[:at], other, *part[at + 1 :])})
        elif hasattr(part, "__dataclass_fields__"):
            for what, other in _expressions(part, stage, boxes):
                yield what, replace(node, **{field.name: other})


def _reads_itself(node: Expression, stage: str) -> bool:
    return any(isinstance(n, Read) and n.source == stage for n in walk(node))


def _beside(position: Expression, last: int) -> Iterator[Expression]:
    """One further, where that may be another point of a box."""
    if position != Constant(last, DType.I32) and last > 0:
        further = Binary("+", position, Constant(1, DType.I32))
        yield Binary("min", further, Constant(last, DType.I32))


def _edges(position: Expression) -> Iterator[Expression]:
    """A position that is held at an edge, held one before it."""
    match position:
        case Binary("min", inner, Constant(last, dtype)):
            yield Binary("min", inner, Constant(last - 1, dtype))
        case Binary("max", Binary("min") as inner, Constant() as first):
            yield from (Binary("max", other, first) for other in _edges(inner))
