"""Intervals of single operations, against the exact values that the enumerator gives points in them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from spacedsl.engine.denoted_quantities import added, divided, multiplied
from spacedsl.engine.quantities.intervals import computed
from spacedsl.engine.quantities.nodes import INFINITE, Node, Op

numbers = st.integers(-20, 20) | st.sampled_from(
    [INFINITE, -INFINITE, INFINITE - 1, 1 - INFINITE, 2**62, -(2**62), 2**32, -(2**32)]
)
Operand = tuple[int, int, int]
"""Both ends, and a point between them."""
operands = st.tuples(numbers, numbers, numbers).map(lambda three: (min(three), max(three), sorted(three)[1]))
often = settings(max_examples=300, deadline=None, derandomize=True, database=None)


def interval(op: Op, parts: list[Operand], data: tuple[int, ...] = ()) -> tuple[int, int]:
    node = Node(op, tuple(range(len(parts))), data)
    return computed(node, [low for low, _, _ in parts], [high for _, high, _ in parts])


@given(st.lists(operands, min_size=1, max_size=4), st.data())
@often
def test_sums_products_and_extrema_hold_the_values_of_all_points(
    parts: list[Operand], data: st.DataObject
) -> None:
    points = [point for _, _, point in parts]
    signs = tuple(data.draw(st.sampled_from([1, -1])) for _ in parts)
    exact = {
        Op.SUM: added(sign * point for sign, point in zip(signs, points, strict=True)),
        Op.PRODUCT: multiplied(points),
        Op.MINIMUM: min(points),
        Op.MAXIMUM: max(points),
    }
    for op, value in exact.items():
        low, high = interval(op, parts, signs if op is Op.SUM else ())
        assert low <= value <= high, op
        decided = [(point, point, point) for point in points]
        assert interval(op, decided, signs if op is Op.SUM else ()) == (value, value), op


@given(operands, operands)
@often
def test_quotients_hold_the_values_of_all_points(dividend: Operand, divisor: Operand) -> None:
    low, point, high = sorted(max(1, abs(number)) for number in divisor)
    for op in (Op.FLOOR, Op.CEIL):
        value = divided(dividend[2], point, op is Op.CEIL)
        least, greatest = interval(op, [dividend, (low, high, point)])
        assert least <= value <= greatest
        assert interval(op, [(dividend[2],) * 3, (point,) * 3]) == (value, value)


@given(operands, operands)
@often
def test_a_comparison_is_settled_only_where_all_points_agree(left: Operand, right: Operand) -> None:
    low, high = interval(Op.AT_MOST, [left, right])
    assert low <= (left[2] <= right[2]) <= high
    low, high = interval(Op.EQUAL, [left, right])
    assert low <= (left[2] == right[2]) <= high
