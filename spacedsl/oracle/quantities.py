"""Quantities in a CP-SAT model: a variable for each on objects, that follows from the decisions.

In: the model under construction, and what translates conditions, choices and sets. Out: a variable and bounds
on it. In a branch that cannot be read (a map without a value, objects outside of their sets) nothing is
built, and its condition is made false: the engine has seen to it that such branches are impossible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from ortools.sat.python import cp_model

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
from spacedsl.oracle.readers import Bounded, LazyBinding, Literal, NotTranslatedError, Readers, UnbuiltError


@dataclass(frozen=True, slots=True)
class _Scope:
    binding: LazyBinding
    taken: tuple[object, ...]
    order: tuple[str, ...]


@dataclass(slots=True, eq=False)
class QuantityModel:
    space: Space
    model: cp_model.CpModel
    translation: Readers
    largest: int
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
        scope = _Scope(LazyBinding(bound, maps, self.translation.image), objects, quantity.values or ())
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
                return self._constant(value)
            case HostTerm(expression):
                found: Any = self.translation.evaluate(expression, scope.binding)
                return self._constant(scope.order.index(found) if isinstance(found, str) else int(found))
            case Reading(use):
                return self.translation.choice(use, scope.binding)
            case Sum(terms):
                return self._sum([(sign, self._term(each, scope)) for sign, each in terms])
            case Product(factors):
                return self._product([self._term(each, scope) for each in factors])
            case Division(up, dividend, divisor):
                return self._division(self._term(dividend, scope), self._term(divisor, scope), up)
            case Extremum(greatest, operands):
                return self._extremum(greatest, [x for each in operands for x in self._operand(each, scope)])
            case Aggregate():
                return self._aggregate(term, scope)
            case Conditional(condition, then, otherwise):
                holds = self.translation.literal(condition, scope.binding)
                return self._select([(holds, then), (_negated(holds), otherwise)], scope)
            case Case(use, branches):
                literals = self.translation.value_literals(use, scope.binding)
                return self._select(
                    [
                        (self._one_of([x for v, x in enumerate(literals) if mask >> v & 1]), branch)
                        for mask, branch in branches
                    ],
                    scope,
                )

    def _select(self, branches: Sequence[tuple[Literal, Term]], scope: _Scope) -> Bounded:
        built: list[tuple[Literal, Bounded]] = []
        for holds, branch in branches:
            try:
                built.append((holds, self._term(branch, scope)))
            except UnbuiltError:
                self.model.add_bool_and([_negated(holds)])
        if not built:
            raise UnbuiltError("no branch can be read")
        low, high = min(x[1] for _, x in built), max(x[2] for _, x in built)
        result = self._variable(low, high)
        for holds, (value, _, _) in built:
            self.model.add(result == value).only_enforce_if(holds)
        return result, low, high

    def _one_of(self, literals: Sequence[Literal]) -> Literal:
        return _negated(self.translation.conjunction([_negated(x) for x in literals]))

    def _operand(self, term: Term, scope: _Scope) -> list[Bounded]:
        """Nothing of the least or greatest of nothing."""
        extreme = isinstance(term, Aggregate) and term.function in (Aggregation.MIN, Aggregation.MAX)
        if extreme and isinstance(term, Aggregate) and not self._members(term, scope):
            return []
        return [self._term(term, scope)]

    def _members(self, aggregate: Aggregate, scope: _Scope) -> Sequence[tuple[object, Sequence[Literal]]]:
        outer = scope.binding
        arguments = {a: outer[a] for a in aggregate.binder.set.args}
        return self.translation.members(aggregate.binder, {**outer, **arguments}, scope.taken)

    def _aggregate(self, aggregate: Aggregate, scope: _Scope) -> Bounded:
        outer = scope.binding
        values: list[Bounded] = []
        extreme = aggregate.function in (Aggregation.MIN, Aggregation.MAX)
        neutral = 1 if aggregate.function is Aggregation.PROD else 0
        for item, guards in self._members(aggregate, scope):
            maps = {**outer.maps, **{binder.name: binder for binder in aggregate.maps}}
            binding = LazyBinding({**outer, aggregate.binder.name: item}, maps, self.translation.image)
            value = self._term(aggregate.body, _Scope(binding, (*scope.taken, item), scope.order))
            if guards:
                if extreme:
                    raise NotTranslatedError("the least or greatest of what may be absent is not translated")
                value = self._guarded(value, self.translation.conjunction(list(guards)), neutral)
            values.append(value)
        match aggregate.function:
            case Aggregation.SUM:
                return self._sum([(1, value) for value in values])
            case Aggregation.PROD:
                return self._product(values)
            case _:
                return self._extremum(aggregate.function is Aggregation.MAX, values)

    # ---- Operations ----

    def _guarded(self, value: Bounded, holds: Literal, neutral: int) -> Bounded:
        low, high = min(neutral, value[1]), max(neutral, value[2])
        result = self._variable(low, high)
        self.model.add(result == value[0]).only_enforce_if(holds)
        self.model.add(result == neutral).only_enforce_if(_negated(holds))
        return result, low, high

    def _sum(self, terms: Sequence[tuple[int, Bounded]]) -> Bounded:
        low = sum(x[1] if sign > 0 else -x[2] for sign, x in terms)
        high = sum(x[2] if sign > 0 else -x[1] for sign, x in terms)
        result = self._variable(low, high)
        self.model.add(result == sum(sign * x[0] for sign, x in terms))
        return result, low, high

    def _product(self, factors: Sequence[Bounded]) -> Bounded:
        total = self._constant(1)
        for factor in factors:
            corners = [a * b for a, b in product(total[1:], factor[1:])]
            result = self._variable(min(corners), max(corners))
            self.model.add_multiplication_equality(result, [total[0], factor[0]])
            total = result, min(corners), max(corners)
        return total

    def _extremum(self, greatest: bool, operands: Sequence[Bounded]) -> Bounded:
        if not operands:
            raise UnbuiltError("nothing to take the least or greatest of")
        choose = max if greatest else min
        low, high = choose(x[1] for x in operands), choose(x[2] for x in operands)
        result = self._variable(low, high)
        values = [x[0] for x in operands]
        if greatest:
            self.model.add_max_equality(result, values)
        else:
            self.model.add_min_equality(result, values)
        return result, low, high

    def _division(self, dividend: Bounded, divisor: Bounded, up: bool) -> Bounded:
        """The quotient is what times the divisor lies less than one divisor away, on the right side."""
        if divisor[1] < 1:
            raise NotTranslatedError("a divisor that is at least 1 for a reason that is not seen here")
        corners = [-(-a // b) if up else a // b for a, b in product(dividend[1:], divisor[1:])]
        low, high = min(corners), max(corners)
        result = self._variable(low, high)
        multiples = [a * b for a, b in product((low, high), divisor[1:])]
        multiple = self._variable(min(multiples), max(multiples))
        self.model.add_multiplication_equality(multiple, [result, divisor[0]])
        rest = multiple - dividend[0] if up else dividend[0] - multiple
        self.model.add(rest >= 0)
        self.model.add(rest < divisor[0])
        return result, low, high

    def _constant(self, value: int) -> Bounded:
        if abs(value) > self.largest:
            raise NotTranslatedError(f"{value} is too large for this translation")
        return self.model.new_constant(value), value, value

    def _variable(self, low: int, high: int) -> cp_model.IntVar:
        if max(abs(low), abs(high)) > self.largest:
            raise NotTranslatedError("a quantity grows too large for this translation")
        return self.model.new_int_var(low, high, "")


def _negated(literal: Literal) -> Literal:
    return literal.negated()  # type: ignore[union-attr]
