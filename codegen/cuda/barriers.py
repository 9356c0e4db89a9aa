"""Barriers: where the threads of a block wait for each other.

In: what a block does, and the arrays that it shares. Out: the same with a `Barrier`
wherever something is read that another thread may have written, or written that another may still have to
read. A barrier comes before a loop rather than into it, where it serves all of its iterations. What lies in a
`Where` is done by some threads, so that none may stand there. Two writes are never to one element. Barriers
that are there already, of software pipelines, count as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from spacedsl.codegen.implementation import LoweringError
from spacedsl.codegen.parts import loaded, statements, stored
from spacedsl.codegen.program import (
    Barrier,
    Branch,
    Loop,
    Statement,
    Where,
)
from spacedsl.kernels.linalg.tensors import Tensor

Access = tuple[str, bool]
"""Of an array, and whether it is written."""


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
    return _block(body, frozenset(), (own | loaded(body) & stored(body)) - ready)[0]


def _block(
    body: Sequence[Statement], before: frozenset[Access], watched: set[str]
) -> tuple[tuple[Statement, ...], frozenset[Access]]:
    """The statements with barriers, and what threads have accessed since the last one.

    `before`: what they have accessed before the first statement since a barrier.
    """
    done: list[Statement] = []
    for statement in body:
        accesses = frozenset(a for a in _accesses((statement,)) if a[0] in watched)
        if _conflict(accesses, before) and not _has_its_own(statement, before, watched):
            done.append(Barrier())
            before = frozenset()
        match statement:
            case Loop():
                loop, before = _loop(statement, before, watched)
                done.append(loop)
            case Branch(variable, limit, inner, otherwise):
                first, after_first = _block(inner, before, watched)
                second, after_second = _block(otherwise, before, watched)
                done.append(Branch(variable, limit, first, second))
                before = after_first | after_second
            case Barrier():
                done.append(statement)
                before = frozenset()
            case _:
                done.append(statement)
                before |= accesses
    return tuple(done), before


def _has_its_own(statement: Statement, before: frozenset[Access], watched: set[str]) -> bool:
    """Whether a loop waits for what was before it where it waits for its own iterations."""
    if not isinstance(statement, Loop):
        return False
    late, early = (_loop(statement, b, watched)[0] for b in (before, frozenset[Access]()))
    return _barriers(late) == _barriers(early)


def _barriers(loop: Loop) -> int:
    return sum(isinstance(s, Barrier) for s in statements(loop.body))


def _loop(loop: Loop, before: frozenset[Access], watched: set[str]) -> tuple[Loop, frozenset[Access]]:
    """An iteration begins after what was before the loop, or after the iteration before."""
    while True:
        body, after = _block(loop.body, before, watched)
        if after <= before:
            return replace(loop, body=body), after
        before |= after


def _conflict(accesses: Iterable[Access], before: Iterable[Access]) -> bool:
    """Whether something is read that has been written, or written that has been read."""
    return any((name, not is_write) in before for name, is_write in accesses)


def _accesses(body: Sequence[Statement]) -> frozenset[Access]:
    return frozenset({(name, False) for name in loaded(body)} | {(name, True) for name in stored(body)})
