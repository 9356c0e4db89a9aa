"""Pipelines in Python, in Halide's idiom: inputs, parameters, Funcs, and what is wanted of them.

In: a user's calls and assignments. Out: a `Pipeline`, whose Funcs hold their definitions. Each is checked
when it is made, as `definitions.py` checks those of kernel files. `assembly.py` makes an algorithm of all.
"""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

from spacedsl.engine.decision import Decision
from spacedsl.kernels.pipeline import algorithm, definitions
from spacedsl.kernels.pipeline.algorithm import Scalar, Stage
from spacedsl.kernels.pipeline.python.callers import Caller, failure, located
from spacedsl.kernels.pipeline.python.expressions import (
    ElementType,
    Expr,
    described,
    element_type,
    operand,
)
from spacedsl.kernels.pipeline.python.resolution import Definition, resolved
from spacedsl.kernels.pipeline.python.terms import RDom, Reading, Var, domains, expression, stretch, whole
from spacedsl.kernels.pipeline.typing import DefinitionError, TypeMismatchError
from spacedsl.kernels.unique_names import UniqueNames

_COUNT = itertools.count()
"""Of what is made: in this order it stands in a kernel file."""


class Param(Expr):
    """A scalar from outside, and the value that is explored with."""

    __slots__ = ("caller", "order", "parameter")

    def __init__(self, name: str, type: ElementType, value: float) -> None:
        self.parameter = located(
            lambda: definitions.parameter(definitions.named(name), element_type(type), _number(value))
        )
        self.caller, self.order = Caller.here(), next(_COUNT)
        super().__init__(Scalar(name, type.dtype))

    @property
    def name(self) -> str:
        return self.parameter.name


class Input:
    """An array from outside, the innermost dimension first: `image[x, y]` is an element.

    `shape` is how many dimensions it has, or the extent of each, from 0 on; without extents, what is read
    says which elements there are. `values` are the least and the greatest element, where positions depend on
    them.
    """

    def __init__(
        self,
        name: str,
        type: ElementType,
        shape: int | Sequence[int],
        *,
        values: tuple[int, int] | None = None,
    ) -> None:
        def make() -> algorithm.Input:
            counts = shape if isinstance(shape, Iterable) else None
            extents = () if counts is None else tuple(definitions.points(whole(n)) for n in counts)
            rank = whole(shape) if counts is None else len(extents)
            if rank < 0:
                raise DefinitionError("KF007", f"an array has no {rank} dimensions")
            dtype = element_type(type)
            bounds = None if values is None else definitions.values_of(dtype, *_least_and_greatest(values))
            return algorithm.Input(definitions.named(name), dtype, rank, extents, bounds)

        self.declared = located(make)
        self.caller, self.order = Caller.here(), next(_COUNT)

    @property
    def name(self) -> str:
        return self.declared.name

    def __getitem__(self, index: Any) -> Expr:
        return _reading(self, self.declared, _point(index))

    def __eq__(self, other: object) -> bool:
        return _is_same(self, other)

    __hash__ = object.__hash__
    __iter__ = None


class Values(tuple[Expr, ...]):
    """Those of a Func with several values at a point: none of them is the one to compute with."""

    __slots__ = ()

    def _refused(self, *_: object) -> NoReturn:
        message = f"this has {len(self)} values, and is computed with one by one"
        hint = "say which: `f[x][0] + 1`; an update gives each: `f[x] = (f[x][0] + 1, f[x][1])`"
        raise failure(TypeMismatchError(message, hint), Caller.here())

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refused
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _refused
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __abs__ = _refused
    __hash__ = tuple.__hash__


class Func:
    """A stage: `f[x, y] = expression` first, and updates of it by further assignments.

    `f[x, y]` is its value there; that of a Func with several values is a tuple.
    """

    def __init__(self, name: str) -> None:
        self.name = located(lambda: definitions.named(name))
        self.caller, self.order = Caller.here(), next(_COUNT)
        self.definitions: list[Definition] = []
        self.stage: Stage | None = None
        """As far as it has been defined; its reductions have names that are not final."""
        self.reader: Caller | None = None
        """Where another one reads it first."""

    def __getitem__(self, index: Any) -> Any:
        stage, point = self.stage, _point(index)
        if stage is None:
            hint = f"define it first: `{self.name}[..] = 0`"
            raise failure(DefinitionError("KF060", f"`{self.name}` has no value yet", hint), Caller.here())
        values = Values(_reading(self, stage, point, element) for element in range(len(stage.values)))
        return values if len(values) > 1 else values[0]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._define(_point(index), value, None, None)

    def update(self, point: Any, value: Any, *, over: RDom | None = None, where: Expr | None = None) -> None:
        """`f[point] = value` through ranges that need not stand in it, and where a condition holds."""
        self._define(_point(point), value, over, where)

    def _define(self, at: tuple[Any, ...], value: Any, over: RDom | None, where: Expr | None) -> None:
        caller = Caller.here()
        if self.stage is not None and self.reader is not None:
            message = f"`{self.name}` is updated after others have read it"
            error = DefinitionError("KF062", message, "updates come first")
            raise failure(error, caller, (self.reader, "read here"))

        def make() -> Definition:
            if not (over is None or isinstance(over, RDom)):
                raise TypeMismatchError(f"an update goes through an RDom, and not {described(over)}")
            point = tuple(map(expression, at))
            values = tuple(map(expression, value if isinstance(value, tuple) else (value,)))
            if not values:
                raise DefinitionError("KF022", f"`{self.name}` has no value in this definition")
            limits = () if where is None else (expression(where),)
            domain = _one_domain(self.name, over, [*point, *values, *limits])
            ranges = () if domain is None else domain._ranges
            condition = _both(None if domain is None else domain._condition, *limits)
            if self.stage is None:
                self._is_first(point, is_update=bool(ranges) or condition is not None)
            return Definition(point, values, ranges, condition, caller, next(_COUNT))

        definition = located(make)
        self.stage = located(
            lambda: resolved(self.name, self.stage, definition, UniqueNames({self.name})).stage
        )
        self.definitions.append(definition)
        for reading in definition.readings():
            if isinstance(reading.source, Func) and reading.source is not self:
                reading.source.reader = reading.source.reader or reading.caller

    def _is_first(self, point: tuple[Expr, ...], *, is_update: bool) -> None:
        if is_update:
            message = f"`{self.name}` has no value yet that could be updated"
            raise DefinitionError("KF060", message, f"define it first: `{self.name}[..] = 0`")
        if not all(isinstance(at, Var) for at in point):
            message = f"`{self.name}` is defined for all points first: each position is a Var"
            raise DefinitionError("KF061", message, "what is special at some points is an update")

    def output(self, *extents: int | range) -> Output:
        """The Func as a result: of each variable how many points from 0 on, or which."""
        return Output(self, located(lambda: tuple(map(stretch, extents))), Caller.here())

    def __eq__(self, other: object) -> bool:
        return _is_same(self, other)

    __hash__ = object.__hash__
    __iter__ = None


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """What is wanted of a Func."""

    func: Func
    extents: tuple[range, ...]
    caller: Caller


class Pipeline:
    """What a function that builds a pipeline returns.

    `name` is what generated code is called. The others are as in kernel files: which error is accepted,
    relative to the largest element of an output; whether a measured run finds its data in the caches; other
    rules, by a path that starts at the folder of the Python file; decisions that have been made already.
    """

    def __init__(
        self,
        name: str,
        outputs: Output | Sequence[Output],
        *,
        tolerance: float | None = None,
        cache: Literal["warm", "cold"] = "warm",
        space: str | Path | None = None,
        decisions: Sequence[Decision] = (),
    ) -> None:
        def make() -> tuple[Output, ...]:
            wanted = tuple(outputs) if isinstance(outputs, Sequence) else (outputs,)
            if not wanted or not all(isinstance(each, Output) for each in wanted):
                hint = "one or several of them: `Pipeline(name, [f.output(640, 480)])`"
                raise DefinitionError("KF066", "a pipeline is made of outputs", hint)
            return wanted

        self.name = located(lambda: definitions.named(name))
        self.outputs = located(make)
        self.tolerance = located(lambda: _tolerance(tolerance))
        self.cache = located(lambda: _cache(cache))
        self.space = None if space is None else str(space)
        self.decisions = located(lambda: tuple(map(_decision, decisions)))
        self.caller = Caller.here()


# ---- Parts ------------------------------------------------------------------------------------------------


def _reading(source: Func | Input, what: Stage | algorithm.Input, point: Any, element: int = 0) -> Expr:
    def make() -> Expr:
        given = [operand(at) for at in point]
        try:
            made = definitions.read(what, given, element)
        except DefinitionError as error:
            dimensions = len(what.variables) if isinstance(what, Stage) else what.rank
            written = f"{what.name}[{', '.join('xyzw'[:dimensions]) or '()'}]"
            hint = f"a point of it is written `{written}`" if error.code == "KF022" else error.hint
            raise DefinitionError(error.code, str(error), hint) from None
        parts = tuple(at for at in point if isinstance(at, Expr))
        return Reading(source, made, Caller.here(), made, parts)

    return located(make)


def _point(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def _one_domain(owner: str, over: RDom | None, expressions: Sequence[Expr]) -> RDom | None:
    found = list(dict.fromkeys([*([] if over is None else [over]), *domains(expressions)]))
    if len(found) > 1:
        message = f"an update of `{owner}` goes through the ranges of one RDom, not of {len(found)}"
        raise DefinitionError("KF063", message, "give one RDom all of these ranges, the innermost first")
    return found[0] if found else None


def _both(left: Expr | None, right: Expr | None = None) -> Expr | None:
    return left & right if left is not None and right is not None else left if right is None else right


def _is_same(one: Func | Input, other: object) -> bool:
    """Among others in a list, say; compared with values, it would be false at all points."""
    if isinstance(other, Expr | numbers.Number):
        located(lambda: operand(one))  # says how a point of it is written
    return one is other


def _least_and_greatest(values: Any) -> tuple[int, int]:
    if isinstance(values, Sequence) and len(values) == 2:
        return whole(values[0]), whole(values[1])
    message = f"the values of an input are the least and the greatest, not {described(values)}"
    raise TypeMismatchError(message, "such as `values=(0, 255)`")


def _tolerance(given: Any) -> float | None:
    if given is None:
        return None
    if isinstance(given, numbers.Real) and not isinstance(given, bool) and 0 <= float(given) < math.inf:
        return float(given)
    raise DefinitionError("KF007", f"`tolerance`: expected a number that is not negative, not {given!r}")


def _cache(given: Any) -> Literal["warm", "cold"]:
    if given == "cold":
        return "cold"
    if given == "warm":
        return "warm"
    raise DefinitionError("KF007", f"`cache`: expected 'warm' or 'cold', not {given!r}")


def _decision(given: Decision) -> Decision:
    if isinstance(given, Decision) and not {str} & {type(given.objects), type(given.values)}:
        objects, values = tuple(given.objects), tuple(given.values)
        are_values = all(isinstance(v, str | int) and not isinstance(v, bool) for v in values)
        if values and are_values and all(isinstance(o, str) for o in objects):
            return Decision(str(given.choice), objects, values)
    hint = 'such as `Decision("site", ("f",), ("INLINE",))`'
    raise DefinitionError("KF007", f"`{given!r}` is no decision", hint)


def _number(value: Any) -> int | float:
    number = operand(value)
    if isinstance(number, int | float):
        return number
    raise TypeMismatchError("the value of a parameter is a number")
