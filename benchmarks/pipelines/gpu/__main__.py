"""What the product finds for pipelines on a GPU beside Halide's own schedulers; the GPU is somewhere else.

    python -m benchmarks.pipelines.gpu write [APP ..] -o FOLDER [--runs DIR] [--time 1m] [--top N]
                                             [--schedulers NAME ..]
    cd FOLDER; python run_benchmark.py          # over there
    python -m benchmarks.pipelines.gpu report FOLDER [--json FILE]

`write` explores each application for so long, or takes the runs that lie below a folder, puts their best into
a batch, and has Halide schedule and compile the same algorithms. `make peers` installs Halide into an
environment of its own; over there, nobody needs it. `report` says what came of it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks import LIBRARY
from benchmarks.arguments import duration_s, run, write_document
from benchmarks.gpu.arguments import parsers
from benchmarks.gpu.folder import SkippedError, check_output, explore, runs_of
from benchmarks.installed import PEERS_PYTHON, peers_python
from benchmarks.pipelines import halide
from benchmarks.pipelines.applications import BY_NAME
from benchmarks.pipelines.gpu import folder as folders
from benchmarks.pipelines.gpu.report import report, show
from benchmarks.pipelines.gpu.schedulers import NAMES, schedulers_for, target_of
from benchmarks.tables import console
from spacedsl.api.targets import TARGETS
from spacedsl.cli.faults import CommandError, ExitCode
from spacedsl.diagnostics import counted
from spacedsl.kernels.backbones import load_measurable
from spacedsl.kernels.gpu_device import GpuDevice


def main(arguments: Sequence[str] | None = None) -> int:
    options = _arguments(arguments)
    return _write(options) if options.command == "write" else _report(options)


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    description = (__doc__ or "").partition("\n")[0]
    parser, write = parsers("python -m benchmarks.pipelines.gpu", description, device="h100", time="1m")
    write.add_argument("apps", nargs="*", metavar="APP", help=f"of: {', '.join(BY_NAME)}; default: all")
    write.add_argument(
        "--schedulers", nargs="*", choices=NAMES, default=NAMES, metavar="NAME",
        help=f"of: {', '.join(NAMES)}; default: all; no name: none",
    )  # fmt: skip
    write.add_argument(
        "--schedule-limit",
        type=duration_s,
        default="10m",
        metavar="TIME",
        help="of each of Halide's schedules",
    )
    write.add_argument("--peers-python", type=Path, default=PEERS_PYTHON, metavar="FILE")
    options = parser.parse_args(arguments)
    unknown = [name for name in getattr(options, "apps", ()) if name not in BY_NAME]
    if unknown:
        parser.error(f"no application is called {', '.join(unknown)}; known: {', '.join(BY_NAME)}")
    return options


def _write(options: argparse.Namespace) -> int:
    err = Console(stderr=True)

    def say(words: str) -> None:
        err.print(words, highlight=False, markup=False, soft_wrap=True)

    check_output(options.output)
    device = TARGETS["cuda"].device(options.device, lambda event: None)
    assert isinstance(device, GpuDevice)
    python = peers_python(options.peers_python)
    at = halide.workplace(python, options.schedule_limit, target_of(device))
    if options.schedulers and not at.version:
        raise CommandError(
            f"{halide.DISTRIBUTION} is not installed for {python}",
            ExitCode.ENVIRONMENT,
            "`make peers` installs it; `--schedulers` without a name makes the folder without it",
        )
    runs, skipped = _runs(options, say)
    if not runs:
        code = ExitCode.USAGE if options.runs is not None else ExitCode.NO_CANDIDATE
        raise CommandError(f"nothing is left for {options.output}: {'; '.join(skipped)}", code)
    schedulers = [schedulers_for(device)[name] for name in dict.fromkeys(options.schedulers)]
    written = folders.write(
        options.output,
        runs,
        options.top,
        options.others,
        schedulers,
        at,
        say,
        has_cases=not options.cases_there,
    )
    what = f"{counted(written.implementations, 'implementation')} of {counted(written.problems, 'pipeline')}"
    say(f"{options.output}: {what}; there, `python run_benchmark.py` measures them")
    return 0


def _runs(options: argparse.Namespace, say: folders.Say) -> tuple[list[Path], list[str]]:
    """Of all applications; why some have none."""
    runs: list[Path] = []
    skipped: list[str] = []
    for name in options.apps or BY_NAME:
        kernel = load_measurable(LIBRARY / "pipelines" / f"{name}.yaml", kind="gpu")
        try:
            if options.runs is not None:
                runs += runs_of(kernel, options.runs)
            else:
                say(f"{name}: exploring for {options.time:.0f} s")
                runs.append(explore(kernel, options.device, options.output / "runs", options.time, say))
        except SkippedError as error:
            skipped.append(f"{name}: {error}")
            say(f"{name} is skipped: {error}")
    return runs, skipped


def _report(options: argparse.Namespace) -> int:
    made = report(options.folder)
    if options.json is not None:
        write_document(made.as_document(), options.json)
    show(made, console())
    return 0


if __name__ == "__main__":
    run(main)
