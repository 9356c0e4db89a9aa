"""`batch` and `import`: implementations to a machine with a GPU, and what it measured back. `measure`: both
at once, where this machine has the GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spacedsl.cli.console import Console
from spacedsl.cli.faults import ExitCode
from spacedsl.cli.options import Json, Quiet, Verbose, parse_duration
from spacedsl.cli.replay import no_other, say
from spacedsl.cli.summary import duration
from spacedsl.commands import command, path
from spacedsl.diagnostics import counted

if TYPE_CHECKING:
    from spacedsl.api import Imported


def batch(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="RUN|best.json...", help="Runs for a GPU, or single implementations."),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where the batch is written.")
    ],
    top: Annotated[
        int,
        typer.Option(
            "--top", min=1, metavar="N", help="Of each run, so many that are predicted to be fastest."
        ),
    ] = 100,
    others: Annotated[
        int,
        typer.Option(
            "--others",
            min=0,
            metavar="N",
            help="And so many slower ones, spread evenly: they show how well predictions rank.",
        ),
    ] = 0,
    cases: Annotated[
        bool,
        typer.Option(
            "--cases/--no-cases",
            help="With test cases, or without them where they are large: spacedsl then makes them there.",
        ),
    ] = True,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Put implementations for a GPU in a folder that a machine with one checks and times by itself.

    What a run has measured already is left out. `import` takes the results back. A batch that lies in the
    folder, and has not been run, is replaced; a folder with anything else is refused.
    """
    from spacedsl import api
    from spacedsl.search.store import holds_run

    console = Console.of(verbose=verbose, quiet=quiet)
    for source in sources:
        if not holds_run(source):
            no_other(source)
    found = api.batch(
        sources, output, top=top, others=others, has_cases=cases, on_event=lambda event: say(console, event)
    )
    if found.refused:
        console.warn(f"{counted(found.refused, 'implementation')} left out, which the compiler refuses")
    if found.given_up:
        console.warn(
            f"{counted(found.given_up, 'implementation')} left out, for which the compiler takes too long"
        )
    what = f"{counted(found.implementations, 'implementation')} of {counted(found.problems, 'kernel')}"
    console.say(
        f"{output}: {what}; there, `python run_batch.py` runs them, and here, "
        f"`{command('import', output)}` takes the results back"
    )
    return ExitCode.OK


def import_results(
    results: Annotated[
        Path,
        typer.Argument(metavar="FOLDER|results.jsonl", help="A batch that was run, with its results."),
    ],
    json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Take what a batch measured back into its runs; their best becomes the fastest that was measured."""
    from spacedsl import api

    console = Console.of(verbose=verbose, quiet=quiet)
    imported = api.import_results(results, on_event=lambda event: say(console, event))
    return _finish(console, imported, json=json)


def measure(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run for a GPU.")],
    top: Annotated[
        int, typer.Option("--top", min=1, metavar="N", help="So many that are predicted to be fastest.")
    ] = 100,
    time: Annotated[
        str | None, typer.Option("--time", "-t", metavar="DURATION", help="Begin none after this long.")
    ] = None,
    json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Check and time the best of a run on the GPU of this machine.

    What has been measured already is left out. The fastest becomes the best of the run.
    """
    from spacedsl import api
    from spacedsl.search.store import holds_run

    console = Console.of(verbose=verbose, quiet=quiet)
    if not holds_run(run):
        no_other(run)
    seconds = None if time is None else parse_duration(time)
    try:
        imported = api.measure(run, top=top, seconds=seconds, on_event=lambda event: say(console, event))
    except api.BrokenOffError as error:
        if error.imported is not None:
            _finish(console, [error.imported], json=json)
        raise
    return _finish(console, [imported], json=json)


def _finish(console: Console, imported: Sequence[Imported], *, json: bool) -> ExitCode:
    if json:
        console.document({"schema": 1, "runs": [measured_document(each) for each in imported]})
    else:
        console.data("\n\n".join("\n".join(_text(each)) for each in imported))
    has_failed = any(each.best is None and each.measured for each in imported)
    return ExitCode.NO_CANDIDATE if has_failed else ExitCode.OK


def _text(imported: Imported) -> Iterator[str]:
    best = imported.best
    yield measured_where(imported)
    if best is not None:
        low, high = best.time_ci_ns
        tie = " (others cannot be told from it)" if best.is_tied else ""
        yield f"best       {duration(best.time_ns)}  (95 %: {duration(low)} to {duration(high)}){tie}"
        yield f"bound      {duration(best.bound_ns)} for it alone"
    elif not imported.measured:
        yield "best       none: the batch was broken off before anything was measured"
    else:
        yield "best       none was right"
        yield f"go on      {command('resume', imported.run)}: the best of the others becomes the run's"
    yield from measured_lines(imported)
    if best is not None:
        yield f"code       {path(best.code)}"
        yield f"decisions  {path(best.decisions)}"


def measured_where(imported: Imported) -> str:
    device = imported.device
    news = "" if imported.changed or not imported.measured else ", all known before"
    return (
        f"{imported.run.name}: {imported.measured} of {imported.asked} measured on {device.name} "
        f"({device.sms} SMs, driver {device.driver}){news}"
    )


def measured_lines(imported: Imported) -> Iterator[str]:
    """How the best and all others did beside what was predicted, and what failed."""
    if imported.rank is not None and imported.predicted_ns is not None:
        of = f"number {imported.rank} of {imported.measured} by prediction"
        yield f"predicted  {duration(imported.predicted_ns)}, {of}{_order(imported)}"
    if imported.failures:
        yield "failures   " + ", ".join(f"{name} {f.count}" for name, f in imported.failures.items())
        for name, failure in imported.failures.items():
            yield f"           {name}: {failure.first_message.strip().partition(chr(10))[0]}"
    if imported.violations:
        worst = min(imported.violations, key=lambda v: v.time_ns / v.bound_ns)
        yield (
            f"violations {len(imported.violations)} times below the bound: it is wrong, or the description "
            f"of the GPU; the worst: {duration(worst.time_ns)} for a bound of {duration(worst.bound_ns)}"
        )


def _order(imported: Imported) -> str:
    return "" if imported.correlation is None else f"; rank correlation {imported.correlation:.2f}"


def measured_document(imported: Imported) -> dict[str, object]:
    best = imported.best
    return {
        "run": str(imported.run),
        "kernel": imported.kernel,
        "device": imported.device.model_dump(mode="json"),
        "asked": imported.asked,
        "measured": imported.measured,
        "changed": imported.changed,
        "failures": {str(name): failure.count for name, failure in imported.failures.items()},
        "violations": [
            {"digest": v.digest, "time_ns": v.time_ns, "bound_ns": v.bound_ns} for v in imported.violations
        ],
        "best": None
        if best is None
        else {
            "time_ns": best.time_ns,
            "time_ci_ns": list(best.time_ci_ns),
            "measured_on": best.measured_on,
            "bound_ns": best.bound_ns,
            "predicted_ns": imported.predicted_ns,
            "rank": imported.rank,
            "code": str(best.code),
            "decisions": str(best.decisions),
        },
        "rank_correlation": imported.correlation,
    }
