"""How many registers hold what is needed again: the most at any place of a block.

In: statements, in the order in which they are done. Out: words of 32 bits, or what a given weight says; at
most, since what is needed behind a loop counts in all of its iterations, the last of which may be what makes
it. A compiler may take more, where it loads ahead, or fewer, where it computes again or later; which
registers it has is not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from spacedsl.codegen.tree.expressions import Register
from spacedsl.codegen.tree.parts import assigned, blocks, own_expressions
from spacedsl.codegen.tree.program import Loop, Multiply, Statement, Sweep

Registers = frozenset[Register]

_NONE: Registers = frozenset()


class _Flow(NamedTuple):
    """What a statement certainly gives a value to, and what it reads that was there before it."""

    given: Registers
    needed: Registers


def most_live_words(body: Sequence[Statement]) -> int:
    return most_live(body, lambda register: register.type.words)


def most_live(body: Sequence[Statement], weight: Callable[[Register], int]) -> int:
    """The greatest sum of weights of what is live at some place."""
    return _Liveness(weight).most(body, _NONE)


class _Liveness:
    def __init__(self, weight: Callable[[Register], int]) -> None:
        self.weight = weight
        self.known: dict[int, _Flow] = {}
        """Of statements that have blocks, by their identity."""

    def most(self, body: Sequence[Statement], behind: Registers) -> int:
        """The weight of what is live at some place of a block, `behind` which these are."""
        live = set(behind)
        most = weight = self.together(behind)
        for statement in reversed(body):
            inside = blocks(statement)
            for block in inside:
                # An iteration leaves the next one what that begins with.
                again = self.of_block(block).needed if isinstance(statement, Loop | Sweep) else _NONE
                most = max(most, self.most(block, frozenset(live) | again))
            given, needed = self.of(statement)
            if not inside:
                most = max(most, weight + self.together(given - live))
            weight -= self.together(given & live)
            live -= given
            weight += self.together(needed - live)
            live |= needed
            most = max(most, weight)
        return most

    def together(self, registers: Registers) -> int:
        return sum(map(self.weight, registers))

    def of(self, statement: Statement) -> _Flow:
        inside = blocks(statement)
        if not inside:
            return _own(statement)
        if (found := self.known.get(id(statement))) is None:
            flows = [self.of_block(block) for block in inside]
            # All else may be passed over.
            given = flows[0].given if isinstance(statement, Loop) else _NONE
            needed = _NONE.union(*(flow.needed for flow in flows))
            found = self.known[id(statement)] = _Flow(given, needed)
        return found

    def of_block(self, body: Sequence[Statement]) -> _Flow:
        given, needed = set[Register](), set[Register]()
        for statement in reversed(body):
            flow = self.of(statement)
            given |= flow.given
            needed -= flow.given
            needed |= flow.needed
        return _Flow(frozenset(given), frozenset(needed))


def _own(statement: Statement) -> _Flow:
    """Of a statement without blocks. A product goes on with its result."""
    read = {e for e in own_expressions(statement) if isinstance(e, Register)}
    if isinstance(statement, Multiply):
        read.update((*statement.result, *statement.a, *statement.b))
    return _Flow(frozenset(assigned(statement)), frozenset(read))
