"""The objects of an instance: ids, names, and the members of every set.

In: a space, a kernel and a device. Out: `Objects`. Whatever a set claims (its supersets, what it is
disjoint from, its type, its reverse) is verified for every object; a claim that fails is a `DiagnosticError`
that names the object, the set and the line. What triggers add comes from `triggers.py` through `add`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from spacedsl.diagnostics import Diagnostic, DiagnosticError, Span
from spacedsl.language.host import HostExpression
from spacedsl.language.host_runtime import describe
from spacedsl.language.space import Binder, Image, SetDef, SetRef, Space

Key = tuple[int, ...]
"""The ids of a set's, a choice's or a binding's objects."""


@dataclass(slots=True, eq=False)
class Objects:
    """`members[set][ids of its arguments]` are ids in order of position; a plain set has the one key ()."""

    space: Space
    kernel: object
    device: object
    objects: list[object] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    ids: dict[int, int] = field(default_factory=dict)
    """id of a Python object to id here."""
    members: dict[str, dict[Key, dict[int, None]]] = field(default_factory=dict)
    iterated: set[tuple[str, Key]] = field(default_factory=set)
    """The instances of sets whose iterators have been evaluated."""

    def number(self, item: object, span: Span) -> int:
        """The object's id, given at its first appearance."""
        found = self.ids.get(id(item))
        if found is not None:
            return found
        name = getattr(item, "name", None)
        if not isinstance(name, str):
            raise _error("SP401", f"{describe(item)} has no name, and what lies in a set needs one", span)
        number = self.ids[id(item)] = len(self.objects)
        self.objects.append(item)
        self.names.append(name)
        return number

    def keys(self, params: Iterable[Binder]) -> list[Key]:
        """The bindings of variables to distinct objects, in order of position; those by maps may coincide."""
        before: tuple[Binder, ...] = ()
        found: list[Key] = [()]
        for binder in params:
            if binder.set.args or binder.where or any(param.by_map for param in (*before, binder)):
                found = list(self._extended(found, before, binder))
            else:
                members = self.of(binder.set, {})
                found = [(*bound, item) for bound in found for item in members if item not in bound]
            before = (*before, binder)
        return found

    def _extended(self, bindings: list[Key], before: tuple[Binder, ...], binder: Binder) -> Iterator[Key]:
        """Bindings of these variables with each object of one more."""
        names = tuple(param.name for param in before)
        distinct = () if binder.by_map else tuple(n for n, param in enumerate(before) if not param.by_map)
        members = () if binder.set.args else self.of(binder.set, {})
        for bound in bindings:
            environment = dict(zip(names, bound, strict=True)) if binder.set.args or binder.where else {}
            taken = [bound[place] for place in distinct]
            for item in self.of(binder.set, environment) if binder.set.args else members:
                if item in taken:
                    continue
                if binder.where is None or self.passes(binder.where, {**environment, binder.name: item}):
                    yield (*bound, item)

    def passes(self, where: HostExpression | None, environment: dict[str, int]) -> bool:
        return where is None or bool(self.evaluate(where, environment))

    def of(self, ref: SetRef, environment: dict[str, int]) -> tuple[int, ...]:
        """The members of a set, or of a quotient's underlying one; without arguments, of all instances."""
        ref = self.plain(ref)
        instances = self.members[ref.name]
        if len(ref.args) == len(self.space.sets[ref.name].params):
            return tuple(instances.get(tuple(environment[a] for a in ref.args), ()))
        return tuple(dict.fromkeys(m for members in instances.values() for m in members))

    def plain(self, ref: SetRef) -> SetRef:
        """The set itself, or the one that a quotient's members are taken from."""
        while ref.name in self.space.quotients:
            quotient = self.space.quotients[ref.name]
            renaming = dict(zip((p.name for p in quotient.params), ref.args, strict=False))
            below = quotient.item.set
            ref = SetRef(below.name, tuple(renaming.get(a, a) for a in below.args) if ref.args else ())
        return ref

    def representatives(self, binder: Binder, environment: Mapping[str, int]) -> Iterator[tuple[str, Key]]:
        """What says whether a variable's object is in the quotient, and in those that this one is of."""
        ref, member = binder.set, environment[binder.name]
        while ref.name in self.space.quotients:
            quotient = self.space.quotients[ref.name]
            yield quotient.representative, (*(environment[a] for a in ref.args), member)
            renaming = dict(zip((p.name for p in quotient.params), ref.args, strict=True))
            below = quotient.item.set
            ref = SetRef(below.name, tuple(renaming[a] for a in below.args))

    def iterate(self, definition: SetDef, key: Key) -> list[int]:
        """The ids of what an instance's iterator gives; not yet its members."""
        self.iterated.add((definition.name, key))
        environment = dict(zip((p.name for p in definition.params), key, strict=True))
        if isinstance(definition.iterator, Image):
            return list(self.of(definition.iterator.set, self.mapped(definition.iterator, environment)))
        found = self.evaluate(definition.iterator, environment)
        span = definition.iterator.span
        if definition.name in self.space.maps:
            found = () if found is None else (found,)
        if not isinstance(found, Iterable) or isinstance(found, str):
            raise _error(
                "SP402", f"the iterator of {definition.name} gave {describe(found)}, not objects", span
            )
        numbers = [self.number(item, span) for item in found]
        if len(set(numbers)) != len(numbers):
            raise _error("SP402", f"the iterator of {definition.name} gave an object twice", span)
        return numbers

    def written(self, ref: SetRef) -> str:
        """The name of a set; of an image, what it stands for."""
        image = self.space.sets[ref.name].iterator if ref.name in self.space.sets else None
        return image.span.text if isinstance(image, Image) else ref.name

    def mapped(self, image: Image, environment: dict[str, int]) -> dict[str, int]:
        """With what the maps of an image give; a located error where one has no value."""
        for binder in image.maps:
            values = self.of(binder.set, environment)
            if not values:
                shown = ", ".join(self.names[environment[a]] for a in binder.set.args)
                raise _error("SP432", f"{binder.set.name}({shown}) has no value", binder.span)
            environment = {**environment, binder.name: values[0]}
        return environment

    def evaluator(self, expression: HostExpression, variables: tuple[str, ...]) -> Callable[[Key], object]:
        """The expression as a function of ids for these variables, which are all that it has."""
        environment = {"kernel": self.kernel, "device": self.device}
        objects = self.objects

        def evaluate(key: Key) -> object:
            for name, item in zip(variables, key, strict=True):
                environment[name] = objects[item]
            return expression.evaluate(environment)

        return evaluate

    def evaluate(self, expression: HostExpression, environment: dict[str, int]) -> object:
        """A host expression, with ids for the objects of its variables."""
        values: dict[str, object] = {"kernel": self.kernel, "device": self.device}
        for name in expression.variables:
            if name in environment:
                values[name] = self.objects[environment[name]]
        return expression.evaluate(values)


def collect(space: Space, kernel: object, device: object) -> Objects:
    """Evaluates the iterators of all sets, those that parameters range over first."""
    objects = Objects(space, kernel, device)
    for definition in _by_dependency(space):
        instances: dict[Key, dict[int, None]] = {}
        objects.members[definition.name] = instances
        for key in objects.keys(definition.params):
            instances[key] = dict.fromkeys(objects.iterate(definition, key))
    return objects


def verify(objects: Objects, reverse: bool) -> None:
    """Checks every claim of every set; raises one `DiagnosticError` with all violations.

    `reverse` claims speak of the backbone, so they are checked before triggers add to it.
    """
    found = [d for definition in objects.space.sets.values() for d in _violations(objects, definition)]
    if reverse:
        found += [d for each in objects.space.sets.values() for d in _reverse_violations(objects, each)]
    seen: dict[str, list[int]] = {}
    for number, name in enumerate(objects.names):
        seen.setdefault(name, []).append(number)
    span = next(iter(objects.space.sets.values())).span if objects.space.sets else None
    for name, numbers in seen.items():
        if len(numbers) > 1 and span is not None:
            found.append(Diagnostic("SP401", f"{len(numbers)} objects are named {name}", span))
    if found:
        raise DiagnosticError(found)


def _violations(objects: Objects, definition: SetDef) -> Iterator[Diagnostic]:
    params = tuple(p.name for p in definition.params)
    everywhere = {above: set(objects.of(above, {})) for above in definition.supersets if not above.args}
    for key, members in objects.members[definition.name].items():
        environment = dict(zip(params, key, strict=True))
        label = definition.name + (f"({', '.join(objects.names[k] for k in key)})" if key else "")
        for above in definition.supersets:
            allowed = everywhere[above] if above in everywhere else set(objects.of(above, environment))
            for member in members:
                if member in allowed:
                    continue
                if definition.name in objects.space.maps:
                    message = (
                        f"{label} is {objects.names[member]}, which does not lie in {objects.written(above)}"
                    )
                    yield Diagnostic("SP431", message, definition.span)
                else:
                    name, superset = objects.names[member], objects.written(above)
                    message = f"{name} lies in {label} but not in its superset {superset}"
                    yield Diagnostic("SP403", message, definition.span)
        for other in definition.disjoint:
            shared = set(objects.of(SetRef(other), environment)).intersection(members)
            for member in sorted(shared):
                message = (
                    f"{objects.names[member]} lies in {label} and in {other}, which are declared disjoint"
                )
                yield Diagnostic("SP404", message, definition.span)
        if definition.type_name is not None:
            for member in members:
                type_name = type(objects.objects[member]).__name__
                if type_name != definition.type_name:
                    name = objects.names[member]
                    message = f"{name} in {label} is of type {type_name}, not {definition.type_name}"
                    yield Diagnostic("SP405", message, definition.span)


def _reverse_violations(objects: Objects, definition: SetDef) -> Iterator[Diagnostic]:
    if definition.reverse is None:
        return
    binder, expression = definition.reverse
    instances = objects.members[definition.name]
    for item in objects.of(binder.set, {}):
        claimed = objects.evaluate(expression, {binder.name: item})
        owners = {key for key, members in instances.items() if item in members}
        found: set[Key] = set()
        for owner in claimed if isinstance(claimed, Iterable) else (claimed,):
            parts = owner if isinstance(owner, tuple) else (owner,)
            numbers = tuple(objects.ids.get(id(part), -1) for part in parts)
            found.add(numbers)
        if found != owners:
            message = f"the reverse of {definition.name} for {objects.names[item]} gives others than hold it"
            yield Diagnostic("SP406", message, expression.span)


def _by_dependency(space: Space) -> list[SetDef]:
    """The sets, each after those that its parameters range over."""
    done: dict[str, SetDef] = {}
    for first in space.sets:
        path = {} if first in done else {first: _needed(space, space.sets[first])}
        while path:
            name = next(reversed(path))
            needed = next(path[name], None)
            if needed is None:
                path.popitem()
                done[name] = space.sets[name]
            elif needed in path:
                message = f"the parameters of {needed} range over {needed} itself"
                raise _error("SP407", message, space.sets[needed].span)
            elif needed not in done:
                path[needed] = _needed(space, space.sets[needed])
    return list(done.values())


def _needed(space: Space, definition: SetDef) -> Iterator[str]:
    """The sets that must be there before this one."""
    image = definition.iterator
    refs = [param.set for param in definition.params]
    if isinstance(image, Image):
        refs += [*(binder.set for binder in image.maps), image.set]
    for ref in refs:
        name = ref.name
        while name in space.quotients:
            name = space.quotients[name].item.set.name
        yield name


def _error(code: str, message: str, span: Span) -> DiagnosticError:
    return DiagnosticError([Diagnostic(code, message, span)])
