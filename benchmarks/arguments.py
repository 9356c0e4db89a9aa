"""The command lines of benchmarks: what they take beside plain words, and how they end.

In: the text of a flag, or the function that measures. Out: a value, or what argparse makes a usage error of;
an exit code, and words for what stopped a benchmark, as `spacedsl` has them. Nothing is measured here.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from benchmarks.pipelines.applications import BY_NAME
from spacedsl.cli.console import Console
from spacedsl.cli.faults import CommandError, ExitCode, explain
from spacedsl.cli.options import parse_duration


def existing_file(text: str) -> Path:
    """The path of a file that is there."""
    return _existing(text, Path.is_file, "file", otherwise="a folder")


def existing_folder(text: str) -> Path:
    """The path of a folder that is there."""
    return _existing(text, Path.is_dir, "folder", otherwise="a file")


def _existing(text: str, is_wanted: Callable[[Path], bool], wanted: str, *, otherwise: str) -> Path:
    path = Path(text)
    if not is_wanted(path):
        raise argparse.ArgumentTypeError(
            f"{path}: {otherwise if path.exists() else f'there is no such {wanted}'}"
        )
    return path


def new_file(text: str) -> Path:
    """The path of a file that can be written, as far as its folder is there."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{path}: a folder")
    return existing_folder(str(path.parent)) / path.name


def write_document(document: object, file: Path) -> None:
    """What `--json` asks for, in a file as `new_file` has found it."""
    file.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def duration_s(text: str) -> float:
    """Seconds, of `90s`, `3m` or `1h30m`."""
    try:
        return parse_duration(text)
    except CommandError as error:
        raise argparse.ArgumentTypeError(f"{error}: {error.hint}") from None


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is no whole number of at least 1")
    return int(text)


def application(text: str) -> str:
    """The name of an application of `benchmarks/pipelines`."""
    if text not in BY_NAME:
        raise argparse.ArgumentTypeError(f"no application is called `{text}`")
    return text


def short_ordering(ordering: str) -> str:
    """For tables and folders: its name, or a digest of what spells it out."""
    is_name = not ordering or ordering.isidentifier()
    return ordering if is_name else hashlib.sha256(ordering.encode()).hexdigest()[:8]


def run(main: Callable[[], int | None]) -> NoReturn:
    """Runs a benchmark as a program; a bug ends it with its trace, all else in words."""
    try:
        code = main()
    except (Exception, KeyboardInterrupt) as error:
        fault = explain(error)
        if fault.code is ExitCode.INTERNAL:
            raise
        Console().fault(fault)
        code = int(fault.code)
    sys.exit(code)
