"""What quantities read in a CP-SAT model: choices, counters, conditions, members of sets, values of maps.

In: the translation of everything else, as functions. Out: the same for variables that maps bind, which are
found when they are asked for, and `UnbuiltError` where there is nothing to read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ortools.sat.python import cp_model

from spacedsl.language.host import HostExpression
from spacedsl.language.reading import formula_variables
from spacedsl.language.space import Binder, EnumChoice, Formula, SetRef, Space, Use

Literal = cp_model.LiteralT
Bounded = tuple[cp_model.IntVar, int, int]
"""A variable, and bounds on it."""
Binding = dict[str, object]


class NotTranslatedError(ValueError):
    """The space uses something that this translation leaves out."""


class UnbuiltError(LookupError):
    """There is nothing to read: in a branch that is never taken."""


class LazyBinding(dict[str, object]):
    """Objects of variables; those of map applications are found when they are asked for."""

    def __init__(
        self,
        objects: Mapping[str, object],
        maps: Mapping[str, Binder],
        image: Callable[[SetRef, Mapping[str, object]], object],
    ) -> None:
        super().__init__(objects)
        self.maps, self.image = maps, image

    def __missing__(self, variable: str) -> object:
        application = self.maps[variable].set
        value = self[variable] = self.image(application, {a: self[a] for a in application.args})
        return value


@dataclass(slots=True, eq=False)
class Readers:
    space: Space
    model: cp_model.CpModel
    of_formula: Callable[[Formula, Mapping[str, object]], Literal]
    of_values: Callable[[Use, Mapping[str, object]], Sequence[Literal]]
    """One literal for each value of an enum."""
    of_integer: Callable[[Use, Mapping[str, object]], Bounded]
    """Of an integer choice, a counter or a quantity."""
    of_set: Callable[[SetRef, Mapping[str, object]], Iterable[object]]
    guards: Callable[[SetRef, Binding, object], Sequence[Literal]]
    """What makes an object a member of a set."""
    evaluate: Callable[[HostExpression, Mapping[str, object]], object]
    conjunction: Callable[[Sequence[Literal]], Literal]
    _positions: dict[tuple[object, ...], Bounded] = field(default_factory=dict)

    def literal(self, formula: Formula, binding: Mapping[str, object]) -> Literal:
        known = {**binding, **{v: binding[v] for v in formula_variables(formula)}}
        return self.of_formula(formula, known)

    def value_literals(self, use: Use, binding: Mapping[str, object]) -> Sequence[Literal]:
        """One for each value of an enum."""
        try:
            return self.of_values(use, {a: binding[a] for a in use.args})
        except KeyError:
            raise UnbuiltError(f"there is no {use.choice} on these objects") from None

    def choice(self, use: Use, binding: Mapping[str, object]) -> Bounded:
        """The value of an integer choice, a counter or a quantity, or the position of an enum's value."""
        choice = self.space.choices.get(use.choice)
        known = {a: binding[a] for a in use.args}
        if isinstance(choice, EnumChoice):
            return self._position(choice, use, known)
        try:
            return self.of_integer(use, known)
        except KeyError:
            raise UnbuiltError(f"there is no {use.choice} on these objects") from None

    def members(
        self, binder: Binder, binding: Mapping[str, object], taken: Sequence[object]
    ) -> Sequence[tuple[object, Sequence[Literal]]]:
        """Of a set, those that are distinct from the objects taken, with what makes each a member."""
        outside = {id(x) for x in taken}
        found: list[tuple[object, Sequence[Literal]]] = []
        for item in self.of_set(binder.set, binding):
            inner = {**binding, binder.name: item}
            if id(item) not in outside and (binder.where is None or self.evaluate(binder.where, inner)):
                found.append((item, self.guards(binder.set, inner, item)))
        return found

    def image(self, application: SetRef, binding: Mapping[str, object]) -> object:
        """The value of a map."""
        definition = self.space.maps[application.name]
        arguments = zip(definition.params, application.args, strict=True)
        value = self.evaluate(definition.value, {p.name: binding[v] for p, v in arguments})
        if value is None:
            raise UnbuiltError(f"{definition.name} has no value here")
        return value

    def _position(self, choice: EnumChoice, use: Use, known: Mapping[str, object]) -> Bounded:
        key = (use.choice, *(id(known[v]) for v in use.args))
        if key not in self._positions:
            last = len(choice.values) - 1
            position = self.model.new_int_var(0, last, "")
            for number, literal in enumerate(self.value_literals(use, known)):
                self.model.add(position == number).only_enforce_if(literal)
            self._positions[key] = position, 0, last
        return self._positions[key]
