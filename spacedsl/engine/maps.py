"""Maps on a kernel: where they must have a value, and where two arguments must not be one object.

In: a space and its objects. Out: nothing, or a `DiagnosticError` that names the application and the objects.
Quantities look their own applications up, when they are read: see `grounding.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from spacedsl.diagnostics import Diagnostic, DiagnosticError
from spacedsl.engine.objects import Objects
from spacedsl.language.reading import formula_uses
from spacedsl.language.space import (
    Binder,
    Counter,
    Formula,
    Space,
    Use,
)

Environment = Mapping[str, int]


def verify_maps(space: Space, objects: Objects) -> None:
    """Raises `DiagnosticError` (SP432, SP433) for the first binding that a map spoils."""
    for requirement in space.requirements:
        _verify(objects, requirement.foralls, requirement.formula)
    for trigger in space.triggers:
        _verify(objects, trigger.foralls, trigger.condition)
    for quotient in space.quotients.values():
        _verify(objects, (*quotient.params, quotient.item, *quotient.maps), quotient.condition)
    for counter in space.choices.values():
        if isinstance(counter, Counter):
            value = [counter.value] if isinstance(counter.value, Use) else []
            _verify(objects, (*counter.params, *counter.foralls), counter.condition, *value)


def label(objects: Objects, name: str, args: tuple[str, ...], environment: Environment) -> str:
    """`name(a, b)` with the names of the objects."""
    return f"{name}({', '.join(objects.names[environment[a]] for a in args)})"


def _verify(objects: Objects, binders: tuple[Binder, ...], formula: Formula, *further: Use) -> None:
    mapped = {binder.name for binder in binders if binder.by_map}
    if not mapped:
        return
    # Two variables that are no map applications are never one object.
    uses = [
        use
        for use in (*formula_uses(formula), *further)
        if len(use.args) > 1 and not mapped.isdisjoint(use.args)
    ]
    asked = mapped.union(*(use.args for use in uses))
    last = max(place for place, binder in enumerate(binders) if binder.name in asked)
    for environment in _bindings(objects, binders[: last + 1]):
        for use in uses:
            ids = [environment[a] for a in use.args]
            if len(set(ids)) < len(ids):
                binder = next(b for b in binders if b.by_map and b.name in use.args)
                message = f"{label(objects, use.choice, use.args, environment)} has one object twice"
                raise DiagnosticError([Diagnostic("SP433", message, binder.span)])


def _bindings(objects: Objects, binders: tuple[Binder, ...]) -> Iterator[dict[str, int]]:
    """All bindings; raises where a map has no value on one."""

    def extend(bound: dict[str, int], place: int) -> Iterator[dict[str, int]]:
        if place == len(binders):
            yield bound
            return
        binder = binders[place]
        members = objects.of(binder.set, bound)
        if binder.by_map and not members:
            message = f"{label(objects, binder.set.name, binder.set.args, bound)} has no value"
            hint = "restrict the variables to objects that the map has a value on"
            raise DiagnosticError([Diagnostic("SP432", message, binder.span, hint)])
        for item in members:
            inner = {**bound, binder.name: item}
            taken = (bound[b.name] for b in binders[:place] if not b.by_map)
            if (binder.by_map or item not in taken) and objects.passes(binder.where, inner):
                yield from extend(inner, place + 1)

    return extend({}, 0)
