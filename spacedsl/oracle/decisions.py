"""The decisions of a space in a CP-SAT model: for each value of each one a literal, exactly one of them true.

In: the objects of an instance. Out: the literals and integers of decisions, for objects that are there from
the start and for those that may come. Of objects that are absent a decision has its first value, so that no
solution of the space becomes two of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ortools.sat.python import cp_model

from spacedsl.language.space import Counter, EnumChoice, IntegerChoice, Symmetry, Use
from spacedsl.oracle.logic import LARGEST, Bounded, Literal, Logic, NotTranslatedError, negated
from spacedsl.oracle.objects import Binding, Member, Objects, PossibleObjects


@dataclass(frozen=True, slots=True)
class Domain:
    """A decision's literals; an integer has a variable too."""

    values: tuple[str, ...] | tuple[int, ...]
    literals: tuple[cp_model.IntVar, ...]
    integer: cp_model.IntVar | None
    needed: tuple[Member, ...]
    """There is a decision where all of these are there."""


@dataclass(slots=True, eq=False)
class DecisionModel:
    sets: PossibleObjects
    logic: Logic
    _domains: dict[tuple[object, ...], Domain] = field(default_factory=dict)
    _mirrors: set[tuple[object, ...]] = field(default_factory=set)
    """Second orientations of pairs, whose literals are those of the first."""

    def __post_init__(self) -> None:
        space = self.sets.space
        for choice in space.choices.values():
            if not isinstance(choice, Counter) and not space.is_derived(choice.name):
                for binding, needed in self.sets.bindings(choice.params, {}):
                    objects = tuple(binding[p.name] for p in choice.params)
                    domain = (
                        self._integer(choice, binding, needed)
                        if isinstance(choice, IntegerChoice)
                        else self._enum(choice, objects, needed)
                    )
                    self._domains[choice.name, *map(id, objects)] = domain

    def domain(self, choice: str, objects: Objects) -> Domain:
        """Raises `KeyError` where there is no such decision."""
        return self._domains[choice, *map(id, objects)]

    def settle_absent(self, guards: Callable[[Sequence[Member]], list[Literal]]) -> None:
        """Gives the decisions on absent objects their first values; `guards` say that members are there."""
        for key, domain in self._domains.items():
            if key not in self._mirrors:
                for present in guards(domain.needed):
                    self.logic.model.add_implication(negated(present), domain.literals[0])

    def literals(self, use: Use, binding: Mapping[str, object]) -> tuple[Literal, ...]:
        """One for each value of an enum."""
        return self.domain(use.choice, tuple(binding[v] for v in use.args)).literals

    def integer(self, use: Use, binding: Mapping[str, object]) -> Bounded:
        domain = self.domain(use.choice, tuple(binding[v] for v in use.args))
        assert domain.integer is not None
        numbers = [int(v) for v in domain.values]
        return domain.integer, min(numbers), max(numbers)

    def _integer(self, choice: IntegerChoice, binding: Binding, needed: tuple[Member, ...]) -> Domain:
        universe = tuple(sorted(set(self.sets.evaluate(choice.universe, binding))))  # type: ignore[call-overload]
        if not universe:
            raise NotTranslatedError("integer choices without values are not translated")
        if universe[-1] > LARGEST:
            raise NotTranslatedError(f"{choice.name} has a value that is too large for this translation")
        integer = self.logic.model.new_int_var_from_domain(cp_model.Domain.from_values(universe), choice.name)
        literals = self.logic.one_of(len(universe))
        for value, literal in zip(universe, literals, strict=True):
            self.logic.model.add(integer == value).only_enforce_if(literal)
        return Domain(universe, literals, integer, needed)

    def _enum(self, choice: EnumChoice, objects: Objects, needed: tuple[Member, ...]) -> Domain:
        mirrored = self._domains.get((choice.name, *map(id, reversed(objects))))
        if choice.symmetry is Symmetry.NONE or mirrored is None:
            return Domain(choice.values, self.logic.one_of(len(choice.values)), None, needed)
        # c(a, b) has value v exactly when c(b, a) has the inverse of v.
        self._mirrors.add((choice.name, *map(id, objects)))
        turned = tuple(mirrored.literals[choice.inverse[v]] for v in range(len(choice.values)))
        return Domain(choice.values, turned, None, needed)
