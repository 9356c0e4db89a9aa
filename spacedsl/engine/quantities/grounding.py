"""From quantities and comparisons with them to the graph of an instance.

In: the typed terms, the objects, and the working vector at the root, after everything that involves no
quantity has been propagated. Out: a `Graph`, and for each comparison of a requirement on objects its node.

Equal nodes are one node. Whatever is settled at the root is a constant, and a branch that is impossible there
does not exist: nothing in it is looked up. Instances refer to each other to any depth, so building one is a
generator that hands out the instances that it needs; a cycle of them is a located error.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from spacedsl.diagnostics import DiagnosticError, Span
from spacedsl.engine.layout import PRESENT, Layout, binder_cells
from spacedsl.engine.objects import Objects
from spacedsl.engine.quantities.building import Builder
from spacedsl.engine.quantities.intervals import FALSE, TRUE
from spacedsl.engine.quantities.nodes import INFINITE, Graph, Op
from spacedsl.engine.quantities.scope import Scope, located
from spacedsl.engine.static import COMPARE
from spacedsl.language.space import (
    Affine,
    Aggregate,
    Aggregation,
    And,
    Case,
    Compare,
    ComparePositions,
    Conditional,
    Constant,
    Counter,
    Division,
    EnumChoice,
    Extremum,
    Formula,
    Host,
    HostTerm,
    IntegerChoice,
    Is,
    Literal,
    Not,
    Or,
    Position,
    Product,
    Reading,
    SameEnum,
    Sum,
    Term,
    Use,
)

Instance = tuple[str, tuple[int, ...]]
"""A quantity, and the ids of its objects."""
Building = Generator[Instance, int, int]
"""Yields instances that it needs, is sent their nodes, and returns a node."""

NEUTRAL = {
    Aggregation.SUM: 0,
    Aggregation.PROD: 1,
    Aggregation.MIN: INFINITE,
    Aggregation.MAX: -INFINITE,
}
OPERATION = {
    Aggregation.SUM: Op.SUM,
    Aggregation.PROD: Op.PRODUCT,
    Aggregation.MIN: Op.MINIMUM,
    Aggregation.MAX: Op.MAXIMUM,
}


@dataclass(slots=True, eq=False)
class Grounding:
    objects: Objects
    layout: Layout
    builder: Builder
    _instances: dict[Instance, int] = field(default_factory=dict)
    _keys: dict[str, frozenset[tuple[int, ...]]] = field(default_factory=dict)

    def all_instances(self) -> None:
        """Grounds every quantity on all objects of its parameters."""
        for quantity in self.objects.space.quantities.values():
            self._keys[quantity.name] = frozenset(self.objects.keys(quantity.params))
        for quantity in self.objects.space.quantities.values():
            for key in self.objects.keys(quantity.params):
                self._run(self._reading((quantity.name, key)))

    def condition(self, formula: Formula, ids: Mapping[str, int], span: Span) -> int:
        """The node of a comparison of a requirement, for bound variables."""
        return self._run(self._formula(formula, Scope(self.objects, dict(ids), {}, frozenset(), (), span)))

    def graph(self) -> Graph:
        return self.builder.graph(self._instances)

    # ---- Instances ----

    def _reading(self, instance: Instance) -> Building:
        return (yield instance)

    def _instance(self, instance: Instance) -> Building:
        name, key = instance
        quantity = self.objects.space.quantities[name]
        ids = dict(zip((p.name for p in quantity.params), key, strict=True))
        maps = {binder.name: binder for binder in quantity.maps}
        scope = Scope(self.objects, ids, maps, frozenset(key), quantity.values or (), quantity.span)
        return (yield from self._term(quantity.body, scope))

    def _run(self, first: Building) -> int:
        """Builds what `first` needs, and what that needs, one after the other."""
        path: dict[Instance, None] = {}
        running = [first]
        value: int | None = None
        while True:
            try:
                # A generator that has just been made is started with None.
                needed = running[-1].send(value)  # type: ignore[arg-type]
            except StopIteration as stop:
                running.pop()
                value = int(stop.value)
                if not running:
                    return value
                value = self._instances[path.popitem()[0]] = self.builder.quantity(value)
                continue
            value = self._instances.get(needed)
            if value is None:
                if needed in path:
                    above = list(path)
                    raise self._cycle([*above[above.index(needed) :], needed])
                path[needed] = None
                running.append(self._instance(needed))

    def _cycle(self, cycle: Sequence[Instance]) -> DiagnosticError:
        names = self.objects.names
        shown = " <- ".join(f"{name}({', '.join(names[k] for k in key)})" for name, key in cycle)
        span = self.objects.space.quantities[cycle[0][0]].span
        hint = "a value must not depend on itself, in no branch that is possible"
        return located("SP441", f"this quantity depends on itself: {shown}", span, hint)

    # ---- Terms ----

    def _at_once(self, term: Term, scope: Scope) -> int | Instance | None:
        """The node of a term without parts, or the instance that it needs first; None: see `_term`."""
        match term:
            case Literal(value):
                return self.builder.constant(value)
            case HostTerm(expression):
                return self.builder.constant(scope.value(expression))
            case Reading(use, span):
                return self._use(use, scope, span)
            case _:
                return None

    def _term(self, term: Term, scope: Scope) -> Building:
        found = self._at_once(term, scope)
        if found is not None:
            return found if isinstance(found, int) else (yield found)
        builder = self.builder
        match term:
            case Sum(terms):
                nodes = yield from self._terms((each for _, each in terms), scope)
                return builder.node(Op.SUM, nodes, tuple(sign for sign, _ in terms))
            case Product(factors):
                return builder.node(Op.PRODUCT, (yield from self._terms(factors, scope)))
            case Extremum(greatest, operands, span):
                return (yield from self._extremum(greatest, operands, scope, span))
            case Division(up, dividend, divisor, span):
                by = yield from self._term(divisor, scope)
                if builder.low[by] < 1:
                    message = f"this divisor may be {builder.low[by]}"
                    raise located("SP442", message, span, "divide by what is at least 1: `max(1, ..)`")
                return builder.node(
                    Op.CEIL if up else Op.FLOOR, ((yield from self._term(dividend, scope)), by)
                )
            case Aggregate(function, _, _, _, span):
                members = yield from self._members(term, scope)
                if not members and function in (Aggregation.MIN, Aggregation.MAX):
                    message = f"there is nothing to take the {function.value}imum of"
                    hint = f"give a further operand: `{function.value}(1, {function.value} $x in ..)`"
                    raise located("SP443", message, span, hint)
                return self._aggregate(function, members)
            case Conditional(condition, then, otherwise):
                holds = yield from self._formula(condition, scope)
                pairs = [(holds, then), (builder.node(Op.NOT, (holds,)), otherwise)]
                return (yield from self._select(pairs, scope))
            case Case(use, branches):
                return (
                    yield from self._select(
                        [(self._in_mask(use, mask, scope), branch) for mask, branch in branches], scope
                    )
                )
            case _:
                raise TypeError(f"no term: {term}")

    def _terms(self, terms: Iterable[Term], scope: Scope) -> Generator[Instance, int, tuple[int, ...]]:
        nodes: list[int] = []
        for term in terms:
            found = self._at_once(term, scope)
            nodes.append(found if isinstance(found, int) else (yield from self._term(term, scope)))
        return tuple(nodes)

    def _select(self, branches: Sequence[tuple[int, Term]], scope: Scope) -> Building:
        """The branches whose conditions are possible at the root; the others do not exist."""
        pairs: list[int] = []
        for condition, branch in branches:
            if self.builder.high[condition]:
                found = self._at_once(branch, scope)
                node = found if isinstance(found, int) else (yield from self._term(branch, scope))
                pairs += [condition, node]
        return pairs[1] if len(pairs) == 2 else self.builder.node(Op.SELECT, tuple(pairs))

    def _extremum(self, greatest: bool, operands: tuple[Term, ...], scope: Scope, span: Span) -> Building:
        nodes: list[int] = []
        for operand in operands:
            if isinstance(operand, Aggregate) and operand.function in (Aggregation.MIN, Aggregation.MAX):
                members = yield from self._members(operand, scope)
                nodes += [self._operand(operand.function, members, greatest)] if members else []
            else:
                nodes.append((yield from self._term(operand, scope)))
        if not nodes:
            message = f"there is nothing to take the {'max' if greatest else 'min'}imum of"
            raise located("SP443", message, span, "give a further operand")
        return self.builder.node(Op.MAXIMUM if greatest else Op.MINIMUM, tuple(nodes))

    def _members(self, aggregate: Aggregate, scope: Scope) -> Generator[Instance, int, list[tuple[int, int]]]:
        """(whether it is present, value) of each member that may be."""
        binder = aggregate.binder
        maps = {**scope.maps, **{each.name: each for each in aggregate.maps}}
        for argument in binder.set.args:
            scope.id(argument)
        found: list[tuple[int, int]] = []
        for member in self.objects.of(binder.set, scope.ids):
            ids = {**scope.ids, binder.name: member}
            if member in scope.taken or not self.objects.passes(binder.where, ids):
                continue
            cells = binder_cells(self.layout, self.objects, binder, ids)
            present = [self.builder.leaf(Op.IN_MASK, cell, (PRESENT,)) for cell in cells]
            guard = self.builder.all_of(present)
            if self.builder.high[guard]:
                inner = Scope(self.objects, ids, maps, scope.taken | {member}, scope.order, scope.span)
                found.append((guard, (yield from self._term(aggregate.body, inner))))
        return found

    def _operand(self, function: Aggregation, members: Sequence[tuple[int, int]], greatest: bool) -> int:
        """An aggregate in an extremum: it contributes nothing where no member is present."""
        builder, node = self.builder, self._aggregate(function, members)
        some = builder.any_of([guard for guard, _ in members])
        if builder.low[some] or (function is Aggregation.MAX) is greatest:
            return node
        nothing = builder.constant(NEUTRAL[Aggregation.MAX if greatest else Aggregation.MIN])
        return builder.node(Op.SELECT, (some, node, builder.node(Op.NOT, (some,)), nothing))

    def _aggregate(self, function: Aggregation, members: Sequence[tuple[int, int]]) -> int:
        builder, nodes = self.builder, list[int]()
        for guard, node in members:
            if (builder.low[guard], builder.high[guard]) == TRUE:
                nodes.append(node)
            else:
                neutral = builder.constant(NEUTRAL[function])
                absent = builder.node(Op.NOT, (guard,))
                nodes.append(builder.node(Op.SELECT, (guard, node, absent, neutral)))
        if not nodes:
            return builder.constant(NEUTRAL[function])
        signs = (1,) * len(nodes) if function is Aggregation.SUM else ()
        return builder.node(OPERATION[function], tuple(nodes), signs)

    # ---- Uses ----

    def _use(self, use: Use, scope: Scope, span: Span) -> int | Instance:
        """The value of a choice, a counter or a quantity; of a quantity that is not built yet, its name."""
        key = scope.key(use.args)
        if use.choice in self._keys:
            instance = use.choice, key
            known = self._instances.get(instance)
            if known is None and key not in self._keys[use.choice]:
                raise scope.outside(use, key, span)
            return instance if known is None else known
        cell = self._cell(use, key, scope, span)
        match self.objects.space.choices[use.choice]:
            case Counter():
                return self.builder.leaf(Op.COUNTER, cell)
            case IntegerChoice():
                return self.builder.leaf(Op.INTEGER, cell)
            case EnumChoice():
                return self.builder.leaf(Op.POSITION, cell)

    def _in_mask(self, use: Use, mask: int, scope: Scope) -> int:
        """Of a pair that is stored both ways round, the orientation that comes first is read."""
        key = scope.key(use.args)
        cell = self._cell(use, key, scope, scope.span)
        other = self.layout.twins.get(cell, cell)
        if other < cell:
            choice = self.objects.space.choices[use.choice]
            assert isinstance(choice, EnumChoice)
            return self.builder.leaf(Op.IN_MASK, other, (choice.invert(mask),))
        return self.builder.leaf(Op.IN_MASK, cell, (mask,))

    def _cell(self, use: Use, key: tuple[int, ...], scope: Scope, span: Span) -> int:
        cell = self.layout.cells[use.choice].get(key)
        if cell is None:
            raise scope.outside(use, key, span)
        return cell

    # ---- Conditions ----

    def _formula(self, formula: Formula, scope: Scope) -> Building:
        builder = self.builder
        match formula:
            case Constant(value):
                return builder.constant(int(value))
            case Host(expression):
                ids = {name: scope.id(name) for name in expression.free_variables}
                return builder.constant(int(bool(self.objects.evaluate(expression, ids))))
            case Not(operand):
                return builder.node(Op.NOT, ((yield from self._formula(operand, scope)),))
            case And(operands) | Or(operands):
                # What follows a condition that settles the whole at the root is not looked up.
                settling = FALSE if isinstance(formula, And) else TRUE
                nodes: list[int] = []
                for operand in operands:
                    nodes.append((yield from self._formula(operand, scope)))
                    if (builder.low[nodes[-1]], builder.high[nodes[-1]]) == settling:
                        return nodes[-1]
                return builder.all_of(nodes) if isinstance(formula, And) else builder.any_of(nodes)
            case Is(use, mask):
                return self._in_mask(use, mask, scope)
            case SameEnum(left, right, equal, translate):
                same = builder.any_of(
                    [
                        builder.all_of(
                            [self._in_mask(left, 1 << a, scope), self._in_mask(right, 1 << b, scope)]
                        )
                        for a, b in enumerate(translate)
                    ]
                )
                return same if equal else builder.node(Op.NOT, (same,))
            case Compare(left_side, op, right_side):
                first = yield from self._affine(left_side, scope)
                return builder.compared(first, op, (yield from self._affine(right_side, scope)))
            case ComparePositions(lower, op, upper, values):
                below = yield from self._position(lower, values, scope)
                above = yield from self._position(upper, values, scope)
                places = range(len(values))
                if self._is_choice(lower) and builder.low[above] == builder.high[above]:
                    mask = sum(1 << x for x in places if COMPARE[op](x, builder.low[above]))
                    return self._in_mask(lower, mask, scope)
                if self._is_choice(upper) and builder.low[below] == builder.high[below]:
                    mask = sum(1 << x for x in places if COMPARE[op](builder.low[below], x))
                    return self._in_mask(upper, mask, scope)
                return builder.compared(below, op, above)

    def _is_choice(self, side: Position) -> TypeGuard[Use]:
        """Whether this is no quantity and no constant."""
        return isinstance(side, Use) and side.choice in self.objects.space.choices

    def _affine(self, affine: Affine, scope: Scope) -> Building:
        builder = self.builder
        terms, signs = list[int](), list[int]()
        if affine.use is not None:
            found = self._use(affine.use, scope, scope.span)
            value = found if isinstance(found, int) else (yield found)
            factor = builder.constant(scope.integer(affine.factor))
            terms.append(value if affine.factor == 1 else builder.node(Op.PRODUCT, (factor, value)))
            signs.append(1)
        for sign, term in affine.offsets:
            terms.append(builder.constant(scope.integer(term)))
            signs.append(sign)
        return builder.node(Op.SUM, tuple(terms), tuple(signs)) if terms else builder.constant(0)

    def _position(self, side: Position, values: tuple[str, ...], scope: Scope) -> Building:
        if isinstance(side, int):
            return self.builder.constant(side)
        if isinstance(side, Use):
            found = self._use(side, scope, scope.span)
            return found if isinstance(found, int) else (yield found)
        return self.builder.constant(scope.place(side, values))
