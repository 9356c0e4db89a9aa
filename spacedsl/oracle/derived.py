"""What follows from decisions in a CP-SAT model: counters, representatives, and which objects are there.

In: the objects of an instance, conditions as literals, integers. Out: a variable or a literal for each, made
when it is first asked for and a function of the decisions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ortools.sat.python import cp_model

from spacedsl.language.space import Counter, Is, Quotient, Use
from spacedsl.oracle.formulas import FormulaModel
from spacedsl.oracle.logic import LARGEST, Bounded, Literal, NotTranslatedError, negated
from spacedsl.oracle.objects import Member, Objects


@dataclass(slots=True, eq=False)
class DerivedModel:
    formulas: FormulaModel
    _counters: dict[tuple[object, ...], Bounded] = field(default_factory=dict)
    _representatives: dict[tuple[object, ...], Literal] = field(default_factory=dict)
    _present: dict[Member, Literal | None] = field(default_factory=dict)
    """None: under construction."""

    # ---- Presence ----

    def guards(self, members: Iterable[Member]) -> list[Literal]:
        """Literals that are all true exactly when all the members are there."""
        return [self.presence(m) for m in members if not m.is_certain]

    def presence(self, member: Member) -> Literal:
        if member not in self._present:
            self._present[member] = None
            self._present[member] = self._some_cause(member)
        literal = self._present[member]
        if literal is None:
            raise NotTranslatedError("what is there only if it is there is not translated")
        return literal

    def _some_cause(self, member: Member) -> Literal:
        if not member.causes:
            quotient = self.formulas.sets.space.quotients[member.set]
            return self.representative(quotient, (*member.args, member.item))
        logic = self.formulas.logic
        causes: list[Literal] = []
        for cause in member.causes:
            needed = self.guards(cause.members)
            if cause.trigger is not None:
                needed.append(self.formulas.literal(cause.trigger.condition, cause.binding))
            if not needed:
                return logic.true
            causes.append(logic.conjunction(needed))
        return logic.disjunction(causes)

    def representative(self, quotient: Quotient, objects: Objects) -> Literal:
        """Whether the last object is there, qualifies, and nothing before it that does is equivalent."""
        key = (quotient.representative, *map(id, objects))
        if key not in self._representatives:
            self._representatives[key] = self._represents(quotient, objects)
        return self._representatives[key]

    def _represents(self, quotient: Quotient, objects: Objects) -> Literal:
        *params, item = objects
        outer = {p.name: x for p, x in zip(quotient.params, params, strict=True)}
        sets, logic = self.formulas.sets, self.formulas.logic
        relation = Is(Use(quotient.equivalence, ("other", "item")), quotient.equivalence_mask, quotient.span)
        needed: list[Literal] = []
        for binding, members in sets.bindings((quotient.item, *quotient.maps), outer):
            other = binding[quotient.item.name]
            qualifies = [*self.guards(members), self.formulas.literal(quotient.condition, binding)]
            if other is item:
                return logic.conjunction([*needed, *qualifies])
            equivalent = self.formulas.literal(relation, {"other": other, "item": item})
            needed.append(negated(logic.conjunction([*qualifies, equivalent])))
        raise LookupError(f"{item} is no member of the set that {quotient.set} is a quotient of")

    # ---- Counters ----

    def counter(self, counter: Counter, objects: Objects) -> Bounded:
        key = (counter.name, *map(id, objects))
        if key not in self._counters:
            self._counters[key] = self._count(counter, objects)
        return self._counters[key]

    def _count(self, counter: Counter, objects: Objects) -> Bounded:
        sets, logic = self.formulas.sets, self.formulas.logic
        outer = {p.name: x for p, x in zip(counter.params, objects, strict=True)}
        neutral = 1 if counter.product else 0
        total, low, high = logic.constant(sets.integer(counter.base, outer))
        for binding, members in sets.bindings(counter.foralls, outer):
            counted = [*self.guards(members), self.formulas.literal(counter.condition, binding)]
            if isinstance(counter.value, Use):
                value = self.formulas.integer_of(counter.value, binding)
            else:
                value = logic.constant(sets.integer(counter.value, binding))
            term, least, most = logic.select(value, logic.conjunction(counted), neutral)
            low, high = (low * least, high * most) if counter.product else (low + least, high + most)
            if high > LARGEST:
                raise NotTranslatedError(f"{counter.name} grows too large for this translation")
            following: cp_model.IntVar = logic.variable(low, high)
            if counter.product:
                logic.model.add_multiplication_equality(following, [total, term])
            else:
                logic.model.add(following == total + term)
            total = following
        return total, low, high
