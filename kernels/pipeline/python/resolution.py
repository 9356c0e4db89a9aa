"""One definition of a Func as a part of an algorithm: its reductions made stages, its variables found.

In: a `Definition`, the stage as it was before, and the names that are taken. Out: the stage as it is then,
the stages of its reductions, and where all of that stands in Python; or a `PipelineError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from spacedsl.kernels.pipeline import definitions
from spacedsl.kernels.pipeline.algorithm import (
    Expression,
    Range,
    Read,
    Stage,
    Update,
    Variable,
    operands,
    walk,
    with_operands,
)
from spacedsl.kernels.pipeline.python.callers import Caller, located
from spacedsl.kernels.pipeline.python.expressions import Expr, below
from spacedsl.kernels.pipeline.python.terms import Reading, Reduced, outside_of_reductions
from spacedsl.kernels.pipeline.resolution import Part
from spacedsl.kernels.pipeline.text import nesting
from spacedsl.kernels.pipeline.typing import DefinitionError, Operand, typed
from spacedsl.kernels.unique_names import UniqueNames

_AROUND = 3
"""Levels of a parse tree around the values of a definition."""


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """`f[point] = values`: the first one of a Func, or an update through ranges."""

    point: tuple[Expr, ...]
    values: tuple[Expr, ...]
    ranges: tuple[Range, ...]
    condition: Expr | None
    caller: Caller
    order: int
    """Among all that is made."""

    @property
    def expressions(self) -> tuple[Expr, ...]:
        condition = () if self.condition is None else (self.condition,)
        return (*self.point, *self.values, *condition)

    def readings(self) -> Iterator[Reading]:
        return (each for each in below(self.expressions) if isinstance(each, Reading))


@dataclass(slots=True)
class Callers:
    """Where parts of an algorithm stand in Python."""

    parts: dict[Part, Caller] = field(default_factory=dict)
    reads: dict[tuple[Part, Read], Caller] = field(default_factory=dict)

    def read(self, part: Part, read: Read) -> Caller:
        """That of its definition where no call stands for the read itself."""
        return self.reads.get((part, read), self.parts[part])


@dataclass(frozen=True, slots=True)
class Resolved:
    stage: Stage
    reductions: tuple[Stage, ...]
    """In an order in which each reads only earlier ones."""
    callers: Callers


def resolved(
    name: str,
    before: Stage | None,
    definition: Definition,
    names: UniqueNames,
    callers: Callers | None = None,
) -> Resolved:
    """`before` is None for the first definition of the Func called `name`."""
    resolver = _Resolver(name, names, callers or Callers())
    stage = resolver.first(definition) if before is None else resolver.update(before, definition)
    return Resolved(stage, tuple(resolver.reductions), resolver.callers)


class _Resolver:
    """Of one definition: what a reduction becomes is the same wherever it stands in it."""

    def __init__(self, owner: str, names: UniqueNames, callers: Callers) -> None:
        self.owner = owner
        self.names = names
        self.callers = callers
        self.reductions: list[Stage] = []
        self.made: dict[str, Read] = {}
        """What stands for reductions, and the reads that it becomes."""

    def first(self, definition: Definition) -> Stage:
        part = (self.owner, None)
        self.callers.parts[part] = definition.caller
        variables = tuple(at.node.name for at in definition.point if isinstance(at.node, Variable))
        values = [self.expression(value, part, variables) for value in definition.values]
        return definitions.defined(self.owner, variables, values)

    def update(self, stage: Stage, definition: Definition) -> Stage:
        part = (self.owner, len(stage.updates))
        self.callers.parts[part] = definition.caller
        definitions.fitting(stage, len(definition.point), len(definition.values))
        bound = [r.name for r in definition.ranges]
        kept = [
            variable
            for variable, at in zip(stage.variables, definition.point, strict=True)
            if at.node == Variable(variable) and variable not in bound
        ]
        scope = (*kept, *bound)
        point = tuple(definitions.position(self.expression(at, part, scope)) for at in definition.point)
        values = tuple(
            definitions.combined(stage, point, "", element, self.expression(value, part, scope))
            for element, value in enumerate(definition.values)
        )
        condition = None
        if definition.condition is not None:
            condition = definitions.condition(self.expression(definition.condition, part, scope))
        return definitions.updated(stage, Update(point, values, definition.ranges, condition))

    def expression(self, given: Expr, part: Part, scope: tuple[str, ...]) -> Operand:
        """In a definition where the variables of `scope` mean something."""
        readings = []
        for each in outside_of_reductions([given]):
            if isinstance(each, Reduced):
                self.reduction(each, part, scope)
            elif isinstance(each, Reading):
                readings.append(each)
        for reading in readings:
            read = _replaced(reading.read, self.made)
            assert isinstance(read, Read)
            self.callers.reads.setdefault((part, read), reading.caller)
        if isinstance(given.node, int | float):
            return given.node
        node = _replaced(given.node, self.made)
        nested, levels = nesting(node)
        definitions.shallow(nested + _AROUND, levels + _AROUND)
        for inner in walk(node):
            if isinstance(inner, Variable) and inner.name not in scope:
                known = ", ".join(f"`{name}`" for name in scope)
                hint = f"known here: {known}" if scope else None
                raise DefinitionError("KF021", f"`{inner.name}` is no variable here", hint)
        return node

    def reduction(self, given: Reduced, part: Part, scope: tuple[str, ...]) -> None:
        """A stage of its own, over the variables that it depends on."""
        if given.placeholder in self.made:
            return
        name = self.names.fresh(f"{part[0]}_{given.operator}")
        own = (name, 0)
        self.callers.parts[own] = self.callers.parts[name, None] = given.caller
        inner = (*scope, *(r.name for r in given.ranges))

        def make() -> tuple[Stage, tuple[Expression, ...]]:
            body = typed(self.expression(given.body, own, inner))
            where = None
            if given.condition is not None:
                where = definitions.condition(self.expression(given.condition, own, inner))
            return definitions.reduction(given.operator, name, self.owner, scope, given.ranges, where, body)

        stage, point = located(make, given.caller)
        self.reductions.append(stage)
        self.made[given.placeholder] = Read(name, point, stage.dtypes[0])


def _replaced(node: Expression, made: Mapping[str, Read]) -> Expression:
    """With reads of stages in place of what stands for reductions."""
    if not made:
        return node
    if isinstance(node, Read) and node.source in made:
        return made[node.source]
    before = operands(node)
    after = tuple([_replaced(part, made) for part in before])
    return node if all(a is b for a, b in zip(before, after, strict=True)) else with_operands(node, after)
