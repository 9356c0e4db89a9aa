"""One run at a time builds or measures on this machine, and all that want to do so in turns.

Whoever compiles for a measurement or measures holds the lock, so that two runs do not disturb each
other. The lock belongs to an open file: it ends with the process that holds it, however that process
ends.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from spacedsl.codegen.scratch import temporary_root


def lock_path() -> Path:
    """In the user's XDG runtime folder, else in the folder of temporary files."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK):
        return Path(runtime, "spacedsl.lock")
    return temporary_root() / f"spacedsl-{os.getuid()}.lock"


def _ignore() -> None:
    pass


@contextmanager
def machine_lock(path: Path | None = None, waiting: Callable[[], None] = _ignore) -> Iterator[None]:
    """Waits for the lock (the usual one, unless another is named) and holds it. Not re-entrant.

    `waiting` is called where another process holds it, before this one waits. Who waits for the lock holds
    the turn: a process that has just let the lock go and wants it again comes after that one.
    """
    path = path or lock_path()
    with path.open("a") as file:
        with turn_path(path).open("a") as turn:
            try:
                fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                fcntl.flock(turn, fcntl.LOCK_EX)
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def turn_path(path: Path) -> Path:
    """The file of the turn, beside that of the lock."""
    return path.with_name(f"{path.name}.turn")
