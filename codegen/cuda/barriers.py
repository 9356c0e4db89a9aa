"""Barriers: where the threads of a block wait for each other.

In: what a block does, and the arrays that it shares. Out: the same with a `Barrier` wherever something is
read that another thread may have written, or written that another may still have to read. A barrier comes
before a loop rather than into it, where it serves all of its iterations. What lies in a `Where` or a
`PerThread` is done by some threads, so that none may stand there. Barriers that are there already, of
software pipelines, count as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from spacedsl.codegen.tree.errors import LoweringError
from spacedsl.codegen.tree.parts import blocks, loaded, statements, stored
from spacedsl.codegen.tree.program import Barrier, Branch, Loop, Statement, Sweep, Where
from spacedsl.kernels.tensors import Tensor

Access = tuple[str, bool]
"""Of an array, and whether it is written."""

Before = frozenset[Access]
"""What threads have accessed since a barrier."""


@dataclass(frozen=True, slots=True)
class Known:
    """What has been found out of statements, by their identity: inner loops are asked for again and again."""

    writes_again: bool
    """Whether two writes may be to one element."""
    accesses: dict[int, Before] = field(default_factory=dict)
    loops: dict[tuple[int, Before], tuple[Loop | Sweep, Before]] = field(default_factory=dict)


def with_barriers(
    body: Sequence[Statement],
    shared: Iterable[Tensor],
    threads: int,
    pipelined: frozenset[Tensor] = frozenset(),
) -> tuple[Statement, ...]:
    """The statements of a block of so many threads; raises `LoweringError` where a barrier has no place.

    Besides `shared` arrays, those of the device that the block both reads and writes have to be waited for;
    but for what lies in one `Where`: there a thread reads what it has written itself. For `pipelined` arrays
    there are barriers already.
    """
    if threads == 1:
        return tuple(body)
    own = {t.name for t in shared} - (ready := {t.name for t in pipelined})
    for statement in statements(body):
        if isinstance(statement, Where) and own & loaded(statement.body) & stored(statement.body):
            raise LoweringError("some threads would wait for others inside of what only they do")
    return waiting(body, (own | loaded(body) & stored(body)) - ready, writes_again=False)


def waiting(body: Sequence[Statement], watched: set[str], *, writes_again: bool) -> tuple[Statement, ...]:
    """The same for these arrays alone. `writes_again`: whether two writes may be to one element."""
    if not watched:
        return tuple(body)
    known = Known(writes_again)
    _look_at(body, watched, known)
    return _block(body, frozenset(), known)[0]


def _look_at(body: Sequence[Statement], watched: set[str], known: Known) -> Before:
    """What statements access of the arrays that have to be waited for."""
    for statement in body:
        if inner := blocks(statement):
            found = frozenset[Access]().union(*(_look_at(block, watched, known) for block in inner))
        else:
            names = ((loaded((statement,)), False), (stored((statement,)), True))
            found = frozenset((name, is_write) for some, is_write in names for name in some & watched)
        known.accesses[id(statement)] = found
    return frozenset[Access]().union(*(known.accesses[id(statement)] for statement in body))


def _block(body: Sequence[Statement], before: Before, known: Known) -> tuple[tuple[Statement, ...], Before]:
    """The statements with barriers, and what threads have accessed since the last one.

    `before`: what they have accessed before the first statement since a barrier.
    """
    done: list[Statement] = []
    for statement in body:
        accesses = known.accesses[id(statement)]
        if _conflict(accesses, before, known) and not _has_its_own(statement, before, known):
            done.append(Barrier())
            before = frozenset()
        match statement:
            case Loop() | Sweep():
                loop, before = _loop(statement, before, known)
                done.append(loop)
            case Branch(variable, limit, inner, otherwise):
                first, after_first = _block(inner, before, known)
                second, after_second = _block(otherwise, before, known)
                done.append(Branch(variable, limit, first, second))
                before = after_first | after_second
            case Barrier():
                done.append(statement)
                before = frozenset()
            case _:
                done.append(statement)
                before |= accesses
    return tuple(done), before


def _has_its_own(statement: Statement, before: Before, known: Known) -> bool:
    """Whether a loop waits for what was before it where it waits for its own iterations."""
    if not isinstance(statement, Loop | Sweep):
        return False
    late, early = (_loop(statement, b, known)[0] for b in (before, frozenset[Access]()))
    return _barriers(late) == _barriers(early)


def _barriers(loop: Loop | Sweep) -> int:
    return sum(isinstance(s, Barrier) for s in statements(loop.body))


def _loop(loop: Loop | Sweep, before: Before, known: Known) -> tuple[Loop | Sweep, Before]:
    """An iteration begins after what was before the loop, or after the iteration before.

    A sweep may have none.
    """
    if (id(loop), before) not in known.loops:
        around = before
        while True:
            body, after = _block(loop.body, around, known)
            if after <= around:
                break
            around |= after
        after |= before if isinstance(loop, Sweep) else frozenset()
        known.loops[id(loop), before] = replace(loop, body=body), after
    return known.loops[id(loop), before]


def _conflict(accesses: Iterable[Access], before: Iterable[Access], known: Known) -> bool:
    """Whether something is read that has been written, or written that has been read, or written again."""
    return any(
        (name, not is_write) in before or (known.writes_again and is_write and (name, True) in before)
        for name, is_write in accesses
    )
