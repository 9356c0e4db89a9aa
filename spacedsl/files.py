"""Paths that users name, and files that are replaced as a whole.

In: a path, and the new text of a file. Out: the path without links, or why it leads nowhere; the file.
Whoever reads it at any moment sees an old or the new text.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path


def replace_text(path: Path, text: str) -> None:
    """Puts a text in place of a file at once. An `OSError` names the file that was to be written."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)


def resolved(path: Path) -> Path:
    """The path without links; raises `OSError` for links in a circle, and for what can be no path."""
    try:
        return path.resolve()
    except (RuntimeError, ValueError) as error:
        number = errno.ELOOP if isinstance(error, RuntimeError) else errno.ENOENT
        raise OSError(number, os.strerror(number), str(path)) from None
