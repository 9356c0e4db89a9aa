"""The objects that the translation to CP-SAT speaks of: those that are there, and those that may come.

In: a space, a kernel, a device. Out: the members of sets, what any trigger may add among them, each with
what would make it one; bindings of variables. Whether a trigger fires is not known here, and nothing is
shared with the enumerator's view of the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from spacedsl.language.host import Addition, HostExpression
from spacedsl.language.space import Binder, Image, SetRef, Space, Trigger
from spacedsl.oracle.logic import NotTranslatedError

Objects = tuple[object, ...]
Binding = dict[str, object]
_Ids = tuple[int, ...] | None
"""Of the arguments of a set; None for the union over all of them."""

_MOST_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class Cause:
    """All the members are there and, with a trigger, its condition holds of the binding."""

    members: tuple[Member, ...]
    trigger: Trigger | None = None
    binding: Mapping[str, object] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Member:
    """An object in a set for one cause of several; of a quotient, if it represents its class."""

    set: str
    args: Objects
    item: object
    is_certain: bool = False
    """Whether that much is known without any decision."""
    causes: list[Cause] = field(default_factory=list)


class PossibleObjects:
    def __init__(self, space: Space, kernel: object, device: object) -> None:
        self.space = space
        self._globals = {"kernel": kernel, "device": device}
        self._members: dict[str, dict[_Ids, dict[int, Member]]] = {
            name: {} for name in (*space.sets, *space.quotients)
        }
        self._seen: set[tuple[object, ...]] = set()
        for _ in range(_MOST_ROUNDS):
            # A set may be declared before the one that its parameters range over.
            if not (self._iterate() | self._fire()):
                self._order_unions()
                return
        raise NotTranslatedError("triggers add objects without end")

    # ---- Host expressions ----

    def evaluate(self, expression: HostExpression, binding: Mapping[str, object]) -> object:
        given = self._globals
        return expression.evaluate({v: given[v] if v in given else binding[v] for v in expression.variables})

    def integer(self, value: int | HostExpression, binding: Mapping[str, object]) -> int:
        return value if isinstance(value, int) else int(self.evaluate(value, binding))  # type: ignore[call-overload]

    # ---- Sets and bindings ----

    def members(self, ref: SetRef, binding: Mapping[str, object]) -> Mapping[int, Member]:
        """By identity, in order of position; of a parametric set without arguments, of any instance."""
        key = tuple(id(binding[v]) for v in ref.args) if ref.args or not self._params(ref.name) else None
        return self._members[ref.name].get(key, {})

    def bindings(
        self,
        binders: Sequence[Binder],
        outer: Mapping[str, object],
        taken: Iterable[object] | None = None,
    ) -> Iterator[tuple[Binding, tuple[Member, ...]]]:
        """Bindings to distinct objects, with the uncertain members that they need.

        What a map binds may be any object, and takes none away. `taken`: the outer objects that are; all
        where it is not given.
        """
        ids = tuple(id(x) for x in (outer.values() if taken is None else taken))
        partial: list[tuple[Binding, tuple[Member, ...], tuple[int, ...]]] = [(dict(outer), (), ids)]
        for binder in binders:
            partial = [
                ({**binding, binder.name: member.item}, _with(needed, member), further)
                for binding, needed, excluded in partial
                for member, further in self._candidates(binder, binding, excluded)
            ]
        yield from ((binding, needed) for binding, needed, _ in partial)

    def _candidates(
        self, binder: Binder, binding: Binding, excluded: tuple[int, ...]
    ) -> Iterator[tuple[Member, tuple[int, ...]]]:
        """What the variable may be, and the objects that are taken after it."""
        if binder.by_map:
            yield self._image(binder.set, binding), excluded
            return
        for number, member in self.members(binder.set, binding).items():
            if number not in excluded and (
                binder.where is None or self.evaluate(binder.where, {**binding, binder.name: member.item})
            ):
                yield member, (*excluded, number)

    def image(self, application: SetRef, binding: Mapping[str, object]) -> object | None:
        """The value of a map, which may be none."""
        definition = self.space.maps[application.name]
        arguments = zip(definition.params, application.args, strict=True)
        return self.evaluate(definition.value, {p.name: binding[v] for p, v in arguments})

    def _image(self, application: SetRef, binding: Mapping[str, object]) -> Member:
        definition = self.space.maps[application.name]
        bound = {p.name: binding[v] for p, v in zip(definition.params, application.args, strict=True)}
        member = self.members(definition.target, bound).get(id(self.image(application, binding)))
        if member is None:
            raise NotTranslatedError("maps without a value are not translated")
        return member

    def _params(self, name: str) -> tuple[Binder, ...]:
        sets = self.space.sets
        return sets[name].params if name in sets else self.space.quotients[name].params

    # ---- What may be in the sets ----

    def _iterate(self) -> bool:
        """Adds the members of instances not seen before; whether there were any."""
        grown = False
        for name, definition in self.space.sets.items():
            for binding, needed in list(self.bindings(definition.params, {})):
                args = tuple(binding[p.name] for p in definition.params)
                if isinstance(definition.iterator, Image):
                    grown |= self._grow(name, args, definition.iterator, binding, needed)
                elif self._is_new(name, args):
                    for item in self.evaluate(definition.iterator, binding):  # type: ignore[attr-defined]
                        grown |= self._add(name, args, item, Cause(needed))
        for name, quotient in self.space.quotients.items():
            for binding, _ in list(self.bindings((*quotient.params, quotient.item), {})):
                args = tuple(binding[p.name] for p in quotient.params)
                grown |= self._add(name, args, binding[quotient.item.name], None)
        return grown

    def _grow(
        self, name: str, args: Objects, image: Image, binding: Binding, needed: tuple[Member, ...]
    ) -> bool:
        """Adds the members of the set that an image is of, as far as they are known; whether any is new."""
        mapped = self._mapped(image, binding)
        if mapped is None:
            return False
        inside, relied = mapped
        grown = False
        for member in list(self.members(image.set, inside).values()):
            if self._is_new(name, (*args, member)):
                cause = Cause((*needed, *(m for m in (*relied, member) if not m.is_certain)))
                self._add(name, args, member.item, cause)
                grown = True
        return grown

    def _mapped(self, image: Image, binding: Binding) -> tuple[Binding, tuple[Member, ...]] | None:
        """With what the maps give, as members of their sets; None where one is not among them (yet)."""
        relied: list[Member] = []
        for binder in image.maps:
            try:
                relied.append(self._image(binder.set, binding))
            except NotTranslatedError:
                return None
            binding = {**binding, binder.name: relied[-1].item}
        return binding, tuple(relied)

    def _fire(self) -> bool:
        """Adds what triggers would add on bindings not seen before; whether there were any."""
        grown = False
        for number, trigger in enumerate(self.space.triggers):
            for binding, needed in list(self.bindings(trigger.foralls, {})):
                if not self._is_new(number, tuple(binding[b.name] for b in trigger.foralls)):
                    continue
                grown = True
                addition = self.evaluate(trigger.callback, binding)
                assert isinstance(addition, Addition)
                for name, args, item in addition.memberships:
                    self._add_upwards(name, args, item, Cause(needed, trigger, binding))
        return grown

    def _order_unions(self) -> None:
        """Instance by instance, whatever came later."""
        for instances in self._members.values():
            if None in instances:
                union = instances.pop(None)
                order = dict.fromkeys(number for members in instances.values() for number in members)
                instances[None] = {number: union[number] for number in order}

    def _is_new(self, what: str | int, objects: Objects) -> bool:
        key = (what, *map(id, objects))
        is_new = key not in self._seen
        self._seen.add(key)
        return is_new

    def _add_upwards(self, name: str, args: Objects, item: object, cause: Cause) -> None:
        """To a set and to those that it is a subset of."""
        self._add(name, args, item, cause)
        definition = self.space.sets[name]
        bound = {p.name: x for p, x in zip(definition.params, args, strict=True)}
        for superset in definition.supersets:
            if superset.name not in self.space.sets:
                continue
            above, target = self.space.sets[superset.name], superset.name
            given = tuple(bound[v] for v in superset.args)
            if isinstance(above.iterator, Image):
                mapped = self._mapped(
                    above.iterator, {p.name: x for p, x in zip(above.params, given, strict=True)}
                )
                if mapped is None:
                    raise NotTranslatedError("maps without a value are not translated")
                target = above.iterator.set.name
                given = tuple(mapped[0][v] for v in above.iterator.set.args)
            self._add_upwards(target, given, item, cause)

    def _add(self, name: str, args: Objects, item: object, cause: Cause | None) -> bool:
        """Whether the member is new. Without a cause: of a quotient."""
        instance = self._members[name].setdefault(tuple(map(id, args)), {})
        is_new = id(item) not in instance
        member = instance.setdefault(id(item), Member(name, args, item))
        if cause is not None and member not in cause.members:
            member.causes.append(cause)
            member.is_certain |= cause.trigger is None and not cause.members
        if self._params(name):
            anywhere = self._members[name].setdefault(None, {}).setdefault(id(item), Member(name, (), item))
            anywhere.is_certain |= member.is_certain
            if is_new:
                anywhere.causes.append(Cause((member,)))
        return is_new


def _with(needed: tuple[Member, ...], member: Member) -> tuple[Member, ...]:
    return needed if member.is_certain else (*needed, member)
