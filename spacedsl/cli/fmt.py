"""`fmt`: the canonical layout of `.space` files."""

from __future__ import annotations

import difflib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spacedsl.cli.console import Console
from spacedsl.cli.faults import CommandError, ExitCode, explain
from spacedsl.cli.options import Quiet, Verbose

if TYPE_CHECKING:
    from spacedsl.diagnostics import Source

STDIN = Path("-")


def fmt(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="`.space` files; `-` reads stdin, writes stdout.")
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 1 where a file would change.")
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="As --check, and show what would change.")] = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Lay `.space` files out anew, with all of their comments; one that cannot be parsed is left as it is."""
    from spacedsl.diagnostics import DiagnosticError
    from spacedsl.language.formatter import format_source

    console = Console.of(verbose=verbose, quiet=quiet)
    code = ExitCode.OK
    for file in dict.fromkeys(files):
        try:
            source = _read(file)
            formatted = format_source(source)
            before = _encoded(source.text) if file == STDIN else file.read_bytes()
            is_changed = _encoded(formatted) != before
            if is_changed and file != STDIN and not (check or diff):
                _replace(file, formatted)
        except (OSError, DiagnosticError, CommandError) as error:
            fault = explain(error)
            console.fault(fault)
            code = max(code, fault.code)
            continue
        if diff:
            console.data(_difference(source, formatted)) if is_changed else None
        elif file == STDIN and not check:
            sys.stdout.write(formatted)
        if is_changed and (check or diff):
            code = max(code, ExitCode.CONTENT)
            console.say(f"{source.name}: would be laid out anew")
        elif is_changed:
            console.say(f"{source.name}: laid out anew")
        else:
            console.detail(f"{source.name}: as it should be")
    return code


def _read(file: Path) -> Source:
    from spacedsl.diagnostics import Source
    from spacedsl.language.loader import read_file

    if file == STDIN:
        return Source.decode("<stdin>", sys.stdin.buffer.read())
    if file.is_file() and file.suffix != ".space":
        raise CommandError(f"{file}: not a .space file")
    return read_file(file)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8")


def _difference(source: Source, formatted: str) -> str:
    before, after = source.text.splitlines(keepends=True), formatted.splitlines(keepends=True)
    lines = difflib.unified_diff(before, after, source.name, source.name)
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def _replace(file: Path, text: str) -> None:
    """Writes all of the new text or nothing: a full disk costs nobody a file."""
    target = file.resolve()
    descriptor, draft = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(_encoded(text))
        shutil.copymode(target, draft)
        Path(draft).replace(target)
    except OSError:
        Path(draft).unlink(missing_ok=True)
        raise
