"""What is asked of operands leaves out only what no value of the others makes right, by brute force."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod

import pytest

from spacedsl.engine.quantities.intervals import Interval, common, computed
from spacedsl.engine.quantities.inverse import asked
from spacedsl.engine.quantities.nodes import INFINITE, Node, Op

CONDITION = (0, 1)
Ends = Sequence[Interval]


def value(node: Node, of: Sequence[int]) -> int | None:
    """Exact, on values of the operands; None: not possible together."""
    match node.op:
        case Op.SUM:
            return sum(x * sign for x, sign in zip(of, node.data, strict=True))
        case Op.PRODUCT:
            return prod(of)
        case Op.MINIMUM:
            return min(of)
        case Op.MAXIMUM:
            return max(of)
        case Op.FLOOR:
            return of[0] // of[1]
        case Op.CEIL:
            return -(-of[0] // of[1])
        case Op.NOT:
            return 1 - of[0]
        case Op.AT_MOST:
            return int(of[0] <= of[1])
        case Op.EQUAL:
            return int(of[0] == of[1])
        case Op.SELECT:
            chosen = [x for condition, x in zip(of[::2], of[1::2], strict=True) if condition]
            return chosen[0] if len(chosen) == 1 else None
    raise AssertionError(node)


def interval(rng: random.Random, least: int = -6) -> Interval:
    low = rng.randint(least, 6)
    return low, rng.randint(low, 6)


def case(op: Op, rng: random.Random) -> tuple[Node, Ends]:
    numbers = tuple(range(3))
    match op:
        case Op.SUM:
            return Node(op, numbers, tuple(rng.choice((1, -1)) for _ in numbers)), [
                interval(rng) for _ in numbers
            ]
        case Op.PRODUCT:
            return Node(op, numbers), [interval(rng, rng.choice((-2, 0, 0, 0))) for _ in numbers]
        case Op.MINIMUM | Op.MAXIMUM:
            return Node(op, numbers), [interval(rng) for _ in numbers]
        case Op.FLOOR | Op.CEIL:
            return Node(op, (0, 1)), [interval(rng), interval(rng, 1)]
        case Op.NOT:
            return Node(op, (0,)), [CONDITION]
        case Op.SELECT:
            conditions = [CONDITION, rng.choice((CONDITION, (0, 0)))]
            return Node(op, (0, 1, 2, 3)), [conditions[0], interval(rng), conditions[1], interval(rng)]
    return Node(op, (0, 1)), [interval(rng), interval(rng)]


def needs_of(node: Node, need: Interval, ends: Ends) -> list[Interval]:
    found = list(ends)
    for operand, each in asked(node, need, [low for low, _ in ends], [high for _, high in ends]):
        found[operand] = common(found[operand], each)
    return found


def right(node: Node, need: Interval, ends: Ends) -> Iterator[tuple[int, ...]]:
    for of in product(*(range(low, high + 1) for low, high in ends)):
        found = value(node, of)
        if found is not None and need[0] <= found <= need[1]:
            yield of


def part(rng: random.Random, node: Node, ends: Ends) -> Interval:
    """Some of the values that the node may have."""
    low, high = computed(node, [low for low, _ in ends], [high for _, high in ends])
    least = rng.randint(low, high)
    return rng.choice([(least, rng.randint(least, high)), (least, high), (low, least)])


OPERATIONS = [op for op in Op if op > Op.IN_MASK]
TIGHT = (Op.SUM, Op.MINIMUM, Op.MAXIMUM, Op.NOT, Op.AT_MOST)


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_no_value_is_left_out_that_some_others_make_right(op: Op) -> None:
    rng, narrowed = random.Random(op), 0
    for _ in range(400):
        node, ends = case(op, rng)
        need = part(rng, node, ends)
        found = needs_of(node, need, ends)
        for of in right(node, need, ends):
            assert all(low <= x <= high for x, (low, high) in zip(of, found, strict=True)), (node, need, of)
        narrowed += found != ends
    assert narrowed > 60


@pytest.mark.parametrize("op", TIGHT, ids=lambda op: op.name)
def test_both_ends_of_what_is_asked_are_right_for_some_others(op: Op) -> None:
    rng = random.Random(op)
    for _ in range(300):
        node, ends = case(op, rng)
        need = part(rng, node, ends)
        found = needs_of(node, need, ends)
        kept = list(right(node, need, ends))
        for place, each in enumerate(found):
            assert each == (min(of[place] for of in kept), max(of[place] for of in kept)), (node, need, ends)


def asked_of_first(node: Node, need: Interval, *ends: Interval) -> Interval:
    return needs_of(node, need, ends)[0]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            lambda: asked_of_first(Node(Op.SUM, (0, 1), (1, 1)), (-INFINITE, 9), (0, 99), (-INFINITE, 3)),
            (0, 99),
        ),
        (lambda: asked_of_first(Node(Op.SUM, (0, 1), (1, 1)), (-INFINITE, 9), (0, INFINITE), (4, 5)), (0, 5)),
        (
            lambda: asked_of_first(Node(Op.SUM, (0, 1), (1, -1)), (0, INFINITE), (0, 99), (7, INFINITE)),
            (7, 99),
        ),
        (lambda: asked_of_first(Node(Op.PRODUCT, (0, 1)), (0, 9), (0, 99), (INFINITE, INFINITE)), (0, 0)),
        (lambda: asked_of_first(Node(Op.PRODUCT, (0, 1)), (8, INFINITE), (0, 99), (2, INFINITE)), (0, 99)),
        (lambda: asked_of_first(Node(Op.FLOOR, (0, 1)), (0, 3), (0, INFINITE), (1, INFINITE)), (0, INFINITE)),
        (lambda: asked_of_first(Node(Op.FLOOR, (0, 1)), (0, 3), (0, INFINITE), (2, 5)), (0, 19)),
        (
            lambda: asked_of_first(Node(Op.AT_MOST, (0, 1)), (0, 0), (0, 9), (INFINITE, INFINITE)),
            (INFINITE, 9),
        ),
    ],
)
def test_infinite_ends_ask_for_nothing_that_does_not_follow(
    found: Callable[[], Interval], expected: Interval
) -> None:
    assert found() == expected
