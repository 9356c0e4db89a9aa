"""What each kind of node computes: the interval of its values from the intervals of its operands.

In: a node's kind and data, and the ends of its operands. Out: its ends. Exact for one operation: both ends
are taken on, as each operation is monotone in each operand, or has its extreme values at corners.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from spacedsl.engine.quantities.nodes import INFINITE, Node, Op

Interval = tuple[int, int]
OPEN, FALSE, TRUE = (0, 1), (0, 0), (1, 1)
"""Intervals of conditions."""


def computed(node: Node, low: Sequence[int], high: Sequence[int]) -> Interval:
    """The interval of a node that is no leaf, from the ends of all nodes before it."""
    return _COMPUTED[node.op](node, low, high)


def common(left: Interval, right: Interval) -> Interval:
    """What lies in both; nothing where the first end is above the second."""
    return max(left[0], right[0]), min(left[1], right[1])


def clamped(value: int) -> int:
    return max(-INFINITE, min(value, INFINITE))


def added(terms: list[int]) -> int:
    """Infinite where a term is, plus infinity first."""
    if INFINITE in terms:
        return INFINITE
    return -INFINITE if -INFINITE in terms else clamped(sum(terms))


def divided(dividend: int, divisor: int, up: bool) -> int:
    """Rounded toward minus, or if `up` toward plus infinity."""
    if abs(dividend) >= INFINITE:
        return dividend
    return -(-dividend // divisor) if up else dividend // divisor


# ---- By operation ------------------------------------------------------------------------------------------


def _constant(node: Node, low: Sequence[int], high: Sequence[int]) -> Interval:
    return node.data[0], node.data[0]


def _sum(node: Node, low: Sequence[int], high: Sequence[int]) -> Interval:
    signed = list(zip(node.operands, node.data, strict=True))
    lows = [low[n] if sign > 0 else -high[n] for n, sign in signed]
    highs = [high[n] if sign > 0 else -low[n] for n, sign in signed]
    return added(lows), added(highs)


def _product(node: Node, low: Sequence[int], high: Sequence[int]) -> Interval:
    operands = node.operands
    if all(low[n] >= 0 for n in operands):
        return clamped(prod(low[n] for n in operands)), clamped(prod(high[n] for n in operands))
    least, greatest = 1, 1
    for n in operands:
        corners = (least * low[n], least * high[n], greatest * low[n], greatest * high[n])
        least, greatest = clamped(min(corners)), clamped(max(corners))
    return least, greatest


def _minimum(node: Node, low: Sequence[int], high: Sequence[int]) -> Interval:
    return min([low[n] for n in node.operands]), min([high[n] for n in node.operands])


def _maximum(node: Node, low: Sequence[int], high: Sequence[int]) -> Interval:
    return max([low[n] for n in node.operands]), max([high[n] for n in node.operands])


def _quotient(node: Node, low: Sequence[int], high: Sequence[int]) -> Interval:
    a, b = node.operands
    # At the root a divisor is 1 at least; explanations look at wider domains, too.
    least, greatest = max(low[b], 1), max(high[b], 1)
    corners = [divided(x, y, node.op is Op.CEIL) for x in (low[a], high[a]) for y in (least, greatest)]
    return min(corners), max(corners)


def _select(node: Node, low: Sequence[int], high: Sequence[int]) -> Interval:
    chosen = [x for c, x in zip(node.operands[::2], node.operands[1::2], strict=True) if high[c]]
    # At the root one of them may hold; explanations look at other domains, too.
    chosen = chosen or [*node.operands[1::2]]
    return min([low[n] for n in chosen]), max([high[n] for n in chosen])


def _not(node: Node, low: Sequence[int], high: Sequence[int]) -> Interval:
    (n,) = node.operands
    return 1 - high[n], 1 - low[n]


def _at_most(node: Node, low: Sequence[int], high: Sequence[int]) -> Interval:
    a, b = node.operands
    return int(high[a] <= low[b]), int(low[a] <= high[b])


def _equal(node: Node, low: Sequence[int], high: Sequence[int]) -> Interval:
    a, b = node.operands
    return int(low[a] == high[a] == low[b] == high[b]), int(low[a] <= high[b] and low[b] <= high[a])


_COMPUTED: Mapping[Op, Callable[[Node, Sequence[int], Sequence[int]], Interval]] = {
    Op.CONSTANT: _constant,
    Op.SUM: _sum,
    Op.PRODUCT: _product,
    Op.MINIMUM: _minimum,
    Op.MAXIMUM: _maximum,
    Op.FLOOR: _quotient,
    Op.CEIL: _quotient,
    Op.SELECT: _select,
    Op.NOT: _not,
    Op.AT_MOST: _at_most,
    Op.EQUAL: _equal,
}
