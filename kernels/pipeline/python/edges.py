"""What lies outside of a Func or an Input: Halide's boundary conditions.

In: a source, a point that may lie outside of it, and where it ends. Out: its value there, an expression, or a
tuple of them where a Func has several values. An Input ends with its extents, a Func with `bounds`: of each
dimension, how many points from 0 on there are, or which; None where all of them are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spacedsl.diagnostics import counted
from spacedsl.kernels.pipeline import algorithm, definitions
from spacedsl.kernels.pipeline.algorithm import Stage
from spacedsl.kernels.pipeline.python.callers import Caller, located
from spacedsl.kernels.pipeline.python.expressions import Expr, Value, operand
from spacedsl.kernels.pipeline.python.funcs import Func, Input
from spacedsl.kernels.pipeline.python.terms import Reading, stretch
from spacedsl.kernels.pipeline.typing import DefinitionError

Bounds = Sequence[int | range | None]


def repeat_edge(source: Func | Input, *point: Value, bounds: Bounds | None = None) -> Any:
    """The nearest element."""
    return _beyond("repeat_edge", source, point, bounds)


def repeat_image(source: Func | Input, *point: Value, bounds: Bounds | None = None) -> Any:
    """Copies of what is inside."""
    return _beyond("repeat_image", source, point, bounds)


def mirror_image(source: Func | Input, *point: Value, bounds: Bounds | None = None) -> Any:
    """Mirrored copies, with the outermost element twice."""
    return _beyond("mirror_image", source, point, bounds)


def mirror_interior(source: Func | Input, *point: Value, bounds: Bounds | None = None) -> Any:
    """Mirrored copies, with the outermost element once."""
    return _beyond("mirror_interior", source, point, bounds)


def constant_exterior(source: Func | Input, value: Value, *point: Value, bounds: Bounds | None = None) -> Any:
    """A value that is the same everywhere outside."""
    return _beyond("constant_exterior", source, point, bounds, value)


def _beyond(
    rule: str, source: Func | Input, point: tuple[Value, ...], bounds: Bounds | None, outside: Value = 0
) -> Any:
    def make() -> tuple[Expr, ...]:
        known = _declared(rule, source)
        within = _within(point, bounds)
        given, beside = [operand(at) for at in point], operand(outside)
        parts = tuple(e for e in (*point, outside) if isinstance(e, Expr))
        several = len(known.values) if isinstance(known, Stage) else 1
        try:
            pairs = [definitions.beyond(rule, known, given, within, beside, n) for n in range(several)]
        except DefinitionError as error:
            hint = _written(rule, known, len(point)) if error.code == "KF022" else error.hint
            raise DefinitionError(error.code, str(error), hint) from None
        return tuple(Reading(source, inner, Caller.here(), value, parts) for value, inner in pairs)

    values = located(make)
    return values if len(values) > 1 else values[0]


def _declared(rule: str, source: Func | Input) -> Stage | algorithm.Input:
    if isinstance(source, Func) and source.stage is not None:
        return source.stage
    if isinstance(source, Input):
        return source.declared
    hint = f"define it first: `{source.name}[..] = 0`" if isinstance(source, Func) else None
    raise DefinitionError("KF022", f"`{rule}` takes a Func that has a value, or an Input, and a point", hint)


def _written(rule: str, known: Stage | algorithm.Input, positions: int) -> str:
    """How the call is written in Python: with as many positions as there are dimensions, or with its ends."""
    dimensions = len(known.variables) if isinstance(known, Stage) else known.rank
    value = ["0"] if rule == "constant_exterior" else []
    given = ", ".join([known.name, *value, *"xyzw"[:dimensions]])
    if positions != dimensions:
        return f"a point of it is written `{rule}({given})`"
    ends = ", ".join(["10", *["None"] * (dimensions - 1)])
    return f"such as `{rule}({given}, bounds=[{ends}])`; an Input with extents has them"


def _within(point: Sequence[Value], bounds: Bounds | None) -> list[range | None]:
    given = [None] * len(point) if bounds is None else list(bounds)
    if len(given) != len(point):
        message = f"{counted(len(point), 'position')}, and {counted(len(given), 'bound')}"
        raise DefinitionError("KF022", message, "`None` is one of a dimension without an end")
    points = [None if each is None else stretch(each) for each in given]
    return [None if each is None else definitions.between(each.start, each.stop) for each in points]
