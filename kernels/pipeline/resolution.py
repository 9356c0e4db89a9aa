"""From the lines of `stages:` to an algorithm: names bound, types found, reductions made stages.

In: definitions, and what the kernel file declares. Out: an `Algorithm` and where its parts stand in the file,
or diagnostics. Which part of each stage is needed is for `bounds.py`.

A reduction inside of an expression is a stage of its own: `sum[r in 0:3](f(x + r))` is 0, and an update adds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import cast, get_args

from spacedsl.diagnostics import Diagnostic, Span, counted
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.algorithm import (
    ELEMENT_TYPES,
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
    walk,
)
from spacedsl.kernels.pipeline.functions import (
    EDGES,
    absd,
    clamp,
    inside,
    lerp,
    mux,
    saturated,
    selection,
)
from spacedsl.kernels.pipeline.reductions import identity, reduced
from spacedsl.kernels.pipeline.rules import misplaced
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
)
from spacedsl.kernels.pipeline.typing import (
    ARGUMENTS,
    Operand,
    TypeMismatchError,
    apply,
    binary,
    cast_to,
    common,
    typed,
    unary,
)
from spacedsl.kernels.unique_names import UniqueNames
from spacedsl.kernels.validation import closest
from spacedsl.language.report import Report

_COUNTED = {"min": 2, "max": 2, "clamp": 3, "absd": 2, "lerp": 3, "select": 3, "mux": 2, "undefined": 1}
"""Functions of the language and how many arguments they take at least."""

_SATURATED = {f"{d.label}_sat": d for d in ELEMENT_TYPES if d.is_integer}
_CONVERSIONS = {d.label: d for d in ELEMENT_TYPES}

FUNCTIONS = frozenset({*ARGUMENTS, *_COUNTED, *_SATURATED, *_CONVERSIONS, *EDGES, "constant_exterior"})
"""Names that mean something in the language."""

RESERVED = FUNCTIONS | {*get_args(Reducer), "for", "in", "where", "true", "false"}
"""Names that nothing else can have."""

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
    resolver = _Resolver(declared)
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


class _Resolver:
    """Walks the definitions in order; knows the stages so far."""

    def __init__(self, declared: Declared) -> None:
        self.declared = declared
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
            if argument.name in variables:
                raise self.error("KF061", f"`{argument.name}` twice", argument.span)
            variables.append(argument.name)
        self.places.parts[name, None] = line.span
        scope = _Scope((name, None), tuple(variables))
        values = tuple(self.typed_value(v, scope) for v in line.values)
        self.stages[name] = Stage(name, tuple(variables), values)

    def update(self, stage: Stage, line: Definition) -> None:
        if (reader := self.readers.get(stage.name)) is not None:
            message = f"`{stage.name}` is updated after others have read it"
            self.report.error("KF062", message, line.span, "updates come first", (reader, "read here"))
            raise _WrongError
        part = (stage.name, len(stage.updates))
        self.places.parts[part] = line.span
        ranges = tuple(self.range(r) for r in line.ranges)
        bound = [r.name for r in ranges]
        arguments = line.target.arguments
        if len(arguments) != len(stage.variables):
            message = f"`{stage.name}` has {counted(len(stage.variables), 'variable')}, not {len(arguments)}"
            raise self.error("KF022", message, line.target.span)
        kept = [
            v
            for v, argument in zip(stage.variables, arguments, strict=True)
            if isinstance(argument, Name) and argument.name == v and v not in bound
        ]
        scope = _Scope(part, (*kept, *bound))
        point = tuple(self.position(a, scope) for a in arguments)
        if len(line.values) != len(stage.values):
            message = f"`{stage.name}` has {counted(len(stage.values), 'value')}, not {len(line.values)}"
            raise self.error("KF022", message, line.span)
        values = []
        for element, (node, old) in enumerate(zip(line.values, stage.values, strict=True)):
            value = self.value(node, scope)
            read = Read(stage.name, point, old.dtype, element)
            if line.operator:
                value = self.checked(partial(binary, line.operator, read, value), node.span)
            values.append(self.as_stored(value, old.dtype, node.span))
        condition = None if line.condition is None else self.condition(line.condition, scope)
        update = Update(point, tuple(values), ranges, condition)
        if mistake := misplaced(stage, update):
            raise self.error("KF062", mistake, line.span)
        updated = Stage(stage.name, stage.variables, stage.values, (*stage.updates, update))
        del self.stages[stage.name]
        self.stages[stage.name] = updated

    def range(self, node: RangeNode) -> Range:
        if self.meaning_of(node.name.name) is not None:
            message = f"`{node.name.name}` is {self.meaning_of(node.name.name)} and cannot be a range as well"
            raise self.error("KF011", message, node.name.span)
        low, high = self.number(node.low), self.number(node.high)
        if low >= high:
            raise self.error("KF063", f"a range from {low} up to {high} is empty", node.span)
        return Range(node.name.name, low, high)

    def number(self, node: Node) -> int:
        """A whole number that is known now."""
        value = self.value(node, _Scope(("", None), ()))
        if not isinstance(value, int):
            message = "the ends of a range are whole numbers, and arithmetic with sizes"
            raise self.error("KF063", message, node.span)
        return value

    def is_free(self, name: Name) -> None:
        if name.name in RESERVED:
            raise self.error("KF010", f"`{name.name}` is a word of the language", name.span)
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

    def checked(self, make: Callable[[], Operand], span: Span) -> Operand:
        """What `make` returns; what does not fit is reported at the span."""
        try:
            return make()
        except TypeMismatchError as error:
            raise self.error("KF064", str(error), span) from None

    def typed_value(self, node: Node, scope: _Scope) -> Expression:
        return typed(self.value(node, scope))

    def as_stored(self, value: Operand, dtype: DType, span: Span) -> Expression:
        """The value of an update, in the type that its stage has."""
        if isinstance(value, int | float):
            return cast("Expression", self.checked(lambda: typed(value, dtype), span))
        if value.dtype is not dtype and common(value.dtype, dtype) is not dtype:
            message = f"the stage is of {dtype.label}, which does not hold every {value.dtype.label}"
            raise self.error("KF064", message, span, f"convert it: `{dtype.label}(..)`")
        return cast_to(dtype, value)

    def condition(self, node: Node, scope: _Scope) -> Expression:
        value = typed(self.value(node, scope))
        if value.dtype is not DType.BOOL:
            message = f"a condition is true or false, not {value.dtype.label}"
            raise self.error("KF064", message, node.span)
        return value

    def position(self, node: Node, scope: _Scope) -> Expression:
        """A position in a stage or an input: an i32."""
        value = typed(self.value(node, scope))
        if not value.dtype.is_integer:
            message = f"a position is a whole number, not {value.dtype.label}"
            raise self.error("KF064", message, node.span, "convert it: `i32(..)`")
        return cast_to(DType.I32, value)

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

    def name(self, node: Name, scope: _Scope) -> Operand:
        name = node.name
        if name in scope.variables:
            return Variable(name)
        if name in self.declared.sizes:
            return self.declared.sizes[name]
        if name in self.declared.parameters:
            return Scalar(name, self.declared.parameters[name].dtype)
        if name in ("true", "false"):
            return name == "true"
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
        if name not in FUNCTIONS:
            known = [*self.stages, *self.declared.inputs, *FUNCTIONS]
            message = f"no stage, input or function is called `{name}` here"
            raise self.error("KF021", message, node.name.span, closest(name, known))
        if node.element is not None:
            raise self.error("KF022", f"`{name}` has one value", node.span)
        if name in EDGES or name == "constant_exterior":
            return self.beyond(node, scope)
        return self.function(node, scope)

    def function(self, node: Call, scope: _Scope) -> Operand:
        name, given = node.name.name, node.arguments
        if name == "undefined":
            dtype = _CONVERSIONS.get(given[0].name) if given and isinstance(given[0], Name) else None
            if dtype is None or len(given) != 1:
                raise self.error("KF022", "`undefined` takes a type: `undefined(f32)`", node.span)
            return Undefined(dtype)
        arguments = [self.value(a, scope) for a in given]
        wanted = ARGUMENTS.get(name, _COUNTED.get(name, 1))
        is_open = name in ("select", "mux", "min", "max")
        if len(arguments) != wanted and not (is_open and len(arguments) > wanted):
            least = "at least " if is_open else ""
            message = f"`{name}` takes {least}{counted(wanted, 'argument')}, not {len(given)}"
            raise self.error("KF022", message, node.span)

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
            if name in _SATURATED:
                return saturated(_SATURATED[name], arguments[0])
            if name in _CONVERSIONS:
                return cast_to(_CONVERSIONS[name], arguments[0])
            return apply(cast("Function", name), arguments)

        return self.checked(made, node.span)

    def beyond(self, node: Call, scope: _Scope) -> Operand:
        """A read of an input that has something outside of it, too."""
        name, given = node.name.name, list(node.arguments)
        source = given.pop(0) if given else None
        known = self.declared.inputs.get(source.name) if isinstance(source, Name) else None
        if known is None or not known.extents:
            message = f"`{name}` takes an input with `extents:`, and a point"
            raise self.error("KF022", message, node.span)
        outside = self.value(given.pop(0), scope) if name == "constant_exterior" and given else 0
        if len(given) != known.rank:
            message = f"`{known.name}` has {counted(known.rank, 'dimension')}, not {len(given)}"
            raise self.error("KF022", message, node.span)
        point = [self.position(g, scope) for g in given]
        rule = EDGES.get(name, EDGES["repeat_edge"])
        held = tuple(typed(rule(at, n)) for at, n in zip(point, known.extents, strict=True))
        read = Read(known.name, held, known.dtype)
        self.places.reads.setdefault((scope.part, read), node.span)
        if name == "constant_exterior":
            return self.checked(lambda: selection([inside(point, known.extents), read, outside]), node.span)
        return read

    def read(self, node: Call, scope: _Scope) -> Read:
        name = node.name.name
        stage, source = self.stages.get(name), self.declared.inputs.get(name)
        rank = len(stage.variables) if stage is not None else cast("Input", source).rank
        dtypes = stage.dtypes if stage is not None else (cast("Input", source).dtype,)
        if len(node.arguments) != rank:
            message = f"`{name}` has {counted(rank, 'variable')}, not {len(node.arguments)}"
            hint = f"a point of it is written `{name}({', '.join('xyzw'[:rank])})`" if rank else None
            raise self.error("KF022", message, node.span, hint)
        element = node.element or 0
        if element >= len(dtypes) or (node.element is None and len(dtypes) > 1):
            message = f"`{name}` has {counted(len(dtypes), 'value')}"
            hint = f"the first one is written `{name}(..).0`" if len(dtypes) > 1 else None
            raise self.error("KF022", message, node.span, hint)
        point = tuple(self.position(a, scope) for a in node.arguments)
        read = Read(name, point, dtypes[element], element)
        self.places.reads.setdefault((scope.part, read), node.span)
        if stage is not None and name != scope.part[0]:
            self.readers.setdefault(name, node.span)
        return read

    # ---- Reductions ------------------------------------------------------------------------------------

    def reduction(self, node: Reduction, scope: _Scope) -> Operand:
        """A stage of its own, over the variables that it depends on, at their values."""
        ranges = tuple(self.range(r) for r in node.ranges)
        bound = tuple(r.name for r in ranges)
        for name, each in zip(bound, node.ranges, strict=True):
            if name in scope.variables or bound.count(name) > 1:
                raise self.error("KF011", f"`{name}` is a variable already", each.name.span)
        name = UniqueNames(self.taken()).fresh(f"{scope.part[0]}_{node.operator}")
        part, first = (name, 0), (name, None)
        self.places.parts[part] = self.places.parts[first] = node.span
        inner = _Scope(part, (*scope.variables, *bound))
        body = typed(self.value(node.body, inner))
        condition = None if node.condition is None else self.condition(node.condition, inner)
        used = {
            n.name
            for e in (body, *(() if condition is None else (condition,)))
            for n in walk(e)
            if isinstance(n, Variable)
        }
        variables = tuple(v for v in scope.variables if v in used)
        if any(isinstance(n, Read) and n.source == scope.part[0] for n in walk(body)):
            message = f"a reduction in an update of `{scope.part[0]}` cannot read it"
            raise self.error("KF062", message, node.span, "give the update these ranges itself")
        try:
            values = identity(node.operator, body.dtype, ranges)
        except TypeMismatchError as error:
            raise self.error("KF064", str(error), node.body.span) from None
        point = tuple(Variable(v) for v in variables)
        update = Update(point, reduced(node.operator, name, point, values, body, ranges), ranges, condition)
        stage = Stage(name, variables, values, (update,))
        self.stages[name] = stage
        if node.operator in ("argmax", "argmin"):
            if len(ranges) > 1:
                message = f"`{node.operator}` is over one range"
                raise self.error("KF022", message, node.span, "or two stages, one for each")
            return Read(name, point, DType.I32, 0)
        return Read(name, point, body.dtype)

    def taken(self) -> set[str]:
        return {
            *self.stages, *self.wrong, *self.declared.sizes, *self.declared.inputs, *self.declared.parameters
        }  # fmt: skip
