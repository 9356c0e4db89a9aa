"""Quantities in a CP-SAT model: a variable for each on objects, that follows from the decisions.

In: the model under construction, and what translates conditions, choices and sets. Out: a variable and bounds
on it. In a branch that cannot be read (a map without a value, objects outside of their sets) nothing is
built, and its condition is made false: the engine has seen to it that such branches are impossible.
Beside triggers that is not translated: on absent objects decisions have values that mean nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from spacedsl.language.space import (
    Aggregate,
    Aggregation,
    Case,
    Conditional,
    Division,
    Extremum,
    HostTerm,
    Product,
    Reading,
    Space,
    Sum,
    Term,
)
from spacedsl.language.space import Literal as Number
from spacedsl.oracle.logic import Bounded, Literal, Logic, NotTranslatedError, negated
from spacedsl.oracle.readers import LazyBinding, Readers, UnbuiltError

_Operand = tuple[Bounded, Literal | None]
"""A value, and what says that it is there: None where it always is."""


@dataclass(frozen=True, slots=True)
class _Scope:
    binding: LazyBinding
    taken: tuple[object, ...]
    order: tuple[str, ...]


@dataclass(slots=True, eq=False)
class QuantityModel:
    space: Space
    logic: Logic
    readers: Readers
    _known: dict[tuple[object, ...], Bounded | None] = field(default_factory=dict)
    """None: under construction."""

    def value(self, name: str, objects: tuple[object, ...]) -> Bounded:
        """Of a quantity on objects; raises `UnbuiltError` and `NotTranslatedError`."""
        key = (name, *map(id, objects))
        if key in self._known:
            found = self._known[key]
            if found is None:
                raise UnbuiltError(f"{name} depends on itself")
            return found
        self._known[key] = None
        quantity = self.space.quantities[name]
        maps = {binder.name: binder for binder in quantity.maps}
        bound = {p.name: x for p, x in zip(quantity.params, objects, strict=True)}
        scope = _Scope(LazyBinding(bound, maps, self.readers.image), objects, quantity.values or ())
        try:
            found = self._term(quantity.body, scope)
        except BaseException:
            del self._known[key]
            raise
        self._known[key] = found
        return found

    # ---- Terms ----

    def _term(self, term: Term, scope: _Scope) -> Bounded:
        match term:
            case Number(value):
                return self.logic.constant(value)
            case HostTerm(expression):
                found: Any = self.readers.sets.evaluate(expression, scope.binding)
                return self.logic.constant(scope.order.index(found) if isinstance(found, str) else int(found))
            case Reading(use):
                return self.readers.choice(use, scope.binding)
            case Sum(terms):
                return self._sum([(sign, self._term(each, scope)) for sign, each in terms])
            case Product(factors):
                return self._product([self._term(each, scope) for each in factors])
            case Division(up, dividend, divisor):
                return self._division(self._term(dividend, scope), self._term(divisor, scope), up)
            case Extremum(greatest, operands):
                parts = [x for each in operands for x in self._operand(each, scope)]
                return self._certain(self._extremum(greatest, parts))
            case Aggregate():
                return self._aggregate(term, scope)
            case Conditional(condition, then, otherwise):
                holds = self.readers.literal(condition, scope.binding)
                return self._select([(holds, then), (negated(holds), otherwise)], scope)
            case Case(use, branches):
                literals = self.readers.value_literals(use, scope.binding)
                return self._select(
                    [
                        (self.logic.disjunction([x for v, x in enumerate(literals) if mask >> v & 1]), branch)
                        for mask, branch in branches
                    ],
                    scope,
                )

    def _select(self, branches: Sequence[tuple[Literal, Term]], scope: _Scope) -> Bounded:
        built: list[tuple[Literal, Bounded]] = []
        for holds, branch in branches:
            try:
                built.append((holds, self._term(branch, scope)))
            except UnbuiltError as error:
                if self.space.triggers:
                    raise NotTranslatedError(
                        "impossible branches beside triggers are not translated"
                    ) from error
                self.logic.model.add_bool_and([negated(holds)])
        if not built:
            raise UnbuiltError("no branch can be read")
        low, high = min(x[1] for _, x in built), max(x[2] for _, x in built)
        result = self.logic.variable(low, high)
        for holds, (value, _, _) in built:
            self.logic.model.add(result == value).only_enforce_if(holds)
        return result, low, high

    def _operand(self, term: Term, scope: _Scope) -> list[_Operand]:
        """Of the least or greatest of some members: nothing where there are none."""
        if isinstance(term, Aggregate) and term.function in (Aggregation.MIN, Aggregation.MAX):
            members = self._members(term, scope)
            return [self._extremum(term.function is Aggregation.MAX, members)] if members else []
        return [(self._term(term, scope), None)]

    def _members(self, aggregate: Aggregate, scope: _Scope) -> list[_Operand]:
        """The values of the members that there may be."""
        outer = scope.binding
        maps = {**outer.maps, **{binder.name: binder for binder in aggregate.maps}}
        arguments = {a: outer[a] for a in aggregate.binder.set.args}
        found: list[_Operand] = []
        for item, guards in self.readers.members(aggregate.binder, {**outer, **arguments}, scope.taken):
            binding = LazyBinding({**outer, aggregate.binder.name: item}, maps, self.readers.image)
            value = self._term(aggregate.body, _Scope(binding, (*scope.taken, item), scope.order))
            found.append((value, self.logic.conjunction(guards) if guards else None))
        return found

    def _aggregate(self, aggregate: Aggregate, scope: _Scope) -> Bounded:
        members = self._members(aggregate, scope)
        match aggregate.function:
            case Aggregation.SUM:
                return self._sum([(1, self._or_neutral(member, 0)) for member in members])
            case Aggregation.PROD:
                return self._product([self._or_neutral(member, 1) for member in members])
            case _:
                return self._certain(self._extremum(aggregate.function is Aggregation.MAX, members))

    # ---- Operations ----

    def _or_neutral(self, operand: _Operand, neutral: int) -> Bounded:
        value, holds = operand
        return value if holds is None else self.logic.select(value, holds, neutral)

    @staticmethod
    def _certain(operand: _Operand) -> Bounded:
        value, holds = operand
        if holds is not None:
            raise NotTranslatedError("the least or greatest of what may be nothing is not translated")
        return value

    def _sum(self, terms: Sequence[tuple[int, Bounded]]) -> Bounded:
        low = sum(x[1] if sign > 0 else -x[2] for sign, x in terms)
        high = sum(x[2] if sign > 0 else -x[1] for sign, x in terms)
        result = self.logic.variable(low, high)
        self.logic.model.add(result == sum(sign * x[0] for sign, x in terms))
        return result, low, high

    def _product(self, factors: Sequence[Bounded]) -> Bounded:
        total = self.logic.constant(1)
        for factor in factors:
            corners = [a * b for a, b in product(total[1:], factor[1:])]
            result = self.logic.variable(min(corners), max(corners))
            self.logic.model.add_multiplication_equality(result, [total[0], factor[0]])
            total = result, min(corners), max(corners)
        return total

    def _extremum(self, greatest: bool, operands: Sequence[_Operand]) -> _Operand:
        """Of those that are there; it is there itself where any of them is."""
        if not operands:
            raise UnbuiltError("nothing to take the least or greatest of")
        # What is absent counts as a value that all others are at least as good as.
        worst = min(x[1] for x, _ in operands) if greatest else max(x[2] for x, _ in operands)
        values = [self._or_neutral(operand, worst) for operand in operands]
        choose = max if greatest else min
        low, high = choose(x[1] for x in values), choose(x[2] for x in values)
        result = self.logic.variable(low, high)
        if greatest:
            self.logic.model.add_max_equality(result, [x[0] for x in values])
        else:
            self.logic.model.add_min_equality(result, [x[0] for x in values])
        conditions = [holds for _, holds in operands if holds is not None]
        is_certain = len(conditions) < len(operands)
        return (result, low, high), None if is_certain else self.logic.disjunction(conditions)

    def _division(self, dividend: Bounded, divisor: Bounded, up: bool) -> Bounded:
        """The quotient is what times the divisor lies less than one divisor away, on the right side."""
        if divisor[1] < 1:
            raise NotTranslatedError("a divisor that is at least 1 for a reason that is not seen here")
        corners = [-(-a // b) if up else a // b for a, b in product(dividend[1:], divisor[1:])]
        low, high = min(corners), max(corners)
        result = self.logic.variable(low, high)
        multiples = [a * b for a, b in product((low, high), divisor[1:])]
        multiple = self.logic.variable(min(multiples), max(multiples))
        self.logic.model.add_multiplication_equality(multiple, [result, divisor[0]])
        rest = multiple - dividend[0] if up else dividend[0] - multiple
        self.logic.model.add(rest >= 0)
        self.logic.model.add(rest < divisor[0])
        return result, low, high
