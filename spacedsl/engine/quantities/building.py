"""Building of a graph: nodes in order of need, equal ones once, what is settled at the root as a constant.

In: operations on nodes that exist already, and the working vector at the root. Out: a `Graph`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spacedsl.engine.quantities.evaluation import leaf
from spacedsl.engine.quantities.intervals import clamped, computed
from spacedsl.engine.quantities.nodes import INFINITE, LEAVES, NO_CELL, Graph, Node, Op
from spacedsl.language.space import Comparison

UNCHANGED_ALONE = frozenset({Op.PRODUCT, Op.MINIMUM, Op.MAXIMUM})
"""What these make of one operand is that operand."""


@dataclass(slots=True, eq=False)
class Builder:
    v: Sequence[int]
    universes: Mapping[int, tuple[int, ...]]
    is_apart: bool = False
    """Whether each quantity has a node of its own, as explanations need; searches compute fewer nodes."""
    low: list[int] = field(default_factory=list)
    high: list[int] = field(default_factory=list)
    """The intervals at the root."""
    _numbers: dict[tuple[Op, tuple[int, ...], tuple[int, ...], int], int] = field(default_factory=dict)
    """Of every node that was asked for, that of the node that stands for it."""
    _nodes: list[Node] = field(default_factory=list)
    _constants: dict[int, int] = field(default_factory=dict)

    def constant(self, value: int) -> int:
        number = self._constants.get(value)
        if number is None:
            end = clamped(value)
            node = Node(Op.CONSTANT, data=(end,))
            number = self._numbers[node] if node in self._numbers else self._add(node, end, end)
            self._constants[value] = number
        return number

    def leaf(self, op: Op, cell: int, data: tuple[int, ...] = ()) -> int:
        number = self._numbers.get((op, (), data, cell))
        if number is None:
            node = Node(op, (), data, cell)
            number = self._add(node, *leaf(node, self.v, self.universes))
        return number

    def quantity(self, value: int) -> int:
        """The node of a quantity whose definition has this value."""
        if not self.is_apart:
            return value
        # The greatest of one. This operation reads no data: they tell quantities of one value apart.
        node = Node(Op.MAXIMUM, (value,), (len(self._nodes),))
        return self._add(node, self.low[value], self.high[value])

    def node(self, op: Op, operands: tuple[int, ...], data: tuple[int, ...] = ()) -> int:
        """The operation on these, or a simpler node of the same value."""
        asked = op, operands, data, NO_CELL
        number = self._numbers.get(asked)
        if number is None:
            number = self._numbers[asked] = self._simplified(op, operands, data)
        return number

    def _simplified(self, op: Op, operands: tuple[int, ...], data: tuple[int, ...]) -> int:
        match op:
            case Op.SUM:
                operands, data = self._flat(operands, data)
                if not operands:
                    return self.constant(0)
                if data == (1,):
                    return operands[0]
            case Op.PRODUCT | Op.MINIMUM | Op.MAXIMUM:
                operands = self._effective(op, operands)
            case Op.FLOOR | Op.CEIL if self._is(operands[1], 1):
                return operands[0]
            case Op.NOT:
                return self._negated(operands[0])
        if len(operands) == 1 and op in UNCHANGED_ALONE:
            return operands[0]
        number = self._numbers.get((op, operands, data, NO_CELL))
        if number is None:
            node = Node(op, operands, data)
            number = self._add(node, *computed(node, self.low, self.high))
        return number

    def _is(self, n: int, value: int) -> bool:
        return self.low[n] == self.high[n] == value

    def _flat(self, operands: Sequence[int], signs: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The terms of a sum and of finite sums in it, and what is settled as finite constants at the end."""
        terms: list[tuple[int, int]] = []
        settled = 0
        for n, sign in zip(operands, signs, strict=True):
            if self.low[n] == self.high[n] and abs(self.low[n]) < INFINITE:
                settled += sign * self.low[n]
            elif self._nodes[n].op is Op.SUM and self.low[n] > -INFINITE and self.high[n] < INFINITE:
                inner = self._nodes[n]
                for each, own in zip(inner.operands, inner.data, strict=True):
                    if self.low[each] == self.high[each]:
                        settled += sign * own * self.low[each]
                    else:
                        terms.append((each, sign * own))
            else:
                terms.append((n, sign))
        while settled:
            # What others take away again must not be infinite before.
            finite = max(1 - INFINITE, min(settled, INFINITE - 1))
            terms.append((self.constant(finite), 1))
            settled -= finite
        return tuple(n for n, _ in terms), tuple(sign for _, sign in terms)

    def _effective(self, op: Op, operands: tuple[int, ...]) -> tuple[int, ...]:
        """Without what cannot make a difference: factors of 1, what another one is always beyond."""
        low, high = self.low, self.high
        if op is Op.PRODUCT:
            return tuple(n for n in operands if not self._is(n, 1)) or operands[:1]
        distinct = tuple(dict.fromkeys(operands))
        if op is Op.MINIMUM:
            best = min(distinct, key=high.__getitem__)
            return tuple(n for n in distinct if n == best or low[n] < high[best])
        best = max(distinct, key=low.__getitem__)
        return tuple(n for n in distinct if n == best or high[n] > low[best])

    def _negated(self, n: int) -> int:
        node = self._nodes[n]
        if node.op is Op.NOT:
            return node.operands[0]
        if node.op is Op.IN_MASK:
            return self.leaf(Op.IN_MASK, node.cell, (self.v[node.cell] & ~node.data[0],))
        negated = Node(Op.NOT, (n,))
        return self._add(negated, *computed(negated, self.low, self.high))

    def all_of(self, conditions: Sequence[int]) -> int:
        open_ones = tuple(dict.fromkeys(c for c in conditions if not self.low[c]))
        return self.node(Op.MINIMUM, open_ones) if open_ones else self.constant(1)

    def any_of(self, conditions: Sequence[int]) -> int:
        open_ones = tuple(dict.fromkeys(c for c in conditions if self.high[c]))
        return self.node(Op.MAXIMUM, open_ones) if open_ones else self.constant(0)

    def compared(self, left: int, op: Comparison, right: int) -> int:
        match op:
            case Comparison.LE:
                return self.node(Op.AT_MOST, (left, right))
            case Comparison.GE:
                return self.node(Op.AT_MOST, (right, left))
            case Comparison.LT:
                return self.node(Op.NOT, (self.node(Op.AT_MOST, (right, left)),))
            case Comparison.GT:
                return self.node(Op.NOT, (self.node(Op.AT_MOST, (left, right)),))
            case Comparison.EQ:
                return self.node(Op.EQUAL, (left, right))
            case Comparison.NE:
                return self.node(Op.NOT, (self.node(Op.EQUAL, (left, right)),))

    def graph(self, instances: Mapping[tuple[str, tuple[int, ...]], int]) -> Graph:
        nodes = tuple(self._nodes)
        users: list[list[int]] = [[] for _ in nodes]
        leaves: dict[int, list[int]] = {}
        for number, node in enumerate(nodes):
            for operand in dict.fromkeys(node.operands):
                users[operand].append(number)
            if node.op in LEAVES:
                leaves.setdefault(node.cell, []).append(number)
        return Graph(
            nodes,
            tuple(tuple(each) for each in users),
            {cell: tuple(numbers) for cell, numbers in leaves.items()},
            frozenset(node.cell for node in nodes if node.op is Op.COUNTER),
            dict(instances),
        )

    def _add(self, node: Node, low: int, high: int) -> int:
        """A node that there is not yet."""
        if low == high and node.op is not Op.CONSTANT:
            number = self.constant(low)
        else:
            number = len(self._nodes)
            self._nodes.append(node)
            self.low.append(low)
            self.high.append(high)
        self._numbers[node] = number
        return number
