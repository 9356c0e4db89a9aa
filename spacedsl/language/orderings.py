"""Checks orderings: which decision a search takes next, written as data.

In: an ordering's items and the table of all names. Out: a `space.Ordering` of resolved items.
"""

from __future__ import annotations

from spacedsl.language import space, syntax
from spacedsl.language.names import Names, Unsupported


def check_ordering(
    names: Names, declaration: syntax.Ordering, derived: frozenset[str]
) -> space.Ordering | None:
    """The ordering; None where something is wrong with it, which has been reported."""
    if isinstance(declaration.items, syntax.Dynamic):
        names.report.unsupported("a dynamic ordering", declaration.items.span)
        return None
    items = [_item(names, item, derived) for item in declaration.items]
    complete = tuple(item for item in items if item is not None)
    if len(complete) < len(items):
        return None
    return space.Ordering(declaration.name.text, complete, declaration.name.span)


def _item(names: Names, item: syntax.OrderingItem, derived: frozenset[str]) -> space.OrderingItem | None:
    if isinstance(item, syntax.ObjectMajor):
        names.report.unsupported("an object-major ordering", item.binding.span)
        return None
    scope = {} if item.binding is None else names.bind([item.binding], {})
    # An ordering alone does not make a choice part of any constraint.
    was_used = item.choice.text in names.used_choices
    choice = names.find_choice(item.choice)
    if not was_used:
        names.used_choices.discard(item.choice.text)
    if choice is None or isinstance(choice, Unsupported) or scope is None:
        return None
    if item.choice.text in derived:
        message = f"`{item.choice.text}` follows from other choices and is never decided"
        names.report.warning("SP082", message, item.choice.span, "remove it")
    args = None
    if item.args is not None:
        found = names.use(syntax.Use(item.choice, item.args, item.span), scope)
        if found is None:
            return None
        args = found[0].args
    elif item.binding is not None:
        example = f"`{item.choice.text}(${item.binding.variable.name}) for ...`"
        names.report.error(
            "SP083", "this `for` binds a variable that is not used", item.binding.span, example
        )
        return None
    groups = _groups(names, choice, item)
    if groups is None:
        return None
    return space.OrderingItem(item.choice.text, args, tuple(scope.values()), groups, item.span)


def _groups(names: Names, choice: object, item: syntax.Listed) -> tuple[int, ...] | None:
    """The masks of the groups, which are disjoint."""
    if not item.groups:
        return ()
    if not isinstance(choice, space.EnumChoice):
        message = f"`{item.choice.text}` is no enum: it has no named values to group by"
        names.report.error("SP081", message, item.choice.span, "leave out `by`")
        return None
    masks: list[int] = []
    ok = True
    for group in item.groups:
        mask = names.value_mask(choice, [group])
        if mask is None:
            ok = False
        elif any(mask & other for other in masks):
            names.report.error(
                "SP080", f"`{group.text}` overlaps a group before it", group.span, "groups are disjoint"
            )
            ok = False
        else:
            masks.append(mask)
    return tuple(masks) if ok else None
