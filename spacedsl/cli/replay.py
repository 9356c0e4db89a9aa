"""`replay` and `emit`: one implementation again, from the record of its decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spacedsl.cli import summary
from spacedsl.cli.console import Console
from spacedsl.cli.faults import CommandError, ExitCode
from spacedsl.cli.options import Json, Quiet, Verbose

Decisions = Annotated[Path, typer.Argument(metavar="DECISIONS.json", help="The `best.json` of a run.")]


def replay(
    decisions: Decisions, json: Json = False, verbose: Verbose = False, quiet: Quiet = False
) -> ExitCode:
    """Rebuild one implementation: compare its code with the recorded one, check it, measure it again."""
    from spacedsl import api

    console = Console.of(verbose=verbose, quiet=quiet)
    replayed = api.replay(decisions)
    if json:
        console.document(summary.replay_document(replayed))
    else:
        console.data(summary.replay_text(replayed))
    return ExitCode.OK if replayed.outcome.is_valid else ExitCode.NO_CANDIDATE


def emit(
    decisions: Decisions,
    target: Annotated[str, typer.Option("--target", metavar="c", help="The language of the code.")] = "c",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there instead of to stdout.")
    ] = None,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Print the code of one implementation."""
    from spacedsl import api

    console = Console.of(verbose=verbose, quiet=quiet)
    if target != "c":
        raise CommandError(f"`{target}` is not a language that code is generated in", hint="known: c")
    code = api.emit(decisions)
    if output is None:
        console.data(code)
    else:
        output.write_text(code, encoding="utf-8")
        console.say(f"{output}: written")
    return ExitCode.OK
