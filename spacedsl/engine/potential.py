"""Which objects could ever be in which sets of a space: the first half of the enumerator.

In: a space, a kernel, a device. Out: the members of each set, counting what any trigger could add, each with
the reasons for which it is one; and the bindings of variables that follow. Whether a reason holds in a given
assignment is not decided here. Independent of `instance.py`, which it is a check on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from spacedsl.language.host import Addition, HostExpression
from spacedsl.language.space import Binder, Image, Quotient, SetDef, SetRef, Space, Trigger

Binding = Mapping[str, object]

_ROUNDS = 100
"""Lowerings of lowerings, at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Membership:
    """That an object is, or could be, in a set. Equality is identity."""

    set: str
    args: tuple[object, ...]
    object: object
    reasons: list[Reason] = field(default_factory=list, repr=False)
    """Any one of them suffices. A quotient's members have none: what represents a class is derived."""


@dataclass(frozen=True, slots=True)
class Reason:
    """All of `memberships` hold and, where there is a trigger, its condition does for `binding`."""

    memberships: tuple[Membership, ...]
    trigger: Trigger | None = None
    binding: Binding = field(default_factory=dict)


class PotentialSets:
    """The sets of a space on a kernel, with everything that could be in them."""

    def __init__(self, space: Space, kernel: object, device: object) -> None:
        self._space = space
        self._globals = {"kernel": kernel, "device": device}
        self._values: dict[tuple[int, ...], object] = {}
        self._instances: dict[str, dict[tuple[int, ...], dict[int, Membership]]] = {
            name: {} for name in (*space.sets, *space.quotients)
        }
        self._unions: dict[str, dict[int, Membership]] = {name: {} for name in self._instances}
        """Their reasons are added to as long as there are new ones: what relies on a member sees them all."""
        self._fired: set[tuple[int, ...]] = set()
        for _ in range(_ROUNDS):
            # Parameters of a set may be members of one that is declared later: repeat until nothing changes.
            if not (self._iterate() | self._fire()):
                return
        raise ValueError("triggers add objects without end")

    # ---- Host expressions ----

    def evaluate(self, expression: HostExpression, binding: Binding) -> object:
        used = tuple(v for v in expression.variables if v not in self._globals)
        key = (id(expression), *(id(binding[v]) for v in used))
        if key not in self._values:
            self._values[key] = expression.evaluate({**self._globals, **{v: binding[v] for v in used}})
        return self._values[key]

    def integer(self, value: int | HostExpression, binding: Binding) -> int:
        if isinstance(value, int):
            return value
        result = self.evaluate(value, binding)
        if not isinstance(result, int):
            raise TypeError(f"{value.text!r} is no integer")
        return result

    def integers(self, expression: HostExpression, binding: Binding) -> tuple[int, ...]:
        return tuple(int(v) for v in self._objects(expression, binding))  # type: ignore[call-overload]

    def _objects(self, expression: HostExpression, binding: Binding) -> tuple[object, ...]:
        return tuple(self.evaluate(expression, binding))  # type: ignore[arg-type]

    # ---- Members ----

    def members(self, ref: SetRef, binding: Binding) -> tuple[Membership, ...]:
        """In order of position. A parametric set without arguments is the union of its instances."""
        instances = self._instances[ref.name]
        if ref.args or not self._definition(ref.name).params:
            return tuple(instances.get(tuple(id(binding[v]) for v in ref.args), {}).values())
        union = self._unions[ref.name]
        return tuple(union[n] for n in dict.fromkeys(n for members in instances.values() for n in members))

    def image(self, application: SetRef, binding: Binding) -> Membership:
        """The value of a map on bound objects, as a member of the set that its values lie in."""
        definition = self._space.maps[application.name]
        bound = {p.name: binding[v] for p, v in zip(definition.params, application.args, strict=True)}
        value = self.evaluate(definition.value, bound)
        for member in self.members(definition.target, bound):
            if member.object is value:
                return member
        raise LookupError(f"{application.name} has no value on {', '.join(map(str, bound.values()))}")

    def bindings(
        self, binders: Sequence[Binder], outer: Binding | None = None, taken: tuple[object, ...] | None = None
    ) -> Iterator[tuple[Binding, tuple[Membership, ...]]]:
        """Each way to bind distinct objects, distinct from the outer too, and what it relies on.

        What a map binds may coincide with another object; a map without a value here raises `LookupError`.
        `taken`: the outer objects that are not by a map; all where it is not given.
        """
        bound = dict(outer or {})
        taken = tuple(bound.values()) if taken is None else taken
        if not binders:
            yield bound, ()
            return
        first, *rest = binders
        for member in (self.image(first.set, bound),) if first.by_map else self.members(first.set, bound):
            if not first.by_map and any(member.object is x for x in taken):
                continue
            inner = {**bound, first.name: member.object}
            if first.where is not None and not self.evaluate(first.where, inner):
                continue
            further = taken if first.by_map else (*taken, member.object)
            for binding, memberships in self.bindings(rest, inner, further):
                yield binding, (member, *memberships)

    def _definition(self, name: str) -> SetDef | Quotient:
        return self._space.sets[name] if name in self._space.sets else self._space.quotients[name]

    def _add(self, name: str, args: Sequence[object], item: object, reason: Reason | None) -> bool:
        instance = self._instances[name].setdefault(tuple(id(x) for x in args), {})
        is_new = id(item) not in instance
        if is_new:
            member = instance[id(item)] = Membership(name, tuple(args), item)
            anywhere = self._unions[name].setdefault(id(item), Membership(name, (), item))
            anywhere.reasons.append(Reason((member,)))
        # What is a member already, or there would be no such reason, needs no further reason.
        if reason is not None and instance[id(item)] not in reason.memberships:
            instance[id(item)].reasons.append(reason)
        return is_new

    # ---- Growth ----

    def _iterate(self) -> bool:
        """Evaluate the iterators of instances that were not known before; whether there was one."""
        grown = False
        for definition in self._space.sets.values():
            for binding, memberships in list(self.bindings(definition.params)):
                args = tuple(binding[p.name] for p in definition.params)
                key = (id(definition), *(id(x) for x in args))
                if key in self._fired:
                    continue
                self._fired.add(key)
                self._instances[definition.name].setdefault(tuple(id(x) for x in args), {})
                if isinstance(definition.iterator, Image):
                    continue
                for item in self._objects(definition.iterator, binding):
                    grown |= self._add(definition.name, args, item, Reason(memberships))
        for definition in self._space.sets.values():
            grown |= isinstance(definition.iterator, Image) and self._grow(definition, definition.iterator)
        for quotient in self._space.quotients.values():
            for binding, _ in list(self.bindings((*quotient.params, quotient.item))):
                args = tuple(binding[p.name] for p in quotient.params)
                grown |= self._add(quotient.set, args, binding[quotient.item.name], None)
        return grown

    def _grow(self, definition: SetDef, image: Image) -> bool:
        """Take over what is in the set that an image is of; whether there was anything new."""
        grown = False
        for binding, memberships in list(self.bindings(definition.params)):
            args = tuple(binding[p.name] for p in definition.params)
            try:
                (mapped,) = self.bindings(image.maps, binding)
            except LookupError:
                continue  # what a map gives is not in its set yet
            for member in self.members(image.set, mapped[0]):
                key = (id(definition), *(id(x) for x in args), id(member))
                if key not in self._fired:
                    self._fired.add(key)
                    grown = True
                    self._add(
                        definition.name, args, member.object, Reason((*memberships, *mapped[1], member))
                    )
        return grown

    def _fire(self) -> bool:
        """Add what triggers would add for bindings that were not known before; whether there was one."""
        grown = False
        for trigger in self._space.triggers:
            for binding, memberships in list(self.bindings(trigger.foralls)):
                key = (id(trigger), *(id(binding[b.name]) for b in trigger.foralls))
                if key in self._fired:
                    continue
                self._fired.add(key)
                grown = True
                reason = Reason(memberships, trigger, binding)
                addition = self.evaluate(trigger.callback, binding)
                if not isinstance(addition, Addition):
                    raise TypeError(f"{trigger.callback.text!r} returns no Addition")
                for name, args, item in addition.memberships:
                    self._add_with_supersets(name, args, item, reason)
        return grown

    def _add_with_supersets(self, name: str, args: Sequence[object], item: object, reason: Reason) -> None:
        """What a trigger adds to a set is added to what the set is a subset of."""
        self._add(name, args, item, reason)
        definition = self._space.sets[name]
        bound = {p.name: x for p, x in zip(definition.params, args, strict=True)}
        for superset in definition.supersets:
            if superset.name not in self._space.sets:
                continue
            above, arguments = self._space.sets[superset.name], [bound[v] for v in superset.args]
            target = superset.name
            if isinstance(above.iterator, Image):
                given = {p.name: x for p, x in zip(above.params, arguments, strict=True)}
                ((binding, _),) = self.bindings(above.iterator.maps, given)
                target, arguments = above.iterator.set.name, [binding[v] for v in above.iterator.set.args]
            self._add_with_supersets(target, arguments, item, reason)
