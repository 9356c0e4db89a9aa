"""Where a search of linear algebra on this CPU may begin: implementations drawn in several ways, measured.

    python -m benchmarks.starts KERNEL.yaml .. [--count 10] [--seed 0] [--size m=64 ..]

Of each way, `--count` implementations: the least of so many that are drawn from all over the space, by what a
cost model says that they need; or where a walk from there ends that changes single decisions, or groups as
well. Shown are how long one of them takes to draw, on one CPU, and the least and the middle of their times.
What is slower than twice the best of its way is timed once.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console

from benchmarks.arguments import existing_file, positive, run
from benchmarks.programs import descent_of, posed
from benchmarks.tables import console, headed
from spacedsl.api.problem import Problem
from spacedsl.cli.options import parse_sizes
from spacedsl.codegen.evaluator import CpuEvaluator
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.evaluation import Lowered
from spacedsl.search.neighbours import Neighbourhood
from spacedsl.search.partitions import partitions
from spacedsl.search.rollouts import Cut
from spacedsl.search.walks import walked

_UNCUT = Cut(None, 1.0)


@dataclass(frozen=True, slots=True)
class Way:
    """`drawn` implementations, and steps from the one that needs least."""

    drawn: int
    steps: int = 0
    has_groups: bool = False

    def __str__(self) -> str:
        steps = f", {self.steps} steps" if self.steps else ""
        return f"{self.drawn} drawn{steps}{', groups too' if self.has_groups else ''}"

    def implementation(self, near_it: Neighbourhood, rng: np.random.Generator) -> Candidate | None:
        needed_ns = near_it.descent.needed_ns
        drawn = (near_it.planned((), _UNCUT, rng) for _ in range(self.drawn))
        start = min((each for each in drawn if each is not None), key=needed_ns, default=None)
        if start is None:
            return None
        groups = partitions(near_it.descent.instance) if self.has_groups else ()
        return walked(near_it, start, needed_ns, self.steps, _UNCUT, rng, partitions=groups)


WAYS = (
    Way(1), Way(4), Way(16), Way(64), Way(256), Way(8, 100), Way(8, 100, True), Way(32, 50, True),
    Way(64, 100, True),
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.starts", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("kernels", nargs="+", type=existing_file, metavar="KERNEL.yaml")
    parser.add_argument(
        "--count", type=positive, default="10", metavar="N", help="implementations of each way"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N")
    options = parser.parse_args(arguments)
    table = headed(
        "Implementations that a search may begin with",
        ("kernel", "way", "programs", "draw", "least", "middle"),
        words=("kernel", "way"),
    )
    err = Console(stderr=True)
    for path in options.kernels:
        table.add_section()
        with posed(path, parse_sizes(options.size), err.print) as (problem, evaluator), evaluator:
            for row in _rows(problem, evaluator, options):
                table.add_row(problem.kernel.name, *row)
                err.print(problem.kernel.name, *row)
    console().print(table)
    return 0


def _rows(
    problem: Problem, evaluator: CpuEvaluator, options: argparse.Namespace
) -> Iterator[tuple[str, str, str, str, str]]:
    near_it = Neighbourhood(descent_of(problem, evaluator.device), problem.root)
    for way in WAYS:
        began = time.process_time()
        drawn = [
            way.implementation(near_it, np.random.default_rng((options.seed, number)))
            for number in range(options.count)
        ]
        draw_s = (time.process_time() - began) / options.count
        times_ns = _measured(evaluator, [each for each in drawn if each is not None])
        shown = [
            (f"{judge(times_ns) / 1e6:.4g} ms" if times_ns else "") for judge in (min, statistics.median)
        ]
        yield str(way), str(len(times_ns)), f"{1e3 * draw_s:.3g} ms", shown[0], shown[1]


def _measured(evaluator: CpuEvaluator, drawn: Sequence[Candidate]) -> list[float]:
    """Times of those that are right, each program once."""
    lowered = dict.fromkeys(evaluator.lower(candidate) for candidate in drawn)
    programs = [program for program in lowered if isinstance(program, Lowered)]
    evaluator.build(programs)
    times_ns: list[float] = []
    for program in programs:
        timing = evaluator.run(program, min(times_ns, default=None)).timing
        times_ns += [] if timing is None else [timing.time_ns]
    return times_ns


if __name__ == "__main__":
    run(main)
