"""Small reductions written out, as one writes stencils for Halide by hand.

In: an algorithm. Out: an equal one, in which a reduction over few points is an expression with a term for
each, in the same order. One that a single definition reads at its own point becomes a part of it; a larger
one takes the place of a stage that is nothing else. Other updates stay what they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.algorithm import (
    Algorithm,
    Binary,
    Cast,
    Constant,
    Expression,
    Read,
    Stage,
    Update,
    Variable,
    operands,
    reads,
    walk,
    with_operands,
)
from spacedsl.kernels.pipeline.reductions import turn_count, turns
from spacedsl.kernels.pipeline.reference import gathering
from spacedsl.kernels.pipeline.typing import binary, cast_to, typed

_MOST_NODES = 2000
"""Of an expression."""


def unrolled(algorithm: Algorithm, most: int) -> Algorithm:
    """Reductions over at most so many points are written out."""
    uses = _uses(algorithm)
    absorbed: dict[str, Stage] = {}
    stages: list[Stage] = []
    for given in algorithm.stages:
        stage = _with(given, absorbed)
        if stage.name not in algorithm.outputs:
            inner = [other for other in stages if other.name not in algorithm.outputs]
            if _is_small(stage, most):
                stage = Stage(stage.name, stage.variables, (_written_out(stage, stage.updates[0]),))
                if uses[stage.name] == 1:
                    absorbed[stage.name] = stage
                    continue
            elif (source := _copied(stage, inner, uses)) is not None:
                stages.remove(source)
                stage = _renamed(source, stage)
        stages.append(stage)
    return replace(algorithm, stages=tuple(stages))


def _uses(algorithm: Algorithm) -> Mapping[str, float]:
    """How often each stage is read by definitions at their own point; infinite where it is read otherwise."""
    found: dict[str, float] = dict.fromkeys((stage.name for stage in algorithm.stages), 0)
    variables = {stage.name: stage.variables for stage in algorithm.stages}
    for stage in algorithm.stages:
        for definition in stage.definitions:
            for read in reads(definition):
                if read.source in found and read.source != stage.name:
                    own = tuple(map(Variable, variables[read.source]))
                    found[read.source] += 1 if definition is stage and read.point == own else math.inf
    return found


def _with(stage: Stage, absorbed: Mapping[str, Stage]) -> Stage:
    """With the values of other stages in place of their reads, at the same point."""

    def value(node: Expression) -> Expression:
        if isinstance(node, Read) and node.source in absorbed:
            return absorbed[node.source].values[0]
        return with_operands(node, tuple(value(operand) for operand in operands(node)))

    if not any(read.source in absorbed for read in reads(stage)):
        return stage
    return replace(stage, values=tuple(value(v) for v in stage.values))


def _copied(stage: Stage, others: Sequence[Stage], uses: Mapping[str, float]) -> Stage | None:
    """Another one with updates, of which a stage is nothing but a copy, and the only one."""
    match stage.values:
        case (Read(source, point),) if not stage.updates and uses.get(source) == 1:
            found = next((other for other in others if other.name == source), None)
            if found is not None and found.updates and len(found.values) == 1:
                return found if point == tuple(map(Variable, stage.variables)) else None
    return None


def _renamed(stage: Stage, other: Stage) -> Stage:
    """With the name of another one, which has the same variables."""

    def value(node: Expression) -> Expression:
        made = with_operands(node, tuple(value(operand) for operand in operands(node)))
        return (
            replace(made, source=other.name) if isinstance(made, Read) and made.source == stage.name else made
        )

    updates = tuple(
        Update(
            tuple(map(value, update.point)),
            tuple(map(value, update.values)),
            update.ranges,
            None if update.condition is None else value(update.condition),
        )
        for update in stage.updates
    )
    return Stage(other.name, other.variables, stage.values, updates)


def _is_small(stage: Stage, most: int) -> bool:
    if len(stage.updates) != 1 or not isinstance(stage.values[0], Constant):
        return False
    (update,) = stage.updates
    nodes = sum(1 for value in update.values for _ in walk(value))
    return (
        bool(update.ranges)
        and turn_count(update) <= most
        and turn_count(update) * nodes <= _MOST_NODES
        and update.condition is None
        and update.point == tuple(map(Variable, stage.variables))
        and gathering(stage, update) is not None
    )


def _written_out(stage: Stage, update: Update) -> Expression:
    value = gathering(stage, update)
    assert value is not None
    terms = [_simplified(value.right, at) for at in turns(update)]
    start = stage.values[0]
    if start != _neutral(value):
        terms.insert(0, start)
    made = terms[0]
    for term in terms[1:]:
        made = Binary(value.operator, made, term)
    return made


def _neutral(value: Binary) -> Constant:
    """What the first term may stand alone instead of."""
    dtype = value.dtype
    number: float = {"+": 0, "*": 1}.get(value.operator, 0)
    if value.operator in ("min", "max"):
        is_max = value.operator == "max"
        if dtype.is_float:
            number = -math.inf if is_max else math.inf
        else:
            number = dtype.least if is_max else dtype.greatest
    return Constant(float(number) if dtype.is_float else int(number), dtype)


def _simplified(node: Expression, at: Mapping[str, int]) -> Expression:
    """With numbers for variables, and what these make computed."""
    if isinstance(node, Variable) and node.name in at:
        return Constant(at[node.name], DType.I32)
    made = with_operands(node, tuple(_simplified(operand, at) for operand in operands(node)))
    match made:
        case Cast(dtype, Constant(value)):
            return typed(cast_to(dtype, value))
        case Binary("+", left, Constant(int(number), DType.I32)) if number <= 0:
            return left if number == 0 else Binary("-", left, Constant(-number, DType.I32))
        case Binary("+" | "-" | "*" as operator, Constant(int(left), dtype), Constant(int(right))):
            result = binary(operator, left, right)
            assert isinstance(result, int)
            return Constant(result, dtype) if dtype.least <= result <= dtype.greatest else made
    return made
