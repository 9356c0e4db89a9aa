"""Folders for what is built and measured: temporary, and gone in the end however their process ended.

In: nothing, or where they shall lie. Out: a folder that is removed after its use. A process that is killed
leaves its folders behind; each holds a lock that ended with the process, so that the next one can tell them
from those in use and removes them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from spacedsl.codegen.lack import EnvironmentLack

_PREFIX = "spacedsl-"
_LOCK = "owner.lock"


def temporary_root() -> Path:
    """The system's folder for temporary files; raises `EnvironmentLack` where none can be written."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise EnvironmentLack(
            f"{error.strerror}: make room in one, or set TMPDIR to another folder"
        ) from None


@contextmanager
def scratch_folder(parent: Path | None = None) -> Iterator[Path]:
    """A new folder below `parent`, by default the one for temporary files; raises `EnvironmentLack`."""
    parent = parent or temporary_root()
    with writing_to(parent):
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    try:
        with writing_to(folder):
            lock = _locked(folder)
        with lock:
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """What the system refuses inside the block is a lack of room, or of permission, in this folder."""
    try:
        yield
    except OSError as error:
        raise no_room(folder, error.strerror or str(error)) from None


def no_room(folder: Path, reason: str) -> EnvironmentLack:
    """`folder`, or the one that it was made in for a while, cannot be written."""
    while folder.name.startswith(_PREFIX):
        folder = folder.parent
    remedy = "make room there, or set TMPDIR to another folder"
    return EnvironmentLack(f"{folder}: temporary files cannot be written: {reason}; {remedy}")


def sweep(parent: Path | None = None) -> None:
    """Removes the folders that processes of this user left behind when they were killed."""
    with suppress(OSError), os.scandir(parent or temporary_root()) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False):
                _remove_if_left(Path(entry.path))


def _locked(folder: Path) -> IO[str]:
    """The lock of a new folder. It gets its name once it is held: no moment looks like a dead process."""
    draft = folder / f"{_LOCK}.draft"
    lock = draft.open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    draft.rename(folder / _LOCK)
    return lock


def _remove_if_left(folder: Path) -> None:
    """A folder without a lock is not ours to judge."""
    with suppress(OSError):
        if folder.lstat().st_uid != os.getuid():
            return
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
