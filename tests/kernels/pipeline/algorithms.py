"""Random algorithms: every kind of expression, of every type, in stages of every shape.

What is drawn is well typed and in the form that reading gives; positions are bounded, so that what is needed
of each stage can be found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, get_args

from hypothesis import strategies as st

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import NUMBER_TYPE
from spacedsl.kernels.pipeline.algorithm import (
    Algorithm,
    Apply,
    Binary,
    Cast,
    Comparator,
    Compare,
    Constant,
    Expression,
    Extent,
    Function,
    Input,
    Parameter,
    Range,
    Read,
    Scalar,
    Select,
    Stage,
    Unary,
    Undefined,
    Update,
    Variable,
)
from spacedsl.kernels.pipeline.bounds import infer

_ARITHMETIC = ("+", "-", "*", "/", "min", "max")
_OF_INTEGERS = ("%", "&", "|", "^", "<<", ">>")
_FUNCTIONS = tuple(name for name in get_args(Function) if name not in ("abs", "pow", "atan2"))

Draw = Callable[[st.SearchStrategy[Any]], Any]


def constants(dtype: DType) -> st.SearchStrategy[Constant]:
    """Small and large, negative and fractional, as far as the type holds them."""
    if dtype is DType.BOOL:
        return st.booleans().map(lambda v: Constant(v, dtype))
    if not dtype.is_float:
        near = st.integers(max(dtype.least, -9), 9)
        return (near | st.integers(dtype.least, dtype.greatest)).map(lambda v: Constant(v, dtype))
    near = st.integers(-9, 9) | st.sampled_from([0.1, 1 / 3, 1e-5, 0.299, -0.0, math.inf, -math.inf])
    widths = {DType.F16: 16, DType.BF16: 32, DType.F32: 32, DType.F64: 64}
    bits = st.floats(width=widths[dtype])  # type: ignore[arg-type]
    values = (near | bits.filter(lambda v: not math.isnan(v))).map(lambda v: float(NUMBER_TYPE[dtype](v)))
    return values.map(lambda v: Constant(v, dtype))


class Expressions:
    """Of what can be read in one definition."""

    def __init__(
        self,
        draw: Draw,
        variables: Sequence[str],
        sources: Sequence[Stage | Input],
        scalars: Sequence[Parameter],
    ) -> None:
        self.draw = draw
        self.variables = variables
        self.sources = sources
        self.scalars = scalars

    def one(self, options: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(options))

    def position(self, depth: int) -> Expression:
        """A whole number that is bounded where the variables are."""
        at = (
            self.constant(DType.I32, st.integers(-3, 9))
            if not self.variables
            else Variable(self.one(self.variables))
        )
        number = self.constant(DType.I32, st.integers(1, 3))
        kind = self.draw(st.integers(0, 6))
        if kind == 5 and depth > 0:
            inner = self.expression(DType.I32, depth - 1)
            low, high = (self.constant(DType.I32, st.integers(n, n + 2)) for n in (-2, 5))
            return Binary("max", Binary("min", inner, high), low)
        return at if kind > 4 else Binary(("+", "-", "*", "/", "%")[kind], at, number)

    def constant(self, dtype: DType, values: st.SearchStrategy[Any]) -> Constant:
        return Constant(self.draw(values), dtype)

    def expression(self, dtype: DType, depth: int) -> Expression:
        if depth == 0:
            return self.leaf(dtype)
        kind = self.draw(st.integers(0, 7))
        if kind == 0:
            return self.leaf(dtype)
        if kind == 1:
            return Select(*(self.expression(t, depth - 1) for t in (DType.BOOL, dtype, dtype)))
        if kind == 2:
            given = self.one([t for t in DType if t is not dtype])
            return Cast(dtype, self.expression(given, depth - 1))
        if kind == 3:
            return self.read(dtype, depth)
        if dtype is DType.BOOL:
            return self.truth(kind, depth)
        if kind == 4:
            operator = "~" if dtype.is_integer and self.draw(st.booleans()) else "-"
            return Unary(operator, self.expression(dtype, depth - 1))  # type: ignore[arg-type]
        if kind == 5 and dtype.is_float:
            return Apply(self.one(_FUNCTIONS), (self.expression(dtype, depth - 1),), dtype)
        if kind == 6 and dtype.is_float:
            return Apply(self.one(["pow", "atan2"]), self.pair(dtype, depth), dtype)
        if kind == 6 and not dtype.is_signed:
            signed = DType.of(f"i{8 * dtype.nbytes}")
            return Apply("abs", (self.expression(signed, depth - 1),), dtype)
        operators = _ARITHMETIC + (_OF_INTEGERS if dtype.is_integer else ())
        return Binary(self.one(operators), *self.pair(dtype, depth))

    def truth(self, kind: int, depth: int) -> Expression:
        if kind == 4:
            return Unary("!", self.expression(DType.BOOL, depth - 1))
        if kind == 5:
            return Binary(self.one(["&&", "||", "&", "|", "^"]), *self.pair(DType.BOOL, depth))
        dtype = self.one(tuple(DType))
        comparators = ("==", "!=") if dtype is DType.BOOL else get_args(Comparator)
        return Compare(self.one(comparators), *self.pair(dtype, depth))

    def pair(self, dtype: DType, depth: int) -> tuple[Expression, Expression]:
        return self.expression(dtype, depth - 1), self.expression(dtype, depth - 1)

    def leaf(self, dtype: DType) -> Expression:
        named: list[Expression] = [Scalar(p.name, p.dtype) for p in self.scalars if p.dtype is dtype]
        if dtype is DType.I32:
            named += [Variable(v) for v in self.variables]
        if named and self.draw(st.booleans()):
            return self.one(named)  # type: ignore[no-any-return]
        if self.draw(st.integers(0, 9)) == 0:
            return Undefined(dtype)
        return self.draw(constants(dtype))  # type: ignore[no-any-return]

    def read(self, dtype: DType, depth: int) -> Expression:
        found = [
            (s, element)
            for s in self.sources
            for element, t in enumerate(s.dtypes if isinstance(s, Stage) else (s.dtype,))
            if t is dtype
        ]
        if not found:
            return self.leaf(dtype)
        source, element = self.one(found)
        rank = len(source.variables) if isinstance(source, Stage) else source.rank
        return Read(source.name, tuple(self.position(depth - 1) for _ in range(rank)), dtype, element)


@st.composite
def algorithms(draw: Draw, most: int = 12) -> Algorithm:
    """Of 2 stages and more, not all of which need be needed: those are left out."""
    inputs = tuple(
        Input(f"in{n}", draw(st.sampled_from(tuple(DType))), draw(st.integers(0, 3)))
        for n in range(draw(st.integers(0, 2)))
    )
    parameters = tuple(
        Parameter(f"p{n}", dtype, +draw(constants(dtype).filter(lambda c: abs(c.value) < math.inf)).value)
        for n, dtype in enumerate(draw(st.lists(st.sampled_from(tuple(DType)), max_size=2)))
    )
    stages: list[Stage] = []
    for number in range(draw(st.integers(2, most))):
        variables = ("x", "y", "z")[: draw(st.integers(0, 3))]
        types = draw(st.lists(st.sampled_from(tuple(DType)), min_size=1, max_size=2))
        within = Expressions(draw, variables, [*stages, *inputs], parameters)
        values = tuple(within.expression(t, draw(st.integers(0, 3))) for t in types)
        stage = Stage(f"s{number}", variables, values)
        for _ in range(draw(st.integers(0, 2))):
            stage = _updated(draw, stage, [*stages, *inputs], parameters)
        stages.append(stage)
    wanted = {stages[-1], *draw(st.lists(st.sampled_from(stages), max_size=2))}
    outputs = {
        s.name: tuple(Extent(draw(st.integers(-2, 3)), draw(st.integers(1, 9))) for _ in s.variables)
        for s in stages
        if s in wanted
    }
    needed, problems = infer(stages, inputs, outputs)
    assert not problems
    left = tuple(s for s in stages if s.name in needed)
    return Algorithm("drawn", inputs, parameters, left, MappingProxyType(outputs))


def _updated(
    draw: Draw, stage: Stage, sources: Sequence[Stage | Input], parameters: Sequence[Parameter]
) -> Stage:
    """With an update over ranges, which reads the stage where it writes."""
    ranges = tuple(
        Range(name, low, low + draw(st.integers(1, 4)))
        for name in ("r", "t")[: draw(st.integers(0, 2))]
        for low in [draw(st.integers(-2, 2))]
    )
    bound = [r.name for r in ranges]
    kept = [v for v in stage.variables if draw(st.booleans())]
    within = Expressions(draw, [*kept, *bound], sources, parameters)
    # A position of its own that is one variable means something else.
    fixed = Expressions(draw, bound, sources, parameters)
    point = tuple(Variable(v) if v in kept else fixed.position(1) for v in stage.variables)
    values = tuple(within.expression(t, draw(st.integers(0, 2))) for t in stage.dtypes)
    operators = _ARITHMETIC if all(t is not DType.BOOL for t in stage.dtypes) else ()
    if operators and draw(st.booleans()):
        operator = draw(st.sampled_from(operators))
        old = (Read(stage.name, point, t, n) for n, t in enumerate(stage.dtypes))
        values = tuple(Binary(operator, a, b) for a, b in zip(old, values, strict=True))
    condition = within.expression(DType.BOOL, draw(st.integers(0, 2))) if draw(st.booleans()) else None
    update = Update(point, values, ranges, condition)
    return Stage(stage.name, stage.variables, stage.values, (*stage.updates, update))
