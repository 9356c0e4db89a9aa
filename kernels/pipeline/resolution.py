"""From the lines of `stages:` to an algorithm: names bound, types found, reductions made stages.

In: definitions, and what the kernel file declares. Out: an `Algorithm` and where its parts stand in the file,
or diagnostics. Which part of each stage is needed is for `bounds.py`.

A reduction inside of an expression is a stage of its own: `sum[r in 0:3](f(x + r))` is 0, and an update adds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import TypeVar, cast, get_args

from spacedsl.diagnostics import Diagnostic, Span, counted
from spacedsl.kernels.pipeline.algorithm import (
    Expression,
    Function,
    Input,
    Parameter,
    Range,
    Read,
    Scalar,
    Stage,
    Undefined,
    Update,
    Variable,
)
from spacedsl.kernels.pipeline.definitions import (
    MOST_LEVELS,
    between,
    beyond,
    combined,
    condition,
    defined,
    distinct,
    fitting,
    free,
    position,
    range_of,
    read,
    reduction,
    updated,
    variable,
)
from spacedsl.kernels.pipeline.functions import (
    CONVERSIONS,
    COUNTED,
    EDGES,
    FUNCTIONS,
    SATURATED,
    VALUES,
    absd,
    clamp,
    lerp,
    mux,
    saturated,
    selection,
)
from spacedsl.kernels.pipeline.syntax import (
    Call,
    Definition,
    Infix,
    Name,
    Node,
    Number,
    Prefix,
    RangeNode,
    Reducer,
    Reduction,
    Within,
)
from spacedsl.kernels.pipeline.typing import (
    ARGUMENTS,
    DefinitionError,
    Operand,
    apply,
    binary,
    cast_to,
    typed,
    unary,
)
from spacedsl.kernels.unique_names import UniqueNames
from spacedsl.kernels.validation import closest
from spacedsl.language.report import Report

Made = TypeVar("Made")

_REDUCED = "a reduction is written `sum[r in 0:3](f(x + r))`"

Part = tuple[str, int | None]
"""A definition: a stage, and which of its updates."""


@dataclass(slots=True)
class Places:
    """Where parts of an algorithm stand in the file."""

    parts: dict[Part, Span] = field(default_factory=dict)
    reads: dict[tuple[Part, Read], Span] = field(default_factory=dict)

    def read(self, part: Part, read: Read) -> Span:
        """That of its definition where the file does not write it itself."""
        return self.reads.get((part, read), self.parts[part])


@dataclass(frozen=True, slots=True)
class Declared:
    sizes: Mapping[str, int]
    inputs: Mapping[str, Input]
    parameters: Mapping[str, Parameter]


def resolve(
    definitions: Sequence[Definition], declared: Declared
) -> tuple[tuple[Stage, ...], Places, tuple[Diagnostic, ...]]:
    """The stages mean something only where there is no diagnostic."""
    resolver = _Resolver(declared, {definition.target.name.name for definition in definitions})
    for definition in definitions:
        resolver.definition(definition)
    return tuple(resolver.stages.values()), resolver.places, tuple(resolver.report.problems)


class _WrongError(Exception):
    """What has been reported of an expression, which has no meaning then."""


@dataclass(frozen=True, slots=True)
class _Scope:
    """The variables of a definition, and what its expressions have been found out to read."""

    part: Part
    variables: tuple[str, ...]
    """Also those of ranges around."""
    owner: str
    """The stage whose definition it is in, also from inside of a reduction."""


def _is_meant_to_reduce(node: Call) -> bool:
    """`min` and `max` are functions, too."""
    if node.name.name not in get_args(Reducer):
        return False
    return node.name.name not in FUNCTIONS or any(isinstance(a, Within) for a in node.arguments)


class _Resolver:
    """Walks the definitions in order; knows the stages so far."""

    def __init__(self, declared: Declared, defined: Set[str]) -> None:
        self.declared = declared
        self.defined = defined
        """Stages of the whole file."""
        self.stages: dict[str, Stage] = {}
        self.wrong: set[str] = set()
        """Stages of which nothing is known but that they have been reported."""
        self.readers: dict[str, Span] = {}
        """Of each stage, where another one reads it first."""
        self.report = Report()
        self.places = Places()

    # ---- Definitions -----------------------------------------------------------------------------------

    def definition(self, line: Definition) -> None:
        name = line.target.name.name
        if name in self.wrong:
            return
        try:
            if name in self.stages:
                self.update(self.stages[name], line)
            else:
                self.stage(line)
        except _WrongError:
            if name not in self.stages:
                self.wrong.add(name)

    def error(self, code: str, message: str, span: Span, hint: str | None = None) -> _WrongError:
        self.report.error(code, message, span, hint)
        return _WrongError()

    def stage(self, line: Definition) -> None:
        """The first line of a stage."""
        target = line.target
        name = target.name.name
        self.is_free(target.name)
        if line.operator or line.ranges or line.condition is not None:
            message = f"`{name}` has no value yet that could be updated"
            raise self.error("KF060", message, line.span, f"define it first: `{name}(..) = 0`")
        variables: list[str] = []
        for argument in target.arguments:
            if not isinstance(argument, Name) or self.meaning_of(argument.name) is not None:
                message = f"`{name}` is defined for all points first: each position is a variable"
                hint = f"such as `{name}(x, y) = ..`; what is special at some points is an update"
                raise self.error("KF061", message, argument.span, hint)
            made = partial(variable, argument.name, tuple(variables))
            variables.append(self.checked(made, argument.span))
        self.places.parts[name, None] = line.span
        scope = _Scope((name, None), tuple(variables), name)
        values = [self.value(v, scope) for v in line.values]
        self.stages[name] = self.checked(lambda: defined(name, variables, values), target.span)

    def update(self, stage: Stage, line: Definition) -> None:
        if (reader := self.readers.get(stage.name)) is not None:
            message = f"`{stage.name}` is updated after others have read it"
            self.report.error("KF062", message, line.span, "updates come first", (reader, "read here"))
            raise _WrongError
        part = (stage.name, len(stage.updates))
        self.places.parts[part] = line.span
        ranges = self.ranges(line.ranges)
        bound = [r.name for r in ranges]
        arguments = line.target.arguments
        self.checked(lambda: fitting(stage, len(arguments), len(line.values)), line.span)
        kept = [
            v
            for v, argument in zip(stage.variables, arguments, strict=True)
            if isinstance(argument, Name) and argument.name == v and v not in bound
        ]
        scope = _Scope(part, (*kept, *bound), stage.name)
        point = tuple(self.position(a, scope) for a in arguments)
        values = []
        for element, node in enumerate(line.values):
            value = self.value(node, scope)
            make = partial(combined, stage, point, line.operator, element, value)
            values.append(self.checked(make, node.span))
        condition = None if line.condition is None else self.condition(line.condition, scope)
        update = Update(point, tuple(values), ranges, condition)
        done = self.checked(lambda: updated(stage, update), line.span)
        del self.stages[stage.name]
        self.stages[stage.name] = done

    def ranges(self, nodes: Sequence[RangeNode], around: Sequence[str] = ()) -> tuple[Range, ...]:
        found: tuple[Range, ...] = ()
        for node in nodes:
            found = (*found, self.single_range(node))
            self.checked(partial(distinct, found, around), node.name.span)
        return found

    def single_range(self, node: RangeNode) -> Range:
        if self.meaning_of(node.name.name) is not None:
            message = f"`{node.name.name}` is {self.meaning_of(node.name.name)} and cannot be a range as well"
            raise self.error("KF011", message, node.name.span)
        low, high = self.number(node.low), self.number(node.high)
        return self.checked(lambda: range_of(node.name.name, low, high), node.span)

    def number(self, node: Node) -> int:
        """A whole number that is known now."""
        value = self.value(node, _Scope(("", None), (), ""))
        if not isinstance(value, int) or isinstance(value, bool):
            message = "the ends of a range are whole numbers, and arithmetic with sizes"
            raise self.error("KF063", message, node.span)
        return value

    def is_free(self, name: Name) -> None:
        self.checked(lambda: free(name.name), name.span)
        if (known := self.meaning_of(name.name)) is not None:
            raise self.error("KF011", f"`{name.name}` is {known} and cannot be a stage as well", name.span)

    def meaning_of(self, name: str) -> str | None:
        for kind, names in (
            ("a size", self.declared.sizes),
            ("an input", self.declared.inputs),
            ("a parameter", self.declared.parameters),
        ):
            if name in names:
                return kind
        return None

    # ---- Expressions -----------------------------------------------------------------------------------

    def checked(self, make: Callable[[], Made], span: Span) -> Made:
        """What `make` returns; what is wrong is reported at the span."""
        try:
            return make()
        except DefinitionError as error:
            raise self.error(error.code, str(error), span, error.hint) from None

    def condition(self, node: Node, scope: _Scope) -> Expression:
        value = self.value(node, scope)
        return self.checked(lambda: condition(value), node.span)

    def position(self, node: Node, scope: _Scope) -> Expression:
        value = self.value(node, scope)
        return self.checked(lambda: position(value), node.span)

    def value(self, node: Node, scope: _Scope) -> Operand:
        match node:
            case Number(value=value):
                return value
            case Name():
                return self.name(node, scope)
            case Prefix(operator, operand, span):
                inner = self.value(operand, scope)
                return self.checked(lambda: unary(operator, inner), span)
            case Infix(operator, left, right, span):
                a, b = self.value(left, scope), self.value(right, scope)
                return self.checked(lambda: binary(operator, a, b), span)
            case Reduction():
                return self.reduction(node, scope)
            case Call():
                return self.call(node, scope)
            case Within():
                message = "`in` stands behind a position that may lie outside of what is read"
                hint = f"as in `repeat_edge(f, x in 0:10)`; rules are {', '.join(EDGES)}, constant_exterior"
                raise self.error("KF022", message, node.span, hint)

    def name(self, node: Name, scope: _Scope) -> Operand:
        name = node.name
        if name in scope.variables:
            return Variable(name)
        if name in self.declared.sizes:
            return self.declared.sizes[name]
        if name in self.declared.parameters:
            return Scalar(name, self.declared.parameters[name].dtype)
        if name in VALUES:
            return VALUES[name]
        if name in self.stages or name in self.declared.inputs:
            return self.read(Call(node, (), None, node.span), scope)
        if name in self.wrong:
            raise _WrongError
        known = [*scope.variables, *self.declared.sizes, *self.declared.parameters, *self.stages]
        hint = closest(name, known)
        raise self.error("KF021", f"`{name}` is no variable here", node.span, hint)

    def call(self, node: Call, scope: _Scope) -> Operand:
        name = node.name.name
        if name in self.wrong:
            raise _WrongError
        if name in self.stages or name in self.declared.inputs:
            return self.read(node, scope)
        if _is_meant_to_reduce(node):
            raise self.error("KF022", f"the range of `{name}` stands in brackets", node.name.span, _REDUCED)
        if name not in FUNCTIONS:
            raise self.unknown("stage, input or function", node.name, scope, FUNCTIONS)
        if name in EDGES or name == "constant_exterior":
            return self.beyond(node, scope)
        if node.element is not None:
            raise self.error("KF022", f"`{name}` has one value", node.span)
        return self.function(node, scope)

    def function(self, node: Call, scope: _Scope) -> Operand:
        name, given = node.name.name, node.arguments
        if name == "undefined":
            dtype = CONVERSIONS.get(given[0].name) if given and isinstance(given[0], Name) else None
            if dtype is None or len(given) != 1:
                raise self.error("KF022", "`undefined` takes a type: `undefined(f32)`", node.span)
            return Undefined(dtype)
        arguments = [self.value(a, scope) for a in given]
        wanted = ARGUMENTS.get(name, COUNTED.get(name, 1))
        is_open = name in ("select", "mux", "min", "max")
        if len(arguments) != wanted and not (is_open and len(arguments) > wanted):
            least = "at least " if is_open else ""
            message = f"`{name}` takes {least}{counted(wanted, 'argument')}, not {len(given)}"
            raise self.error("KF022", message, node.span)
        most = 2 * MOST_LEVELS + 1 if name == "select" else MOST_LEVELS
        if len(given) > most:
            message = f"`{name}` of more than {most} arguments is not supported"
            raise self.error("KF008", message, node.span)

        def made() -> Operand:
            match name:
                case "min" | "max":
                    return reduce(lambda a, b: binary(name, a, b), arguments)
                case "clamp":
                    return clamp(*arguments)
                case "absd":
                    return absd(*arguments)
                case "lerp":
                    return lerp(*arguments)
                case "select":
                    return selection(arguments)
                case "mux":
                    return mux(arguments[0], arguments[1:])
            if name in SATURATED:
                return saturated(SATURATED[name], arguments[0])
            if name in CONVERSIONS:
                return cast_to(CONVERSIONS[name], arguments[0])
            return apply(cast("Function", name), arguments)

        return self.checked(made, node.span)

    def beyond(self, node: Call, scope: _Scope) -> Operand:
        """A read of a stage or an input that has something outside of it, too."""
        rule, given = node.name.name, list(node.arguments)
        named = given.pop(0) if given else None
        if not isinstance(named, Name):
            raise self.error("KF022", f"`{rule}` takes a stage or an input, and a point", node.span)
        if named.name in self.wrong:
            raise _WrongError
        source = self.source(named.name)
        if source is None:
            raise self.unknown("stage or input", named, scope)
        outside = self.value(given.pop(0), scope) if rule == "constant_exterior" and given else 0
        point = [self.value(g.position if isinstance(g, Within) else g, scope) for g in given]
        within = [self.within(g) if isinstance(g, Within) else None for g in given]
        make = partial(beyond, rule, source, point, within, outside, node.element)
        value, inner = self.checked(make, node.span)
        self.is_read(inner, node.span, scope)
        return value

    def within(self, node: Within) -> range:
        low, high = self.number(node.low), self.number(node.high)
        return self.checked(lambda: between(low, high), node.span)

    def source(self, name: str) -> Stage | Input | None:
        return self.stages.get(name) or self.declared.inputs.get(name)

    def read(self, node: Call, scope: _Scope) -> Read:
        source = self.source(node.name.name)
        assert source is not None
        point = [self.position(a, scope) for a in node.arguments]
        made = self.checked(lambda: read(source, point, node.element), node.span)
        self.is_read(made, node.span, scope)
        return made

    def unknown(self, kinds: str, name: Name, scope: _Scope, others: Set[str] = frozenset()) -> _WrongError:
        if name.name == scope.owner:
            message = f"`{name.name}` has no value yet that it could read"
            first = f"define it first: `{name.name}(..) = 0`; an update of it goes through a range in order"
            return self.error("KF060", message, name.span, first)
        known = [*self.stages, *self.declared.inputs, *others]
        is_below = name.name in self.defined
        hint = "it is defined below: a stage reads those above it" if is_below else closest(name.name, known)
        return self.error("KF021", f"no {kinds} is called `{name.name}` here", name.span, hint)

    def is_read(self, made: Read, span: Span, scope: _Scope) -> None:
        self.places.reads.setdefault((scope.part, made), span)
        if made.source in self.stages and made.source != scope.part[0]:
            self.readers.setdefault(made.source, span)

    # ---- Reductions ------------------------------------------------------------------------------------

    def reduction(self, node: Reduction, scope: _Scope) -> Operand:
        """A stage of its own, over the variables that it depends on, at their values."""
        ranges = self.ranges(node.ranges, scope.variables)
        name = UniqueNames(self.taken()).fresh(f"{scope.part[0]}_{node.operator}")
        part, first = (name, 0), (name, None)
        self.places.parts[part] = self.places.parts[first] = node.span
        inner = _Scope(part, (*scope.variables, *(r.name for r in ranges)), scope.owner)
        body = typed(self.value(node.body, inner))
        where = None if node.condition is None else self.condition(node.condition, inner)
        make = partial(reduction, node.operator, name, scope.owner, scope.variables, ranges, where, body)
        stage, point = self.checked(make, node.span)
        self.stages[name] = stage
        return Read(name, point, stage.dtypes[0])

    def taken(self) -> set[str]:
        return {
            *self.stages,
            *self.defined,
            *self.declared.sizes,
            *self.declared.inputs,
            *self.declared.parameters,
        }
