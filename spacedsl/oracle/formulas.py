"""Conditions of a space in a CP-SAT model: a literal for each, true exactly when it holds.

In: conditions on bound objects, and what choices and integers are in the model. Out: literals, and clauses
for what is required. Written from the meaning of the nodes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ortools.sat.python import cp_model

from spacedsl.language.space import (
    Affine,
    And,
    Compare,
    ComparePositions,
    Comparison,
    Constant,
    Formula,
    Host,
    Is,
    Not,
    Or,
    Position,
    SameEnum,
    Use,
)
from spacedsl.oracle.logic import LARGEST_SUM, Bounded, Literal, Logic, NotTranslatedError, negated
from spacedsl.oracle.objects import PossibleObjects

_RELATIONS: Mapping[Comparison, Callable[[int, int], bool]] = {
    Comparison.EQ: operator.eq,
    Comparison.NE: operator.ne,
    Comparison.LT: operator.lt,
    Comparison.LE: operator.le,
    Comparison.GT: operator.gt,
    Comparison.GE: operator.ge,
}


@dataclass(frozen=True, slots=True, eq=False)
class FormulaModel:
    sets: PossibleObjects
    logic: Logic
    literals_of: Callable[[Use, Mapping[str, object]], Sequence[Literal]]
    """One for each value of an enum."""
    integer_of: Callable[[Use, Mapping[str, object]], Bounded]
    """Of an integer choice, a counter or a quantity."""

    def require(self, formula: Formula, binding: Mapping[str, object], guards: Sequence[Literal]) -> None:
        if isinstance(formula, And):
            for operand in formula.operands:
                self.require(operand, binding, guards)
            return
        self.logic.model.add_bool_or([*map(negated, guards), *self._disjuncts(formula, True, binding)])

    def _disjuncts(self, formula: Formula, positive: bool, binding: Mapping[str, object]) -> list[Literal]:
        """Literals one of which is true exactly when the formula, or its negation, holds."""
        match formula:
            case Constant(value):
                return [self.logic.true] if value == positive else []
            case Host(expression):
                return [self.logic.true] if bool(self.sets.evaluate(expression, binding)) == positive else []
            case Not(operand):
                return self._disjuncts(operand, not positive, binding)
            case Is(use, mask):
                literals = self.literals_of(use, binding)
                return [lit for v, lit in enumerate(literals) if bool(mask >> v & 1) == positive]
            case SameEnum():
                return [self._same_enum(formula, binding, positive)]
            case Compare():
                holds = self._compare(formula, binding)
                return [holds if positive else negated(holds)]
            case ComparePositions():
                holds = self._compare_positions(formula, binding)
                return [holds if positive else negated(holds)]
            case And(operands) if positive:
                return [self.logic.conjunction([self.literal(f, binding) for f in operands])]
            case Or(operands) if not positive:
                return [self.logic.conjunction([negated(self.literal(f, binding)) for f in operands])]
            case And(operands) | Or(operands):
                return [lit for f in operands for lit in self._disjuncts(f, positive, binding)]

    def literal(self, formula: Formula, binding: Mapping[str, object]) -> Literal:
        """A literal that is true exactly when the formula holds."""
        return self.logic.disjunction(self._disjuncts(formula, True, binding))

    def _same_enum(self, same: SameEnum, binding: Mapping[str, object], positive: bool) -> Literal:
        holds = self.logic.model.new_bool_var("")
        left = self.literals_of(same.left, binding)
        right = self.literals_of(same.right, binding)
        for value, literal in enumerate(left):
            counterpart = right[same.translate[value]]
            self.logic.model.add_bool_or([negated(holds), negated(literal), counterpart])
            self.logic.model.add_bool_or([holds, negated(literal), negated(counterpart)])
        return holds if same.equal == positive else negated(holds)

    def _compare(self, compare: Compare, binding: Mapping[str, object]) -> Literal:
        left, right = self._affines(compare, binding)
        whenever = {
            Comparison.EQ: (left == right, left != right),
            Comparison.NE: (left != right, left == right),
            Comparison.LT: (left < right, left >= right),
            Comparison.LE: (left <= right, left > right),
            Comparison.GT: (left > right, left <= right),
            Comparison.GE: (left >= right, left < right),
        }
        if isinstance(left, int) and isinstance(right, int):
            return self.logic.true if whenever[compare.op][0] else negated(self.logic.true)
        holds = self.logic.model.new_bool_var("")
        positive, negative = whenever[compare.op]
        self.logic.model.add(positive).only_enforce_if(holds)
        self.logic.model.add(negative).only_enforce_if(negated(holds))
        return holds

    def _compare_positions(self, compare: ComparePositions, binding: Mapping[str, object]) -> Literal:
        """Which pairs of places are in the relation is written out: there are few of them."""
        left = self._positions(compare.left, compare.values, binding)
        right = self._positions(compare.right, compare.values, binding)
        relate = _RELATIONS[compare.op]
        pairs = [
            self.logic.conjunction([first, second])
            for place, first in left.items()
            for other, second in right.items()
            if relate(place, other)
        ]
        return self.logic.disjunction(pairs)

    def _positions(
        self, side: Position, values: Sequence[str], binding: Mapping[str, object]
    ) -> dict[int, Literal]:
        """The places that one side can have, each with what says that it has it."""
        if isinstance(side, Use) and side.choice in self.sets.space.quantities:
            value, low, high = self.integer_of(side, binding)
            return {place: self.logic.equals(value, place) for place in range(low, high + 1)}
        if isinstance(side, Use):
            return dict(enumerate(self.literals_of(side, binding)))
        place = side if isinstance(side, int) else values.index(str(self.sets.evaluate(side, binding)))
        return {place: self.logic.true}

    def _affines(
        self, compare: Compare, binding: Mapping[str, object]
    ) -> tuple[cp_model.LinearExprT, cp_model.LinearExprT]:
        """Both sides. A number is at most one away from what the other side can be: no more is needed."""
        (left, *lefts), (right, *rights) = (self._affine(x, binding) for x in (compare.left, compare.right))
        if isinstance(right, int):
            right = min(max(right, lefts[0] - 1), lefts[1] + 1)
        elif isinstance(left, int):
            left = min(max(left, rights[0] - 1), rights[1] + 1)
        return left, right

    def _affine(self, affine: Affine, binding: Mapping[str, object]) -> tuple[cp_model.LinearExprT, int, int]:
        """An expression, and bounds on it."""
        offset = sum(sign * self.sets.integer(term, binding) for sign, term in affine.offsets)
        if affine.use is None:
            return offset, offset, offset
        factor = self.sets.integer(affine.factor, binding)
        value, *ends = self.integer_of(affine.use, binding)
        low, high = sorted(factor * end + offset for end in ends)
        if max(abs(factor), abs(offset), abs(low), abs(high)) > LARGEST_SUM:
            raise NotTranslatedError(f"what {affine.use.choice} is compared by grows too large")
        return factor * value + offset, low, high
