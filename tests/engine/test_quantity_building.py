"""Nodes that are simplified as they are built have the values of those that are not."""

from __future__ import annotations

import random

import pytest

from spacedsl.engine.quantities.building import Builder
from spacedsl.engine.quantities.evaluation import Evaluation, leaf
from spacedsl.engine.quantities.intervals import Interval, computed
from spacedsl.engine.quantities.nodes import LEAVES, Node, Op

UNIVERSE = (0, 1, 1, 2, 7)
CELLS = 5
LARGE = (2**62, 2**62 + 1, 2 - 2**63)
"""Constants that are finite, while sums of two of them need not be."""
Plain = list[Node]
"""All nodes as they are asked for, without any simplification."""


def grow(rng: random.Random, builder: Builder) -> tuple[Plain, list[int]]:
    """Random operations on random operands; of each, its number in the builder's graph."""
    plain: Plain = []
    built: list[int] = []
    conditions: list[int] = []

    def add(node: Node, number: int) -> int:
        plain.append(node)
        built.append(number)
        return len(plain) - 1

    for value in (0, 1, -3, *LARGE):
        add(Node(Op.CONSTANT, data=(value,)), builder.constant(value))
    large = range(len(plain) - len(LARGE), len(plain))
    for cell in range(CELLS):
        add(Node(Op.INTEGER, cell=cell), builder.leaf(Op.INTEGER, cell))
        mask = rng.randrange(32)
        node = Node(Op.IN_MASK, data=(mask,), cell=cell)
        conditions.append(add(node, builder.leaf(Op.IN_MASK, cell, (mask,))))
    for _ in range(25):
        op = rng.choice([op for op in Op if op > Op.IN_MASK])
        numbers = [n for n in range(len(plain)) if n not in conditions]
        operands = tuple(rng.choices(numbers, k=rng.randint(1, 4)))
        data: tuple[int, ...] = ()
        if op is Op.SUM:
            operands += tuple(rng.choices(large, k=rng.choice((0, 0, 2, 3))))
            data = tuple(rng.choice((1, -1)) for _ in operands)
        elif op is Op.NOT:
            operands = (rng.choice(conditions),)
        elif op in (Op.AT_MOST, Op.EQUAL):
            operands = tuple(rng.choices(numbers, k=2))
        elif op in (Op.FLOOR, Op.CEIL):
            operands = (operands[0], rng.choice([1, *(n for n in numbers if builder.low[built[n]] >= 1)]))
        elif op is Op.SELECT:
            condition = rng.choice(conditions)
            negated = add(Node(Op.NOT, (condition,)), builder.node(Op.NOT, (built[condition],)))
            conditions.append(negated)
            operands = (condition, rng.choice(numbers), negated, rng.choice(numbers))
        node = Node(op, operands, data)
        number = add(node, builder.node(op, tuple(built[n] for n in operands), data))
        if op in (Op.NOT, Op.AT_MOST, Op.EQUAL):
            conditions.append(number)
    return plain, built


def intervals(plain: Plain, v: list[int]) -> list[Interval]:
    universes = dict.fromkeys(range(CELLS), UNIVERSE)
    low: list[int] = []
    high: list[int] = []
    for node in plain:
        ends = leaf(node, v, universes) if node.op in LEAVES else computed(node, low, high)
        low.append(ends[0])
        high.append(ends[1])
    return list(zip(low, high, strict=True))


@pytest.mark.parametrize("seed", range(40))
def test_on_random_operations(seed: int) -> None:
    rng = random.Random(seed)
    root = [rng.randint(1, 31) for _ in range(CELLS)]
    builder = Builder(list(root), dict.fromkeys(range(CELLS), UNIVERSE))
    plain, built = grow(rng, builder)
    graph = builder.graph({})
    for _ in range(10):
        v = [rng.choice([word & -word, 1 << word.bit_length() - 1, word]) for word in root]
        found = Evaluation(graph, v, builder.universes)
        is_decided = all(word & (word - 1) == 0 for word in v)
        for ends, number in zip(intervals(plain, v), built, strict=True):
            low, high = found.low[number], found.high[number]
            assert ends[0] <= low <= high <= ends[1]
            assert not is_decided or (low, high) == ends
    assert len(graph.nodes) < len(plain)
