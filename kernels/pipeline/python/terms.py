"""What stands in expressions besides operators: variables, ranges, reads and reductions.

In: a user's calls. Out: expressions that know what they come from, which their nodes do not say.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from spacedsl.kernels.pipeline import definitions, reductions
from spacedsl.kernels.pipeline.algorithm import Range, Read, Variable
from spacedsl.kernels.pipeline.python.callers import Caller, located
from spacedsl.kernels.pipeline.python.expressions import (
    Expr,
    Operation,
    Value,
    below,
    described,
    operand,
)
from spacedsl.kernels.pipeline.syntax import Reducer
from spacedsl.kernels.pipeline.typing import DefinitionError, Operand, TypeMismatchError, typed

if TYPE_CHECKING:
    from spacedsl.kernels.pipeline.python.funcs import Func, Input

_COUNT = itertools.count()


class Var(Expr):
    """A variable of Funcs; those with one name are the same."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = located(lambda: definitions.named(name))
        super().__init__(Variable(name))


class RDom:
    """Ranges that an update or a reduction goes through in order, the first one innermost.

    Each has a name, and is a number of points from 0 on, or `range(low, high)`: where `r` is
    `RDom(i=3, j=range(-1, 2))`, `r.i` and `r.j` are its variables.
    """

    def __init__(self, **ranges: int | range) -> None:
        def make() -> tuple[Range, ...]:
            if not ranges:
                raise DefinitionError("KF063", "an RDom has ranges", "such as `RDom(i=range(-1, 2), j=3)`")
            given = {definitions.named(name): stretch(points) for name, points in ranges.items()}
            return tuple(definitions.range_of(n, points.start, points.stop) for n, points in given.items())

        self._ranges: tuple[Range, ...] = located(make)
        self._condition: Expr | None = None

    def where(self, condition: Expr) -> None:
        """Leaves out the points that do not meet it, besides those that earlier conditions leave out; in
        what is defined from here on."""
        located(lambda: definitions.condition(operand(condition)))
        given = expression(condition)
        self._condition = given if self._condition is None else self._condition & given

    def __getattr__(self, name: str) -> Expr:
        if name.startswith("_"):
            raise AttributeError(name)
        if any(each.name == name for each in self._ranges):
            return RVar(name, self)
        known = ", ".join(f"`{each.name}`" for each in self._ranges)
        raise AttributeError(f"this RDom has no range `{name}`, only {known}")

    def __iter__(self) -> Iterator[Expr]:
        return iter([RVar(each.name, self) for each in self._ranges])


class RVar(Expr):
    """The variable of a range."""

    __slots__ = ("domain",)

    def __init__(self, name: str, domain: RDom) -> None:
        self.domain = domain
        super().__init__(Variable(name))


class Reading(Expr):
    """A value of a Func or of an Input, and where it is read."""

    __slots__ = ("caller", "read", "source")

    def __init__(
        self, source: Func | Input, read: Read, caller: Caller, node: Operand, parts: tuple[Expr, ...]
    ) -> None:
        self.source = source
        self.read = read
        self.caller = caller
        super().__init__(node, parts)


class Reduced(Expr):
    """A reduction: a stage of its own, once it is known in which definition it stands.

    Until then, a read of what has no name in any kernel file stands for it.
    """

    __slots__ = ("body", "caller", "condition", "domain", "operator", "placeholder", "ranges")

    def __init__(self, operator: Reducer, domain: RDom, body: Expr) -> None:
        self.operator = operator
        self.domain = domain
        self.ranges = domain._ranges
        self.condition = domain._condition
        self.body = body
        self.caller = Caller.here()
        self.placeholder = f"[{next(_COUNT)}]"
        first = reductions.identity(operator, typed(body.node).dtype, self.ranges)[0]
        super().__init__(Read(self.placeholder, (), first.dtype), self.inner, 2)

    @property
    def inner(self) -> tuple[Expr, ...]:
        """What stands in it."""
        return (self.body,) if self.condition is None else (self.body, self.condition)


# ---- Reductions -------------------------------------------------------------------------------------------


def sum(r: RDom, value: Value) -> Expr:
    return _reduced("sum", r, value)


def product(r: RDom, value: Value) -> Expr:
    return _reduced("prod", r, value)


def maximum(r: RDom, value: Value) -> Expr:
    return _reduced("max", r, value)


def minimum(r: RDom, value: Value) -> Expr:
    return _reduced("min", r, value)


def argmax(r: RDom, value: Value) -> Expr:
    """The value of the range, the first of several."""
    return _reduced("argmax", r, value)


def argmin(r: RDom, value: Value) -> Expr:
    """The value of the range, the first of several."""
    return _reduced("argmin", r, value)


def _reduced(operator: Reducer, r: RDom, value: Value) -> Expr:
    def make() -> Expr:
        if not isinstance(r, RDom):
            raise TypeMismatchError("a reduction goes through an RDom: `sum(r, value)`")
        body = expression(value)
        inner = (body,) if r._condition is None else (body, r._condition)
        names = {each.name for each in r._ranges}
        for other in domains(inner):
            if other is not r and (shared := names & {each.name for each in other._ranges}):
                message = f"`{min(shared)}` is a variable already"
                raise DefinitionError("KF011", message, "give the ranges of this RDom other names")
        definitions.reduction(operator, "", "", (), r._ranges, None, typed(body.node))
        return Reduced(operator, r, body)

    return located(make)


# ---- Parts ------------------------------------------------------------------------------------------------


def expression(value: Any) -> Expr:
    """Also of a number."""
    return value if isinstance(value, Expr) else Operation(operand(value))


def domains(expressions: Sequence[Expr]) -> Iterator[RDom]:
    """Those whose variables stand in the expressions, but for what a reduction goes through itself."""
    for each in outside_of_reductions(expressions):
        if isinstance(each, RVar):
            yield each.domain
        elif isinstance(each, Reduced):
            yield from (d for d in domains(each.inner) if d is not each.domain)


def outside_of_reductions(expressions: Sequence[Expr]) -> Iterator[Expr]:
    """What the expressions are made of, and their reductions, but not what stands in these; each once."""
    return below(expressions, lambda each: () if isinstance(each, Reduced) else each.parts)


def stretch(given: int | range) -> range:
    """So many points from 0 on, or which."""
    if isinstance(given, range):
        if given.step != 1:
            raise TypeMismatchError(f"`{given!r}` leaves out points", "a range goes by steps of 1")
        return given
    return range(whole(given))


def whole(value: Any) -> int:
    number = None if isinstance(value, Sequence) and not isinstance(value, str) else operand(value)
    if isinstance(number, int) and not isinstance(number, bool):
        return number
    raise TypeMismatchError(f"{described(value)} is no whole number", "such as `3`, or `range(-1, 2)`")
