"""Which decision a search takes next, and into which groups of values it splits it.

In: an ordering of a `.space` file, or one spelled out on the command line. Out: for a candidate, the next
open decision as a `Branching`: disjoint masks that cover the domain, one child for each. Nothing is
propagated here, and nothing is learnt: a rule that looks at the search implements `Ordering` itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from spacedsl.diagnostics import Diagnostic, DiagnosticError, Source, Span
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance, Variable
from spacedsl.language import space as lang

DECLARATION_ORDER = "declaration"
"""Name of the ordering of a space that declares none: every choice, as declared."""


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
            return tuple(_bits(domain))
        parts = [domain & group for group in self.groups if domain & group]
        named = sum(parts)
        return (*parts, domain & ~named) if domain & ~named else tuple(parts)


class StaticOrdering:
    """The items of a declared ordering, then every choice that they leave undecided, as declared."""

    def __init__(
        self,
        instance: Instance,
        space: lang.Space,
        items: Iterable[lang.OrderingItem | lang.ObjectMajor] = (),
    ) -> None:
        splits = [
            _Split(variable, item.groups)
            for item in items
            if isinstance(item, lang.OrderingItem)
            if not space.is_derived(item.choice)
            for variable in _variables(instance, item)
        ]
        decided = {split.variable.index for split in splits if not split.groups}
        splits += [_Split(v, ()) for v in instance.variables if v.index not in decided]
        self._splits = tuple(splits)

    def next(self, candidate: Candidate) -> Branching | None:
        for split in self._splits:
            domain = candidate.mask(split.variable)
            if domain & (domain - 1) == 0:
                continue
            masks = split.masks(domain)
            if len(masks) > 1 and candidate.is_open(split.variable):
                return Branching(split.variable, masks)
        return None


def _variables(instance: Instance, item: lang.OrderingItem) -> Iterator[Variable]:
    """The variables of an item: of all instances of its choice, or of those for the members of its set."""
    if not item.binders:
        yield from instance.variables_of(item.choice)
        return
    if len(item.args or ()) != 1:
        raise _error(item.span, "this item applies a choice of several objects to a single one", None)
    objects = instance.objects
    (binder,) = item.binders
    for member in objects.of(binder.set, {}):
        if objects.passes(binder.where, {binder.name: member}):
            yield instance.variable(item.choice, objects.objects[member])


def select_ordering(instance: Instance, space: lang.Space, spec: str | None = None) -> StaticOrdering:
    """The ordering named by `spec`, or the one that it spells out; without one, the space's default.

    A spelled-out ordering is `size, dim_kind, order by MERGED|NESTED, order`. Raises `DiagnosticError`.
    """
    if spec is None:
        declared = space.orderings.get("default") or next(iter(space.orderings.values()), None)
        return StaticOrdering(instance, space, declared.items if declared else ())
    name = spec.strip()
    if name in space.orderings:
        return StaticOrdering(instance, space, space.orderings[name].items)
    if name == DECLARATION_ORDER:
        return StaticOrdering(instance, space)
    return StaticOrdering(instance, space, parse_items(space, spec))


def parse_items(space: lang.Space, spec: str) -> tuple[lang.OrderingItem, ...]:
    """The items of a spelled-out ordering; raises `DiagnosticError` with all that is wrong."""
    source = Source("--ordering", spec)
    items: list[lang.OrderingItem] = []
    wrong: list[Diagnostic] = []
    offset = 0
    for text in spec.split(","):
        try:
            items.append(_parse_item(space, _stripped(source, offset, text)))
        except DiagnosticError as error:
            wrong += error.diagnostics
        offset += len(text) + 1
    if wrong:
        raise DiagnosticError(wrong)
    return tuple(items)


def _parse_item(space: lang.Space, span: Span) -> lang.OrderingItem:
    words = span.text.split()
    if not words:
        raise _error(span, "an item is missing", None)
    choice = space.choices.get(words[0])
    if choice is None or space.is_derived(choice.name):
        decisions = [name for name in space.choices if not space.is_derived(name)]
        raise _error(
            span,
            f"`{span.text}` is neither an ordering nor a choice of this space",
            f"orderings: {', '.join(space.orderings) or 'none'}; choices: {', '.join(decisions)}",
        )
    if len(words) == 1:
        return lang.OrderingItem(choice.name, None, (), (), span)
    if words[1] != "by" or len(words) == 2:
        raise _error(span, "an item is `choice` or `choice by GROUP|GROUP`", None)
    if not isinstance(choice, lang.EnumChoice):
        raise _error(span, f"`{choice.name}` has no named values to group", None)
    groups = tuple(_group(choice, name.strip(), span) for name in " ".join(words[2:]).split("|"))
    if sum(groups) != _union(groups):
        raise _error(span, "the groups of an item have a value in common", None)
    return lang.OrderingItem(choice.name, None, (), groups, span)


def _group(choice: lang.EnumChoice, name: str, span: Span) -> int:
    known = (*choice.values, *choice.aliases)
    if name not in known:
        raise _error(span, f"`{name}` is no value of `{choice.name}`", f"one of {', '.join(known)}")
    return choice.mask(name)


def _stripped(source: Source, offset: int, text: str) -> Span:
    start = offset + len(text) - len(text.lstrip())
    return Span(source, start, max(start, offset + len(text.rstrip())))


def _error(span: Span, message: str, hint: str | None) -> DiagnosticError:
    return DiagnosticError([Diagnostic("SP085", message, span, hint)])


def _union(masks: Iterable[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union


def _bits(mask: int) -> Iterator[int]:
    """The single bits of a mask, lowest first."""
    while mask:
        yield mask & -mask
        mask &= mask - 1
