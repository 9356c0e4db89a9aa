"""Side by side: the same answers in any number of processes, whatever happens to one of them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spacedsl.search.forks import MOST, side_by_side

HERE = os.getpid()


@pytest.mark.parametrize("processes", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("count", [0, 1, 7])
def test_answers_come_in_the_order_of_arguments(count: int, processes: int) -> None:
    base = 10
    assert side_by_side(lambda n: base + n, range(count), processes) == list(range(base, base + count))


def test_each_process_takes_the_next_one_when_it_is_done() -> None:
    """The one that the first argument keeps busy takes no other."""

    def found(n: int) -> int:
        time.sleep(0.0 if n else 1.0)
        return os.getpid()

    slow, *others = side_by_side(found, range(5), 2)
    assert slow not in others
    assert len({slow, *others}) == 2
    assert HERE in (slow, others[0])


def test_what_is_remembered_here_is_there_the_next_time() -> None:
    known: set[int] = set()

    def remembered(n: int) -> tuple[int, ...]:
        before = tuple(sorted(known))
        known.add(n)
        time.sleep(0.2)
        return before

    assert side_by_side(remembered, (5,), 1) == [()]
    assert side_by_side(remembered, (6, 7), 2) == [(5,), (5,)]
    assert len(known) == 2


def test_what_a_process_that_was_killed_has_not_said_is_found_here() -> None:
    def found(n: int) -> int:
        if os.getpid() != HERE:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.1)
        return n

    assert side_by_side(found, range(6), 3) == list(range(6))


def test_an_exception_here_is_raised_and_ends_the_others() -> None:
    def found(n: int) -> int:
        if os.getpid() != HERE:
            time.sleep(600)
        raise ValueError(f"of {n}")

    with pytest.raises(ValueError, match="of "):
        side_by_side(found, range(3), 3)
    assert not multiprocessing.active_children()


def test_an_exception_of_another_process_is_raised_here_and_ends_the_others() -> None:
    def found(n: int) -> int:
        if os.getpid() == HERE:
            time.sleep(0.5)
            return n
        raise ValueError(f"of {n}")

    with pytest.raises(ValueError, match="of "):
        side_by_side(found, range(2), 2)
    assert not multiprocessing.active_children()


ORPHANED = """
import os, time
from spacedsl.search.forks import side_by_side

HERE = os.getpid()

def found(n):
    if os.getpid() != HERE:
        print(os.getpid(), flush=True)
    time.sleep(600)

side_by_side(found, range(2), 2)
"""


def test_who_is_forked_ends_when_the_process_is_killed_that_asked() -> None:
    """It would hold the locks of the run, which could not be gone on with."""
    with subprocess.Popen([sys.executable, "-c", ORPHANED], stdout=subprocess.PIPE, text=True) as asking:
        assert asking.stdout is not None
        forked = int(asking.stdout.readline())
        asking.kill()
    for _ in range(1000):
        if not Path(f"/proc/{forked}").exists() or "Z" in Path(f"/proc/{forked}/stat").read_text():
            return
        time.sleep(0.01)
    raise AssertionError(f"{forked} is still there")


def test_an_interrupt_from_a_terminal_is_for_the_process_that_forked() -> None:
    def found(n: int) -> int:
        if os.getpid() != HERE:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        return n

    assert side_by_side(found, range(2), 2) == [0, 1]


def test_more_arguments_than_can_be_numbered_are_refused() -> None:
    with pytest.raises(ValueError, match="257 arguments"):
        side_by_side(str, range(MOST + 1), 2)
