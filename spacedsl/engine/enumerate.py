"""All solutions of a small instance, found by trying everything: the engine's oracle.

In: a checked space, a kernel and a device. Out: every complete assignment that satisfies the space. Written
from the meaning of the nodes of `language/space.py` alone: it shares no step with the compiler, knows no
clause, table, interval or queue, and is as slow as that sounds.

Each thing that a space speaks of (the presence of an object in a set, the value of a counter, whether an
object represents its class, whether a formula holds) is a function of the values of the decisions.
`_Instance` builds these functions, each with the decisions that it reads; `enumerate_solutions` then counts
through the assignments, and looks at a requirement as soon as all that it reads has been assigned.
"""

from __future__ import annotations

import math
import operator
from collections import Counter as Counting
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, TypeVar

from spacedsl.engine.potential import Binding, Membership, PotentialSets
from spacedsl.language.space import (
    Affine,
    And,
    Compare,
    ComparePositions,
    Comparison,
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

T = TypeVar("T")

Assignment = Sequence[int | None]
"""By decision: the number of an enum's value, the value of an integer, None where its objects are absent."""

Key = tuple[str, tuple[str, ...]]
"""A choice and the names of the objects that it is applied to."""


@dataclass(frozen=True, slots=True)
class Solution:
    """One implementation, by names. Of a symmetric pair only the orientation with the lower object first."""

    decisions: Mapping[Key, str | int]
    derived: Mapping[Key, str | int]
    """Values of counters, and FALSE or TRUE for representatives."""


class _AbsentError(LookupError):
    """A decision without a value is read for present objects: what is assigned does not fit together."""


class EnumerationLimitError(RuntimeError):
    """More assignments than the caller was ready to try."""


def enumerate_solutions(
    space: Space, kernel: object, device: object, limit: int = 1_000_000
) -> Iterator[Solution]:
    """Every solution once, in no particular order.

    Raises `EnumerationLimitError` once more than `limit` values have been tried, and `ValueError` where
    whether a trigger fires depends on what it adds to.
    """
    instance = _Instance(space, kernel, device)
    requirements = list(instance.requirements())
    if not all(r.of(()) for r in requirements if not r.reads):
        return
    order = _order(len(instance.decisions), [r.reads for r in requirements])
    checks: list[list[Callable[[Assignment], bool]]] = [[] for _ in order]
    for requirement in requirements:
        if requirement.reads:
            checks[max(order.index(p) for p in requirement.reads)].append(_remembered(requirement).of)
    assignment: list[int | None] = [None] * len(order)
    tried = 0

    def assign(depth: int) -> Iterator[Solution]:
        nonlocal tried
        if depth == len(order):
            yield instance.solution(assignment)
            return
        for value in instance.decisions[order[depth]].values:
            tried += 1
            if tried > limit:
                raise EnumerationLimitError(f"more than {limit} values tried")
            assignment[order[depth]] = value
            if is_met(depth):
                yield from assign(depth + 1)

    def is_met(depth: int) -> bool:
        try:
            return all(check(assignment) for check in checks[depth])
        except _AbsentError:
            return False

    yield from assign(0)


def _order(count: int, reads: Sequence[frozenset[int]]) -> list[int]:
    """The decisions in an order in which requirements can be looked at early. Changes no solution."""
    order: list[int] = []
    missing = [set(r) for r in reads]
    for _ in range(count):
        completed = Counting(p for (p,) in (m for m in missing if len(m) == 1))
        half = Counting(p for m in missing if len(m) == 2 for p in m)
        chosen = max(
            (p for p in range(count) if p not in order),
            key=lambda p: (completed[p], half[p], -p),
        )
        order.append(chosen)
        for positions in missing:
            positions.discard(chosen)
    return order


@dataclass(frozen=True, slots=True)
class _Meaning(Generic[T]):
    """A function of the decisions, and the positions of those that it may read."""

    reads: frozenset[int]
    of: Callable[[Assignment], T]


def _constant(value: T) -> _Meaning[T]:
    return _Meaning(frozenset(), lambda _: value)


def _reads(*parts: _Meaning[int] | _Meaning[bool]) -> frozenset[int]:
    return frozenset[int]().union(*(p.reads for p in parts))


def _remembered(meaning: _Meaning[T]) -> _Meaning[T]:
    """The same function, computed once for each combination of the values that it reads."""
    positions = sorted(meaning.reads)
    known: dict[tuple[int | None, ...], T] = {}

    def of(assignment: Assignment) -> T:
        values = tuple(assignment[p] for p in positions)
        if values not in known:
            known[values] = meaning.of(assignment)
        return known[values]

    return _Meaning(meaning.reads, of)


def _all(parts: Sequence[_Meaning[bool]]) -> _Meaning[bool]:
    """All hold, looked at in this order up to the first that does not."""
    tests = tuple(p.of for p in parts)
    return _Meaning(_reads(*parts), lambda a: all(test(a) for test in tests))


def _any(parts: Sequence[_Meaning[bool]]) -> _Meaning[bool]:
    """One holds, looked at in this order up to the first that does."""
    if any(not p.reads and p.of(()) for p in parts):
        return _constant(True)
    tests = tuple(p.of for p in parts)
    return _Meaning(_reads(*parts), lambda a: any(test(a) for test in tests))


def _not(part: _Meaning[bool]) -> _Meaning[bool]:
    return _Meaning(part.reads, lambda a: not part.of(a))


def _is_in(value: _Meaning[int] | _Meaning[bool], mask: int) -> _Meaning[bool]:
    return _Meaning(value.reads, lambda a: bool(mask >> value.of(a) & 1))


_COMPARE: Mapping[Comparison, Callable[[int, int], bool]] = {
    Comparison.EQ: operator.eq,
    Comparison.NE: operator.ne,
    Comparison.LT: operator.lt,
    Comparison.LE: operator.le,
    Comparison.GT: operator.gt,
    Comparison.GE: operator.ge,
}


@dataclass(frozen=True, slots=True)
class _Decision:
    """One choice on objects, and its values: None is one of them where the objects may be absent."""

    key: Key
    values: tuple[int | None, ...]
    names: tuple[str, ...] | None
    """The names of an enum's values."""


class _Instance:
    """The decisions of a space on a kernel, and what everything else means in terms of them."""

    def __init__(self, space: Space, kernel: object, device: object) -> None:
        self._space = space
        self._sets = PotentialSets(space, kernel, device)
        self._positions: dict[tuple[object, ...], tuple[int, bool]] = {}
        self._values: dict[tuple[object, ...], _Meaning[int] | _Meaning[bool]] = {}
        self._present: dict[Membership, _Meaning[bool] | None] = {}
        self._presences: list[_Meaning[bool]] = []
        self.decisions: list[_Decision] = []
        bound: list[tuple[_Decision, tuple[Membership, ...]]] = []
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
    ) -> Iterator[tuple[_Decision, tuple[Membership, ...]]]:
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
            yield _Decision((choice.name, _names(objects)), values, names), memberships

    @staticmethod
    def _agrees(position: int, presence: _Meaning[bool]) -> _Meaning[bool]:
        """A decision has a value exactly when its objects are present."""
        return _Meaning(presence.reads | {position}, lambda a: (a[position] is not None) == presence.of(a))

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
    ) -> list[tuple[Key, tuple[str, ...] | None, _Meaning[bool], _Meaning[int] | _Meaning[bool]]]:
        """Counters and representatives: their names and those of their values, presence, value."""
        derived = []
        for choice in self._space.choices.values():
            if not self._space.is_derived(choice.name):
                continue
            names = choice.values if isinstance(choice, EnumChoice) else None
            use = Use(choice.name, tuple(p.name for p in choice.params))
            for binding, memberships in self._sets.bindings(choice.params):
                key = choice.name, _names([binding[p.name] for p in choice.params])
                derived.append((key, names, self._all_present(memberships), self._value(use, binding)))
        return derived

    # ---- Requirements ----

    def requirements(self) -> Iterator[_Meaning[bool]]:
        """What must hold, one for each binding, and that just the decisions of present objects are made."""
        yield from self._presences
        for requirement in self._space.requirements:
            for binding, memberships in self._sets.bindings(requirement.foralls):
                present = self._all_present(memberships)
                yield _any((_not(present), self._holds(requirement.formula, binding)))

    def _holds(self, formula: Formula, binding: Binding) -> _Meaning[bool]:
        match formula:
            case Constant(value):
                return _constant(value)
            case Host(expression):
                return _constant(bool(self._sets.evaluate(expression, binding)))
            case Not(operand):
                return _not(self._holds(operand, binding))
            case And(operands):
                return _all([self._holds(f, binding) for f in operands])
            case Or(operands):
                return _any([self._holds(f, binding) for f in operands])
            case Is(use, mask):
                return _is_in(self._value(use, binding), mask)
            case SameEnum(left_use, right_use, equal, translate):
                left, right = self._value(left_use, binding), self._value(right_use, binding)
                return _Meaning(
                    _reads(left, right), lambda a: (translate[left.of(a)] == right.of(a)) == equal
                )
            case Compare(left_side, op, right_side):
                compare = _COMPARE[op]
                first, second = self._affine(left_side, binding), self._affine(right_side, binding)
                return _Meaning(_reads(first, second), lambda a: compare(first.of(a), second.of(a)))
            case ComparePositions(lower, op, upper, names):
                relate = _COMPARE[op]
                below, above = (self._position(side, names, binding) for side in (lower, upper))
                return _Meaning(_reads(below, above), lambda a: relate(below.of(a), above.of(a)))

    def _position(
        self, side: Position, values: Sequence[str], binding: Binding
    ) -> _Meaning[int] | _Meaning[bool]:
        if isinstance(side, Use):
            return self._value(side, binding)
        if isinstance(side, int):
            return _constant(side)
        return _constant(values.index(str(self._sets.evaluate(side, binding))))

    def _affine(self, affine: Affine, binding: Binding) -> _Meaning[int]:
        offset = sum(sign * self._sets.integer(term, binding) for sign, term in affine.offsets)
        if affine.use is None:
            return _constant(offset)
        factor = self._sets.integer(affine.factor, binding)
        value = self._value(affine.use, binding)
        return _Meaning(value.reads, lambda a: factor * value.of(a) + offset)

    # ---- Values ----

    def _value(self, use: Use, binding: Binding) -> _Meaning[int] | _Meaning[bool]:
        """The value of a choice on bound objects: a number of an enum's value, or an integer."""
        objects = tuple(binding[v] for v in use.args)
        key = (use.choice, *(id(x) for x in objects))
        if key not in self._values:
            self._values[key] = self._meaning(use, objects)
        return self._values[key]

    def _meaning(self, use: Use, objects: tuple[object, ...]) -> _Meaning[int] | _Meaning[bool]:
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
                raise _AbsentError(f"{use.choice} is read on objects that are absent")
            return value if inverse is None else inverse[value]

        return _Meaning(frozenset({position}), of)

    def _counter(self, counter: Counter, objects: tuple[object, ...]) -> _Meaning[int]:
        bound = {p.name: x for p, x in zip(counter.params, objects, strict=True)}
        base = self._sets.integer(counter.base, bound)
        counted: list[_Meaning[bool]] = []
        values: list[_Meaning[int] | _Meaning[bool]] = []
        for binding, memberships in self._sets.bindings(counter.foralls, bound):
            counted.append(_all((self._all_present(memberships), self._holds(counter.condition, binding))))
            if isinstance(counter.value, Use):
                values.append(self._value(counter.value, binding))
            else:
                values.append(_constant(self._sets.integer(counter.value, binding)))

        def of(assignment: Assignment) -> int:
            chosen = [v.of(assignment) for c, v in zip(counted, values, strict=True) if c.of(assignment)]
            return base * math.prod(chosen) if counter.product else base + sum(chosen)

        return _remembered(_Meaning(_reads(*counted, *values), of))

    def _represents(self, quotient: Quotient, objects: tuple[object, ...]) -> _Meaning[bool]:
        """Whether the last object is present and qualifies, and no lower one that does is equivalent."""
        *params, item = objects
        bound = {p.name: x for p, x in zip(quotient.params, params, strict=True)}
        lower: list[_Meaning[bool]] = []
        for binding, memberships in self._sets.bindings((quotient.item,), bound):
            candidate = binding[quotient.item.name]
            present = self._all_present(memberships)
            qualifies = _all((present, self._holds(quotient.condition, binding)))
            if candidate is item:
                return _remembered(_all((qualifies, *(_not(other) for other in lower))))
            relation = self._value(
                Use(quotient.equivalence, ("lower", "item")), {"lower": candidate, "item": item}
            )
            related = _is_in(relation, quotient.equivalence_mask)
            lower.append(_all((qualifies, related)))
        raise LookupError(f"{item} is no member of the set that {quotient.set} is a quotient of")

    # ---- Presence ----

    def _all_present(self, memberships: Sequence[Membership]) -> _Meaning[bool]:
        return _all([self._is_present(m) for m in memberships])

    def _is_present(self, membership: Membership) -> _Meaning[bool]:
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
            meaning = _constant(True)
        else:
            reasons: list[_Meaning[bool]] = []
            for reason in membership.reasons:
                present = self._all_present(reason.memberships)
                if reason.trigger is None:
                    reasons.append(present)
                else:
                    reasons.append(_all((present, self._holds(reason.trigger.condition, reason.binding))))
            meaning = _remembered(_any(reasons))
        self._present[membership] = meaning
        return meaning


def _names(objects: Sequence[object]) -> tuple[str, ...]:
    return tuple(str(getattr(x, "name")) for x in objects)  # noqa: B009
