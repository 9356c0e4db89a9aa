"""From terms and formulas of quantities to functions that make their nodes.

In: the typed terms, and a function that gives the node of a quantity on objects. Out: for each term a
function from a scope to a node; it is made once, and called for every binding of the variables. Whatever is
settled at the root is a constant, and a branch that is impossible there does not exist: nothing in it is
looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, partial
from typing import get_args

from spacedsl.compiler.ir import HostCall
from spacedsl.compiler.python import host_table
from spacedsl.diagnostics import DiagnosticError, Span
from spacedsl.engine.layout import PRESENT, Layout, binder_cells, may_lack
from spacedsl.engine.objects import Key, Objects
from spacedsl.engine.quantities.building import Builder
from spacedsl.engine.quantities.intervals import FALSE, TRUE
from spacedsl.engine.quantities.nodes import INFINITE, Op
from spacedsl.engine.quantities.scope import Scope, located
from spacedsl.engine.static import COMPARE, Statics
from spacedsl.language.formulas import MIRRORED
from spacedsl.language.host import HostExpression
from spacedsl.language.space import (
    Affine,
    Aggregate,
    Aggregation,
    And,
    Case,
    Compare,
    ComparePositions,
    Comparison,
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

Instance = tuple[str, Key]
"""A quantity, and the ids of its objects."""
Grounded = Callable[[Scope], int]
"""Makes a node for what variables stand for."""
Members = Callable[[Scope], tuple[list[tuple[int, int]], bool]]
"""(whether it is present, value) of each member that may be; whether there is one wherever the scope is."""

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
LEVELS = (Affine, *get_args(Term), *get_args(Formula))
"""What terms and formulas consist of."""
LEAF = {Counter: Op.COUNTER, IntegerChoice: Op.INTEGER, EnumChoice: Op.POSITION}


@dataclass(slots=True, eq=False)
class Terms:
    statics: Statics
    builder: Builder
    instances: Mapping[Instance, int]
    """The nodes of quantities that there are already."""
    keys: Mapping[str, frozenset[Key]]
    """By quantity: the objects that it is defined on."""
    instance: Callable[[Instance], int]
    """Makes the node of one that is not among them."""
    _objects: Objects = field(init=False)
    _layout: Layout = field(init=False)

    def __post_init__(self) -> None:
        self._objects, self._layout = self.statics.objects, self.statics.layout

    def term(self, term: Term) -> Grounded:
        builder = self.builder
        match term:
            case Literal(value):
                return lambda scope: builder.constant(value)
            case HostTerm(expression):
                named = self._host(expression)
                return lambda scope: builder.constant(scope.place(named(scope), scope.order, expression.span))
            case Reading(use, span):
                return self._use(use, span)
            case Sum(terms):
                parts, signs = [self.term(each) for _, each in terms], tuple(sign for sign, _ in terms)
                return lambda scope: builder.node(Op.SUM, tuple([part(scope) for part in parts]), signs)
            case Product(factors):
                parts = [self.term(each) for each in factors]
                return lambda scope: builder.node(Op.PRODUCT, tuple([part(scope) for part in parts]))
            case Extremum():
                return self._extremum(term)
            case Division(up, dividend, divisor, span):
                return partial(self._divided, up, self.term(dividend), self.term(divisor), span)
            case Aggregate(function, _, _, _, span):
                return partial(self._aggregated, function, self._members(term), span)
            case Conditional(condition, then, otherwise):
                return self._conditional(self.formula(condition), [self.term(then), self.term(otherwise)])
            case Case(use, cases):
                conditions = [self._in_mask(use, mask) for mask, _ in cases]
                branches = [self.term(branch) for _, branch in cases]
                return lambda scope: self._selected([holds(scope) for holds in conditions], branches, scope)

    def _host(self, expression: HostExpression) -> Callable[[Scope], object]:
        names = expression.free_variables
        template = host_table(HostCall(expression.text, names, expression), is_integer=False)
        if not names:
            # It is computed as soon as its table is asked for, and may stand in a branch that is impossible.
            value = cache(partial(self.statics.table, template))
            return lambda scope: value()
        values = self.statics.table(template)
        if len(names) == 1:
            return lambda scope: values[scope.id(names[0])]
        return lambda scope: values[scope.key(names)]

    def _divided(self, up: bool, dividend: Grounded, divisor: Grounded, span: Span, scope: Scope) -> int:
        by = divisor(scope)
        if self.builder.low[by] < 1:
            message = f"this divisor may be {self.builder.low[by]}"
            raise located("SP442", message, span, "divide by what is at least 1: `max(1, ..)`")
        return self.builder.node(Op.CEIL if up else Op.FLOOR, (dividend(scope), by))

    def _conditional(self, condition: Grounded, branches: Sequence[Grounded]) -> Grounded:
        def node(scope: Scope) -> int:
            holds = condition(scope)
            return self._selected([holds, self.builder.node(Op.NOT, (holds,))], branches, scope)

        return node

    def _selected(self, conditions: Sequence[int], branches: Sequence[Grounded], scope: Scope) -> int:
        """The branches whose conditions are possible at the root; the others do not exist."""
        pairs: list[int] = []
        for condition, branch in zip(conditions, branches, strict=True):
            if self.builder.high[condition]:
                pairs += [condition, branch(scope)]
        return pairs[1] if len(pairs) == 2 else self.builder.node(Op.SELECT, tuple(pairs))

    # ---- Aggregates ----

    def _members(self, aggregate: Aggregate) -> Members:
        binder, builder, objects, layout = aggregate.binder, self.builder, self._objects, self._layout
        maps = {each.name: each for each in aggregate.maps}
        body, is_certain = self.term(aggregate.body), not may_lack(layout, objects, binder)

        def members(scope: Scope) -> tuple[list[tuple[int, int]], bool]:
            for argument in binder.set.args:
                scope.id(argument)
            found: list[tuple[int, int]] = []
            inner_maps = {**scope.maps, **maps} if maps else scope.maps
            # What variables stand for is present wherever the scope is, what maps give need not be.
            given = frozenset() if inner_maps.keys() & binder.set.args else layout.given
            is_some = False
            for member in objects.of(binder.set, scope.ids):
                ids = {**scope.ids, binder.name: member}
                if member in scope.taken or not objects.passes(binder.where, ids):
                    continue
                inner = Scope(objects, ids, inner_maps, scope.taken | {member}, scope.order, scope.span)
                if is_certain:
                    found.append((builder.constant(1), body(inner)))
                    is_some = True
                    continue
                cells = binder_cells(layout, objects, binder, ids)
                guard = builder.all_of([builder.leaf(Op.IN_MASK, cell, (PRESENT,)) for cell in cells])
                if builder.high[guard]:
                    found.append((guard, body(inner)))
                    is_some = is_some or bool(builder.low[guard]) or given.issuperset(cells)
            return found, is_some

        return members

    def _aggregated(self, function: Aggregation, members: Members, span: Span, scope: Scope) -> int:
        found, is_some = members(scope)
        if not is_some and function in (Aggregation.MIN, Aggregation.MAX):
            word, order = function.value, scope.order or (1,)
            operand = order[0] if function is Aggregation.MAX else order[-1]
            hint = f"give a further operand: `{word}({operand}, {word} $x in ..)`"
            raise _nothing(word, bool(found), span, hint)
        return self._combined(function, found)

    def _combined(self, function: Aggregation, members: Sequence[tuple[int, int]]) -> int:
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

    def _extremum(self, extremum: Extremum) -> Grounded:
        greatest, builder = extremum.greatest, self.builder
        operation = Op.MAXIMUM if greatest else Op.MINIMUM
        operands = [
            partial(self._operand, each.function, self._members(each), greatest)
            if isinstance(each, Aggregate) and each.function in (Aggregation.MIN, Aggregation.MAX)
            else partial(self._plain_operand, self.term(each))
            for each in extremum.operands
        ]

        def node(scope: Scope) -> int:
            found = [operand(scope) for operand in operands]
            nodes = [n for n, _ in found if n is not None]
            if not any(is_some for _, is_some in found):
                raise _nothing(
                    "max" if greatest else "min", bool(nodes), extremum.span, "give a further operand"
                )
            return builder.node(operation, tuple(nodes))

        return node

    def _operand(
        self, function: Aggregation, members: Members, greatest: bool, scope: Scope
    ) -> tuple[int | None, bool]:
        """An aggregate in an extremum, where it contributes nothing without a member; whether it has one."""
        builder, (found, is_some) = self.builder, members(scope)
        if not found:
            return None, False
        node = self._combined(function, found)
        some = builder.any_of([guard for guard, _ in found])
        if is_some or (function is Aggregation.MAX) is greatest:
            return node, is_some
        nothing = builder.constant(NEUTRAL[Aggregation.MAX if greatest else Aggregation.MIN])
        return builder.node(Op.SELECT, (some, node, builder.node(Op.NOT, (some,)), nothing)), False

    @staticmethod
    def _plain_operand(term: Grounded, scope: Scope) -> tuple[int | None, bool]:
        return term(scope), True

    # ---- Uses ----

    def _use(self, use: Use, span: Span | None = None) -> Grounded:
        """The value of a choice, a counter or a quantity; `span`: None for that of the scope."""
        if use.choice in self.keys:
            return partial(self._quantity, use, self.keys[use.choice], span)
        operation = LEAF[type(self._objects.space.choices[use.choice])]
        cell, leaf = self._cell(use, span), self.builder.leaf
        return lambda scope: leaf(operation, cell(scope))

    def _quantity(self, use: Use, keys: frozenset[Key], span: Span | None, scope: Scope) -> int:
        instance = use.choice, scope.key(use.args)
        known = self.instances.get(instance)
        if known is not None:
            return known
        if instance[1] not in keys:
            raise scope.outside(use, instance[1], span)
        return self.instance(instance)

    def _cell(self, use: Use, span: Span | None = None) -> Grounded:
        cells, args = self._layout.cells[use.choice], use.args

        def cell(scope: Scope) -> int:
            key = scope.key(args)
            found = cells.get(key)
            if found is None:
                raise scope.outside(use, key, span)
            return found

        return cell

    def _in_mask(self, use: Use, mask: int) -> Grounded:
        """Of a pair that is stored both ways round, the orientation that comes first is read."""
        cell_of, twins, leaf = self._cell(use), self._layout.twins, self.builder.leaf
        choice = self._objects.space.choices[use.choice]
        assert isinstance(choice, EnumChoice)
        data, inverse = (mask,), (choice.invert(mask),)

        def node(scope: Scope) -> int:
            cell = cell_of(scope)
            other = twins.get(cell, cell)
            return leaf(Op.IN_MASK, other, inverse) if other < cell else leaf(Op.IN_MASK, cell, data)

        return node

    # ---- Conditions ----

    def formula(self, formula: Formula) -> Grounded:
        builder = self.builder
        match formula:
            case Constant(value):
                return lambda scope: builder.constant(int(value))
            case Host(expression):
                truth = self._host(expression)
                return lambda scope: builder.constant(int(bool(truth(scope))))
            case Not(operand):
                holds = self.formula(operand)
                return lambda scope: builder.node(Op.NOT, (holds(scope),))
            case And(operands):
                return partial(self._joined, [self.formula(each) for each in operands], FALSE, builder.all_of)
            case Or(operands):
                return partial(self._joined, [self.formula(each) for each in operands], TRUE, builder.any_of)
            case Is(use, mask):
                return self._in_mask(use, mask)
            case SameEnum(left, right, equal, translate):
                pairs = [
                    (self._in_mask(left, 1 << a), self._in_mask(right, 1 << b))
                    for a, b in enumerate(translate)
                ]
                return partial(self._same, pairs, equal)
            case Compare(left_side, op, right_side):
                first, second = self._affine(left_side), self._affine(right_side)
                return lambda scope: builder.compared(first(scope), op, second(scope))
            case ComparePositions():
                return self._compared(formula)

    def _joined(
        self,
        operands: Sequence[Grounded],
        settling: tuple[int, int],
        join: Callable[[Sequence[int]], int],
        scope: Scope,
    ) -> int:
        """What follows a condition that settles the whole at the root is not looked up."""
        nodes: list[int] = []
        for operand in operands:
            nodes.append(operand(scope))
            if (self.builder.low[nodes[-1]], self.builder.high[nodes[-1]]) == settling:
                return nodes[-1]
        return join(nodes)

    def _same(self, pairs: Sequence[tuple[Grounded, Grounded]], equal: bool, scope: Scope) -> int:
        builder = self.builder
        same = builder.any_of([builder.all_of([left(scope), right(scope)]) for left, right in pairs])
        return same if equal else builder.node(Op.NOT, (same,))

    def _compared(self, formula: ComparePositions) -> Grounded:
        builder, op, values = self.builder, formula.op, formula.values
        left, right = self._position(formula.left, values), self._position(formula.right, values)
        is_left = self._settled(formula.left, op, values)
        is_right = self._settled(formula.right, MIRRORED[op], values)

        def node(scope: Scope) -> int:
            low, high = left(scope), right(scope)
            if is_left is not None and builder.low[high] == builder.high[high]:
                return is_left(builder.low[high])(scope)
            if is_right is not None and builder.low[low] == builder.high[low]:
                return is_right(builder.low[low])(scope)
            return builder.compared(low, op, high)

        return node

    def _settled(
        self, side: Position, op: Comparison, values: tuple[str, ...]
    ) -> Callable[[int], Grounded] | None:
        """Of a choice and a place that is settled at the root: whether its value is one of some.

        None: the side is a quantity or a constant.
        """
        if not isinstance(side, Use) or side.choice not in self._objects.space.choices:
            return None
        holds, places = COMPARE[op], range(len(values))
        return cache(lambda place: self._in_mask(side, sum(1 << x for x in places if holds(x, place))))

    def _affine(self, affine: Affine) -> Grounded:
        builder = self.builder
        use = None if affine.use is None else self._use(affine.use)
        factor = self._integer(affine.factor)
        offsets = [self._integer(term) for _, term in affine.offsets]
        signs = ((1,) if use is not None else ()) + tuple(sign for sign, _ in affine.offsets)

        def node(scope: Scope) -> int:
            terms: list[int] = []
            if use is not None:
                value, by = use(scope), factor(scope)
                terms.append(value if affine.factor == 1 else builder.node(Op.PRODUCT, (by, value)))
            return builder.node(Op.SUM, (*terms, *[offset(scope) for offset in offsets]), signs)

        return node

    def _integer(self, value: int | HostExpression) -> Grounded:
        return self._position(value, ())

    def _position(self, side: Position, values: tuple[str, ...]) -> Grounded:
        constant = self.builder.constant
        if isinstance(side, int):
            return lambda scope: constant(side)
        if isinstance(side, Use):
            return self._use(side)
        value = self._host(side)
        return lambda scope: constant(scope.place(value(scope), values, side.span))


def _nothing(word: str, may_be: bool, span: Span, hint: str) -> DiagnosticError:
    """Of an extremum without operands, or of one whose operands may all be absent."""
    verb = "may be" if may_be else "is"
    return located("SP443", f"there {verb} nothing to take the {word}imum of", span, hint)


def height(node: object) -> int:
    """Of a term, or a formula: how many levels it nests to."""
    if isinstance(node, tuple):
        return max(map(height, node), default=0)
    if isinstance(node, LEVELS):
        return 1 + max(height(getattr(node, each.name)) for each in fields(node))
    return 0
