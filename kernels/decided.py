"""What kernel files of all backbones say about their space: which it is, and what is decided already.

In: entries of a document. Out: a path, and decisions, or diagnostics. Whether a space has such choices,
objects and values is for the space to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from spacedsl.diagnostics import Diagnostic
from spacedsl.engine.decision import Decision
from spacedsl.files import resolved
from spacedsl.kernels.located_yaml import Document
from spacedsl.kernels.schema import DecisionEntry

SPACES = Path(__file__).resolve().parent / "spaces"
"""The rules that belong to the backbones."""


def space_of(
    document: Document, entry: str | None, usual: Path, path: Path, report: list[Diagnostic]
) -> Path:
    """The space that a file names, relative to its own `path`; KF041 where there is none."""
    if entry is None:
        return usual
    space = path.parent / entry
    if (mistake := not_a_space(space)) is not None:
        report.append(Diagnostic("KF041", mistake, document.value("space")))
    return space


def not_a_space(path: Path) -> str | None:
    """Why what a kernel file names cannot be read as a `.space` file; None where it can be."""
    try:
        place = resolved(path)
    except OSError as error:
        return f"{path}: {error.strerror}"
    if place.suffix != ".space":
        # Diagnostics show lines of it, which a stranger's kernel file may not choose from all files.
        return f"{path} is no .space file"
    if path.is_dir():
        return f"{path} is a folder"
    return None if path.is_file() else f"there is no file {path}"


def decisions_of(entries: Sequence[DecisionEntry]) -> tuple[Decision, ...]:
    """The fixed decisions. Which objects there are is another question for each kind of machine."""
    return tuple(Decision(d.choice, tuple(d.objects), tuple(d.values)) for d in entries)
