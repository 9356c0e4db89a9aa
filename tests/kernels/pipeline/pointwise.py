"""Algorithms point by point, with Python's numbers: an oracle for what evaluates whole arrays.

In: an algorithm, boxes, inputs as functions of a point. Out: the elements of each stage, in dictionaries.
"""

from __future__ import annotations

import itertools
import math
import operator as operators
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import ml_dtypes
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
    Variable,
)

Point = tuple[int, ...]
Elements = dict[Point, tuple[Any, ...]]
Reading = Callable[[str, Point, int], Any]
_FLOATS = {
    DType.F16: np.float16,
    DType.BF16: ml_dtypes.bfloat16,
    DType.F32: np.float32,
    DType.F64: np.float64,
}


def value(node: Expression, at: Mapping[str, int], scalars: Mapping[str, Any], read: Reading) -> Any:
    """Of an expression at a point; `read` gives the elements of stages and inputs."""

    def of(inner: Expression) -> Any:
        return value(inner, at, scalars, read)

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
            return read(source, tuple(int(of(p)) for p in point), element)
        case Unary(operator, operand):
            signs: dict[str, Callable[[Any], Any]] = {
                "-": operators.neg, "!": operators.not_, "~": operators.invert
            }  # fmt: skip
            return held(signs[operator](of(operand)), node.dtype)
        case Binary(operator, left, right):
            return held(combined(operator, of(left), of(right)), node.dtype)
        case Compare(operator, left, right):
            return _compared(operator, of(left), of(right))
        case Select(condition, yes, no):
            return of(yes if of(condition) else no)
        case Cast(dtype, operand):
            inner = of(operand)
            if dtype is DType.BOOL:
                return bool(inner)
            if isinstance(inner, np.floating) and not dtype.is_float:
                inner = math.trunc(float(inner))
            return held(inner, dtype)
        case Apply(function, arguments, dtype):
            return held(_applied(function, [of(a) for a in arguments]), dtype)


def points(ranges: Mapping[str, tuple[int, int]]) -> Iterator[dict[str, int]]:
    """All of them, the first name changing fastest; both ends belong to a range."""
    names = list(ranges)[::-1]
    for point in itertools.product(*(range(ranges[n][0], ranges[n][1] + 1) for n in names)):
        yield dict(zip(names, point, strict=True))


def compute(
    stage: Stage, number: int | None, region: Mapping[str, tuple[int, int]], into: Elements,
    scalars: Mapping[str, Any], read: Reading,
) -> None:  # fmt: skip
    """The definition of a stage, or an update of it, over a region of its own dimensions."""
    for at in points(region):
        if number is None:
            into[tuple(at[v] for v in stage.variables)] = tuple(
                value(v, at, scalars, read) for v in stage.values
            )
            continue
        update = stage.updates[number]
        if update.condition is None or value(update.condition, at, scalars, read):
            where = tuple(int(value(p, at, scalars, read)) for p in update.point)
            into[where] = tuple(value(v, at, scalars, read) for v in update.values)


def inlined(
    stage: Stage, where: Point, element: int, scalars: Mapping[str, Any], read: Reading
) -> Any:  # fmt: skip
    """An element of a stage at a point of which nothing is stored."""
    into: Elements = {}

    def own(source: str, at: Point, part: int) -> Any:
        return into[at][part] if source == stage.name else read(source, at, part)

    box = {v: (at, at) for v, at in zip(stage.variables, where, strict=True)}
    for number in (None, *range(len(stage.updates))):
        ranges = () if number is None else stage.updates[number].ranges
        compute(stage, number, {**box, **{r.name: (r.low, r.high - 1) for r in ranges}}, into, scalars, own)
    return into[where][element]


def elements(
    algorithm: Algorithm, boxes: Mapping[str, Box], inputs: Mapping[str, Callable[[Point], Any]]
) -> dict[str, Elements]:
    made: dict[str, Elements] = {}
    scalars = {p.name: p.value for p in algorithm.parameters}

    def read(source: str, where: Point, element: int) -> Any:
        return inputs[source](where) if source in inputs else made[source][where][element]

    with np.errstate(all="ignore"):
        for stage in algorithm.stages:
            made[stage.name] = {}
            box = dict(zip(stage.variables, ((e.low, e.high) for e in boxes[stage.name]), strict=True))
            compute(stage, None, box, made[stage.name], scalars, read)
            for number, update in enumerate(stage.updates):
                ranges = {r.name: (r.low, r.high - 1) for r in update.ranges}
                kept = {v: box[v] for v in update.variables(stage)}
                compute(stage, number, {**kept, **ranges}, made[stage.name], scalars, read)
    return made


def held(value: Any, dtype: DType) -> Any:
    """What is left of a number in a type."""
    if dtype.is_float:
        with np.errstate(over="ignore"):
            # The package for bf16 takes numbers of Python up to those of i64.
            return _FLOATS[dtype](np.uint64(value) if isinstance(value, int) and value >= 2**63 else value)
    if dtype is DType.BOOL:
        return bool(value)
    return (int(value) - dtype.least) % 2 ** (8 * dtype.nbytes) + dtype.least


def combined(operator: str, a: Any, b: Any) -> Any:
    """Two values by an operator, before the result is held in its type."""
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
            return a if a < b else b
        case "max":
            return a if a > b else b
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
    try:
        return getattr(math, function)(*given)
    except ValueError:
        return math.nan
