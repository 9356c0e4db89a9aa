"""Maps on a kernel: where they must have a value, and where two arguments must not be one object.

In: a space and its objects. Out: nothing, or a `DiagnosticError` that names the application and the objects.
Quantities look their own applications up, when they are read: see `quantities/terms.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from spacedsl.diagnostics import Diagnostic, DiagnosticError
from spacedsl.engine.objects import Objects
from spacedsl.language.reading import formula_uses
from spacedsl.language.space import (
    Binder,
    Counter,
    Space,
    Use,
)

Environment = Mapping[str, int]


def verify_maps(space: Space, objects: Objects) -> None:
    """Raises `DiagnosticError` (SP432, SP433) for the first binding that a map spoils."""
    verified: set[tuple[object, ...]] = set()
    for binders, read in _readers(space):
        mapped = {binder.name for binder in binders if binder.by_map}
        if not mapped:
            continue
        # Two variables that are no map applications are never one object.
        uses = [use for use in read if len(use.args) > 1 and not mapped.isdisjoint(use.args)]
        asked = mapped.union(*(use.args for use in uses))
        last = max(place for place, binder in enumerate(binders) if binder.name in asked)
        question = (binders[: last + 1], *(use.args for use in uses))
        if question not in verified:
            verified.add(question)
            _verify(objects, binders[: last + 1], uses)


def _readers(space: Space) -> Iterator[tuple[tuple[Binder, ...], list[Use]]]:
    """What maps may be applied in: the variables in scope, and the choices that are read."""
    for requirement in space.requirements:
        yield requirement.foralls, [*formula_uses(requirement.formula)]
    for trigger in space.triggers:
        yield trigger.foralls, [*formula_uses(trigger.condition)]
    for quotient in space.quotients.values():
        yield (*quotient.params, quotient.item, *quotient.maps), [*formula_uses(quotient.condition)]
    for counter in space.choices.values():
        if isinstance(counter, Counter):
            value = [counter.value] if isinstance(counter.value, Use) else []
            yield (*counter.params, *counter.foralls), [*formula_uses(counter.condition), *value]


def label(objects: Objects, name: str, args: tuple[str, ...], environment: Environment) -> str:
    """`name(a, b)` with the names of the objects."""
    return f"{name}({', '.join(objects.names[environment[a]] for a in args)})"


def _verify(objects: Objects, binders: tuple[Binder, ...], uses: list[Use]) -> None:
    for environment in _bindings(objects, binders):
        for use in uses:
            ids = [environment[a] for a in use.args]
            if len(set(ids)) < len(ids):
                binder = next(b for b in binders if b.by_map and b.name in use.args)
                message = f"{label(objects, use.choice, use.args, environment)} has one object twice"
                raise DiagnosticError([Diagnostic("SP433", message, binder.span)])


def _bindings(objects: Objects, binders: tuple[Binder, ...]) -> list[dict[str, int]]:
    """All bindings; raises where a map has no value on one."""
    found: list[dict[str, int]] = [{}]
    for place, binder in enumerate(binders):
        distinct = () if binder.by_map else tuple(b.name for b in binders[:place] if not b.by_map)
        before, found = found, []
        for bound in before:
            members = objects.of(binder.set, bound)
            if binder.by_map and not members:
                message = f"{label(objects, binder.set.name, binder.set.args, bound)} has no value"
                hint = "restrict the variables to objects that the map has a value on"
                raise DiagnosticError([Diagnostic("SP432", message, binder.span, hint)])
            taken = [bound[name] for name in distinct]
            extended = [{**bound, binder.name: item} for item in members if item not in taken]
            found += [inner for inner in extended if objects.passes(binder.where, inner)]
    return found
