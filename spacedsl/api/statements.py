"""What a person says of a choice on objects: `order(a, b) is not INNER`, `size(i) <= 4`.

In: text from a command line, and an instance. Out: the choice, its objects, and the values that the statement
allows and excludes; or an `UnknownNameError` that says what is not known here.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from spacedsl.api.offered import choice_hint, follows, shown, wrong_objects
from spacedsl.api.problem import UnknownNameError, unknown
from spacedsl.engine.claims import UNBOUNDED, Claim
from spacedsl.engine.decision import Decision
from spacedsl.engine.instance import Instance
from spacedsl.kernels.sizes import whole_number
from spacedsl.language.space import Counter, EnumChoice, Quantity

_STATEMENT = re.compile(
    r"\s*(?P<choice>\w+)\s*\(\s*(?P<objects>[^()]*?)\s*\)\s*"
    r"(?P<relation>is\s+not\b|is\b|==|!=|<=|>=|=|<|>)\s*(?P<values>.+?)\s*"
)
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}


@dataclass(frozen=True, slots=True)
class Statement:
    """`allowed` and `excluded` are values of an enum or integer choice, in order."""

    choice: str
    objects: tuple[str, ...]
    allowed: tuple[str | int, ...]
    excluded: tuple[str | int, ...]

    def opposite(self) -> Statement:
        """What refutes it."""
        return Statement(self.choice, self.objects, self.excluded, self.allowed)

    def as_decision(self) -> Decision:
        return Decision(self.choice, self.objects, self.allowed)


@dataclass(frozen=True, slots=True)
class Limit:
    """Of a counter or quantity; values of ordered enums are positions."""

    choice: str
    objects: tuple[str, ...]
    claim: Claim

    def opposite(self) -> Limit:
        """What refutes it."""
        return Limit(self.choice, self.objects, self.claim.opposite())


def parse_decision(instance: Instance, text: str) -> Decision:
    """`size(i) = 4` or `order(a, b) is BEFORE | AFTER`; raises `UnknownNameError`."""
    statement = parse_statement(instance, text)
    if isinstance(statement, Limit):
        space = instance.space
        followed = space.quantities.get(statement.choice) or space.choices[statement.choice]
        raise UnknownNameError(f"`{text}`: {follows(followed)}")
    if not statement.allowed:
        raise UnknownNameError(f"`{text}` leaves no value")
    return statement.as_decision()


def parse_statement(instance: Instance, text: str) -> Statement | Limit:
    """Raises `UnknownNameError` for what is no statement, and for names that there are not."""
    match = _STATEMENT.fullmatch(text)
    if match is None:
        raise UnknownNameError(
            f"`{text}` is not of the form `order(a, b) is not BEFORE` or `size(i) = 4`: a choice, its "
            "objects in parentheses, one of `is`, `is not`, `=`, `!=`, `<=`, `<`, `>=`, `>`, and a value"
        )
    relation = re.sub(r"\s+", " ", match["relation"])
    name, values = match["choice"], [v.strip() for v in match["values"].split("|")]
    objects = tuple(o.strip() for o in match["objects"].split(",")) if match["objects"] else ()
    space = instance.space
    choice = space.choices.get(name) or space.quantities.get(name)
    if choice is None:
        hint = choice_hint(name, (*space.choices, *space.quantities))
        raise UnknownNameError(f"no choice is called `{name}`; {hint}")
    for mistake in wrong_objects(instance, choice, objects):
        raise UnknownNameError(str(mistake))
    if isinstance(choice, Counter | Quantity):
        order = choice.values if isinstance(choice, Quantity) else None
        return Limit(name, objects, _claim(choice, relation, values, text, order))
    cell = instance.layout.cells[name][tuple(map(instance.objects.names.index, objects))]
    universe: tuple[str | int, ...]
    named: tuple[str | int, ...]
    if isinstance(choice, EnumChoice):
        universe = choice.values
        named = choice.names(_mask(choice, relation, values, text))
    else:
        universe = instance.layout.universes[cell]
        named = _integers(instance.layout.universes[cell], relation, values, text)
    if relation in ("is not", "!="):
        return Statement(name, objects, tuple(v for v in universe if v not in named), tuple(named))
    return Statement(name, objects, tuple(named), tuple(v for v in universe if v not in named))


def _mask(choice: EnumChoice, relation: str, values: list[str], text: str) -> int:
    for value in values:
        if value not in choice.values and value not in choice.aliases:
            raise unknown(f"value of {choice.name}", value, (*choice.values, *choice.aliases))
    mask = choice.mask(*values)
    if relation not in _COMPARE:
        return mask
    if not choice.ordered:
        raise UnknownNameError(f"`{text}`: the values of {choice.name} have no order")
    if mask.bit_count() != 1:
        raise UnknownNameError(f"`{text}`: one value is compared with")
    place = mask.bit_length() - 1
    return sum(1 << bit for bit in range(len(choice.values)) if _COMPARE[relation](bit, place))


def _integers(universe: tuple[int, ...], relation: str, values: list[str], text: str) -> tuple[int, ...]:
    numbers = [_number(value, text) for value in values]
    if relation in _COMPARE:
        if len(numbers) > 1:
            raise UnknownNameError(f"`{text}`: one number is compared with")
        return tuple(v for v in universe if _COMPARE[relation](v, numbers[0]))
    for number in numbers:
        if number not in universe:
            raise UnknownNameError(f"`{text}`: {number} is none of {shown(universe)}")
    return tuple(v for v in universe if v in numbers)


def _claim(
    choice: Counter | Quantity, relation: str, values: list[str], text: str, order: tuple[str, ...] | None
) -> Claim:
    if len(values) == 1:
        number = _number(values[0], text) if order is None else _position(choice.name, values[0], order)
        # What is beyond all values says no more than the last number before.
        number = max(1 - UNBOUNDED, min(number, UNBOUNDED - 1))
        match relation:
            case "<=" | "<":
                return Claim(-UNBOUNDED, number - (relation == "<"), is_within=True)
            case ">=" | ">":
                return Claim(number + (relation == ">"), UNBOUNDED, is_within=True)
            case _:
                return Claim(number, number, is_within=relation not in ("is not", "!="))
    kind = "quantity" if isinstance(choice, Quantity) else "counter"
    value = "number" if order is None else "value"
    raise UnknownNameError(f"`{text}`: of a {kind}, say that it is =, !=, <=, <, >= or > one {value}")


def _position(name: str, value: str, order: tuple[str, ...]) -> int:
    if value not in order:
        raise unknown(f"value of {name}", value, order)
    return order.index(value)


def _number(text: str, statement: str) -> int:
    number = whole_number(text)
    if number is None:
        raise UnknownNameError(f"`{statement}`: {text} is no integer")
    return number
