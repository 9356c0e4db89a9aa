"""Checks orderings and views: which decision a search takes next, and what it tells candidates apart by.

In: their items and the table of all names. Out: `space.Ordering`s and `space.View`s of resolved items.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from spacedsl.language import space, syntax
from spacedsl.language.headers import CounterHeader, Misdeclared, QuantityHeader
from spacedsl.language.names import Names, Scope
from spacedsl.language.report import did_you_mean

DYNAMIC_RULES = ("smallest_domain",)
"""What `dynamic` may name; `search/orderings.py` has a rule for each."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Translates what orderings and views list."""

    names: Names
    representatives: frozenset[str]
    """Choices of quotients, which are never decided."""

    def ordering(self, declaration: syntax.Ordering) -> space.Ordering | None:
        """The ordering; None where something is wrong with it, which has been reported."""
        name, span = declaration.name.text, declaration.name.span
        if isinstance(declaration.items, syntax.Dynamic):
            rule = declaration.items.rule
            if rule.text in DYNAMIC_RULES:
                return space.Ordering(name, (), span, rule.text)
            hint = did_you_mean(rule.text, DYNAMIC_RULES, f"there is {', '.join(DYNAMIC_RULES)}")
            self.names.report.error("SP084", f"no dynamic rule is called `{rule.text}`", rule.span, hint)
            return None
        items = self.items(declaration.items, {})
        return None if items is None else space.Ordering(name, items, span)

    def items(
        self, items: Iterable[syntax.OrderingItem], scope: Scope
    ) -> tuple[space.OrderingItem | space.ObjectMajor, ...] | None:
        found = [
            self._block(item, scope) if isinstance(item, syntax.ObjectMajor) else self._item(item, scope)
            for item in items
        ]
        complete = tuple(item for item in found if item is not None)
        return complete if len(complete) == len(found) else None

    def _block(self, block: syntax.ObjectMajor, outer: Scope) -> space.ObjectMajor | None:
        scope = self.names.bind([block.binding], outer, is_listing=True)
        if scope is None:
            return None
        binders = _added(scope, outer)
        key = None if block.by is None else self.names.host(block.by, scope)
        items = self.items(block.items, scope)
        if items is None or (key is None and block.by is not None):
            return None
        variable = block.binding.variable
        if not any(variable.name in _variables(item) for item in items):
            example = f"`choice(${variable.name})`"
            message = "this `for` binds a variable that is not used"
            self.names.report.error("SP083", message, block.binding.span, example)
            return None
        return space.ObjectMajor(binders, key, items, block.span)

    def _item(self, item: syntax.Listed, outer: Scope) -> space.OrderingItem | None:
        bindings = [] if item.binding is None else [item.binding]
        scope = self.names.bind(bindings, outer, is_listing=True)
        choice = self._decided(item.choice)
        if choice is None or scope is None:
            return None
        args = None
        if item.args is not None:
            with self._listed(item.choice):
                found = self.names.use(syntax.Use(item.choice, item.args, item.span), scope)
            if found is None:
                return None
            args = found[0].args
        binders = _added(scope, outer)
        groups = self._groups(choice, item.choice, item.groups)
        if groups is None:
            return None
        made = space.OrderingItem(item.choice.text, args, binders, groups, item.span)
        if item.binding is not None and item.binding.variable.name not in _variables(made):
            example = f"`{item.choice.text}(${item.binding.variable.name}) for ...`"
            message = "this `for` binds a variable that is not used"
            self.names.report.error("SP083", message, item.binding.span, example)
            return None
        return made

    def view(self, declaration: syntax.View) -> space.View | None:
        """The view; None where something is wrong with it, which has been reported."""
        items: list[space.ViewItem] = []
        for item in declaration.items:
            choice = self._decided(item.choice)
            groups = None if choice is None else self._groups(choice, item.choice, item.groups)
            if groups is not None:
                items.append(space.ViewItem(item.choice.text, groups, item.span))
        if len(items) < len(declaration.items):
            return None
        return space.View(declaration.name.text, tuple(items), declaration.doc, declaration.name.span)

    @contextmanager
    def _listed(self, name: syntax.Name) -> Iterator[None]:
        """Being listed alone does not make a choice part of any constraint."""
        was_used = name.text in self.names.used_choices
        yield
        if not was_used:
            self.names.used_choices.discard(name.text)

    def _decided(self, name: syntax.Name) -> object | None:
        """The choice that is listed, with a warning where it is no decision."""
        with self._listed(name):
            choice = self.names.find_choice(name)
        if choice is None or isinstance(choice, Misdeclared):
            return None
        if isinstance(choice, space.Map):
            self.names.report.error("SP028", f"`{name.text}` is a map: nothing is decided", name.span)
            return None
        if isinstance(choice, CounterHeader | QuantityHeader) or name.text in self.representatives:
            message = f"`{name.text}` follows from other choices and is never decided"
            self.names.report.warning("SP082", message, name.span, "remove it")
        return choice

    def _groups(
        self, choice: object, name: syntax.Name, groups: tuple[syntax.Name, ...]
    ) -> tuple[int, ...] | None:
        """The masks of the groups, which are disjoint."""
        if not groups:
            return ()
        if not isinstance(choice, space.EnumChoice):
            message = f"`{name.text}` is no enum: it has no named values to group by"
            self.names.report.error("SP081", message, name.span, "leave out `by`")
            return None
        masks: list[int] = []
        ok = True
        for group in groups:
            mask = self.names.value_mask(choice, [group])
            if mask is None:
                ok = False
            elif any(mask & other for other in masks):
                message = f"`{group.text}` overlaps a group before it"
                self.names.report.error("SP080", message, group.span, "groups are disjoint")
                ok = False
            else:
                masks.append(mask)
        return tuple(masks) if ok else None


def _added(scope: Scope, outer: Scope) -> tuple[space.Binder, ...]:
    return tuple(binder for name, binder in scope.items() if name not in outer)


def _variables(item: space.OrderingItem | space.ObjectMajor) -> frozenset[str]:
    """What stands in the arguments of an item, and in those of the sets that it ranges over."""
    sets = frozenset(arg for binder in item.binders for arg in binder.set.args)
    if isinstance(item, space.ObjectMajor):
        return sets.union(*(_variables(inner) for inner in item.items))
    return sets | frozenset(item.args or ())
