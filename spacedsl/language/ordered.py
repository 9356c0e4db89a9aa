"""Ordered enums: what a side of a comparison, or a term of a quantity, says about the order of values.

In: expressions and the table of all names. Out: positions in the order of an enum's values, and comparisons
of positions. What is wrong has been reported where None is returned.
"""

from __future__ import annotations

from spacedsl.language import space, syntax
from spacedsl.language.formulas import MIRRORED
from spacedsl.language.headers import QuantityHeader
from spacedsl.language.names import Names, Scope
from spacedsl.language.report import did_you_mean

Order = tuple[str, ...]
"""The values of an ordered enum, which are its type: equal values in equal order are one type."""


def order_of(names: Names, expression: syntax.Expression) -> Order | None:
    """The order of a use's values; None for all but ordered enums and quantities of their type."""
    named = names.choices.get(expression.name.text) if isinstance(expression, syntax.Use) else None
    if isinstance(named, space.EnumChoice) and named.ordered:
        return named.values
    return named.values if isinstance(named, QuantityHeader) else None


def show_order(order: Order) -> str:
    return " < ".join(order if len(order) < 4 else (order[0], "..", order[-1]))


def value_number(names: Names, order: Order, value: syntax.Name) -> int | None:
    """The place of a value in the order."""
    if value.text in order:
        return order.index(value.text)
    enums = [c for c in names.choices.values() if isinstance(c, space.EnumChoice) and c.values == order]
    if any(value.text in enum.aliases for enum in enums):
        message = f"`{value.text}` is an alias: it has no place in the order"
        names.report.error("SP056", message, value.span, f"one of {', '.join(order)}")
    else:
        hint = did_you_mean(value.text, order, f"it has {', '.join(order)}")
        message = f"{show_order(order)} has no value `{value.text}`"
        names.report.error("SP014", message, value.span, hint)
    return None


def compare(
    names: Names,
    scope: Scope,
    test: syntax.Compared,
    left: syntax.Expression,
    right: syntax.Expression,
    within_branch: bool,
) -> space.Formula | None:
    """A comparison of which one side at least has an order."""
    orders = [order for order in (order_of(names, left), order_of(names, right)) if order is not None]
    if len(orders) == 2 and orders[0] != orders[1]:
        message = "the two sides do not have the same values in the same order"
        names.report.error("SP053", message, test.span, "compare them value by value, with `is`")
        return None
    a = _position(names, scope, orders[0], left, within_branch)
    b = _position(names, scope, orders[0], right, within_branch)
    if a is None or b is None:
        return None
    op = space.Comparison(test.operator.text)
    if isinstance(a, int):
        a, op, b = b, MIRRORED[op], a
    enums = [
        isinstance(side, space.Use) and isinstance(names.choices[side.choice], space.EnumChoice)
        for side in (a, b)
    ]
    if enums[0] and isinstance(a, space.Use) and isinstance(b, int):
        mask = sum(1 << place for place in range(len(orders[0])) if _holds(place, op, b))
        return space.Is(a, mask, test.span)
    equality = op in (space.Comparison.EQ, space.Comparison.NE)
    if all(enums) and equality and isinstance(a, space.Use) and isinstance(b, space.Use):
        identity = tuple(range(len(orders[0])))
        return space.SameEnum(a, b, op is space.Comparison.EQ, identity, test.span)
    return space.ComparePositions(a, op, b, orders[0], test.span)


def _position(
    names: Names, scope: Scope, order: Order, side: syntax.Expression, within_branch: bool
) -> space.Position | None:
    match side:
        case syntax.ValueUse(name):
            return value_number(names, order, name)
        case syntax.Host():
            return names.host(side, scope)
        case syntax.Use():
            found = names.use(side, scope, within_branch)
            if found is None or order_of(names, side) is not None:
                return None if found is None else found[0]
    message = f"this has no place in the order {show_order(order)}"
    hint = "a value, a string that names one, an ordered enum or a quantity of its type"
    names.report.error("SP052", message, side.span, hint)
    return None


def _holds(place: int, op: space.Comparison, other: int) -> bool:
    match op:
        case space.Comparison.EQ:
            return place == other
        case space.Comparison.NE:
            return place != other
        case space.Comparison.LT:
            return place < other
        case space.Comparison.LE:
            return place <= other
        case space.Comparison.GT:
            return place > other
        case space.Comparison.GE:
            return place >= other
