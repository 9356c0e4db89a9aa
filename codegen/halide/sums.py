"""How large the values of sums become.

In: an algorithm. Out: its stages, those that add something up replaced by ones that have as large values, for
interval analysis: a sum of so many terms, each within known ends, is within as many times these. It holds for
scans, too, where each value is another one and a term. Nothing else is to be done with them.
"""

from __future__ import annotations

from collections.abc import Iterator

from spacedsl.kernels.pipeline.algorithm import (
    Algorithm,
    Binary,
    Constant,
    Expression,
    Read,
    Stage,
    Undefined,
    walk,
)
from spacedsl.kernels.pipeline.bounds import range_values, values_known
from spacedsl.kernels.pipeline.intervals import Interval, Known, interval
from spacedsl.kernels.pipeline.reductions import turn_count


def summed(algorithm: Algorithm) -> Iterator[Stage]:
    """In order."""
    stages: list[Stage] = []
    known = values_known(stages, algorithm.inputs)
    for stage in algorithm.stages:
        stages.append(_plain(stage, known))
        known = values_known(stages, algorithm.inputs)
        yield stages[-1]


def _plain(stage: Stage, known: Known) -> Stage:
    """Without updates, and with values that say as much of it, where that is known."""
    if len(stage.values) > 1 or not stage.updates or stage.dtypes[0].is_float:
        return stage
    (value,) = stage.values
    values = interval(value, {}, known)
    for update in stage.updates:
        term = _term(stage.name, update.values[0])
        if term is None:
            return stage
        more = interval(term, range_values(update), known)
        low, high = min(0, more.low) * turn_count(update), max(0, more.high) * turn_count(update)
        values = Interval(values.low + low, values.high + high)
    dtype = stage.dtypes[0]
    if not (dtype.least <= values.low and values.high <= dtype.greatest):
        return stage
    least, greatest = (Constant(int(end), dtype) for end in (values.low, values.high))
    held = Binary("max", Binary("min", Undefined(dtype), greatest), least)
    return Stage(stage.name, stage.variables, (held,))


def _term(stage: str, value: Expression) -> Expression | None:
    """What is added to a value of the stage itself."""
    match value:
        case Binary("+", Read(source), term) | Binary("+", term, Read(source)) if source == stage:
            if not any(isinstance(node, Read) and node.source == stage for node in walk(term)):
                return term
    return None
