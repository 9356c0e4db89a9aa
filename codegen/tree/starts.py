"""Sums that start from nothing: the first term becomes the start.

In: statements. Out: statements that compute the same numbers, but for the sign of a zero. What a register
starts from is left out where the next statement that it is in combines it with a term, and the start changes
nothing of that:

    s = 0; s = a * b + s    becomes    s = a * b

It is looked for along a block alone: where a loop combines it, the start stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from spacedsl.codegen.tree.expressions import (
    COMBINED,
    Add,
    Broadcast,
    Expression,
    FirstLane,
    Fma,
    Max,
    Min,
    Mul,
    Number,
)
from spacedsl.codegen.tree.parts import registers_of, subexpressions, with_blocks
from spacedsl.codegen.tree.program import Assign, Statement
from spacedsl.kernels.linalg.operations import Combine, neutral


def without_starts(body: Sequence[Statement]) -> tuple[Statement, ...]:
    """The statements, in each block of which sums begin with their first terms."""
    done: list[Statement | None] = []
    waiting: dict[str, int] = {}
    """By register that has a number, which of the statements gives it that."""
    for each in body:
        statement = each
        if isinstance(each, Assign) and each.register.name in waiting:
            start = done[waiting[each.register.name]]
            assert isinstance(start, Assign)
            first = _first(each, start.value)
            if first is not None:
                done[waiting.pop(each.register.name)] = None
                statement = first
        for name in registers_of(statement) if waiting else ():
            waiting.pop(name, None)
        if isinstance(statement, Assign) and _number(statement.value) is not None:
            waiting[statement.register.name] = len(done)
        done.append(with_blocks(statement, without_starts))
    return tuple(statement for statement in done if statement is not None)


def _first(statement: Assign, start: Expression) -> Assign | None:
    """What gives the register the same without its start; None where there is no such thing."""
    register, number = statement.register, _number(start)

    def is_nothing(combine: Combine) -> bool:
        return number == neutral(combine, register.type.dtype)

    match statement.value:
        case Fma(a, b, c) if c == register and is_nothing(Combine.SUM):
            found: Expression = Mul(a, b)
        case Add(a, b) | Mul(a, b) | Max(a, b) | Min(a, b) if register in (a, b):
            if not any(isinstance(statement.value, COMBINED[way]) and is_nothing(way) for way in Combine):
                return None
            found = a if b == register else b
        case _:
            return None
    return None if register in subexpressions(found) else Assign(register, found)


def _number(value: Expression) -> float | None:
    """That all lanes have; None where they have none, or several."""
    match value:
        case Number(number):
            return number
        case Broadcast(Number(number)):
            return number
        case FirstLane(Number(number) as first, _, combine) if number == neutral(combine, first.type.dtype):
            return number
    return None
