"""What quantities read in a CP-SAT model: choices, counters, conditions, members of sets, values of maps.

In: the translation of everything else, as functions. Out: the same for variables that maps bind, which are
found when they are asked for, and `UnbuiltError` where there is nothing to read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from spacedsl.language.reading import formula_variables
from spacedsl.language.space import Binder, EnumChoice, Formula, SetRef, Use
from spacedsl.oracle.formulas import FormulaModel
from spacedsl.oracle.logic import Bounded, Literal, Logic
from spacedsl.oracle.objects import Member, PossibleObjects


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
    sets: PossibleObjects
    logic: Logic
    formulas: FormulaModel
    guards: Callable[[Sequence[Member]], list[Literal]]
    """What says that members are there."""
    _positions: dict[tuple[object, ...], Bounded] = field(default_factory=dict)

    def literal(self, formula: Formula, binding: Mapping[str, object]) -> Literal:
        known = {**binding, **{v: binding[v] for v in formula_variables(formula)}}
        return self.formulas.literal(formula, known)

    def value_literals(self, use: Use, binding: Mapping[str, object]) -> Sequence[Literal]:
        """One for each value of an enum."""
        try:
            return self.formulas.literals_of(use, {a: binding[a] for a in use.args})
        except KeyError:
            raise UnbuiltError(f"there is no {use.choice} on these objects") from None

    def choice(self, use: Use, binding: Mapping[str, object]) -> Bounded:
        """The value of an integer choice, a counter or a quantity, or the position of an enum's value."""
        choice = self.sets.space.choices.get(use.choice)
        known = {a: binding[a] for a in use.args}
        if isinstance(choice, EnumChoice):
            return self._position(choice, use, known)
        try:
            return self.formulas.integer_of(use, known)
        except KeyError:
            raise UnbuiltError(f"there is no {use.choice} on these objects") from None

    def members(
        self, binder: Binder, binding: Mapping[str, object], taken: Sequence[object]
    ) -> Sequence[tuple[object, Sequence[Literal]]]:
        """Of a set, those that are distinct from the objects taken, with what makes each a member."""
        return [
            (inner[binder.name], self.guards(needed))
            for inner, needed in self.sets.bindings((binder,), binding, taken)
        ]

    def image(self, application: SetRef, binding: Mapping[str, object]) -> object:
        """The value of a map."""
        value = self.sets.image(application, binding)
        if value is None:
            raise UnbuiltError(f"{application.name} has no value here")
        return value

    def _position(self, choice: EnumChoice, use: Use, known: Mapping[str, object]) -> Bounded:
        key = (use.choice, *(id(known[v]) for v in use.args))
        if key not in self._positions:
            last = len(choice.values) - 1
            position = self.logic.variable(0, last)
            for number, literal in enumerate(self.value_literals(use, known)):
                self.logic.model.add(position == number).only_enforce_if(literal)
            self._positions[key] = position, 0, last
        return self._positions[key]
