"""A function of several arguments side by side, in processes that are forked for them.

In: a function that only reads what there is, or remembers what it can find again, and arguments. Out: what it
returns for each of them, in their order, whatever the number of processes: nothing else comes back. What is
returned is pickled.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import TypeVar

from spacedsl.processes import die_with_parent

A = TypeVar("A")
R = TypeVar("R")

MOST = 256
"""Arguments: a byte says which one is next."""

_FORKING = get_context("fork")


def side_by_side(function: Callable[[A], R], arguments: Sequence[A], processes: int) -> list[R]:
    """This process is one of them: what it remembers is there for those that are forked the next time. Each
    takes the next argument when it is done with one.

    What a process that was killed has not said is found here. An exception of any of them is raised here, and
    ends the others.
    """
    if len(arguments) > MOST:
        raise ValueError(f"{len(arguments)} arguments, of at most {MOST}")
    numbers, sink = os.pipe()
    os.write(sink, bytes(range(len(arguments))))
    os.close(sink)  # where all have been taken, reading says so
    work = (numbers, function, arguments)
    children: list[_Child] = []
    try:
        children.extend(_Child(work) for _ in range(min(processes, len(arguments)) - 1))
        found = dict(_taken(*work))
        for child in children:
            found |= child.returned()
        return [found[n] if n in found else function(each) for n, each in enumerate(arguments)]
    finally:
        os.close(numbers)
        for child in children:
            child.end()


def _taken(numbers: int, function: Callable[[A], R], arguments: Sequence[A]) -> Iterator[tuple[int, R]]:
    """By their numbers, those that this process is the first to ask for."""
    while taken := os.read(numbers, 1):
        yield taken[0], function(arguments[taken[0]])


class _Child:
    """One of the other processes."""

    def __init__(self, work: tuple[int, Callable[[A], R], Sequence[A]]) -> None:
        self._source, sink = _FORKING.Pipe(duplex=False)
        self._process = _FORKING.Process(target=_child, args=(os.getpid(), sink, *work), daemon=True)
        self._process.start()
        sink.close()

    def returned(self) -> Mapping[int, R]:
        """Waits for it; nothing, if it ended without an answer."""
        try:
            answer = self._source.recv()
        except (EOFError, OSError):
            # It may have been killed while it was saying something.
            return {}
        if isinstance(answer, Exception):
            raise answer
        found: Mapping[int, R] = answer
        return found

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._source.close()


def _child(
    parent: int, sink: Connection, numbers: int, function: Callable[[A], R], arguments: Sequence[A]
) -> None:
    # Whoever interrupts the run means the process that forked this one, which ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with_parent(parent)
    gc.freeze()  # else each collection of garbage would copy all pages that both share
    answer: Mapping[int, R] | Exception
    try:
        answer = dict(_taken(numbers, function, arguments))
    except Exception as error:
        answer = error
    with suppress(BrokenPipeError):  # who asked was killed
        sink.send(answer)
