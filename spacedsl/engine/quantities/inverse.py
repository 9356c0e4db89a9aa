"""What a node's value asks of its operands: the inverse of each operation, on intervals.

In: a node, an interval `need` that its value has to lie in, and the intervals of its operands. Out: for
operands, intervals that they have to lie in, by the intervals of all others; what is left out may be
anything. Exact for one operation but for holes: products of what may be negative, and quotients of dividends
that may be, ask less (Benhamou, Goualard, Granvilliers, Puget 1999: HC4-revise).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from spacedsl.engine.quantities.intervals import FALSE, TRUE, Interval, clamped
from spacedsl.engine.quantities.nodes import INFINITE, Node, Op

Need = tuple[int, Interval]
"""An operand, and where it has to lie."""


def asked(node: Node, need: Interval, low: Sequence[int], high: Sequence[int]) -> Iterator[Need]:
    least, most = need
    match node.op:
        case Op.SUM:
            yield from _of_sum(node, need, low, high)
        case Op.PRODUCT:
            yield from _of_product(node.operands, need, low, high)
        case Op.MINIMUM:
            yield from ((n, (least, INFINITE)) for n in node.operands)
            below = [n for n in node.operands if low[n] <= most]
            if len(below) == 1:
                yield below[0], (-INFINITE, most)
        case Op.MAXIMUM:
            yield from ((n, (-INFINITE, most)) for n in node.operands)
            above = [n for n in node.operands if high[n] >= least]
            if len(above) == 1:
                yield above[0], (least, INFINITE)
        case Op.FLOOR | Op.CEIL:
            yield from _of_division(node, need, low, high)
        case Op.SELECT:
            yield from _of_selection(node.operands, need, low, high)
        case Op.NOT:
            yield node.operands[0], (1 - most, 1 - least)
        case Op.AT_MOST:
            a, b = node.operands
            if least:
                yield a, (-INFINITE, high[b])
                yield b, (low[a], INFINITE)
            elif not most:
                yield a, (clamped(low[b] + 1), INFINITE)
                yield b, (-INFINITE, clamped(high[a] - 1))
        case Op.EQUAL:
            for n, other in (node.operands, node.operands[::-1]):
                if least:
                    yield n, (low[other], high[other])
                elif not most and low[other] == high[other]:
                    yield n, (low[n] + (low[n] == low[other]), high[n] - (high[n] == low[other]))


def _of_sum(node: Node, need: Interval, low: Sequence[int], high: Sequence[int]) -> Iterator[Need]:
    signed = [(low[n], high[n]) if sign > 0 else (-high[n], -low[n]) for n, sign in _pairs(node)]
    for place, (n, sign) in enumerate(_pairs(node)):
        others = [each for other, each in enumerate(signed) if other != place]
        greatest = _rest(need[1], [least for least, _ in others])
        least = -_rest(-need[0], [-most for _, most in others])
        yield n, (least, greatest) if sign > 0 else (-greatest, -least)


def _pairs(node: Node) -> Iterator[tuple[int, int]]:
    return zip(node.operands, node.data, strict=True)


def _rest(most: int, others: Sequence[int]) -> int:
    """What is left of `most` for a term beside others that are at least so great."""
    if most == INFINITE or any(abs(each) == INFINITE for each in others):
        return INFINITE
    return clamped(most - sum(others))


def _of_product(
    operands: Sequence[int], need: Interval, low: Sequence[int], high: Sequence[int]
) -> Iterator[Need]:
    if any(low[n] < 0 for n in operands):
        return
    least, most = need
    for place, n in enumerate(operands):
        others = (*operands[:place], *operands[place + 1 :])
        least_rest = clamped(prod(low[other] for other in others))
        most_rest = clamped(prod(high[other] for other in others))
        at_most = most // least_rest if least_rest and most < INFINITE else INFINITE
        at_least = -(-least // most_rest) if least > 0 and 0 < most_rest < INFINITE else -INFINITE
        yield n, (at_least, at_most)


def _of_division(node: Node, need: Interval, low: Sequence[int], high: Sequence[int]) -> Iterator[Need]:
    """As (a - shift) // b >= k is a >= k * b + shift, and <= k is a < (k + 1) * b + shift."""
    a, b = node.operands
    shift = 0
    least, most = need
    if node.op is Op.CEIL:
        # ceil(a / b) = (a - 1) // b + 1
        shift = 1
        least, most = (
            clamped(least - 1) if least > -INFINITE else least,
            most - 1 if most < INFINITE else most,
        )
    at_least, at_most = -INFINITE, INFINITE
    if least > -INFINITE:
        factor = low[b] if least >= 0 else high[b]
        at_least = clamped(least * factor + shift) if factor < INFINITE else -INFINITE
    if most < INFINITE:
        factor = high[b] if most + 1 > 0 else low[b]
        at_most = clamped((most + 1) * factor - 1 + shift) if factor < INFINITE else INFINITE
    yield a, (at_least, at_most)
    by_least, by_most = -INFINITE, INFINITE
    if low[a] >= shift and 0 <= most < INFINITE and low[a] < INFINITE:
        by_least = (low[a] - shift) // (most + 1) + 1
    if least > 0 and high[a] < INFINITE:
        by_most = (high[a] - shift) // least
    yield b, (by_least, by_most)


def _of_selection(
    operands: Sequence[int], need: Interval, low: Sequence[int], high: Sequence[int]
) -> Iterator[Need]:
    possible: list[tuple[int, int]] = []
    for condition, value in zip(operands[::2], operands[1::2], strict=True):
        if not high[condition]:
            continue
        if low[value] <= need[1] and need[0] <= high[value]:
            possible.append((condition, value))
        else:
            yield condition, FALSE
    if len(possible) == 1:
        ((condition, value),) = possible
        yield condition, TRUE
        yield value, need
