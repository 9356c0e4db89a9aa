"""What the product finds for pipelines beside Halide's own schedulers, on this CPU.

    python -m benchmarks.pipelines [--apps blur ..] [--schedulers root ..] [--time 10m] [--records DIR]
                                   [--results DIR]

Explores each application from nothing, has each of Halide's schedulers schedule the same algorithm, then
has all of them take turns, checked against NumPy. Called again with the folder of its results, it goes on
where it stood; with `--records` it explores nothing and compares the records (best.json) that lie below a
folder. `make peers` installs Halide into an environment of its own; where it is not there, that is
reported.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rich.console import Console

from benchmarks import LIBRARY
from benchmarks.arguments import duration_s, existing_folder, positive, run
from benchmarks.contest import PRODUCT, ROOT, Entry, Patience, hold
from benchmarks.explorations import SkippedError, explore_on, library_of, records
from benchmarks.installed import PEERS_PYTHON, peers_python
from benchmarks.pipelines import halide
from benchmarks.pipelines.applications import BY_NAME, Application
from benchmarks.pipelines.buffers import SYMBOL
from benchmarks.pipelines.cases import signature, write_case
from benchmarks.pipelines.halide import OPTIONAL, SCHEDULERS, Prepared, Scheduler, Workplace
from benchmarks.pipelines.inlining import values_of_a_point
from benchmarks.pipelines.report import Comparison, Making, comparison, show
from benchmarks.pipelines.results import Place, Settings, keep_all
from benchmarks.pipelines.scheduling import INLINE
from benchmarks.pipelines.side import Side
from benchmarks.ratios import rows
from benchmarks.tables import console
from spacedsl.codegen.c.build import find_compiler
from spacedsl.codegen.c.names import entry_name
from spacedsl.codegen.halide.export import algorithm_text
from spacedsl.codegen.lock import machine_lock
from spacedsl.codegen.machine import processor
from spacedsl.kernels.backbones import load_measurable
from spacedsl.kernels.pipeline.kernel_file import PipelineFile

_PATIENCE = Patience(opening_s=180.0, slower=20.0, rounds_s=300.0)
"""Of a Halide that is so much slower, nothing more is to be known. Calls that take seconds scatter less."""

_INLINED_VALUES = 10_000
"""Of a point, up to which inlining all stages is worth a try."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is the same for all applications."""

    results: Path
    time_s: float | None
    """Of each exploration, instead of what the applications say."""
    records: Path | None
    schedulers: tuple[Scheduler, ...]
    at: Workplace
    rounds: int
    round_ms: int
    err: Console

    def settings(self, application: Application, algorithm: str) -> Settings:
        return Settings(
            hashlib.sha256(algorithm.encode()).hexdigest(),
            None if self.records is not None else self.explored_s(application),
            tuple(scheduler.name for scheduler in self.schedulers),
            self.at.limit_s,
            self.rounds,
            self.round_ms,
            self.at.processor,
            self.at.threads,
            find_compiler().version,
            self.at.version,
        )

    def explored_s(self, application: Application) -> float:
        return self.time_s or application.time_s

    def say(self, words: str) -> None:
        self.err.print(words, highlight=False, markup=False)


def main(arguments: Sequence[str] | None = None) -> None:
    options = _arguments(arguments)
    request = _request(options)
    comparisons: list[Comparison] = []
    skipped: dict[str, str] = {}
    for name in options.apps:
        try:
            comparisons.append(_compared(BY_NAME[name], request))
        except SkippedError as error:
            skipped[name] = str(error)
            request.say(f"{name} is skipped: {error}")
        # All that is known so far: a full run takes hours.
        keep_all(request.results, comparisons, skipped)
    show(comparisons, skipped, console())
    request.say(f"kept in {request.results}")


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    usual = [name for name in SCHEDULERS if name not in OPTIONAL]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pipelines", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "--apps", nargs="+", choices=BY_NAME, default=list(BY_NAME), metavar="NAME",
        help=f"of: {', '.join(BY_NAME)}; default: all",
    )  # fmt: skip
    parser.add_argument(
        "--schedulers", nargs="*", choices=SCHEDULERS, default=usual, metavar="NAME",
        help=f"of: {', '.join(SCHEDULERS)}; default: all but {', '.join(OPTIONAL)}",
    )  # fmt: skip
    parser.add_argument(
        "--time", type=duration_s, metavar="TIME", help="of each exploration; default: 10m, small ones 3m"
    )
    parser.add_argument(
        "--records", type=existing_folder, metavar="DIR", help="compare these, explore nothing"
    )
    parser.add_argument(
        "--results", type=Path, metavar="DIR", help="to go on with, if it is there; default: a new one"
    )
    parser.add_argument(
        "--schedule-limit",
        type=duration_s,
        default="10m",
        metavar="TIME",
        help="of each of Halide's schedules",
    )
    parser.add_argument("--peers-python", type=Path, default=PEERS_PYTHON, metavar="FILE")
    parser.add_argument("--rounds", type=positive, default=45)
    parser.add_argument("--round-ms", type=positive, default=100)
    return parser.parse_args(arguments)


def _request(options: argparse.Namespace) -> Request:
    results = options.results or ROOT / "runs" / f"pipelines-{datetime.now():%Y%m%d-%H%M%S}"
    results.mkdir(parents=True, exist_ok=True)
    at = halide.workplace(peers_python(options.peers_python), options.schedule_limit)
    schedulers = tuple(SCHEDULERS[name] for name in dict.fromkeys(options.schedulers))
    return Request(
        results.resolve(),
        options.time,
        options.records,
        schedulers,
        at,
        options.rounds,
        options.round_ms,
        Console(stderr=True),
    )


def _compared(application: Application, request: Request) -> Comparison:
    kernel = load_measurable(LIBRARY / "pipelines" / f"{application.name}.yaml")
    assert isinstance(kernel, PipelineFile)
    algorithm = algorithm_text(kernel)
    place, settings = Place(request.results / application.name), request.settings(application, algorithm)
    known = place.known(settings)
    if known is not None:
        request.say(f"{application.name}: known")
        return known
    place.halide.mkdir(parents=True, exist_ok=True)
    place.algorithm.write_text(algorithm, encoding="utf-8")
    ours = _ours(application, kernel, place, request)
    prepared = _prepared(kernel, place, request)
    request.say(f"{application.name}: comparing")
    found = _contest(kernel, ours, prepared, place, request)
    if not found.ours:
        raise SkippedError("; ".join(f"{name}: {reason}" for name, reason in found.absent.items()))
    best = ours[found.ours[0].variant]
    for name in ("best.json", "best.c"):
        shutil.copy(best.with_name(name), place.folder)
    place.keep(found, settings)
    return found


def _ours(
    application: Application, kernel: PipelineFile, place: Place, request: Request
) -> Mapping[str, Path]:
    """Records, by what tells them apart."""
    if request.records is not None:
        found = records(kernel, request.records)
        if not found:
            raise SkippedError(f"there is no record of it below {request.records}")
        return found
    time_s = request.explored_s(application)
    request.say(f"{application.name}: exploring for {time_s:g} s")
    best = explore_on(kernel, place.explored / f"{time_s:g}s", time_s, 0, request.say)
    if best is None:
        raise SkippedError("the exploration found nothing that is right")
    return {"": best}


def _prepared(kernel: PipelineFile, place: Place, request: Request) -> Mapping[str, Prepared]:
    """By scheduler, whether there is something to call or not."""
    values, called = values_of_a_point(kernel.algorithm), signature(kernel)
    found = {}
    for scheduler in request.schedulers:
        if scheduler.kind == INLINE and values > _INLINED_VALUES:
            reason = f"a point would take {values:.2g} values"
            found[scheduler.name] = Prepared(scheduler.name, "", absent=reason)
            continue
        request.say(f"{kernel.name}: {scheduler.name}")
        found[scheduler.name] = halide.prepare(place.algorithm, scheduler, called, place.halide, request.at)
    return found


def _contest(
    kernel: PipelineFile,
    ours: Mapping[str, Path],
    prepared: Mapping[str, Prepared],
    place: Place,
    request: Request,
) -> Comparison:
    cpus, called = processor.usable_cpus(), signature(kernel)
    absent = {name: p.absent for name, p in prepared.items() if p.absent}
    with tempfile.TemporaryDirectory(prefix="spacedsl-") as temporary:
        folder, case = Path(temporary), Path(temporary, "case")
        case.mkdir()
        entries = []
        for label, path in ours.items():
            library = library_of(path, folder)
            side = Side("c", str(library), entry_name(kernel.name), called, str(case), cpus)
            entries.append(Entry(PRODUCT, label, side, sys.executable))
        for scheduler in request.schedulers:
            if scheduler.name not in absent:
                library = halide.library_of(scheduler, place.halide)
                rooms = prepared[scheduler.name].rooms
                side = Side("halide", str(library), SYMBOL, called, str(case), cpus, rooms)
                entries.append(Entry(scheduler.name, "", side, sys.executable))
        write_case(kernel, case)
        with machine_lock():
            contest = hold(entries, request.rounds, request.round_ms, _PATIENCE)
    makings = {n: Making(p.schedule_s, p.compile_s) for n, p in prepared.items() if n not in absent}
    return comparison(kernel.name, rows(contest, PRODUCT), makings, {**absent, **contest.absent})


if __name__ == "__main__":
    run(main)
