"""Branches beside each other that ask the same: one branch.

In: statements. Out: statements that do the same in the same order, but for registers that are given a number
in between: they are given it before.
"""

from __future__ import annotations

from collections.abc import Sequence

from spacedsl.codegen.tree.expressions import Broadcast, Number
from spacedsl.codegen.tree.parts import registers_of, with_blocks
from spacedsl.codegen.tree.program import Assign, Branch, Statement


def joined(body: Sequence[Statement]) -> tuple[Statement, ...]:
    """The statements, in each block of which no branch has a neighbour with its condition."""
    done: list[Statement] = []
    for statement in body:
        at = _neighbour(done, statement) if isinstance(statement, Branch) else None
        if at is None:
            done.append(statement)
            continue
        first = done.pop(at)
        assert isinstance(first, Branch) and isinstance(statement, Branch)
        both = (*first.body, *statement.body), (*first.otherwise, *statement.otherwise)
        done.append(Branch(first.variable, first.limit, *both))
    return tuple(with_blocks(statement, joined) for statement in done)


def _neighbour(done: Sequence[Statement], branch: Branch) -> int | None:
    """Which of the statements is a branch that this one can be part of."""
    numbers: set[str] = set()
    for at in reversed(range(len(done))):
        match done[at]:
            case Assign(register, Number() | Broadcast(Number())):
                numbers.add(register.name)
            case Branch(branch.variable, branch.limit) as found:
                has_own = not numbers or numbers.isdisjoint(registers_of(found))
                return at if has_own else None
            case _:
                return None
    return None
