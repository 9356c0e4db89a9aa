"""Reductions as stages: the value that each begins with, and the update that takes in one more.

In: an operator, the type of what is reduced, its ranges. Out: expressions of the stage and of its update. Of
any update, too: whether its points may come in any order, what partial results of it begin with, where it
may have some, whether it is an accumulation, and its turns. What keeps the best is known by `best.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.algorithm import (
    Binary,
    Compare,
    Constant,
    Expression,
    Operator,
    Range,
    Read,
    Select,
    Stage,
    Update,
    Variable,
    reads,
)
from spacedsl.kernels.pipeline.best import best
from spacedsl.kernels.pipeline.syntax import Reducer
from spacedsl.kernels.pipeline.typing import TypeMismatchError

ASSOCIATIVE = ("+", "*", "min", "max", "&", "|", "^")
"""Operators whose operands may be combined in any order."""


def is_associative(stage: Stage, update: Update) -> bool:
    """Whether the points of its ranges may come in any order: each only combines values with the old ones."""
    own = [read for read in reads(update) if read.source == stage.name]
    for element, value in enumerate(update.values):
        old = Read(stage.name, update.point, value.dtype, element)
        if not (isinstance(value, Binary) and value.operator in ASSOCIATIVE and value.left == old):
            return False
        own.remove(old)
    return not own


def neutral(stage: Stage, update: Update) -> tuple[Constant, ...] | None:
    """What parts of its points may begin with, so that their results can be combined; None where they cannot.

    A value that is combined with it stays what it is: also a zero with its sign. Of floats, what is no number
    would not where the extremes are looked for, unless each element meets a point. Of updates that keep the
    best, what parts begin with is not better than anything; where equals are taken, too, something has to
    take its place in each part.
    """
    if not update.ranges:
        return None
    if (kept := best(stage, update)) is not None:
        meets_all = kept.condition is None and not kept.dtype.is_float and is_accumulation(stage, update)
        if not kept.is_first and not meets_all:
            return None
        worst = neutral_value(kept.extreme, kept.dtype)
        starts = [worst if element == kept.decisive else 0 for element in range(len(kept.values))]
        return tuple(_constant(start, dtype) for start, dtype in zip(starts, stage.dtypes, strict=True))
    if not is_associative(stage, update):
        return None
    found = []
    meets_all = update.condition is None and is_accumulation(stage, update)
    for value in update.values:
        assert isinstance(value, Binary)
        operator, dtype = value.operator, value.dtype
        if operator in ("min", "max") and dtype.is_float and not meets_all:
            return None
        found.append(_constant(neutral_value(operator, dtype), dtype))
    return tuple(found)


def neutral_value(operator: Operator, dtype: DType) -> float:
    """What changes nothing that it is combined with, unless that is no number."""
    match operator:
        case "+":
            return -0.0 if dtype.is_float else 0
        case "*":
            return 1
        case "max":
            return -math.inf if dtype.is_float else dtype.least
        case "min":
            return math.inf if dtype.is_float else dtype.greatest
        case "&":
            return -1 if dtype.least < 0 else dtype.greatest
        case _:
            return 0


def is_accumulation(stage: Stage, update: Update) -> bool:
    """Whether each point goes on with what it is itself, and with no other of the stage."""
    point = tuple(Variable(v) for v in stage.variables)
    own = (read for read in reads(update) if read.source == stage.name)
    return update.point == point and all(read.point == point for read in own)


def turns(definition: Stage | Update) -> Iterator[dict[str, int]]:
    """The points of its ranges, in order: the first range is the innermost loop. Without ranges, one."""
    ranges = definition.ranges[::-1] if isinstance(definition, Update) else ()
    for values in product(*(range(r.low, r.high) for r in ranges)):
        yield dict(zip((r.name for r in ranges), values, strict=True))


def unrolled(stage: Stage) -> Iterator[tuple[Stage | Update, dict[str, int]]]:
    """Its definition, then each turn of its updates."""
    for definition in stage.definitions:
        for turn in turns(definition):
            yield definition, turn


def turn_count(definition: Stage | Update) -> int:
    """How many of them there are."""
    ranges = definition.ranges if isinstance(definition, Update) else ()
    return math.prod(r.high - r.low for r in ranges)


def identity(operator: Reducer, dtype: DType, ranges: tuple[Range, ...]) -> tuple[Expression, ...]:
    """What the values of the stage are before the first point: of `argmax` and `argmin`, where, and what."""
    if dtype is DType.BOOL:
        raise TypeMismatchError(f"`{operator}` is for numbers, not for conditions")
    match operator:
        case "sum":
            return (_constant(0, dtype),)
        case "prod":
            return (_constant(1, dtype),)
        case "max" | "argmax":
            value = _constant(neutral_value("max", dtype), dtype)
        case "min" | "argmin":
            value = _constant(neutral_value("min", dtype), dtype)
    if operator in ("max", "min"):
        return (value,)
    return (Constant(ranges[0].low, DType.I32), value)


def reduced(
    operator: Reducer,
    stage: str,
    point: tuple[Expression, ...],
    before: tuple[Expression, ...],
    body: Expression,
    ranges: tuple[Range, ...],
) -> tuple[Expression, ...]:
    """The values after one more point; of several that are the best, `argmax` and `argmin` take the first."""
    old = tuple(Read(stage, point, value.dtype, element) for element, value in enumerate(before))
    match operator:
        case "sum":
            return (Binary("+", old[0], body),)
        case "prod":
            return (Binary("*", old[0], body),)
        case "max" | "min":
            return (Binary(operator, old[0], body),)
        case "argmax" | "argmin":
            is_better = Compare(">" if operator == "argmax" else "<", body, old[1])
            where = Select(is_better, Variable(ranges[0].name), old[0])
            return (where, Select(is_better, body, old[1]))


def _constant(value: float, dtype: DType) -> Constant:
    return Constant(float(value) if dtype.is_float else int(value), dtype)
