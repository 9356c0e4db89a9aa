"""What a space on a kernel means: its decisions, and everything else as functions of them.

In: a checked space, a kernel and a device. Out: `Denotations`. Each thing that a space speaks of (the
presence of an object in a set, the value of a counter, whether an object represents its class, whether a
formula holds) is a `Meaning`. Written from the meaning of the nodes of `language/space.py` alone: it shares
no step with the compiler, knows no clause, table, interval or queue.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from spacedsl.engine.denoted_quantities import DenotedQuantities, added, multiplied
from spacedsl.engine.meaning import (
    COMPARE,
    LARGEST_COUNT,
    AbsentError,
    Assignment,
    Meaning,
    all_of,
    any_of,
    constant,
    is_in,
    negation,
    reads_of,
    remembered,
)
from spacedsl.engine.potential import Binding, Membership, PotentialSets
from spacedsl.language.space import (
    Affine,
    And,
    Compare,
    ComparePositions,
    Constant,
    Counter,
    EnumChoice,
    Formula,
    Host,
    IntegerChoice,
    Is,
    Not,
    Or,
    Position,
    Quotient,
    SameEnum,
    Space,
    Use,
)

Key = tuple[str, tuple[str, ...]]
"""A choice and the names of the objects that it is applied to."""


@dataclass(frozen=True, slots=True)
class Solution:
    """One implementation, by names. Of a symmetric pair only the orientation with the lower object first."""

    decisions: Mapping[Key, str | int]
    derived: Mapping[Key, str | int]
    """Values of counters and quantities, and FALSE or TRUE for representatives."""


@dataclass(frozen=True, slots=True)
class DecisionValues:
    """One choice on objects, and its values: None is one of them where the objects may be absent."""

    key: Key
    values: tuple[int | None, ...]
    names: tuple[str, ...] | None
    """The names of an enum's values."""


class Denotations:
    """The decisions of a space on a kernel, and what everything else means in terms of them."""

    def __init__(self, space: Space, kernel: object, device: object) -> None:
        self._space = space
        self._sets = PotentialSets(space, kernel, device)
        self._quantities = DenotedQuantities(space, self._sets, self._value, self._holds, self._all_present)
        self._positions: dict[tuple[object, ...], tuple[int, bool]] = {}
        self._values: dict[tuple[object, ...], Meaning[int] | Meaning[bool]] = {}
        self._present: dict[Membership, Meaning[bool] | None] = {}
        self._presences: list[Meaning[bool]] = []
        self.decisions: list[DecisionValues] = []
        bound: list[tuple[DecisionValues, tuple[Membership, ...]]] = []
        for choice in space.choices.values():
            if not space.is_derived(choice.name) and not isinstance(choice, Counter):
                bound += self._declare(choice)
        # Presence may read decisions that are declared later than the one whose presence it is.
        for position, (decision, memberships) in enumerate(bound):
            presence = self._all_present(memberships)
            if presence.reads:
                self.decisions.append(replace(decision, values=(None, *decision.values)))
                self._presences.append(self._agrees(position, presence))
            elif presence.of(()):
                self.decisions.append(decision)
            else:
                self.decisions.append(replace(decision, values=(None,)))

    # ---- Decisions ----

    def _declare(
        self, choice: EnumChoice | IntegerChoice
    ) -> Iterator[tuple[DecisionValues, tuple[Membership, ...]]]:
        names: tuple[str, ...] | None = choice.values if isinstance(choice, EnumChoice) else None
        halved = isinstance(choice, EnumChoice) and choice.symmetry.value != "none"
        for binding, memberships in self._sets.bindings(choice.params):
            objects = tuple(binding[p.name] for p in choice.params)
            ids = tuple(id(x) for x in objects)
            if (choice.name, *ids) in self._positions:
                continue
            position = len({p for p, _ in self._positions.values()})
            self._positions[choice.name, *ids] = position, False
            if halved:
                self._positions[choice.name, *reversed(ids)] = position, True
            if isinstance(choice, EnumChoice):
                values: tuple[int, ...] = tuple(range(len(choice.values)))
            else:
                values = tuple(sorted(set(self._sets.integers(choice.universe, binding))))
            yield DecisionValues((choice.name, _names(objects)), values, names), memberships

    @staticmethod
    def _agrees(position: int, presence: Meaning[bool]) -> Meaning[bool]:
        """A decision has a value exactly when its objects are present."""
        return Meaning(presence.reads | {position}, lambda a: (a[position] is not None) == presence.of(a))

    def solution(self, assignment: Assignment) -> Solution:
        decisions: dict[Key, str | int] = {}
        for decision, value in zip(self.decisions, assignment, strict=True):
            if value is not None:
                decisions[decision.key] = value if decision.names is None else decision.names[value]
        derived: dict[Key, str | int] = {}
        for key, names, present, meaning in self._derived:
            if present.of(assignment):
                number = meaning.of(assignment)
                derived[key] = number if names is None else names[number]
        return Solution(decisions, derived)

    @cached_property
    def _derived(
        self,
    ) -> list[tuple[Key, tuple[str, ...] | None, Meaning[bool], Meaning[int] | Meaning[bool]]]:
        """Counters, representatives, quantities: their names and those of their values, presence, value."""
        derived = []
        for choice in self._space.choices.values():
            if not self._space.is_derived(choice.name):
                continue
            names = choice.values if isinstance(choice, EnumChoice) else None
            use = Use(choice.name, tuple(p.name for p in choice.params))
            for binding, memberships in self._sets.bindings(choice.params):
                key = choice.name, _names([binding[p.name] for p in choice.params])
                derived.append((key, names, self._all_present(memberships), self._value(use, binding)))
        for quantity in self._space.quantities.values():
            use = Use(quantity.name, tuple(p.name for p in quantity.params))
            for binding, memberships in self._sets.bindings(quantity.params):
                key = quantity.name, _names([binding[p.name] for p in quantity.params])
                meaning = self._value(use, binding)
                derived.append((key, quantity.values, self._all_present(memberships), meaning))
        return derived

    # ---- Requirements ----

    def requirements(self) -> Iterator[Meaning[bool]]:
        """What must hold, one for each binding, and that just the decisions of present objects are made."""
        yield from self._presences
        for requirement in self._space.requirements:
            for binding, memberships in self._sets.bindings(requirement.foralls):
                present = self._all_present(memberships)
                yield any_of((negation(present), self._holds(requirement.formula, binding)))

    def _holds(self, formula: Formula, binding: Binding, saturating: bool = False) -> Meaning[bool]:
        """`saturating`: whether it is a condition within a quantity, in which all integers saturate."""
        match formula:
            case Constant(value):
                return constant(value)
            case Host(expression):
                return constant(bool(self._sets.evaluate(expression, binding)))
            case Not(operand):
                return negation(self._holds(operand, binding, saturating))
            case And(operands):
                return all_of([self._holds(f, binding, saturating) for f in operands])
            case Or(operands):
                return any_of([self._holds(f, binding, saturating) for f in operands])
            case Is(use, mask):
                return is_in(self._value(use, binding), mask)
            case SameEnum(left_use, right_use, equal, translate):
                left, right = self._value(left_use, binding), self._value(right_use, binding)
                return Meaning(
                    reads_of(left, right), lambda a: (translate[left.of(a)] == right.of(a)) == equal
                )
            case Compare(left_side, op, right_side):
                compare = COMPARE[op]
                saturating = saturating or any(
                    side.use is not None and side.use.choice in self._space.quantities
                    for side in (left_side, right_side)
                )
                first = self._affine(left_side, binding, saturating)
                second = self._affine(right_side, binding, saturating)
                return Meaning(reads_of(first, second), lambda a: compare(first.of(a), second.of(a)))
            case ComparePositions(lower, op, upper, names):
                relate = COMPARE[op]
                below, above = (self._position(side, names, binding) for side in (lower, upper))
                return Meaning(reads_of(below, above), lambda a: relate(below.of(a), above.of(a)))

    def _position(
        self, side: Position, values: Sequence[str], binding: Binding
    ) -> Meaning[int] | Meaning[bool]:
        if isinstance(side, Use):
            return self._value(side, binding)
        if isinstance(side, int):
            return constant(side)
        return constant(values.index(str(self._sets.evaluate(side, binding))))

    def _affine(self, affine: Affine, binding: Binding, saturating: bool) -> Meaning[int]:
        """Exact; where a quantity is involved, what is infinite stays so."""
        offsets = [sign * self._sets.integer(term, binding) for sign, term in affine.offsets]
        if affine.use is None:
            return constant(added(offsets) if saturating else sum(offsets))
        factor = self._sets.integer(affine.factor, binding)
        value = self._value(affine.use, binding)
        if saturating:
            return Meaning(value.reads, lambda a: added([multiplied([factor, value.of(a)]), *offsets]))
        return Meaning(value.reads, lambda a: factor * value.of(a) + sum(offsets))

    # ---- Values ----

    def _value(self, use: Use, binding: Binding) -> Meaning[int] | Meaning[bool]:
        """The value of a choice on bound objects: a number of an enum's value, or an integer."""
        objects = tuple(binding[v] for v in use.args)
        key = (use.choice, *(id(x) for x in objects))
        if key not in self._values:
            self._values[key] = self._meaning(use, objects)
        return self._values[key]

    def _meaning(self, use: Use, objects: tuple[object, ...]) -> Meaning[int] | Meaning[bool]:
        if use.choice in self._space.quantities:
            return self._quantities.meaning(use.choice, objects)
        choice = self._space.choices[use.choice]
        if isinstance(choice, Counter):
            return self._counter(choice, objects)
        for quotient in self._space.quotients.values():
            if quotient.representative == use.choice:
                return self._represents(quotient, objects)
        position, flipped = self._positions[use.choice, *(id(x) for x in objects)]
        inverse = choice.inverse if isinstance(choice, EnumChoice) and flipped else None

        def of(assignment: Assignment) -> int:
            value = assignment[position]
            if value is None:
                raise AbsentError(f"{use.choice} is read on objects that are absent")
            return value if inverse is None else inverse[value]

        return Meaning(frozenset({position}), of)

    def _counter(self, counter: Counter, objects: tuple[object, ...]) -> Meaning[int]:
        bound = {p.name: x for p, x in zip(counter.params, objects, strict=True)}
        base = self._sets.integer(counter.base, bound)
        counted: list[Meaning[bool]] = []
        values: list[Meaning[int] | Meaning[bool]] = []
        for binding, memberships in self._sets.bindings(counter.foralls, bound):
            counted.append(all_of((self._all_present(memberships), self._holds(counter.condition, binding))))
            if isinstance(counter.value, Use):
                values.append(self._value(counter.value, binding))
            else:
                values.append(constant(self._sets.integer(counter.value, binding)))

        def of(assignment: Assignment) -> int:
            chosen = [v.of(assignment) for c, v in zip(counted, values, strict=True) if c.of(assignment)]
            return min(base * math.prod(chosen) if counter.product else base + sum(chosen), LARGEST_COUNT)

        return remembered(Meaning(reads_of(*counted, *values), of))

    def _represents(self, quotient: Quotient, objects: tuple[object, ...]) -> Meaning[bool]:
        """Whether the last object is present and qualifies, and no lower one that does is equivalent."""
        *params, item = objects
        bound = {p.name: x for p, x in zip(quotient.params, params, strict=True)}
        lower: list[Meaning[bool]] = []
        for binding, memberships in self._sets.bindings((quotient.item, *quotient.maps), bound):
            candidate = binding[quotient.item.name]
            present = self._all_present(memberships)
            qualifies = all_of((present, self._holds(quotient.condition, binding)))
            if candidate is item:
                return remembered(all_of((qualifies, *(negation(other) for other in lower))))
            relation = self._value(
                Use(quotient.equivalence, ("lower", "item")), {"lower": candidate, "item": item}
            )
            related = is_in(relation, quotient.equivalence_mask)
            lower.append(all_of((qualifies, related)))
        raise LookupError(f"{item} is no member of the set that {quotient.set} is a quotient of")

    # ---- Presence ----

    def _all_present(self, memberships: Sequence[Membership]) -> Meaning[bool]:
        return all_of([self._is_present(m) for m in memberships])

    def _is_present(self, membership: Membership) -> Meaning[bool]:
        """Present where any of its reasons holds: given with its arguments, or added by a trigger."""
        if membership in self._present:
            meaning = self._present[membership]
            if meaning is None:
                raise ValueError(f"whether {membership} is present depends on itself")
            return meaning
        self._present[membership] = None
        if not membership.reasons:
            meaning = self._represents(
                self._space.quotients[membership.set], (*membership.args, membership.object)
            )
        elif any(not r.memberships and r.trigger is None for r in membership.reasons):
            meaning = constant(True)
        else:
            reasons: list[Meaning[bool]] = []
            for reason in membership.reasons:
                present = self._all_present(reason.memberships)
                if reason.trigger is None:
                    reasons.append(present)
                else:
                    reasons.append(all_of((present, self._holds(reason.trigger.condition, reason.binding))))
            meaning = remembered(any_of(reasons))
        self._present[membership] = meaning
        return meaning


def _names(objects: Sequence[object]) -> tuple[str, ...]:
    return tuple(str(getattr(x, "name")) for x in objects)  # noqa: B009
