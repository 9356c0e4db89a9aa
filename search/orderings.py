"""Which decision a search takes next, and into which groups of values it splits it.

In: an ordering of a `.space` file, or one spelled out on the command line. Out: for a candidate, the next
open decision as a `Branching`: disjoint masks that cover the domain, one child for each. Nothing is
propagated here, and nothing is learnt: a rule that looks at the search implements `Ordering` itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from spacedsl.diagnostics import Diagnostic, DiagnosticError, Source, Span
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.descent import Branches
from spacedsl.engine.domains import bits
from spacedsl.engine.instance import Instance, Variable
from spacedsl.engine.native import descents as native
from spacedsl.language import space as lang
from spacedsl.language.spelled import spelled_ordering

DECLARATION_ORDER = "declaration"
"""Name of the ordering of a space that declares none: every choice, as declared."""

Item = lang.OrderingItem | lang.ObjectMajor


@dataclass(frozen=True, slots=True)
class Branching:
    """One open decision and the disjoint masks, at least two, that its domain is split into."""

    variable: Variable
    masks: tuple[int, ...]


class Ordering(Protocol):
    """Anything that picks the next decision, from the candidate alone, so that runs can be resumed."""

    def next(self, candidate: Candidate) -> Branching | None:
        """The next open decision; None where the candidate is complete."""
        ...


@dataclass(frozen=True, slots=True)
class _Split:
    """One variable in its place. No groups: one for each single value."""

    variable: Variable
    groups: tuple[int, ...]

    def masks(self, domain: int) -> tuple[int, ...]:
        """The non-empty parts of a domain; a single one where there is nothing to decide at this place."""
        if not self.groups:
            return tuple(bits(domain))
        parts = [domain & group for group in self.groups if domain & group]
        named = sum(parts)
        return (*parts, domain & ~named) if domain & ~named else tuple(parts)


class StaticOrdering:
    """The items of a declared ordering, then every choice that they leave undecided, as declared."""

    def __init__(self, instance: Instance, space: lang.Space, items: Iterable[Item] = ()) -> None:
        splits = list(dict.fromkeys(_Items(instance, space).splits(items, _Scope({}, frozenset()))))
        decided = {split.variable.index for split in splits if not split.groups}
        splits += [_Split(v, ()) for v in instance.variables if v.index not in decided]
        self._splits = tuple(splits)
        self._instance = instance
        self._native = native_ordering(instance, self) if instance.native is not None else None

    @property
    def places(self) -> tuple[native.Place, ...]:
        """All decisions in order, for descents in compiled code."""
        return tuple(
            native.Place(split.variable.offset, len(split.variable.universe), split.groups)
            for split in self._splits
        )

    def next(self, candidate: Candidate) -> Branching | None:
        if self._instance.native is not None and self._native is not None:
            place = native.next_place(self._instance.native, candidate.vector, self._native)
            if place is None:
                return None
            split = self._splits[place]
            return Branching(split.variable, split.masks(candidate.mask(split.variable)))
        for split in self._splits:
            domain = candidate.mask(split.variable)
            if domain & (domain - 1) == 0:
                continue
            masks = split.masks(domain)
            if len(masks) > 1 and candidate.is_open(split.variable):
                return Branching(split.variable, masks)
        return None


class SmallestDomain:
    """The open decision with the fewest values left, the first in order of declaration among equals."""

    def __init__(self, instance: Instance) -> None:
        self._variables = instance.variables

    def next(self, candidate: Candidate) -> Branching | None:
        smallest: tuple[int, Variable, int] | None = None
        for variable in self._variables:
            domain = candidate.mask(variable)
            count = domain.bit_count()
            if count > 1 and (smallest is None or count < smallest[0]) and candidate.is_open(variable):
                smallest = count, variable, domain
                if count == 2:
                    break
        if smallest is None:
            return None
        _, variable, domain = smallest
        return Branching(variable, tuple(bits(domain)))


def branches_of(ordering: Ordering) -> Branches:
    """An ordering for descents in Python."""

    def branches(candidate: Candidate) -> tuple[Variable, tuple[int, ...]] | None:
        branching = ordering.next(candidate)
        return None if branching is None else (branching.variable, branching.masks)

    return branches


def native_ordering(instance: Instance, ordering: Ordering) -> native.NativeOrdering | None:
    """An ordering for descents in compiled code; None for an ordering that only Python knows."""
    if isinstance(ordering, StaticOrdering):
        return native.native_ordering(ordering.places, instance.presence)
    if isinstance(ordering, SmallestDomain):
        places = (native.Place(v.offset, len(v.universe)) for v in instance.variables)
        return native.native_ordering(places, instance.presence, native.Rule.SMALLEST)
    return None


DYNAMIC: Mapping[str, Callable[[Instance], Ordering]] = {"smallest_domain": SmallestDomain}
"""What `dynamic RULE` may name; the language knows the names too, `DYNAMIC_RULES`."""


def select_ordering(instance: Instance, space: lang.Space, spec: str | None = None) -> Ordering:
    """The ordering named by `spec`, or the one that it spells out; without one, the space's default.

    A spelled-out ordering is `size, dim_kind, order by MERGED|NESTED, order`. Raises `DiagnosticError`.
    """
    name = None if spec is None else spec.strip()
    if name is None or spec is None:
        ordering = space.orderings.get("default") or next(iter(space.orderings.values()), None)
    elif name in space.orderings:
        ordering = space.orderings[name]
    elif name == DECLARATION_ORDER:
        ordering = None
    else:
        ordering = spelled_ordering(space, Source("--ordering", spec))
    if ordering is not None and ordering.rule is not None:
        return DYNAMIC[ordering.rule](instance)
    return StaticOrdering(instance, space, ordering.items if ordering else ())


def select_rollouts(instance: Instance, space: lang.Space, spec: str | None = None) -> Ordering | None:
    """The order of rollouts where the tree has the space's own: its `rollout`. None: that of the tree."""
    is_own = spec is None or spec.strip() == "default"
    return select_ordering(instance, space, "rollout") if is_own and "rollout" in space.orderings else None


@dataclass(frozen=True, slots=True)
class _Scope:
    """The ids of the objects that variables stand for, and those that another variable cannot have."""

    ids: dict[str, int]
    taken: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Items:
    """The variables that the items of an ordering stand for."""

    instance: Instance
    space: lang.Space

    def splits(self, items: Iterable[Item], scope: _Scope) -> Iterator[_Split]:
        for item in items:
            if isinstance(item, lang.ObjectMajor):
                for inner in self._in_order(item, scope):
                    yield from self.splits(item.items, inner)
            elif not self.space.is_derived(item.choice):
                yield from self._item(item, scope)

    def _item(self, item: lang.OrderingItem, scope: _Scope) -> Iterator[_Split]:
        if item.args is None:
            yield from (_Split(variable, item.groups) for variable in self.instance.variables_of(item.choice))
            return
        objects = self.instance.objects.objects
        for inner in self._bindings(item.binders, scope):
            bound = tuple(objects[inner.ids[arg]] for arg in item.args)
            try:
                variable = self.instance.variable(item.choice, *bound)
            except KeyError:
                names = ", ".join(self.instance.objects.names[inner.ids[arg]] for arg in item.args)
                raise _error(item.span, f"there is no {item.choice}({names})") from None
            choice = self.space.choices[item.choice]
            groups = item.groups
            if isinstance(choice, lang.EnumChoice) and bound != variable.objects:
                groups = tuple(choice.invert(group) for group in groups)
            yield _Split(variable, groups)

    def _in_order(self, block: lang.ObjectMajor, scope: _Scope) -> list[_Scope]:
        found = list(self._bindings(block.binders, scope))
        if block.key is None:
            return found
        key = block.key
        keys: list[Any] = [self.instance.objects.evaluate(key, each.ids) for each in found]
        try:
            places = sorted(range(len(found)), key=keys.__getitem__)
        except TypeError:
            raise _error(key.span, "the values of this key cannot be put in order") from None
        return [found[place] for place in places]

    def _bindings(self, binders: tuple[lang.Binder, ...], scope: _Scope) -> Iterator[_Scope]:
        """The bindings to objects that are distinct from the others, but for those that maps give."""
        if not binders:
            yield scope
            return
        first, *rest = binders
        objects = self.instance.objects
        members = objects.of(first.set, scope.ids)
        if first.by_map and not members:
            names = ", ".join(objects.names[scope.ids[arg]] for arg in first.set.args)
            raise _error(first.span, f"{first.set.name}({names}) has no value")
        for member in members:
            ids = {**scope.ids, first.name: member}
            if first.by_map:
                yield from self._bindings(tuple(rest), _Scope(ids, scope.taken))
            elif member not in scope.taken and objects.passes(first.where, ids):
                yield from self._bindings(tuple(rest), _Scope(ids, scope.taken | {member}))


def _error(span: Span, message: str) -> DiagnosticError:
    return DiagnosticError([Diagnostic("SP085", message, span)])
