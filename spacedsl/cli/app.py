"""The `spacedsl` program: its commands, and the one place where what stops a command becomes an exit code."""

from __future__ import annotations

import functools
import io
import os
import sys
from collections.abc import Callable
from typing import Annotated, ParamSpec

import typer

from spacedsl.cli import batch as batches
from spacedsl.cli import device, doctor, explore, fmt, language, lsp, replay, schema, solve, stats
from spacedsl.cli import explain as explaining
from spacedsl.cli.console import Console
from spacedsl.cli.faults import ExitCode, close_broken_streams, explain

P = ParamSpec("P")

app = typer.Typer(
    name="spacedsl",
    help="Describe a space of implementations, explore it, generate the code, measure it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
devices = typer.Typer(help="Descriptions of machines: those shipped, and this one's.", no_args_is_help=True)


def guarded(command: Callable[P, ExitCode]) -> Callable[P, None]:
    """The command as typer calls it: whatever stops it is said on stderr and becomes its exit code."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            code = ended(*args, **kwargs)
        except BrokenPipeError:
            close_broken_streams()
            code = ExitCode.BROKEN_PIPE
        raise typer.Exit(int(code))

    def ended(*args: P.args, **kwargs: P.kwargs) -> ExitCode:
        try:
            code = command(*args, **kwargs)
            sys.stdout.flush()
        except (BrokenPipeError, typer.Exit):
            raise
        except (Exception, KeyboardInterrupt) as error:
            fault = explain(error)
            Console().fault(fault)
            close_broken_streams()
            return fault.code
        return code

    return run


def _version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        sys.stdout.write(f"spacedsl {version('spacedsl')}\n")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Describe a space of implementations, explore it, generate the code, measure it."""


for group, name, command in (
    (app, "check", language.check),
    (app, "fmt", fmt.fmt),
    (app, "lsp", lsp.lsp),
    (app, "schema", schema.schema),
    (app, "compile", language.compile_file),
    (app, "solve", solve.solve),
    (app, "explain", explaining.explain),
    (app, "explore", explore.explore),
    (app, "resume", explore.resume),
    (app, "stats", stats.stats),
    (app, "replay", replay.replay),
    (app, "emit", replay.emit),
    (app, "batch", batches.batch),
    (app, "import", batches.import_results),
    (app, "measure", batches.measure),
    (app, "doctor", doctor.doctor),
    (devices, "list", device.list_devices),
    (devices, "show", device.show),
    (devices, "characterize", device.characterize),
):
    group.command(name)(guarded(command))
app.add_typer(devices, name="device")


def main() -> None:
    """Runs the command of `sys.argv`; never returns."""
    for name in ("stdin", "stdout", "stderr"):
        # A stream that the caller has closed: in its place something open, which no later file replaces.
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What the terminal's encoding lacks, and names of files that are no text, are shown as numbers.
        sys.stdout.reconfigure(errors="backslashreplace")
    app()
