"""The machine-wide lock: one holder at a time, and all in turns."""

from __future__ import annotations

import fcntl
import threading
import time
from pathlib import Path

from spacedsl.codegen.lock import machine_lock, turn_path


def _is_held(path: Path) -> bool:
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_who_waits_comes_before_the_one_who_had_the_lock_last(tmp_path: Path) -> None:
    path, order = tmp_path / "lock", list[str]()

    def wait() -> None:
        with machine_lock(path):
            order.append("second")

    second = threading.Thread(target=wait)
    with machine_lock(path):
        order.append("first")
        second.start()
        while not _is_held(turn_path(path)):
            time.sleep(0.001)
    with machine_lock(path):
        order.append("first")
    second.join()
    assert order == ["first", "second", "first"]


def test_only_who_finds_the_lock_held_is_told_to_wait(tmp_path: Path) -> None:
    told = threading.Event()
    with machine_lock(tmp_path / "lock", told.set):
        assert not told.is_set()
        assert _is_held(tmp_path / "lock")

        def wait() -> None:
            with machine_lock(tmp_path / "lock", told.set):
                pass

        other = threading.Thread(target=wait)
        other.start()
        assert told.wait(60)
    other.join()
    assert not _is_held(tmp_path / "lock")
    assert not _is_held(turn_path(tmp_path / "lock"))
