"""A space on a kernel as a CP-SAT model, translated from the meaning of its nodes.

In: a checked space without triggers, a kernel, a device. Out: whether a solution exists in which given
decisions take given values, how many solutions there are, and which groups of constraints leave none. Every
auxiliary variable is a function of the decisions, so that solutions of the model and of the space correspond
one to one. Shares no code with the engine or with the enumerator, so that each can judge the others.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ortools.sat.python import cp_model

from spacedsl.language.host import HostExpression
from spacedsl.language.space import (
    Affine,
    And,
    Binder,
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
    SetRef,
    Space,
    Symmetry,
    Use,
)
from spacedsl.oracle.quantities import QuantityModel
from spacedsl.oracle.readers import NotTranslatedError, Readers

__all__ = ["CpSatModel", "NotTranslatedError"]

Literal = cp_model.LiteralT
Objects = tuple[object, ...]
Binding = dict[str, object]
Narrowed = tuple[str, Objects, Iterable[str | int]]
"""A choice, objects, and the values that it may still have there."""

Grouping = Callable[[int, Binding], Hashable]
"""The group of a requirement, by number, on a binding of its variables."""

_RELATIONS: Mapping[Comparison, Callable[[int, int], bool]] = {
    Comparison.EQ: operator.eq,
    Comparison.NE: operator.ne,
    Comparison.LT: operator.lt,
    Comparison.LE: operator.le,
    Comparison.GT: operator.gt,
    Comparison.GE: operator.ge,
}

_LARGEST = 1 << 40
"""CP-SAT's own limit is far above; an instance that comes near it is not for this translation."""


@dataclass(frozen=True, slots=True)
class _Domain:
    """A decision: one literal for each value, exactly one of which is true; an integer has a variable too."""

    values: tuple[str, ...] | tuple[int, ...]
    literals: tuple[cp_model.IntVar, ...]
    integer: cp_model.IntVar | None


class CpSatModel:
    """Built once for an instance; questions are asked of it with decisions narrowed to sets of values."""

    def __init__(
        self, space: Space, kernel: object, device: object, grouping: Grouping | None = None
    ) -> None:
        """With a `grouping`, requirements hold where their groups are asked for, those of None nowhere."""
        if space.triggers:
            raise NotTranslatedError("objects that triggers add are not translated")
        self._space = space
        self._globals = {"kernel": kernel, "device": device}
        self._model = cp_model.CpModel()
        self._true = self._model.new_constant(1)
        self._domains: dict[tuple[object, ...], _Domain] = {}
        self._derived: dict[tuple[object, ...], tuple[cp_model.IntVar, int, int]] = {}
        self._representatives = {q.representative: q for q in space.quotients.values()}
        self._members: dict[tuple[object, ...], tuple[object, ...]] = {}
        readers = Readers(
            space,
            self._model,
            self._literal,
            self._value_literals,
            self._integer_value,
            self._objects,
            self._guards,
            self._evaluate,
            self._conjunction,
        )
        self._quantities = QuantityModel(space, self._model, readers, _LARGEST)
        for choice in space.choices.values():
            if not isinstance(choice, Counter) and choice.name not in self._representatives:
                self._declare(choice)
        self.groups: dict[Hashable, cp_model.IntVar] = {}
        """What stands for a group: its constraints follow from it."""
        for number, requirement in enumerate(space.requirements):
            for binding, guards in self._bindings(requirement.foralls, {}):
                group = grouping(number, binding) if grouping is not None else None
                if group is not None:
                    self._require(requirement.formula, binding, [*guards, self._group(group)])
                elif grouping is None:
                    self._require(requirement.formula, binding, guards)

    # ---- Questions ----

    def is_satisfiable(self, narrowed: Iterable[Narrowed] = (), timeout_s: float = 60) -> bool:
        """Whether a solution exists in which each of the named decisions has one of the given values."""
        return self.core({n: n for n in narrowed}, self.groups, timeout_s) is None

    def core(
        self, narrowed: Mapping[Hashable, Narrowed], groups: Iterable[Hashable], timeout_s: float = 60
    ) -> frozenset[Hashable] | None:
        """Names of decisions and groups that have no solution together, maybe some too many; None: they have.

        Raises `TimeoutError`.
        """
        model = self._model.clone()
        named: dict[int, Hashable] = {}
        for group in groups:
            named[self.groups[group].index] = group
        for name, (choice, objects, values) in narrowed.items():
            holds = model.new_bool_var("")
            named[holds.index] = name
            domain = self._domains[choice, *map(id, objects)]
            kept = set(values)
            for value, literal in zip(domain.values, domain.literals, strict=True):
                if value not in kept:
                    lost = _negated(literal)
                    model.add_implication(holds, lost)
        model.add_assumptions([model.get_bool_var_from_proto_index(index) for index in named])
        solver = _solver(timeout_s)
        status = solver.solve(model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.INFEASIBLE):
            raise TimeoutError(f"CP-SAT gave no answer: {solver.status_name(status)}")
        if status != cp_model.INFEASIBLE:
            return None
        return frozenset(named[index] for index in solver.sufficient_assumptions_for_infeasibility())

    def count(self, timeout_s: float = 60) -> int:
        """The number of solutions; meant for small instances."""
        counter = _Count()
        solver = _solver(timeout_s)
        solver.parameters.enumerate_all_solutions = True
        status = solver.solve(self._model, counter)
        if status not in (cp_model.OPTIMAL, cp_model.INFEASIBLE):
            raise TimeoutError(f"CP-SAT did not finish counting: {solver.status_name(status)}")
        return counter.solutions

    def _group(self, name: Hashable) -> cp_model.IntVar:
        if name not in self.groups:
            self.groups[name] = self._model.new_bool_var("")
        return self.groups[name]

    # ---- Objects ----

    def _evaluate(self, expression: HostExpression, binding: Mapping[str, object]) -> object:
        scope = {**self._globals, **binding}
        return expression.evaluate({v: scope[v] for v in expression.variables})

    def _integer(self, value: int | HostExpression, binding: Mapping[str, object]) -> int:
        return value if isinstance(value, int) else int(self._evaluate(value, binding))  # type: ignore[call-overload]

    def _objects(self, ref: SetRef, binding: Mapping[str, object]) -> tuple[object, ...]:
        """The objects of a set; of a quotient, those that could represent a class."""
        key = (ref.name, *(id(binding[v]) for v in ref.args))
        if key not in self._members:
            self._members[key] = tuple(self._find_objects(ref, binding))
        return self._members[key]

    def _find_objects(self, ref: SetRef, binding: Mapping[str, object]) -> Iterator[object]:
        quotient = self._space.quotients.get(ref.name)
        params = quotient.params if quotient else self._space.sets[ref.name].params
        if params and not ref.args:
            seen: set[int] = set()
            for outer, _ in self._bindings(params, {}):
                for item in self._objects(SetRef(ref.name, tuple(p.name for p in params)), outer):
                    if id(item) not in seen:
                        seen.add(id(item))
                        yield item
            return
        inner = {p.name: binding[v] for p, v in zip(params, ref.args, strict=True)}
        if quotient:
            yield from self._objects(quotient.item.set, inner)
        else:
            yield from self._evaluate(self._space.sets[ref.name].iterator, inner)  # type: ignore[misc]

    def _bindings(
        self, binders: Sequence[Binder], outer: Mapping[str, object]
    ) -> Iterator[tuple[Binding, list[Literal]]]:
        """Bindings to distinct objects, with the literals that must hold for the binding to be one.

        What a map binds may be any object, and takes none away.
        """
        partial: list[tuple[Binding, list[Literal], tuple[int, ...]]] = [
            (dict(outer), [], tuple(id(x) for x in outer.values()))
        ]
        for binder in binders:
            extended: list[tuple[Binding, list[Literal], tuple[int, ...]]] = []
            for binding, guards, taken in partial:
                if binder.by_map:
                    extended.append(
                        ({**binding, binder.name: self._image(binder.set, binding)}, guards, taken)
                    )
                    continue
                for item in self._objects(binder.set, binding):
                    if id(item) in taken:
                        continue
                    inner = {**binding, binder.name: item}
                    if binder.where is None or self._evaluate(binder.where, inner):
                        members = [*guards, *self._guards(binder.set, inner, item)]
                        extended.append((inner, members, (*taken, id(item))))
            partial = extended
        yield from ((binding, guards) for binding, guards, _ in partial)

    def _image(self, application: SetRef, binding: Mapping[str, object]) -> object:
        """The value of a map."""
        definition = self._space.maps[application.name]
        arguments = zip(definition.params, application.args, strict=True)
        value = self._evaluate(definition.value, {p.name: binding[v] for p, v in arguments})
        if value is None or definition.target.name in self._space.quotients:
            raise NotTranslatedError("maps without a value, or to members of a quotient, are not translated")
        return value

    def _guards(self, ref: SetRef, binding: Binding, item: object) -> list[Literal]:
        quotient = self._space.quotients.get(ref.name)
        if quotient is None:
            return []
        if quotient.params and not ref.args:
            raise NotTranslatedError("the union of a parametric quotient is not translated")
        return [self._representative(quotient, (*(binding[v] for v in ref.args), item))]

    # ---- Decisions and what follows from them ----

    def _declare(self, choice: EnumChoice | IntegerChoice) -> None:
        for binding, guards in self._bindings(choice.params, {}):
            if guards:
                raise NotTranslatedError("choices on the members of a quotient are not translated")
            objects = tuple(binding[p.name] for p in choice.params)
            key = (choice.name, *map(id, objects))
            mirrored = self._domains.get((choice.name, *map(id, reversed(objects))))
            if isinstance(choice, IntegerChoice):
                universe = tuple(sorted(set(self._evaluate(choice.universe, binding))))  # type: ignore[call-overload]
                integer = self._model.new_int_var_from_domain(
                    cp_model.Domain.from_values(universe), f"{choice.name}{objects}"
                )
                literals = self._one_of(len(universe))
                for value, literal in zip(universe, literals, strict=True):
                    self._model.add(integer == value).only_enforce_if(literal)
                self._domains[key] = _Domain(universe, literals, integer)
            elif choice.symmetry is not Symmetry.NONE and mirrored is not None:
                # c(a, b) has value v exactly when c(b, a) has the inverse of v.
                turned = tuple(mirrored.literals[choice.inverse[v]] for v in range(len(choice.values)))
                self._domains[key] = _Domain(choice.values, turned, None)
            else:
                self._domains[key] = _Domain(choice.values, self._one_of(len(choice.values)), None)

    def _one_of(self, count: int) -> tuple[cp_model.IntVar, ...]:
        literals = tuple(self._model.new_bool_var("") for _ in range(count))
        self._model.add_exactly_one(literals)
        return literals

    def _value_literals(self, use: Use, binding: Mapping[str, object]) -> tuple[Literal, ...]:
        """One literal for each value of an enum."""
        objects = tuple(binding[v] for v in use.args)
        if use.choice in self._representatives:
            represents = self._representative(self._representatives[use.choice], objects)
            return (_negated(represents), represents)
        return self._domains[use.choice, *map(id, objects)].literals

    def _integer_value(self, use: Use, binding: Mapping[str, object]) -> tuple[cp_model.IntVar, int, int]:
        """An integer choice's or a counter's variable, and bounds on it."""
        objects = tuple(binding[v] for v in use.args)
        if use.choice in self._space.quantities:
            return self._quantities.value(use.choice, objects)
        choice = self._space.choices[use.choice]
        if not isinstance(choice, Counter):
            domain = self._domains[use.choice, *map(id, objects)]
            assert domain.integer is not None
            numbers = [int(v) for v in domain.values]
            return domain.integer, min(numbers), max(numbers)
        key = (use.choice, *map(id, objects))
        if key not in self._derived:
            self._derived[key] = self._count(choice, objects)
        return self._derived[key]

    def _count(self, counter: Counter, objects: Objects) -> tuple[cp_model.IntVar, int, int]:
        outer = {p.name: x for p, x in zip(counter.params, objects, strict=True)}
        neutral = 1 if counter.product else 0
        base = self._integer(counter.base, outer)
        total, low, high = self._model.new_constant(base), base, base
        for binding, guards in self._bindings(counter.foralls, outer):
            counted = self._conjunction([*guards, self._literal(counter.condition, binding)])
            if isinstance(counter.value, Use):
                value, least, most = self._integer_value(counter.value, binding)
            else:
                least = most = self._integer(counter.value, binding)
                value = self._model.new_constant(most)
            term = self._model.new_int_var(min(neutral, least), max(neutral, most), "")
            self._model.add(term == value).only_enforce_if(counted)
            self._model.add(term == neutral).only_enforce_if(_negated(counted))
            if counter.product:
                low, high = low * min(neutral, least), high * max(neutral, most)
            else:
                low, high = low + min(neutral, least), high + max(neutral, most)
            if high > _LARGEST:
                raise NotTranslatedError(f"{counter.name} grows too large for this translation")
            following = self._model.new_int_var(low, high, "")
            if counter.product:
                self._model.add_multiplication_equality(following, [total, term])
            else:
                self._model.add(following == total + term)
            total = following
        return total, low, high

    def _representative(self, quotient: Quotient, objects: Objects) -> Literal:
        """Whether the last object qualifies and nothing before it in its set that qualifies is equivalent."""
        key = (quotient.representative, *map(id, objects))
        if key in self._derived:
            return self._derived[key][0]
        *params, item = objects
        outer = {p.name: x for p, x in zip(quotient.params, params, strict=True)}
        needed: list[Literal] = []
        for other in self._objects(quotient.item.set, outer):
            if any(other is p for p in params):
                continue
            qualifies = self._literal(quotient.condition, {**outer, quotient.item.name: other})
            if other is item:
                needed.append(qualifies)
                break
            relation = Is(
                Use(quotient.equivalence, ("other", "item")), quotient.equivalence_mask, quotient.span
            )
            equivalent = self._literal(relation, {"other": other, "item": item})
            needed.append(_negated(self._conjunction([qualifies, equivalent])))
        literal = self._conjunction(needed)
        assert isinstance(literal, cp_model.IntVar)
        self._derived[key] = (literal, 0, 1)
        return literal

    def _equals(self, value: cp_model.IntVar, number: int) -> Literal:
        holds = self._model.new_bool_var("")
        self._model.add(value == number).only_enforce_if(holds)
        self._model.add(value != number).only_enforce_if(_negated(holds))
        return holds

    # ---- Formulas ----

    def _require(self, formula: Formula, binding: Binding, guards: Sequence[Literal]) -> None:
        if isinstance(formula, And):
            for operand in formula.operands:
                self._require(operand, binding, guards)
            return
        self._model.add_bool_or([*map(_negated, guards), *self._disjuncts(formula, True, binding)])

    def _disjuncts(self, formula: Formula, positive: bool, binding: Mapping[str, object]) -> list[Literal]:
        """Literals one of which is true exactly when the formula, or its negation, holds."""
        match formula:
            case Constant(value):
                return [self._true] if value == positive else []
            case Host(expression):
                return [self._true] if bool(self._evaluate(expression, binding)) == positive else []
            case Not(operand):
                return self._disjuncts(operand, not positive, binding)
            case Is(use, mask):
                literals = self._value_literals(use, binding)
                return [lit for v, lit in enumerate(literals) if bool(mask >> v & 1) == positive]
            case SameEnum():
                return [self._same_enum(formula, binding, positive)]
            case Compare():
                holds = self._compare(formula, binding)
                return [holds if positive else _negated(holds)]
            case ComparePositions():
                holds = self._compare_positions(formula, binding)
                return [holds if positive else _negated(holds)]
            case And(operands) if positive:
                return [self._conjunction([self._literal(f, binding) for f in operands])]
            case Or(operands) if not positive:
                return [self._conjunction([_negated(self._literal(f, binding)) for f in operands])]
            case And(operands) | Or(operands):
                return [lit for f in operands for lit in self._disjuncts(f, positive, binding)]

    def _literal(self, formula: Formula, binding: Mapping[str, object]) -> Literal:
        """A literal that is true exactly when the formula holds."""
        disjuncts = self._disjuncts(formula, True, binding)
        if len(disjuncts) == 1:
            return disjuncts[0]
        return _negated(self._conjunction([_negated(d) for d in disjuncts]))

    def _conjunction(self, literals: Sequence[Literal]) -> Literal:
        holds = self._model.new_bool_var("")
        self._model.add_bool_and(literals).only_enforce_if(holds)
        self._model.add_bool_or([holds, *map(_negated, literals)])
        return holds

    def _same_enum(self, same: SameEnum, binding: Mapping[str, object], positive: bool) -> Literal:
        holds = self._model.new_bool_var("")
        left = self._value_literals(same.left, binding)
        right = self._value_literals(same.right, binding)
        for value, literal in enumerate(left):
            counterpart = right[same.translate[value]]
            self._model.add_bool_or([_negated(holds), _negated(literal), counterpart])
            self._model.add_bool_or([holds, _negated(literal), _negated(counterpart)])
        return holds if same.equal == positive else _negated(holds)

    def _compare(self, compare: Compare, binding: Mapping[str, object]) -> Literal:
        left, right = self._affine(compare.left, binding), self._affine(compare.right, binding)
        whenever = {
            Comparison.EQ: (left == right, left != right),
            Comparison.NE: (left != right, left == right),
            Comparison.LT: (left < right, left >= right),
            Comparison.LE: (left <= right, left > right),
            Comparison.GT: (left > right, left <= right),
            Comparison.GE: (left >= right, left < right),
        }
        if isinstance(left, int) and isinstance(right, int):
            return self._true if whenever[compare.op][0] else _negated(self._true)
        holds = self._model.new_bool_var("")
        positive, negative = whenever[compare.op]
        self._model.add(positive).only_enforce_if(holds)
        self._model.add(negative).only_enforce_if(_negated(holds))
        return holds

    def _compare_positions(self, compare: ComparePositions, binding: Mapping[str, object]) -> Literal:
        """Which pairs of places are in the relation is written out: there are few of them."""
        left = self._positions(compare.left, compare.values, binding)
        right = self._positions(compare.right, compare.values, binding)
        relate = _RELATIONS[compare.op]
        pairs = [
            self._conjunction([first, second])
            for place, first in left.items()
            for other, second in right.items()
            if relate(place, other)
        ]
        return _negated(self._conjunction([_negated(pair) for pair in pairs]))

    def _positions(
        self, side: Position, values: Sequence[str], binding: Mapping[str, object]
    ) -> dict[int, Literal]:
        """The places that one side can have, each with what says that it has it."""
        if isinstance(side, Use) and side.choice in self._space.quantities:
            value, low, high = self._integer_value(side, binding)
            return {place: self._equals(value, place) for place in range(low, high + 1)}
        if isinstance(side, Use):
            return dict(enumerate(self._value_literals(side, binding)))
        place = side if isinstance(side, int) else values.index(str(self._evaluate(side, binding)))
        return {place: self._true}

    def _affine(self, affine: Affine, binding: Mapping[str, object]) -> cp_model.LinearExprT:
        offset = sum(sign * self._integer(term, binding) for sign, term in affine.offsets)
        if affine.use is None:
            return offset
        return self._integer(affine.factor, binding) * self._integer_value(affine.use, binding)[0] + offset


class _Count(cp_model.CpSolverSolutionCallback):
    def __init__(self) -> None:
        super().__init__()
        self.solutions = 0

    def on_solution_callback(self) -> None:
        self.solutions += 1


def _solver(timeout_s: float) -> cp_model.CpSolver:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_time_in_seconds = timeout_s
    return solver


def _negated(literal: Literal) -> Literal:
    return literal.negated()  # type: ignore[union-attr]
