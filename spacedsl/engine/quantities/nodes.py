"""The graph of quantities of an instance: nodes over the words of the vector, in order of need.

In: built by `grounding.py`. Out: evaluated by `evaluation.py`; a printer or an interpreter in another
language needs nothing else. A node's number is its place in `Graph.nodes`, and its operands have smaller
numbers. Each node stands for an interval of integers, both ends from -`INFINITE` to `INFINITE`, which stand
for themselves and everything beyond. A condition is a node too: [0, 0] is false, [1, 1] true, [0, 1] open.

What is settled at the root is a `CONSTANT`: domains only shrink, so it is settled everywhere.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

INFINITE = 2**63 - 1
NO_CELL = -1


class Op(enum.IntEnum):
    """What a node computes from `operands`; leaves read the word, or words, at `cell`."""

    CONSTANT = 0  # `data[0]`
    POSITION = 1  # the positions of an enum's values that are left
    INTEGER = 2  # the values of an integer choice that are left
    COUNTER = 3  # a counter's interval
    IN_MASK = 4  # whether an enum's value lies in `data[0]`; whether something is present
    SUM = 5  # of the operands, times their signs in `data`; infinite where one is, plus infinity first
    PRODUCT = 6  # of the operands; 0 where one is 0
    MINIMUM = 7  # of the operands; of conditions: all hold
    MAXIMUM = 8  # of the operands; of conditions: one holds
    FLOOR = 9  # the first by the second, rounded down
    CEIL = 10  # the first by the second, rounded up
    SELECT = 11  # pairs of a condition and a value, one of whose conditions holds: the value of that one
    NOT = 12  # of a condition
    AT_MOST = 13  # the first <= the second
    EQUAL = 14  # the first == the second


LEAVES = frozenset({Op.POSITION, Op.INTEGER, Op.COUNTER, Op.IN_MASK})


class Node(NamedTuple):
    op: Op
    operands: tuple[int, ...] = ()
    data: tuple[int, ...] = ()
    cell: int = NO_CELL


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """`instances[quantity, ids]` is the node of a quantity on objects."""

    nodes: tuple[Node, ...]
    users: tuple[tuple[int, ...], ...]
    """By node: those that have it as an operand, in order."""
    leaves: Mapping[int, tuple[int, ...]]
    """By cell: the leaves that read it."""
    counters: frozenset[int]
    """Cells of counters: two words."""
    instances: Mapping[tuple[str, tuple[int, ...]], int]
