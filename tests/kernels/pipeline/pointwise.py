"""Algorithms point by point, with Python's numbers: an oracle for what evaluates whole arrays.

In: an algorithm, boxes, inputs as functions of a point. Out: the elements of each stage, in dictionaries.
"""

from __future__ import annotations

import itertools
import math
import operator as operators
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.algorithm import (
    Algorithm,
    Apply,
    Binary,
    Box,
    Cast,
    Compare,
    Constant,
    Expression,
    Read,
    Scalar,
    Select,
    Stage,
    Unary,
    Undefined,
    Update,
    Variable,
)

Point = tuple[int, ...]
Elements = dict[Point, tuple[Any, ...]]
_FLOATS = {DType.F16: np.float16, DType.F32: np.float32, DType.F64: np.float64}


def elements(
    algorithm: Algorithm, boxes: Mapping[str, Box], inputs: Mapping[str, Callable[[Point], Any]]
) -> dict[str, Elements]:
    made: dict[str, Elements] = {}
    scalars = {p.name: p.value for p in algorithm.parameters}

    def value(node: Expression, at: Mapping[str, int]) -> Any:
        match node:
            case Constant(given):
                return held(given, node.dtype)
            case Undefined():
                return None
            case Variable(name):
                return at[name]
            case Scalar(name):
                return held(scalars[name], node.dtype)
            case Read(source, point, _, element):
                where = tuple(int(value(p, at)) for p in point)
                return inputs[source](where) if source in inputs else made[source][where][element]
            case Unary(operator, operand):
                inner = value(operand, at)
                signs: dict[str, Callable[[Any], Any]] = {
                    "-": operators.neg,
                    "!": operators.not_,
                    "~": operators.invert,
                }
                return held(signs[operator](inner), node.dtype)
            case Binary(operator, left, right):
                return held(_combined(operator, value(left, at), value(right, at)), node.dtype)
            case Compare(operator, left, right):
                return _compared(operator, value(left, at), value(right, at))
            case Select(condition, yes, no):
                return value(yes if value(condition, at) else no, at)
            case Cast(dtype, operand):
                inner = value(operand, at)
                if dtype is DType.BOOL:
                    return bool(inner)
                return held(inner if dtype.is_float else math.trunc(inner), dtype)
            case Apply(function, arguments, dtype):
                return held(_applied(function, [value(a, at) for a in arguments]), dtype)

    def update(stage: Stage, each: Update, at: Mapping[str, int]) -> None:
        if each.condition is None or value(each.condition, at):
            where = tuple(int(value(p, at)) for p in each.point)
            made[stage.name][where] = tuple(value(v, at) for v in each.values)

    def stage_elements(stage: Stage) -> None:
        box = boxes[stage.name]
        points = list(itertools.product(*(range(e.low, e.high + 1) for e in box)))
        made[stage.name] = {}
        for point in points:
            at = dict(zip(stage.variables, point, strict=True))
            made[stage.name][point] = tuple(value(v, at) for v in stage.values)
        for each in stage.updates:
            kept = [(v, e) for v, e in zip(stage.variables, box, strict=True) if v in each.variables(stage)]
            names = [r.name for r in reversed(each.ranges)] + [v for v, _ in kept]
            counts = [range(r.low, r.high) for r in reversed(each.ranges)]
            for point in itertools.product(*counts, *(range(e.low, e.high + 1) for _, e in kept)):
                update(stage, each, dict(zip(names, point, strict=True)))

    with np.errstate(all="ignore"):
        for stage in algorithm.stages:
            stage_elements(stage)
    return made


def held(value: Any, dtype: DType) -> Any:
    """What is left of a number in a type."""
    if dtype.is_float:
        return _FLOATS[dtype](value)
    if dtype is DType.BOOL:
        return bool(value)
    return (int(value) - dtype.least) % 2 ** (8 * dtype.nbytes) + dtype.least


def _combined(operator: str, a: Any, b: Any) -> Any:
    match operator:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/":
            if isinstance(a, int):
                return a // b if b else 0
            return a / b
        case "%":
            return a % b if b else 0
        case "min":
            return min(a, b)
        case "max":
            return max(a, b)
        case "&" | "&&":
            return a & b
        case "|" | "||":
            return a | b
        case "^":
            return a ^ b
        case "<<":
            return a << b
        case ">>":
            return a >> b
    raise AssertionError(operator)


def _compared(operator: str, a: Any, b: Any) -> bool:
    found = {"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}
    return bool(found[operator])


def _applied(function: str, given: list[Any]) -> Any:
    if function == "abs":
        return abs(given[0])
    if function == "round":
        return np.rint(given[0])
    return getattr(math, function)(*given)
