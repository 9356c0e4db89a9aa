"""What it is worth to compare the fastest in several processes, in each of which memory lies elsewhere.

    python -m benchmarks.processes RUN .. [--processes 15] [--count 12]

A RUN is the folder of an exploration on this machine. The `--count` fastest of it are compared side by side
in so many processes, one after the other. What is the fastest by the medians of all processes may not seem
so in one of them: shown is how much slower than it are those that single processes take for the fastest, and
those that seem so by the middle times of three processes, of all threes that there are: the mean and the
worst. A process is slow where the median of what it timed is slower by a quarter than that of most.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from benchmarks.arguments import existing_folder, positive, run
from benchmarks.tables import console, headed
from spacedsl.api.exploration import pose_again
from spacedsl.api.problem import UnknownNameError
from spacedsl.api.targets import TARGETS
from spacedsl.codegen.evaluator import CpuEvaluator
from spacedsl.codegen.machine.characterize import local_device
from spacedsl.kernels.evaluation import Lowered
from spacedsl.search.restoring import implementations
from spacedsl.search.run import COMPARED_IN
from spacedsl.search.store import Store
from spacedsl.search.tree import replay

SLOW = 1.25

Array = NDArray[np.float64]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.processes", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("runs", nargs="+", type=existing_folder, metavar="RUN")
    parser.add_argument("--processes", type=positive, default=15, metavar="N", help="at least 3; default 15")
    parser.add_argument("--count", type=positive, default=12, metavar="N", help="implementations; default 12")
    options = parser.parse_args(arguments)
    if options.processes < COMPARED_IN:
        parser.error(f"{options.processes} processes: there are no {COMPARED_IN} to take the middle of")
    table = headed(
        "What seems to be the fastest, over the fastest by all processes",
        ("run", "implementations", "fastest", "processes", "slow", "by one", "worst", "by three", "worst"),
        words=("run",),
    )
    for folder in options.runs:
        times_ns = measured(folder, options.processes, options.count)
        typical_ns = np.median(times_ns, axis=1)
        slow = np.sum(typical_ns > SLOW * np.median(typical_ns))
        chosen = [chosen_over_fastest(times_ns, together) for together in (1, COMPARED_IN)]
        table.add_row(
            folder.name, str(times_ns.shape[1]), f"{np.median(times_ns, axis=0).min() / 1e3:.4g} us",
            str(options.processes), str(slow),
            *(f"{ratio:.3f}" for ratios in chosen for ratio in (ratios.mean(), ratios.max())),
        )  # fmt: skip
    console().print(table)
    return 0


def measured(folder: Path, processes: int, count: int) -> Array:
    """Times in ns of the fastest of a run, `(processes, implementations)`; what fails in one is left out.

    Raises `UnknownNameError` for a run whose times are not measured here, or that holds nothing.
    """
    err = Console(stderr=True)
    with Store.open(folder, read_only=True) as store:
        about = store.about()
        if about.target != "cpu":
            raise UnknownNameError(f"{folder}: a run for another machine, whose times are predicted")
        problem = pose_again(about, folder, lambda event: None)
        bound = TARGETS[about.target].bound(problem.instance, problem.device)
        fastest = implementations(problem.instance, problem.root, bound, store)[:count]
    evaluator = CpuEvaluator(problem.kernel, local_device(progress=err.print))
    lowered = [evaluator.lower(replay(problem.instance, problem.root, each.steps)) for each in fastest]
    programs = [program for program in lowered if isinstance(program, Lowered)]
    rows: list[list[float]] = []
    for process in range(processes):
        with evaluator:
            outcomes = evaluator.compare(programs)
        rows.append([float("nan") if each.timing is None else each.timing.time_ns for each in outcomes])
        err.print(f"process {process + 1}: {np.nanmin(rows[-1]) / 1e3:.4g} us")
    times_ns = np.array(rows)
    times_ns = times_ns[:, ~np.isnan(times_ns).any(axis=0)]
    if not times_ns.size:
        raise UnknownNameError(f"{folder}: a run of nothing that can be timed in every process")
    return times_ns


def chosen_over_fastest(times_ns: Array, together: int) -> Array:
    """For all choices of so many processes, the time of what seems to be the fastest by their medians, over
    that of the fastest, both by the medians of all processes. `times_ns`: `(processes, implementations)`.
    """
    true_ns = np.median(times_ns, axis=0)
    seeming = [
        np.median(times_ns[list(some)], axis=0).argmin()
        for some in combinations(range(len(times_ns)), together)
    ]
    return np.asarray(true_ns[seeming] / true_ns.min())


if __name__ == "__main__":
    run(main)
