"""What quantities mean: their exact values for complete assignments, the other half of the enumerator.

In: the sets of an instance and the meanings of choices, conditions and presence. Out: a `Meaning` for each
quantity on objects. Terms are evaluated as they are written, on one assignment, and only the branches that it
takes; so this knows nothing of intervals, nor of branches that are impossible from the start.

Values whose magnitude is 2**63 - 1 or more are infinite, and stay so: plus infinity where both kinds are
added, 0 where one is multiplied by 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from spacedsl.engine.meaning import Assignment, Meaning, remembered
from spacedsl.engine.potential import Binding, Membership, PotentialSets
from spacedsl.language.reading import formula_uses, formula_variables
from spacedsl.language.space import (
    Aggregate,
    Aggregation,
    Binder,
    Case,
    Conditional,
    Division,
    Extremum,
    Formula,
    HostTerm,
    Literal,
    Product,
    Reading,
    Space,
    Sum,
    Term,
    Use,
)

INFINITE = 2**63 - 1


def added(values: Iterable[int]) -> int:
    """Their sum; infinite where one of them is, plus infinity first."""
    terms = [saturated(value) for value in values]
    for end in (INFINITE, -INFINITE):
        if end in terms:
            return end
    return saturated(sum(terms))


def multiplied(values: Iterable[int]) -> int:
    return saturated(math.prod(values))


def divided(dividend: int, divisor: int, up: bool) -> int:
    """Rounded toward minus, or if `up` toward plus infinity; what is divided by infinity is next to 0."""
    if abs(dividend) >= INFINITE:
        return saturated(dividend)
    return -(-dividend // divisor) if up else dividend // divisor


def saturated(value: int) -> int:
    return max(-INFINITE, min(value, INFINITE))


@dataclass(slots=True)
class _Scope:
    """Variables in scope: their objects, and the maps that give the objects of further ones."""

    sets: PotentialSets
    objects: dict[str, object]
    maps: Mapping[str, Binder]
    taken: tuple[object, ...]
    """The objects that aggregated ones differ from: those that are not by a map."""
    order: tuple[str, ...]
    """The values of the quantity, if it has an ordered enum's type."""

    def __getitem__(self, variable: str) -> object:
        if variable not in self.objects:
            application = self.maps[variable].set
            arguments = {a: self[a] for a in application.args}
            self.objects[variable] = self.sets.image(application, arguments).object
        return self.objects[variable]

    def of(self, variables: Iterable[str]) -> Binding:
        return {variable: self[variable] for variable in variables}

    def members(self, aggregate: Aggregate) -> Iterator[tuple[_Scope, tuple[Membership, ...]]]:
        maps = {**self.maps, **{binder.name: binder for binder in aggregate.maps}}
        binder = aggregate.binder
        outer = self.of((*self.objects, *binder.set.args))
        for binding, memberships in self.sets.bindings((binder,), outer, self.taken):
            taken = (*self.taken, binding[binder.name])
            yield _Scope(self.sets, dict(binding), maps, taken, self.order), memberships


@dataclass(slots=True, eq=False)
class DenotedQuantities:
    space: Space
    sets: PotentialSets
    value: Callable[[Use, Binding], Meaning[int] | Meaning[bool]]
    """Of a choice, counter or quantity."""
    holds: Callable[[Formula, Binding, bool], Meaning[bool]]
    present: Callable[[Sequence[Membership]], Meaning[bool]]
    _conditions: dict[tuple[int, ...], Meaning[bool]] = field(default_factory=dict)

    def meaning(self, name: str, objects: tuple[object, ...]) -> Meaning[int]:
        body, scope = self.space.quantities[name].body, self._scope(name, objects)
        reads = frozenset(self._reads_of(name, objects, set()))
        return remembered(Meaning(reads, lambda a: self._evaluate(body, scope, a)))

    def _scope(self, name: str, objects: tuple[object, ...]) -> _Scope:
        quantity = self.space.quantities[name]
        bound = {p.name: x for p, x in zip(quantity.params, objects, strict=True)}
        maps = {binder.name: binder for binder in quantity.maps}
        return _Scope(self.sets, bound, maps, objects, quantity.values or ())

    # ---- Values ----

    def _evaluate(self, term: Term, scope: _Scope, a: Assignment) -> int:
        match term:
            case Literal(value):
                return value
            case HostTerm(expression):
                found = self.sets.evaluate(expression, scope.of(expression.free_variables))
                if isinstance(found, str):
                    return scope.order.index(found)
                return saturated(int(found))  # type: ignore[call-overload]
            case Reading(use):
                return saturated(int(self.value(use, scope.of(use.args)).of(a)))
            case Sum(terms):
                return added(sign * self._evaluate(each, scope, a) for sign, each in terms)
            case Product(factors):
                return multiplied(self._evaluate(each, scope, a) for each in factors)
            case Division(up, dividend, divisor):
                return divided(self._evaluate(dividend, scope, a), self._evaluate(divisor, scope, a), up)
            case Extremum(greatest, operands):
                values = [v for each in operands for v in self._operand(each, scope, a)]
                return max(values, default=-INFINITE) if greatest else min(values, default=INFINITE)
            case Aggregate(function):
                return self._aggregate(function, self._members(term, scope, a))
            case Conditional(condition, then, otherwise):
                chosen = then if self._condition(condition, scope).of(a) else otherwise
                return self._evaluate(chosen, scope, a)
            case Case(use, branches):
                number = int(self.value(use, scope.of(use.args)).of(a))
                chosen = next(branch for mask, branch in branches if mask >> number & 1)
                return self._evaluate(chosen, scope, a)

    def _operand(self, term: Term, scope: _Scope, a: Assignment) -> list[int]:
        """The values of an operand of an extremum: none of an empty aggregate."""
        if isinstance(term, Aggregate) and term.function in (Aggregation.MIN, Aggregation.MAX):
            values = self._members(term, scope, a)
            return [self._aggregate(term.function, values)] if values else []
        return [self._evaluate(term, scope, a)]

    def _members(self, aggregate: Aggregate, scope: _Scope, a: Assignment) -> list[int]:
        return [
            self._evaluate(aggregate.body, inner, a)
            for inner, memberships in scope.members(aggregate)
            if self.present(memberships).of(a)
        ]

    @staticmethod
    def _aggregate(function: Aggregation, values: list[int]) -> int:
        match function:
            case Aggregation.SUM:
                return added(values)
            case Aggregation.PROD:
                return multiplied(values)
            case Aggregation.MIN:
                return min(values, default=INFINITE)
            case Aggregation.MAX:
                return max(values, default=-INFINITE)

    def _condition(self, formula: Formula, scope: _Scope) -> Meaning[bool]:
        binding = scope.of(dict.fromkeys(formula_variables(formula)))
        key = (id(formula), *(id(x) for x in binding.values()))
        if key not in self._conditions:
            self._conditions[key] = self.holds(formula, binding, True)
        return self._conditions[key]

    # ---- What is read ----

    def _reads_of(self, name: str, objects: tuple[object, ...], known: set[tuple[object, ...]]) -> set[int]:
        """The decisions that any branch reads; `known` are the quantities that are looked at already."""
        key = (name, *(id(x) for x in objects))
        if key in known:
            return set()
        known.add(key)
        return self._term_reads(self.space.quantities[name].body, self._scope(name, objects), known)

    def _term_reads(self, term: Term, scope: _Scope, known: set[tuple[object, ...]]) -> set[int]:
        uses: list[Use] = []
        parts: list[Term] = []
        found: set[int] = set()
        match term:
            case Reading(use):
                uses = [use]
            case Sum(terms):
                parts = [each for _, each in terms]
            case Product(parts_) | Extremum(_, parts_):
                parts = list(parts_)
            case Division(_, dividend, divisor):
                parts = [dividend, divisor]
            case Conditional(condition, then, otherwise):
                uses, parts = list(formula_uses(condition)), [then, otherwise]
            case Case(use, branches):
                uses, parts = [use], [branch for _, branch in branches]
            case Aggregate():
                for inner, memberships in scope.members(term):
                    found |= self.present(memberships).reads
                    found |= self._term_reads(term.body, inner, known)
        for use in uses:
            try:
                binding = scope.of(use.args)
                if use.choice in self.space.quantities:
                    found |= self._reads_of(use.choice, tuple(binding[v] for v in use.args), known)
                else:
                    found |= self.value(use, binding).reads
            except LookupError:
                continue  # in a branch that is never taken, a map may have no value
        for part in parts:
            try:
                found |= self._term_reads(part, scope, known)
            except LookupError:
                continue
        return found
