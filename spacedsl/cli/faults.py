"""How a command ends: exit codes, and the words for whatever stopped it.

In: an exception that reached the top of the command line. Out: lines for stderr and an exit code. What a
user can cause is said in a sentence; only a bug of this program is reported as one, with a trace in a file.
"""

from __future__ import annotations

import enum
import errno
import os
import sqlite3
import sys
import tempfile
import traceback
from dataclasses import dataclass, field, replace
from pathlib import Path


class ExitCode(enum.IntEnum):
    OK = 0
    CONTENT = 1
    """A file whose content is wrong, or from which other code comes than it records."""
    USAGE = 2
    """A wrong flag, a missing file, a wrong configuration, a folder that holds something else."""
    EMPTY_SPACE = 3
    NO_CANDIDATE = 4
    """The budget ended and no candidate was valid; the candidate that was replayed is not."""
    ENVIRONMENT = 5
    """This machine lacks something: a compiler, a device, room on the disk."""
    INTERNAL = 70
    """A bug of this program (EX_SOFTWARE of sysexits.h)."""
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class CommandError(Exception):
    """What stops a command, in words for its user."""

    def __init__(self, message: str, code: ExitCode = ExitCode.USAGE, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Fault:
    """What to say on stderr, and the exit code."""

    code: ExitCode
    message: str
    hint: str | None = None
    is_rendered: bool = field(default=False)
    """Whether the message is shown as it is, without `error:` in front."""


def explain(error: BaseException) -> Fault:
    """The words and the exit code for an exception that ended a command; its notes are hints."""
    fault = _explained(error)
    notes = getattr(error, "__notes__", ())
    return replace(fault, hint="\n  ".join(notes)) if notes and fault.hint is None else fault


def _explained(error: BaseException) -> Fault:
    from spacedsl.diagnostics import DiagnosticError

    match error:
        case CommandError():
            return Fault(error.code, str(error), error.hint)
        case DiagnosticError():
            is_flag = all(d.span.source.name.startswith("--") for d in error.diagnostics)
            usual = ExitCode.USAGE if is_flag else ExitCode.CONTENT
            return Fault(_code(error) or usual, str(error), is_rendered=True)
        case KeyboardInterrupt():
            return Fault(ExitCode.INTERRUPTED, "interrupted")
        case OSError():
            return Fault(_os_code(error), _os_message(error))
        case MemoryError():
            return Fault(ExitCode.ENVIRONMENT, "there is not enough memory for this")
        case ModuleNotFoundError() if not (error.name or "").startswith("spacedsl"):
            return Fault(
                ExitCode.ENVIRONMENT,
                f"the package {error.name} is not installed",
                "`make setup` installs what the project needs now",
            )
        case sqlite3.Error():
            return Fault(ExitCode.ENVIRONMENT, f"the record of the run cannot be read or written: {error}")
    code = _code(error)
    return Fault(code, str(error)) if code is not None else _internal(error)


def _code(error: BaseException) -> ExitCode | None:
    """Of the kind of error that is nearest to it, of those that have one."""
    codes = _codes()
    return next((codes[kind] for kind in type(error).__mro__ if kind in codes), None)


def _codes() -> dict[type[BaseException], ExitCode]:
    """What `spacedsl.api` raises; nothing where it has not even been imported."""
    if "spacedsl.api" not in sys.modules:
        return {}
    from spacedsl import api

    return {
        api.UnknownNameError: ExitCode.USAGE,
        api.SizeOverrideError: ExitCode.USAGE,
        api.StoreError: ExitCode.USAGE,
        api.DamagedError: ExitCode.CONTENT,
        api.ChangedError: ExitCode.CONTENT,
        api.ReplayError: ExitCode.CONTENT,
        api.UnverifiedError: ExitCode.CONTENT,
        api.EmptySpaceError: ExitCode.EMPTY_SPACE,
        api.EnvironmentLack: ExitCode.ENVIRONMENT,
        api.TooLargeError: ExitCode.ENVIRONMENT,
    }


def _os_code(error: OSError) -> ExitCode:
    is_about_arguments = isinstance(error, (FileNotFoundError, IsADirectoryError, NotADirectoryError))
    return ExitCode.USAGE if is_about_arguments or error.errno == errno.ELOOP else ExitCode.ENVIRONMENT


def _os_message(error: OSError) -> str:
    reason = {
        errno.ENOENT: "there is no such file",
        errno.EISDIR: "this is a folder, not a file",
        errno.ENOTDIR: "this is a file, not a folder",
        errno.ELOOP: "this is a link that leads back to itself",
        errno.EACCES: "permission denied",
        errno.ENOSPC: "no room is left on the disk",
        errno.EDQUOT: "no room is left in the user's share of the disk",
        errno.EROFS: "this file system is read-only",
    }.get(error.errno or 0, error.strerror or str(error))
    if isinstance(error, FileNotFoundError) and error.filename and not Path(error.filename).parent.exists():
        reason = f"there is no folder {Path(error.filename).parent}"
    return f"{error.filename}: {reason}" if error.filename is not None else reason


def _internal(error: BaseException) -> Fault:
    trace = "".join(traceback.format_exception(error))
    hint = trace
    try:
        with tempfile.NamedTemporaryFile(
            "w",
            prefix="spacedsl-bug-",
            suffix=".txt",
            delete=False,
            encoding="utf-8",
            errors="backslashreplace",
        ) as file:
            file.write(f"{' '.join(sys.argv)}\nPython {sys.version}\n\n{trace}")
        hint = f"the trace lies in {file.name}: please report it with the files that you used"
    except OSError:
        pass  # Nowhere to write: the trace itself is shown.
    where = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(where[-1].filename).name}:{where[-1].lineno})" if where else ""
    summary = traceback.format_exception_only(error)[-1].strip()
    return Fault(ExitCode.INTERNAL, f"this is a bug in spacedsl: {summary}{place}", hint)


def close_broken_streams() -> None:
    """After a broken pipe, or on a full disk: lets the interpreter's last flush go nowhere, and not fail."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
