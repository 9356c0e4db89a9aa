"""What triggers may add: every possible lowering, expanded before the first decision.

In: the objects that are there from the start. Out: the objects with everything that any trigger could add,
and an `Expansion`: why each added membership would be one. Callbacks are pure, and are called once for each
binding of objects that could be present; what they add may be lowered again, up to `MOST_ROUNDS` times.
Whether a trigger fires in a given candidate is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from spacedsl.diagnostics import Diagnostic, DiagnosticError, Span
from spacedsl.engine.objects import Key, Objects
from spacedsl.language.host import Addition
from spacedsl.language.space import Binder, Image, SetRef, Trigger

MOST_ROUNDS = 100

Fact = tuple[str, Key | None, int]
"""(set, ids of its arguments or None for the union of its instances, id of the member)."""


@dataclass(frozen=True, slots=True)
class Firing:
    """A trigger on objects: it can fire where all memberships hold."""

    trigger: int
    key: Key
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Reason:
    """A membership holds where these do, and the firing, if there is one, happens."""

    facts: tuple[Fact, ...]
    firing: Firing | None


@dataclass(slots=True, eq=False)
class Expansion:
    """`reasons` has an entry for each membership that is not there from the start, unions among them."""

    firings: list[Firing] = field(default_factory=list)
    reasons: dict[Fact, list[Reason]] = field(default_factory=dict)


def binder_facts(
    objects: Objects, binders: Iterable[Binder], environment: Mapping[str, int]
) -> tuple[Fact, ...]:
    """The memberships that a binding relies on; of a quotient's members, the underlying one."""
    return tuple(_fact(objects, _home(objects, b), environment, environment[b.name]) for b in binders)


def _home(objects: Objects, binder: Binder) -> SetRef:
    """The set that a variable's object is present in: of a map application, the one its values lie in."""
    if not binder.by_map:
        return binder.set
    definition = objects.space.maps[binder.set.name]
    renaming = dict(zip((p.name for p in definition.params), binder.set.args, strict=True))
    return SetRef(definition.target.name, tuple(renaming[a] for a in definition.target.args))


def expand(objects: Objects) -> Expansion:
    """Adds to `objects` whatever triggers could add.

    Raises `DiagnosticError`: SP421 if that has no end, SP422 for an addition to what is not there.
    """
    expansion = Expansion()
    if not objects.space.triggers:
        return expansion
    fixed: set[Fact] = {
        (name, key, member)
        for name, instances in objects.members.items()
        for key, members in instances.items()
        for member in members
    }
    fired: set[tuple[int, Key]] = set()
    for _ in range(MOST_ROUNDS):
        grown = [
            _fire(objects, expansion, fixed, fired, number, trigger)
            for number, trigger in enumerate(objects.space.triggers)
        ]
        if not any(grown):
            _refuse_outside(objects, expansion)
            _add_unions(objects, expansion, fixed)
            return expansion
        while _iterate_new(objects, expansion) | _grow_images(objects, expansion, fixed):
            pass  # what is new in one may be an argument of another
    last = objects.space.triggers[expansion.firings[-1].trigger]
    message = f"triggers still add objects after {MOST_ROUNDS} rounds, this one among them"
    raise DiagnosticError([Diagnostic("SP421", message, last.span)])


def _fire(
    objects: Objects,
    expansion: Expansion,
    fixed: set[Fact],
    fired: set[tuple[int, Key]],
    number: int,
    trigger: Trigger,
) -> bool:
    """Adds what the trigger adds on bindings that are new; whether there was one."""
    names = tuple(binder.name for binder in trigger.foralls)
    grown = False
    for key in list(objects.keys(trigger.foralls)):
        if (number, key) in fired:
            continue
        fired.add((number, key))
        grown = True
        environment = dict(zip(names, key, strict=True))
        firing = Firing(number, key, binder_facts(objects, trigger.foralls, environment))
        expansion.firings.append(firing)
        addition = objects.evaluate(trigger.callback, environment)
        assert isinstance(addition, Addition)
        for name, arguments, item in addition.memberships:
            span = trigger.callback.span
            if name not in objects.space.sets:
                raise _misplaced(f"adds to {name}, which is no set of this space", span)
            ids = tuple(objects.number(argument, span) for argument in arguments)
            if len(ids) != len(objects.space.sets[name].params):
                raise _misplaced(f"gives {len(ids)} arguments to {name}, which takes another number", span)
            reason = Reason(firing.facts, firing)
            _add(objects, expansion, fixed, (name, ids, objects.number(item, span)), reason)
    return grown


def _misplaced(what: str, span: Span) -> DiagnosticError:
    return DiagnosticError([Diagnostic("SP422", f"the callback {what}", span)])


def _refuse_outside(objects: Objects, expansion: Expansion) -> None:
    """Raises where triggers add to instances that sets do not have: all others have been iterated."""
    for (name, key, member), reasons in expansion.reasons.items():
        firing = reasons[0].firing if reasons else None
        if firing is None or key is None or (name, key) in objects.iterated:
            continue
        shown = f"{name}({', '.join(objects.names[k] for k in key)})"
        message = f"adds {objects.names[member]} to {shown}, but {name} is not defined there"
        raise _misplaced(message, objects.space.triggers[firing.trigger].callback.span)


def _add(objects: Objects, expansion: Expansion, fixed: set[Fact], fact: Fact, reason: Reason) -> None:
    """Adds a membership and, with it, that in the supersets."""
    pending = [fact]
    while pending:
        fact = pending.pop()
        name, key, member = fact
        assert key is not None
        objects.members[name].setdefault(key, {})[member] = None
        if fact not in fixed:
            reasons = expansion.reasons.setdefault(fact, [])
            # What already is a member, or there would be no such reason, needs no further one.
            if fact not in reason.facts:
                reasons.append(reason)
        pending += reversed(list(_above(objects, name, key, member)))


def _above(objects: Objects, name: str, key: Key, member: int) -> Iterator[Fact]:
    """The member in the supersets."""
    definition = objects.space.sets[name]
    environment = dict(zip((p.name for p in definition.params), key, strict=True))
    for above in definition.supersets:
        ref, inside = objects.plain(above), environment
        image = objects.space.sets[ref.name].iterator
        if isinstance(image, Image):
            params = objects.space.sets[ref.name].params
            actual = {param.name: environment[a] for param, a in zip(params, ref.args, strict=True)}
            ref, inside = objects.plain(image.set), objects.mapped(image, actual)
        if len(ref.args) == len(objects.space.sets[ref.name].params):
            ids = tuple(inside[a] for a in ref.args)
            yield ref.name, ids, member


def _iterate_new(objects: Objects, expansion: Expansion) -> bool:
    """Evaluates the iterators of instances whose arguments triggers may add; whether there were any."""
    grown = False
    for definition in objects.space.sets.values():
        if isinstance(definition.iterator, Image):
            continue
        for key in list(objects.keys(definition.params)):
            if (definition.name, key) in objects.iterated:
                continue
            grown = True
            environment = dict(zip((p.name for p in definition.params), key, strict=True))
            reason = Reason(binder_facts(objects, definition.params, environment), None)
            for member in objects.iterate(definition, key):
                objects.members[definition.name].setdefault(key, {})[member] = None
                fact = (definition.name, key, member)
                if fact not in reason.facts:
                    expansion.reasons.setdefault(fact, []).append(reason)
    return grown


def _grow_images(objects: Objects, expansion: Expansion, fixed: set[Fact]) -> bool:
    """Adds to images what has been added to the sets that they are of; whether there was anything."""
    grown = False
    for definition in objects.space.sets.values():
        image = definition.iterator
        if not isinstance(image, Image):
            continue
        for key in objects.keys(definition.params):
            given = dict(zip((p.name for p in definition.params), key, strict=True))
            environment = objects.mapped(image, given)
            relied = binder_facts(objects, (*definition.params, *image.maps), environment)
            known = objects.members[definition.name].setdefault(key, {})
            for member in objects.of(image.set, environment):
                fact = (definition.name, key, member)
                reason = Reason((*relied, _fact(objects, image.set, environment, member)), None)
                if fact in fixed or reason in expansion.reasons.get(fact, ()):
                    continue
                grown = True
                known[member] = None
                expansion.reasons.setdefault(fact, []).append(reason)
    return grown


def _add_unions(objects: Objects, expansion: Expansion, fixed: set[Fact]) -> None:
    for name, definition in objects.space.sets.items():
        if not definition.params:
            continue
        holders: dict[int, list[Fact]] = {}
        for key, members in objects.members[name].items():
            for member in members:
                holders.setdefault(member, []).append((name, key, member))
        for member, facts in holders.items():
            if not any(fact in fixed for fact in facts):
                expansion.reasons[name, None, member] = [Reason((fact,), None) for fact in facts]


def _fact(objects: Objects, ref: SetRef, environment: Mapping[str, int], member: int) -> Fact:
    ref = objects.plain(ref)
    if len(ref.args) != len(objects.space.sets[ref.name].params):
        return ref.name, None, member
    return ref.name, tuple(environment[a] for a in ref.args), member
