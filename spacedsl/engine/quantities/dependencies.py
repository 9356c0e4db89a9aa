"""What quantities read, in any of their branches: for the search for cycles of presence.

In: the body of a quantity, objects for its parameters. Out: uses on objects, and the memberships and
representatives that its aggregates range over. What has no value is in a branch that is never taken, and is
left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from spacedsl.engine.objects import Key, Objects
from spacedsl.engine.triggers import Fact, binder_facts
from spacedsl.language.reading import formula_uses
from spacedsl.language.space import (
    Aggregate,
    Binder,
    Case,
    Conditional,
    Division,
    Extremum,
    Product,
    Quantity,
    Reading,
    Sum,
    Term,
    Use,
)

Maps = Mapping[str, Binder]


def quantity_reads(objects: Objects, quantity: Quantity, key: Key) -> Iterator[tuple[str, Key] | Fact]:
    """Choices, representatives and quantities on objects, and memberships."""
    environment = dict(zip((p.name for p in quantity.params), key, strict=True))
    maps = {binder.name: binder for binder in quantity.maps}
    yield from _term(objects, quantity.body, environment, maps)


def _term(
    objects: Objects, term: Term, environment: dict[str, int], maps: Maps
) -> Iterator[tuple[str, Key] | Fact]:
    match term:
        case Reading(use):
            yield from _use(objects, use, environment, maps)
        case Sum(terms):
            for _, part in terms:
                yield from _term(objects, part, environment, maps)
        case Product(parts) | Extremum(_, parts):
            for part in parts:
                yield from _term(objects, part, environment, maps)
        case Division(_, dividend, divisor):
            yield from _term(objects, dividend, environment, maps)
            yield from _term(objects, divisor, environment, maps)
        case Conditional(condition, then, otherwise):
            for use in formula_uses(condition):
                yield from _use(objects, use, environment, maps)
            yield from _term(objects, then, environment, maps)
            yield from _term(objects, otherwise, environment, maps)
        case Case(use, branches):
            yield from _use(objects, use, environment, maps)
            for _, part in branches:
                yield from _term(objects, part, environment, maps)
        case Aggregate(_, binder, further, body):
            if any(_id(objects, a, environment, maps) is None for a in binder.set.args):
                return
            inner_maps = {**maps, **{each.name: each for each in further}}
            for member in objects.of(binder.set, environment):
                inner = {**environment, binder.name: member}
                yield from binder_facts(objects, (binder,), inner)
                yield from objects.representatives(binder, inner)
                yield from _term(objects, body, inner, inner_maps)


def _use(objects: Objects, use: Use, environment: dict[str, int], maps: Maps) -> Iterator[tuple[str, Key]]:
    key = tuple(_id(objects, a, environment, maps) for a in use.args)
    known = tuple(k for k in key if k is not None)
    if len(known) == len(key):
        yield use.choice, known


def _id(objects: Objects, variable: str, environment: dict[str, int], maps: Maps) -> int | None:
    if variable not in environment:
        application = maps[variable].set
        key = tuple(_id(objects, a, environment, maps) for a in application.args)
        members = objects.members[application.name].get(tuple(k for k in key if k is not None), {})
        if None in key or not members:
            return None
        (environment[variable],) = members
    return environment[variable]
