"""Algorithms written again in Python: each expression by its operator or function.

In: an algorithm in the form that reading gives. Out: a pipeline of `spacedsl.pipeline`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from spacedsl import pipeline as pl
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.algorithm import (
    Algorithm,
    Apply,
    Binary,
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

_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "%": operator.mod,
    "&": operator.and_, "|": operator.or_, "^": operator.xor, "&&": operator.and_, "||": operator.or_,
    "<<": operator.lshift, ">>": operator.rshift, "==": operator.eq, "!=": operator.ne, "<": operator.lt,
    "<=": operator.le, ">": operator.gt, ">=": operator.ge, "min": pl.min, "max": pl.max,
}  # fmt: skip


def built(algorithm: Algorithm) -> pl.Pipeline:
    """Conditions are joined by `&` and `|` only."""
    return _Builder(algorithm).pipeline()


def type_of(dtype: DType) -> pl.ElementType:
    return pl.ElementType(dtype.label)


class _Builder:
    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = algorithm
        self.scalars = {p.name: pl.Param(p.name, type_of(p.dtype), p.value) for p in algorithm.parameters}
        self.sources: dict[str, pl.Func | pl.Input] = {
            i.name: pl.Input(i.name, type_of(i.dtype), i.extents or i.rank, values=i.values)
            for i in algorithm.inputs
        }

    def pipeline(self) -> pl.Pipeline:
        for stage in self.algorithm.stages:
            self.sources[stage.name] = func = pl.Func(stage.name)
            func[tuple(pl.Var(v) for v in stage.variables)] = self.values(stage.values, {})
            for update in stage.updates:
                self.update(func, stage, update)
        outputs = []
        for name, box in self.algorithm.outputs.items():
            wanted = self.sources[name]
            assert isinstance(wanted, pl.Func)
            outputs.append(wanted.output(*(e.size if e.low == 0 else range(e.low, e.high + 1) for e in box)))
        return pl.Pipeline(self.algorithm.name, outputs)

    def update(self, func: pl.Func, stage: Stage, update: Update) -> None:
        ranges = {r.name: range(r.low, r.high) for r in update.ranges}
        over = pl.RDom(**ranges) if ranges else None
        bound: dict[str, pl.Expr] = {name: getattr(over, name) for name in ranges}
        point = tuple(self.value(at, bound) for at in update.point)
        values = self.values(update.values, bound)
        where = None if update.condition is None else self.value(update.condition, bound)
        func.update(point, values, over=over, where=where)

    def values(self, given: tuple[Expression, ...], bound: Mapping[str, pl.Expr]) -> Any:
        made = tuple(self.value(v, bound) for v in given)
        return made if len(made) > 1 else made[0]

    def value(self, node: Expression, bound: Mapping[str, pl.Expr]) -> Any:
        match node:
            case Constant(value, dtype):
                return type_of(dtype)(value)
            case Undefined(dtype):
                return pl.undefined(type_of(dtype))
            case Variable(name):
                return bound.get(name) if name in bound else pl.Var(name)
            case Scalar(name):
                return self.scalars[name]
            case Read(source, point, _, element):
                read: Any = self.sources[source][tuple(self.value(at, bound) for at in point)]
                return read[element] if isinstance(read, tuple) else read
            case Unary(sign, operand):
                inner = self.value(operand, bound)
                return -inner if sign == "-" else ~inner
            case Binary(infix, left, right) | Compare(infix, left, right):
                return _OPERATORS[infix](self.value(left, bound), self.value(right, bound))
            case Select(condition, yes, no):
                return pl.select(*(self.value(part, bound) for part in (condition, yes, no)))
            case Cast(dtype, operand):
                return type_of(dtype)(self.value(operand, bound))
            case Apply(function, arguments):
                return getattr(pl, function)(*(self.value(a, bound) for a in arguments))
