"""`check` and `compile`: what a `.space` or kernel file says, without exploring it."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spacedsl.cli.console import Console
from spacedsl.cli.faults import CommandError, ExitCode, explain
from spacedsl.cli.options import Json, Quiet, Verbose, a_space
from spacedsl.diagnostics import counted

if TYPE_CHECKING:
    from spacedsl.diagnostics import Diagnostic


def check(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="`.space` files, kernel files (YAML), or FILE.py:FUNCTION."),
    ],
    json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Parse and check files; show every diagnostic of all of them."""
    from spacedsl.diagnostics import DiagnosticError, render

    console = Console.of(verbose=verbose, quiet=quiet)
    found: list[Diagnostic] = []
    code = ExitCode.OK
    files = list(dict.fromkeys(files))
    for file in files:
        try:
            found += check_one(file)
            console.detail(f"{file}: ok")
        except DiagnosticError as error:
            found += error.diagnostics
            code = max(code, ExitCode.CONTENT)
        except (OSError, CommandError) as error:
            fault = explain(error)
            console.fault(fault)
            code = max(code, fault.code)
    # Several kernel files are often of one space.
    found = list({render(d): d for d in found}.values())
    if json:
        console.document({"schema": 1, "ok": code is ExitCode.OK, "diagnostics": [_record(d) for d in found]})
    else:
        for diagnostic in found:
            console.data(render(diagnostic))
        if found:
            console.say(f"{counted(len(found), 'diagnostic')}")
        elif code is ExitCode.OK:
            console.say(f"{counted(len(files), 'file')} checked, nothing to report")
    return code


def compile_file(
    file: Annotated[Path, typer.Argument(metavar="FILE.space", callback=a_space)],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="OUT.py", help="Write there instead of to stdout."),
    ] = None,
    engine: Annotated[
        str,
        typer.Option("--engine", metavar="python|native", help="Print Python, or the C that searches run."),
    ] = "python",
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Show the propagators that a `.space` file compiles to, each under the line that it comes from."""
    from spacedsl.compiler import compile_space
    from spacedsl.compiler.c import print_c
    from spacedsl.engine.instance import Engine
    from spacedsl.language.loader import load_space

    console = Console.of(verbose=verbose, quiet=quiet)
    if engine not in {e.value for e in Engine}:
        raise CommandError(f"there is no engine `{engine}`", hint="python or native")
    compiled = compile_space(load_space(file))
    is_native = Engine(engine) is Engine.NATIVE
    source = print_c(compiled.module, compiled.complete).source if is_native else compiled.python_source
    if output is None:
        console.data(source)
    else:
        output.write_text(source, encoding="utf-8")
        console.say(f"{output}: {counted(source.count(chr(10)), 'line')}")
    return ExitCode.OK


def check_one(file: Path) -> tuple[Diagnostic, ...]:
    """The remarks on a file that is right; raises `DiagnosticError`, `OSError`, `CommandError`."""
    from spacedsl.api.checking import check_kernel
    from spacedsl.compiler import refusals
    from spacedsl.diagnostics import DiagnosticError
    from spacedsl.kernels.kernel_source import is_kernel
    from spacedsl.language.loader import check_file

    if file.suffix == ".space":
        space, found = check_file(file)
        refused = () if space is None else refusals(space)
        if space is None or refused:
            raise DiagnosticError((*found, *refused))
        return found
    if is_kernel(file):
        return check_kernel(file)
    if file.is_dir():
        raise IsADirectoryError(errno.EISDIR, "", str(file))
    if not file.exists():
        raise FileNotFoundError(errno.ENOENT, "", str(file))
    raise CommandError(f"{file}: neither a .space file nor a kernel file (.yaml, or FILE.py:FUNCTION)")


def _record(diagnostic: Diagnostic) -> dict[str, object]:
    span = diagnostic.span
    return {
        "code": diagnostic.code,
        "severity": str(diagnostic.severity),
        "message": diagnostic.message,
        "hint": diagnostic.hint,
        "file": str(Path(span.source.name).resolve()),
        "line": span.line,
        "column": span.column,
        "length": span.end - span.start,
    }
