"""The product beside what a user would take instead, on a GPU that is somewhere else.

    python -m benchmarks.gpu write [CASE ..] -o FOLDER [--runs DIR] [--time 2m] [--top N]
    cd FOLDER; python run_benchmark.py          # over there
    python -m benchmarks.gpu report FOLDER [--json FILE]

`write` explores each kernel for so long, or takes the runs that lie below a folder, and puts their best into
a batch with naive kernels and the peers. `report` says what came of it, beside what is aimed at on an H200.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from benchmarks.arguments import run, write_document
from benchmarks.gpu import folder as folders
from benchmarks.gpu.arguments import parsers
from benchmarks.gpu.cases import BY_NAME
from benchmarks.gpu.folder import SkippedError
from benchmarks.gpu.report import report, show
from benchmarks.tables import console
from spacedsl.diagnostics import counted


def main() -> int:
    options = _arguments()
    return _write(options) if options.command == "write" else _report(options)


def _arguments() -> argparse.Namespace:
    description = (__doc__ or "").partition("\n")[0]
    parser, write = parsers("python -m benchmarks.gpu", description, device="h200", time="2m")
    write.add_argument("cases", nargs="*", metavar="CASE", help=f"of: {', '.join(BY_NAME)}; default: all")
    options = parser.parse_args()
    unknown = [name for name in getattr(options, "cases", ()) if name not in BY_NAME]
    if unknown:
        parser.error(f"no case is called {', '.join(unknown)}; known: {', '.join(BY_NAME)}")
    return options


def _write(options: argparse.Namespace) -> int:
    err = Console(stderr=True)
    folders.check_output(options.output)
    runs: list[Path] = []
    for name in options.cases or BY_NAME:
        kernel = folders.kernel_of(BY_NAME[name])
        try:
            if options.runs is not None:
                runs += folders.runs_of(kernel, options.runs)
            else:
                err.print(f"{name}: exploring for {options.time:.0f} s", highlight=False)
                place = options.output / "runs"
                runs.append(folders.explore(kernel, options.device, place, options.time, err.print))
        except SkippedError as error:
            err.print(f"{name} is skipped: {error}", highlight=False)
    written = folders.write(
        options.output, runs, options.top, options.others, has_cases=not options.cases_there
    )
    what = f"{counted(written.implementations, 'implementation')} of {counted(written.problems, 'kernel')}"
    err.print(f"{options.output}: {what}; there, `python run_benchmark.py` measures them", highlight=False)
    return 0


def _report(options: argparse.Namespace) -> int:
    made = report(options.folder)
    if options.json is not None:
        write_document(made.as_document(), options.json)
    show(made, console())
    return 0


if __name__ == "__main__":
    run(main)
