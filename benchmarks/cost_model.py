"""What the cost model of pipelines is worth: how it orders implementations, beside what they take.

    python -m benchmarks.cost_model [harris ..] [--count 30] [--steps 60] [--seed 0] [--csv FILE]

Of each application as many implementations as are asked for, each checked and measured as in a search: half
of them plans, half of them so many steps downhill from one by the cost model. Rank correlation is
Spearman's; `best` is the time of what the model takes to be the fastest over that of the fastest. The last
columns are what was predicted over what was measured, at its quartiles. `--csv` keeps each implementation.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from scipy.stats import spearmanr

from benchmarks.arguments import application, new_file, positive, run
from benchmarks.programs import new_programs
from benchmarks.tables import console, headed
from benchmarks.walks import walks
from spacedsl.codegen.evaluator import CpuEvaluator
from spacedsl.codegen.lock import machine_lock
from spacedsl.codegen.machine.characterize import local_device
from spacedsl.codegen.running.measurement import Options as Measuring
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.device import CpuDevice
from spacedsl.search.costs.model import time_ns

SMALL = ("blur", "unsharp", "harris", "hist_eq", "iir_blur", "camera_pipe", "stencil_chain", "interpolate")

_TRIES = 4
"""For each program that is wanted."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cost_model", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "applications",
        nargs="*",
        type=application,
        metavar="APPLICATION",
        help=f"default: {', '.join(SMALL)}",
    )
    parser.add_argument("--count", type=positive, default="30", metavar="N", help="implementations of each")
    parser.add_argument(
        "--steps", type=positive, default="60", metavar="N", help="of the walks to half of them"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--csv", type=new_file, metavar="FILE")
    options = parser.parse_args(arguments)
    names = options.applications or SMALL
    err = Console(stderr=True)
    device = local_device(progress=err.print)
    table = headed(
        "Predicted beside measured times",
        (
            "application",
            "programs",
            "failed",
            "rank correlation",
            "best",
            "fastest",
            "25 %",
            "median",
            "75 %",
        ),
        words=("application",),
    )
    kept: list[tuple[str, float, float]] = []
    for name in names:
        times, failures = _measured(name, device, options)
        kept += [(name, predicted, measured) for predicted, measured in times]
        table.add_row(name, *_row(times, failures))
        err.print(name, *_row(times, failures))
    console().print(table)
    if options.csv is not None:
        with options.csv.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("application", "predicted_ns", "measured_ns"), *kept])
    return 0


def _measured(
    name: str, device: CpuDevice, options: argparse.Namespace
) -> tuple[list[tuple[float, float]], int]:
    """What was predicted and measured of each implementation, in nanoseconds; how many failed."""
    here = walks(name, device)
    rng = np.random.default_rng(options.seed)
    drawn = 0

    def draw() -> Candidate:
        nonlocal drawn
        drawn += 1
        start = here.planned(rng)
        return start if drawn % 2 else here.walked(start, options.steps, rng)

    times: list[tuple[float, float]] = []
    with machine_lock(), tempfile.TemporaryDirectory() as folder:
        evaluator = CpuEvaluator(here.kernel, device, Measuring(lock=Path(folder, "lock")))
        programs = new_programs(evaluator, draw, set(), options.count, _TRIES * options.count)
        with evaluator:
            evaluator.build([program for _, program in programs])
            for candidate, program in programs:
                timing = evaluator.run(program, None).timing
                if timing is not None:
                    times.append((time_ns(here.costs, candidate), timing.time_ns))
    return times, len(programs) - len(times)


def _row(times: Sequence[tuple[float, float]], failures: int) -> Iterator[str]:
    yield from (f"{len(times)}", f"{failures}")
    if len(times) > 2:
        predicted, measured = zip(*times, strict=True)
        yield f"{spearmanr(predicted, measured).statistic:.2f}"
        yield f"{min(times)[1] / min(measured):.2f}"
        yield f"{min(measured) / 1e6:.2f} ms"
        yield from (f"{q:.2f}" for q in statistics.quantiles([p / m for p, m in times], n=4))


if __name__ == "__main__":
    run(main)
