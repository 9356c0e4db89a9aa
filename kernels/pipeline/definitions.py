"""Definitions, checked: what holds of them however an algorithm is written down.

In: names, and operands as `typing.py` takes them. Out: inputs, parameters, stages and reads, or a
`DefinitionError`, which does not know where in a file it happened. What is right already stays what it is, so
that a part can be checked first where its own place is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

from spacedsl.diagnostics import counted
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.line_parser import DEEPEST
from spacedsl.kernels.pipeline.algorithm import (
    Expression,
    Input,
    Parameter,
    Range,
    Read,
    Stage,
    Update,
    Variable,
    walk,
)
from spacedsl.kernels.pipeline.bounds import Outside, Overflowing, Problem
from spacedsl.kernels.pipeline.functions import RESERVED, held, inside, selection
from spacedsl.kernels.pipeline.reductions import identity, reduced
from spacedsl.kernels.pipeline.rules import misplaced
from spacedsl.kernels.pipeline.syntax import Reducer
from spacedsl.kernels.pipeline.typing import (
    DefinitionError,
    Operand,
    TypeMismatchError,
    binary,
    cast_to,
    common,
    nearest,
    typed,
)
from spacedsl.kernels.sizes import IDENTIFIER, IDENTIFIER_HINT

MOST_LEVELS = 256
"""Operations inside each other: what walks expressions is recursive."""

# ---- What comes from outside ------------------------------------------------------------------------------


def parameter(name: str, dtype: DType, value: float) -> Parameter:
    """Raises KF065 where the type does not hold the value."""
    if math.isfinite(value) and (dtype is DType.BOOL or not isinstance(value, bool)):
        if dtype.is_float:
            with suppress(TypeMismatchError):
                return Parameter(name, dtype, nearest(value, dtype))
        elif value == int(value) and dtype.least <= value <= dtype.greatest:
            return Parameter(name, dtype, int(value))
    raise DefinitionError("KF065", f"{value} is no {dtype.label}")


def values_of(dtype: DType, low: int, high: int) -> tuple[int, int]:
    """The least and the greatest element of an input; raises KF065 where the type has no such elements."""
    if low > high or not all(_is_value(end, dtype) for end in (low, high)):
        raise DefinitionError("KF065", f"{low} to {high} are no values of {dtype.label}")
    return low, high


def _is_value(number: int, dtype: DType) -> bool:
    if not dtype.is_float:
        return dtype.least <= number <= dtype.greatest
    with suppress(TypeMismatchError):
        return nearest(number, dtype) == number
    return False


def points(count: int) -> int:
    """How many there are along a dimension, numbered by 32 bits; raises KF012 or KF013."""
    if count < 1:
        raise DefinitionError("KF012", f"an extent must be at least 1, not {count}")
    if count > DType.I32.greatest:
        raise DefinitionError("KF013", "32 bits are not enough for so many points")
    return count


def named(name: str) -> str:
    """A name of letters, digits and `_`, which the language has no meaning for; raises KF010."""
    if not isinstance(name, str) or not IDENTIFIER.fullmatch(name):
        raise DefinitionError("KF010", f"{name!r} cannot be a name", IDENTIFIER_HINT)
    return free(name)


def free(name: str) -> str:
    """A name that the language has no meaning for."""
    if name in RESERVED:
        raise DefinitionError("KF010", f"`{name}` is a word of the language")
    return name


# ---- Parts of expressions ---------------------------------------------------------------------------------


def shallow(nested: int, levels: int) -> None:
    """Of the tree of a text: raises KF008 where what walks it, or what it means, would go too deep.

    In `nested`, operators that follow each other count once, as in a sum; in `levels`, as they stand there.
    """
    if nested > DEEPEST or levels > MOST_LEVELS:
        most, where = (DEEPEST, "inside") if nested > DEEPEST else (MOST_LEVELS, "behind")
        message = f"more than {most} operations {where} each other are not supported"
        raise DefinitionError("KF008", message, "give a part of it to a stage of its own, or use a reduction")


def position(value: Operand) -> Expression:
    """In a stage or an input: an i32."""
    at = typed(value)
    if not at.dtype.is_integer:
        message = f"a position is a whole number, not {at.dtype.label}"
        raise TypeMismatchError(message, "convert it: `i32(..)`")
    return cast_to(DType.I32, at)


def condition(value: Operand) -> Expression:
    holds = typed(value)
    if holds.dtype is not DType.BOOL:
        raise TypeMismatchError(f"a condition is true or false, not {holds.dtype.label}")
    return holds


def read(source: Stage | Input, point: Sequence[Operand], element: int | None = None) -> Read:
    """Of a stage with several values, an element; raises KF022 where there is no such thing."""
    name = source.name
    variables, dtypes = (
        (len(source.variables), source.dtypes)
        if isinstance(source, Stage)
        else (source.rank, (source.dtype,))
    )
    if len(point) != variables:
        message = f"`{name}` has {counted(variables, 'variable')}, not {len(point)}"
        hint = f"a point of it is written `{name}({', '.join('xyzw'[:variables])})`" if variables else None
        raise DefinitionError("KF022", message, hint)
    which = element or 0
    if which >= len(dtypes) or (element is None and len(dtypes) > 1):
        hint = f"the first one is written `{name}(..).0`" if len(dtypes) > 1 else None
        raise DefinitionError("KF022", f"`{name}` has {counted(len(dtypes), 'value')}", hint)
    return Read(name, tuple(position(at) for at in point), dtypes[which], which)


def beyond(
    rule: str,
    source: Stage | Input,
    point: Sequence[Operand],
    within: Sequence[range | None],
    outside: Operand = 0,
    element: int | None = None,
) -> tuple[Operand, Read]:
    """The value of a stage or an input that has something outside of it, too, and the read in it.

    `rule` is one of `EDGES`, or `constant_exterior`, which gives `outside`. `within` says along which
    dimensions there is an outside, and where; an input ends with its extents where nothing is said.
    """
    if isinstance(source, Input) and source.extents and len(point) == source.rank:
        within = [range(n) if of is None else of for of, n in zip(within, source.extents, strict=True)]
    positions = [at if isinstance(at, int) else position(at) for at in point]
    inner = read(
        source,
        [at if of is None else held(rule, at, of) for at, of in zip(positions, within, strict=True)],
        element,
    )
    if not any(within):
        hint = f"such as `{rule}({source.name}, x in 0:10)`; an input with `extents:` has them"
        raise DefinitionError("KF022", f"`{rule}` has to know the ends of `{source.name}`", hint)
    if rule != "constant_exterior":
        return inner, inner
    return selection([inside(positions, within), inner, outside]), inner


def called_twice(output: str, array: str) -> DefinitionError:
    """Of what `arguments.ambiguous` has found."""
    message = f"`{array}` is an array with values of `{output}`, and something else"
    return DefinitionError("KF011", message, "give one of the two another name")


def out_of_bounds(problem: Problem, inputs: Sequence[Input]) -> DefinitionError:
    """What bounds inference has found, in words."""
    source, dimension = problem.read.source, problem.position + 1
    if isinstance(problem, Outside):
        low, high = problem.region.low, problem.region.high
        last = next(i for i in inputs if i.name == source).extents[problem.position] - 1
        message = (
            f"dimension {dimension} of `{source}` is read from {low} to {high}, and goes from 0 to {last}"
        )
        hint = f"`repeat_edge({source}, ..)` reads the nearest element, for example"
        return DefinitionError("KF035", message, hint)
    if isinstance(problem, Overflowing):
        message = f"32 bits do not hold what a position along dimension {dimension} of `{source}` is made of"
        return DefinitionError("KF067", message, "hold what is large between two numbers earlier")
    message = (
        f"there is no end within 32 bits to the points of `{source}` that are needed along "
        f"dimension {dimension}"
    )
    hint = "hold the position between two numbers: `clamp(position, low, high)`"
    return DefinitionError("KF067", message, hint)


def range_of(name: str, low: int, high: int) -> Range:
    """As `between`, by a name."""
    points = between(low, high)
    return Range(free(name), points.start, points.stop)


def between(low: int, high: int) -> range:
    """From `low` up to `high`; raises KF063 where that is empty, or not of i32."""
    if low >= high:
        raise DefinitionError("KF063", f"a range from {low} up to {high} is empty")
    if low < DType.I32.least or high > DType.I32.greatest:
        raise DefinitionError("KF063", f"32 bits do not hold a range from {low} up to {high}")
    return range(low, high)


def distinct(ranges: Sequence[Range], around: Sequence[str] = ()) -> None:
    """Raises KF011 where one of the ranges has the name of another one, or of a variable around."""
    known = [*around]
    for each in ranges:
        if each.name in known:
            raise DefinitionError("KF011", f"`{each.name}` is a variable already")
        known.append(each.name)


# ---- Stages -----------------------------------------------------------------------------------------------


def variable(name: str, others: Sequence[str]) -> str:
    """Of a stage, beside others; raises KF061 where it is one of them."""
    if name in others:
        raise DefinitionError("KF061", f"`{name}` twice")
    return free(name)


def defined(name: str, variables: Sequence[str], values: Sequence[Operand]) -> Stage:
    """The first definition of a stage."""
    for at, name_of in enumerate(variables):
        variable(name_of, variables[:at])
    return Stage(free(name), tuple(variables), tuple(typed(v) for v in values))


def stored(value: Operand, dtype: DType) -> Expression:
    """The value of an update, in the type that its stage has."""
    if isinstance(value, int | float):
        return typed(value, dtype)
    if value.dtype is not dtype and common(value.dtype, dtype) is not dtype:
        message = f"the stage is of {dtype.label}, which does not hold every {value.dtype.label}"
        raise TypeMismatchError(message, f"convert it: `{dtype.label}(..)`")
    return cast_to(dtype, value)


def combined(
    stage: Stage, point: tuple[Expression, ...], operator: str, element: int, value: Operand
) -> Expression:
    """What `f(point) += value` writes, in the type of the stage; without an operator, the value."""
    dtype = stage.dtypes[element]
    if operator:
        value = binary(operator, Read(stage.name, point, dtype, element), value)
    return stored(value, dtype)


def fitting(stage: Stage, positions: int, values: int) -> None:
    """Raises KF022 where an update writes to other points, or other values, than the stage has."""
    for given, wanted, noun in ((positions, stage.variables, "variable"), (values, stage.values, "value")):
        if given != len(wanted):
            message = f"`{stage.name}` has {counted(len(wanted), noun)}, not {given}"
            raise DefinitionError("KF022", message)


def updated(stage: Stage, update: Update) -> Stage:
    """With one more update, whose positions and values have been checked one by one."""
    distinct(update.ranges)
    fitting(stage, len(update.point), len(update.values))
    if mistake := misplaced(stage, update):
        raise DefinitionError("KF062", mistake)
    return Stage(stage.name, stage.variables, stage.values, (*stage.updates, update))


def reduction(
    operator: Reducer,
    name: str,
    owner: str,
    around: Sequence[str],
    ranges: tuple[Range, ...],
    where: Expression | None,
    body: Expression,
) -> tuple[Stage, tuple[Expression, ...]]:
    """A stage of its own, and the point at which it is read.

    It is called `name`, and is part of a definition of `owner` with the variables `around`; it is over those
    that it depends on.
    """
    distinct(ranges, around)
    given = (body,) if where is None else (body, where)
    nodes = [node for expression in given for node in walk(expression)]
    if any(isinstance(n, Read) and n.source == owner for n in nodes):
        message = f"a reduction in an update of `{owner}` cannot read it"
        raise DefinitionError("KF062", message, "give the update these ranges itself")
    if operator in ("argmax", "argmin") and len(ranges) > 1:
        raise DefinitionError("KF022", f"`{operator}` is over one range", "or two stages, one for each")
    used = {n.name for n in nodes if isinstance(n, Variable)}
    variables = tuple(v for v in around if v in used)
    point = tuple(Variable(v) for v in variables)
    values = identity(operator, body.dtype, ranges)
    update = Update(point, reduced(operator, name, point, values, body, ranges), ranges, where)
    return Stage(name, variables, values, (update,)), point
