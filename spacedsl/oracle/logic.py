"""Conditions and numbers of a CP-SAT model: what the parts of the translation hand to each other.

In: a model under construction. Out: literals for combinations of literals, each a function of its parts, so
that no solution of the space becomes two of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ortools.sat.python import cp_model

Literal = cp_model.LiteralT
Bounded = tuple[cp_model.IntVar, int, int]
"""A variable, and bounds on it."""

LARGEST = 1 << 40
"""CP-SAT's own limit is far above; an instance that comes near it is not for this translation."""
LARGEST_SUM = 1 << 60
"""Of a linear expression."""


class NotTranslatedError(ValueError):
    """The space uses something that this translation leaves out."""


@dataclass(frozen=True, slots=True, eq=False)
class Logic:
    model: cp_model.CpModel
    true: cp_model.IntVar = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "true", self.model.new_constant(1))

    def conjunction(self, literals: Sequence[Literal]) -> Literal:
        if len(literals) == 1:
            return literals[0]
        if not literals:
            return self.true
        holds = self.model.new_bool_var("")
        self.model.add_bool_and(literals).only_enforce_if(holds)
        self.model.add_bool_or([holds, *map(negated, literals)])
        return holds

    def disjunction(self, literals: Sequence[Literal]) -> Literal:
        return negated(self.conjunction([negated(x) for x in literals]))

    def equals(self, value: cp_model.IntVar, number: int) -> Literal:
        holds = self.model.new_bool_var("")
        self.model.add(value == number).only_enforce_if(holds)
        self.model.add(value != number).only_enforce_if(negated(holds))
        return holds

    def one_of(self, count: int) -> tuple[cp_model.IntVar, ...]:
        """New literals of which exactly one is true."""
        literals = tuple(self.model.new_bool_var("") for _ in range(count))
        self.model.add_exactly_one(literals)
        return literals

    def constant(self, value: int) -> Bounded:
        if abs(value) > LARGEST:
            raise NotTranslatedError(f"{value} is too large for this translation")
        return self.model.new_constant(value), value, value

    def variable(self, low: int, high: int) -> cp_model.IntVar:
        if max(abs(low), abs(high)) > LARGEST:
            raise NotTranslatedError("a number grows too large for this translation")
        return self.model.new_int_var(low, high, "")

    def select(self, value: Bounded, holds: Literal, otherwise: int) -> Bounded:
        """The value where the literal holds, else the number."""
        low, high = min(otherwise, value[1]), max(otherwise, value[2])
        result = self.variable(low, high)
        self.model.add(result == value[0]).only_enforce_if(holds)
        self.model.add(result == otherwise).only_enforce_if(negated(holds))
        return result, low, high


def negated(literal: Literal) -> Literal:
    return literal.negated()  # type: ignore[union-attr]
