"""Where runs lie: a folder for each, below one that the user names.

In: paths. Out: new folders, or why there can be none. What lies in them is known to `store.py`.
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from tempfile import mkdtemp

from spacedsl.search.store import StoreError


def new_folder(parent: Path, kernel: str, now: datetime) -> Path:
    """A folder for a new run, made here so that two runs of one second do not share it."""
    stem = f"{kernel}-{now:%Y%m%d-%H%M%S}"
    parent.mkdir(parents=True, exist_ok=True)
    for number in range(1, 1000):
        folder = parent / (stem if number == 1 else f"{stem}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise StoreError(f"{parent} holds a thousand runs of this second")


def check_parent(parent: Path) -> None:
    """Raises `StoreError` or `OSError` where no run could be kept below it, which need not be there yet.

    A folder is made where the path begins to exist, and removed again.
    """
    there = next(folder for folder in (parent, *parent.absolute().parents) if os.path.lexists(folder))
    if not there.exists():
        raise StoreError(f"{there}: a link to {there.readlink()}, which is not there")
    try:
        Path(mkdtemp(dir=there)).rmdir()
    except FileNotFoundError:
        raise StoreError(f"{parent}: no folder can be made there") from None
    except OSError as error:
        error.filename = str(there)
        raise
