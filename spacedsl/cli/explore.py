"""`explore` and `resume`: the search, watched while it runs, and what it found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spacedsl.cli import summary
from spacedsl.cli.batch import measured_document, measured_lines, measured_where
from spacedsl.cli.console import Console
from spacedsl.cli.faults import CommandError, ExitCode
from spacedsl.cli.options import (
    DEFAULT_TIME_S,
    Config,
    Json,
    Quiet,
    Settings,
    Sizes,
    SpaceFile,
    Verbose,
    configuration,
    configuration_file,
    explain_hint,
    parse_duration,
    parse_sizes,
)
from spacedsl.commands import command
from spacedsl.diagnostics import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    from spacedsl.api import Imported, Result
    from spacedsl.kernels.backbones import MeasurableKernel

Time = Annotated[
    str | None,
    typer.Option(
        "--time",
        "-t",
        metavar="3m",
        help="Stop after this long (90s, 3m, 1h30m), without what it waits for other runs on this machine. "
        "Default: 3m.",
    ),
]
MoreTime = Annotated[
    str | None,
    typer.Option(
        "--time",
        "-t",
        metavar="3m",
        help="Go on for this long. Default: as long as the budget of the run allows.",
    ),
]
Measure = Annotated[
    bool | None,
    typer.Option(
        "--measure/--no-measure",
        help="Have the GPU of this machine measure the best that is predicted. Default: where there is one "
        "that the code is for.",
    ),
]
Evaluations = Annotated[
    int | None, typer.Option("--evaluations", "-n", min=1, metavar="N", help="Stop after this many programs.")
]
MoreEvaluations = Annotated[
    int | None, typer.Option("--evaluations", "-n", min=1, metavar="N", help="Go on for this many programs.")
]


def explore(
    kernel: Annotated[Path, typer.Argument(metavar="KERNEL.yaml", help="A kernel file.")],
    time: Time = None,
    evaluations: Evaluations = None,
    size: Sizes = None,
    space: SpaceFile = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, metavar="N", help="The seed of all random choices. Default: 0."),
    ] = None,
    ordering: Annotated[
        str | None,
        typer.Option(
            "--ordering",
            metavar="NAME|ITEMS",
            help="Which decision is taken next: an ordering of the space, `declaration`, or items such as "
            "`order by MERGED | NESTED, size($d) for $d in Dimensions`. Default: `default`, and `rollout` "
            "for what is drawn at random.",
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            metavar="NAME",
            help="What is tried next: `near` (mostly neighbours of the best), or only children in the tree: "
            "`tag` (where most of the best times came from), `bound` (the least bound) or `uniform` (any). "
            "Default: `near`.",
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", metavar="cpu|cuda", help="What to generate code for.")
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            metavar="NAME|FILE",
            help="The GPU that code is for: `h100`, or the file of one. Its times are predicted by a model.",
        ),
    ] = None,
    measure: Measure = None,
    runs: Annotated[
        Path | None, typer.Option("--runs", metavar="FOLDER", help="Where runs are kept. Default: ./runs.")
    ] = None,
    config: Config = None,
    json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Search for the fastest implementation of a kernel; generate, check and measure code on the way."""
    from spacedsl import api
    from spacedsl.cli.live import watch

    console = Console.of(verbose=verbose, quiet=quiet)
    if kernel.suffix == ".space":
        hint = "name a kernel file, and give the space with --space"
        raise CommandError(f"{kernel}: a space, not a kernel", hint=hint)
    given = Settings(
        target=target,
        device=device,
        time_s=None if time is None else parse_duration(time),
        evaluations=evaluations,
        ordering=ordering,
        policy=policy,
        seed=seed,
        runs=runs,
    )
    loaded = api.load_kernel(kernel, parse_sizes(size or ()))
    settings = _settings(given, loaded, config)
    _check_measure(measure, settings.target)
    if measure:
        api.check_gpu(settings.device)
    machine = settings.device if settings.target == "cuda" else None
    hint = explain_hint(kernel, size, space, settings.target, machine)
    with watch(console) as on_event, _blame(loaded, given, config, hint):
        result = api.explore(
            loaded,
            space=space,
            target="cpu" if settings.target is None else settings.target,
            device=settings.device if settings.target == "cuda" else device,
            time=settings.time_s,
            evaluations=settings.evaluations,
            seed=settings.seed or 0,
            ordering=settings.ordering,
            policy=settings.policy,
            runs=settings.runs or Path("runs"),
            on_event=on_event,
        )
    return _finish(console, result, measure, json=json)


def _settings(given: Settings, kernel: MeasurableKernel, config: Path | None) -> Settings:
    """What the flags say, else the kernel file, else the configuration, else the defaults."""
    in_file = kernel.search
    from_kernel = Settings(
        target=in_file.target,
        device=in_file.device,
        time_s=in_file.time_s,
        evaluations=in_file.evaluations,
        ordering=in_file.ordering,
        policy=in_file.policy,
        seed=in_file.seed,
    )
    defaults = Settings(time_s=DEFAULT_TIME_S, runs=Path("runs"))
    return given.over(from_kernel).over(configuration(config)).over(defaults)


@contextmanager
def _blame(
    kernel: MeasurableKernel, given: Settings, config: Path | None, explain_hint: str
) -> Iterator[None]:
    """What only the posed problem shows: a name that came from a file is shown there, and an empty space
    names the command that explains it.
    """
    from spacedsl import api
    from spacedsl.kernels.kernel_file import locate

    try:
        yield
    except api.EmptySpaceError as error:
        raise CommandError(str(error), ExitCode.EMPTY_SPACE, explain_hint) from None
    except DiagnosticError as error:
        is_flag = all(d.span.source.name == "--ordering" for d in error.diagnostics)
        if not is_flag or given.ordering is not None:
            raise
        if kernel.search.ordering is not None:
            raise error.at(locate(kernel, "search", "ordering")) from None
        said = "; ".join(d.message for d in error.diagnostics)
        named = f"{configuration_file(config)}: [tool.spacedsl] `ordering`"
        raise CommandError(f"{named}: {said}", hint=error.diagnostics[0].hint) from None
    except api.UnknownNameError as error:
        for option, said in (("policy", "no policy"), ("device", "no GPU")):
            is_from_file = getattr(given, option) is None and getattr(kernel.search, option) is not None
            if is_from_file and str(error).startswith(said):
                place = locate(kernel, "search", option)
                raise DiagnosticError([Diagnostic("KF044", str(error), place)]) from None
        raise


def resume(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, as `explore` printed it.")],
    time: MoreTime = None,
    evaluations: MoreEvaluations = None,
    measure: Measure = None,
    json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Go on with a run: by default until the budget that it was started with is spent.

    A budget that is given here is in addition to what the run has spent.
    """
    from spacedsl import api
    from spacedsl.cli.live import watch
    from spacedsl.search.store import target_of

    console = Console.of(verbose=verbose, quiet=quiet)
    _no_record(run)
    if measure:
        _check_measure(measure, target_of(run))
        api.check_gpu_of(run)
    time_s = None if time is None else parse_duration(time)
    with watch(console) as on_event:
        result = api.resume(run, time=time_s, evaluations=evaluations, on_event=on_event)
    if time_s is None and evaluations is None and result.stop is api.Stop.BUDGET:
        console.say("the budget of this run is spent; --time or --evaluations give it more")
    return _finish(console, result, measure, json=json)


def _no_record(run: Path) -> None:
    """A file in place of the folder of a run: which command takes it."""
    from spacedsl.search.store import holds_run

    if not run.is_file():
        return
    is_kernel = run.suffix in (".yaml", ".yml")
    hint = command("explore" if is_kernel else "replay", run)
    if holds_run(run.parent):
        hint += f"; to go on with its run: {command('resume', run.parent)}"
    raise CommandError(f"{run} is a file, not the folder of a run", hint=hint)


def _finish(console: Console, result: Result, measure: bool | None, *, json: bool) -> ExitCode:
    from spacedsl import api
    from spacedsl.cli.replay import say

    try:
        imported = _measured(console, result, measure)
        if imported is not None and imported.best is None:
            result = api.resume(result.run, on_event=lambda event: say(console, event))
    except BaseException:
        # What the search has found is said, whatever becomes of the measuring.
        _say(console, result, None, json=json)
        raise
    if imported is not None and imported.best is not None:
        result = replace(result, best=imported.best)
    _say(console, result, imported, json=json)
    if result.stop is api.Stop.INTERRUPTED:
        console.say(f"interrupted; everything is saved, go on with: {command('resume', result.run)}")
        return ExitCode.INTERRUPTED
    if result.best is None:
        return ExitCode.NO_CANDIDATE
    return ExitCode.OK


def _say(console: Console, result: Result, imported: Imported | None, *, json: bool) -> None:
    if json:
        measured = {} if imported is None else {"measured": measured_document(imported)}
        console.document({**summary.document(result), **measured})
    else:
        console.data(summary.text(result))
        if imported is not None:
            console.data("\n".join(["", measured_where(imported), *measured_lines(imported)]))


def _measured(console: Console, result: Result, is_wanted: bool | None) -> Imported | None:
    """What the GPU of this machine says of a run for one; None where it is not asked."""
    from spacedsl import api
    from spacedsl.cli.replay import say

    _check_measure(is_wanted, result.target)
    is_over = result.stop is not api.Stop.INTERRUPTED and result.best is not None
    if result.target != "cuda" or is_wanted is False or not is_over:
        return None
    try:
        return api.measure(result.run, on_event=lambda event: say(console, event))
    except api.NothingToMeasureError as error:
        console.say(str(error))
    except api.EnvironmentLack as error:
        imported = error.imported if isinstance(error, api.BrokenOffError) else None
        again = command("measure", result.run)
        if is_wanted and imported is None:
            error.add_note(f"all else is done and saved; later: {again}")
            raise
        if not isinstance(error, api.NoGpuError):
            what = "nothing" if imported is None else "not all"
            console.warn(f"{what} was measured, `{again}` goes on: {error}")
        return imported
    except (api.ChangedError, api.StoreError) as error:
        if is_wanted:
            raise
        console.warn(f"nothing was measured: {error}")
    return None


def _check_measure(is_wanted: bool | None, target: str | None) -> None:
    if is_wanted and target != "cuda":
        hint = "leave it out, or name a GPU: --target cuda --device h100"
        raise CommandError("--measure: times on a CPU are measured anyway", hint=hint)
