"""`replay` and `emit`: one implementation again, from the record of its decisions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spacedsl.cli import summary
from spacedsl.cli.console import Console
from spacedsl.cli.faults import CommandError, ExitCode, Fault
from spacedsl.cli.options import Json, Quiet, Verbose
from spacedsl.commands import command, path

if TYPE_CHECKING:
    from spacedsl.api import Activity

Decisions = Annotated[
    Path, typer.Argument(metavar="DECISIONS.json", help="The `best.json` of a run, or a `wrong-*.json`.")
]


def replay(
    decisions: Decisions, json: Json = False, verbose: Verbose = False, quiet: Quiet = False
) -> ExitCode:
    """Rebuild one implementation: compare its code with the recorded one, check it, measure it again.

    Exit code 0: it is right, and its code is the recorded one. 1: its code is another. 4: it failed. The
    record of a failure (wrong-*.json) gives 4 as long as it fails, and 0 once it does not.
    """
    from spacedsl import api
    from spacedsl.record import FailedRecord

    console = Console.of(verbose=verbose, quiet=quiet)
    no_other(decisions)
    replayed = api.replay(decisions, on_event=lambda event: say(console, event))
    if json:
        console.document(summary.replay_document(replayed))
    else:
        console.data(summary.replay_text(replayed))
    if replayed.outcome is not None and not replayed.is_valid:
        return ExitCode.NO_CANDIDATE
    if isinstance(replayed.record, FailedRecord) or replayed.is_identical:
        return ExitCode.OK
    console.fault(Fault(ExitCode.CONTENT, summary.difference(replayed)))
    return ExitCode.CONTENT


def say(console: Console, event: Activity) -> None:
    from spacedsl.api import Preparing, Warned

    match event:
        case Preparing(activity):
            console.say(activity)
        case Warned(message):
            console.warn(message)


def emit(
    decisions: Decisions,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="c|cuda|halide",
            help="The language that is expected; `halide`: of a pipeline, Python for that package.",
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            metavar="cpp|python",
            help="What calls kernels of a GPU: the function in the file itself, or PyCUDA.",
        ),
    ] = "cpp",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there instead of to stdout.")
    ] = None,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Print the code of one implementation."""
    from spacedsl import api
    from spacedsl.record import read

    console = Console.of(verbose=verbose, quiet=quiet)
    if target not in (None, "c", "cuda", "halide"):
        message = f"`{target}` is not a language that code is generated in"
        raise CommandError(message, hint="known: c, cuda, halide")
    if host not in ("cpp", "python"):
        raise CommandError(f"`{host}` is nothing that calls kernels", hint="known: cpp, python")
    if target == "halide" and host != "cpp":
        raise CommandError("`--host` is for code for a GPU, and not for Halide")
    no_other(decisions)
    language = {"cpu": "c"}.get(made_for := read(decisions).target, made_for)
    if target not in (None, language) and (target, language) != ("halide", "c"):
        raise CommandError(f"{decisions}: an implementation in {language}, and not in {target}")
    if target == "halide":
        code = api.emit_halide(decisions)
    else:
        code = api.emit(decisions) if host == "cpp" else api.emit_launcher(decisions)
    if output is None:
        console.data(code)
    else:
        output.write_text(code, encoding="utf-8")
        console.say(f"{output}: written")
    return ExitCode.OK


def no_other(decisions: Path) -> None:
    """A kernel file, or the folder of a run, in place of a record: which command takes it."""
    from spacedsl.search.store import holds_run

    other, hint = "", ""
    if decisions.suffix in {".yaml", ".yml"} and decisions.is_file():
        other, hint = "a kernel file", command("explore", decisions)
    elif holds_run(decisions):
        best = decisions / "best.json"
        record = f"its best is {path(best)}" if best.is_file() else "it has no best"
        other, hint = (
            "the folder of a run",
            f"{record}; to go on with the run: {command('resume', decisions)}",
        )
    if other:
        raise CommandError(f"{decisions} is {other}, not the record of an implementation", hint=hint)
