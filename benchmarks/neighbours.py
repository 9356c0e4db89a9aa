"""What each way of drawing a neighbour is worth: how many neighbours of one implementation are faster.

    python -m benchmarks.neighbours KERNEL.yaml .. [--after 100] [--count 50] [--seed 0] [--size m=64 ..]

Searches scatter too much from seed to seed to tell one way from another in few of them. Here each kernel is
searched until `--after` programs were measured; of the fastest of these, `--count` new programs are drawn in
each way and measured, and at last the five that seem to be the fastest in turns with the one that they are
near to. One decision changes, or all choices between some groups of objects: the sets that part the objects
are named.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console

from benchmarks.arguments import existing_file, positive, run
from benchmarks.programs import descent_of, new_programs, posed
from benchmarks.tables import console, headed
from spacedsl.api.problem import Problem
from spacedsl.cli.options import parse_sizes
from spacedsl.codegen.evaluator import CpuEvaluator
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.evaluation import Lowered
from spacedsl.search.events import Event, NewBest
from spacedsl.search.neighbours import Neighbourhood
from spacedsl.search.partitions import partitions
from spacedsl.search.policies import near
from spacedsl.search.rollouts import Cut
from spacedsl.search.run import Options, Search, decided
from spacedsl.search.tree import Step, replay

FASTER = 0.97
"""Of the time of the known implementation: a gain that is not the clock's."""

_BATCH = 4
_COMPARED = 5
_TRIES = 20
"""For each program that is wanted; of most implementations, some ways have few neighbours that are new."""


@dataclass(frozen=True, slots=True)
class Known:
    """The implementation whose neighbours are drawn."""

    candidate: Candidate
    time_ns: float


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.neighbours", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("kernels", nargs="+", type=existing_file, metavar="KERNEL.yaml")
    parser.add_argument(
        "--after", type=positive, default="100", metavar="N", help="evaluations of the search"
    )
    parser.add_argument("--count", type=positive, default="50", metavar="N", help="neighbours of each way")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N")
    options = parser.parse_args(arguments)
    table = headed(
        "Neighbours of the fastest implementation, their times over its time",
        ("kernel", "changed", "programs", "faster", "median", "the fastest, side by side"),
        words=("kernel", "changed"),
    )
    err = Console(stderr=True)
    for path in options.kernels:
        with posed(path, parse_sizes(options.size), err.print) as (problem, evaluator):
            for row in _rows(problem, evaluator, options):
                table.add_row(problem.kernel.name, *row)
                err.print(problem.kernel.name, *row)
    console().print(table)
    return 0


def _rows(
    problem: Problem, evaluator: CpuEvaluator, options: argparse.Namespace
) -> list[tuple[str, str, str, str, str]]:
    """One for each way; all of the same implementation."""
    instance = problem.instance
    descent = descent_of(problem, evaluator.device)
    last: list[NewBest] = []

    def listen(event: Event) -> None:
        if isinstance(event, NewBest):
            last[:] = [event]

    Search(
        instance,
        bound=descent.bound,
        evaluator=evaluator,
        ordering=descent.ordering,
        rollouts=descent.rollouts,
        needs=descent.needs,
        policy=near(),
        options=Options(seed=options.seed, evaluations=options.after),
        decisions=problem.kernel.decisions,
        listener=listen,
    ).run()
    root = instance.root()
    if root is None or not last:
        return [("no implementation", "", "", "", "")]
    root = decided(instance, root, problem.kernel.decisions)
    steps = last[0].steps
    known = Known(replay(instance, root, steps), last[0].timing.time_ns)
    ways = {"one decision": Neighbourhood(descent, root)}
    for partition in partitions(instance):
        ways[partition.name] = Neighbourhood(descent, root, (partition,), share_relaxed=1.0)
    with evaluator:
        return [(way, *_measured(evaluator, near_it, steps, known, options)) for way, near_it in ways.items()]


def _measured(
    evaluator: CpuEvaluator,
    near_it: Neighbourhood,
    steps: Sequence[Step],
    known: Known,
    options: argparse.Namespace,
) -> tuple[str, str, str, str]:
    """How many new programs there were, which share is faster, their median, and the fastest of them."""
    programs = _drawn(evaluator, near_it, steps, known, options)
    times_ns: dict[Lowered, float] = {}
    for first in range(0, len(programs), _BATCH):
        batch = programs[first : first + _BATCH]
        evaluator.build(batch)
        for program in batch:
            timing = evaluator.run(program, FASTER * known.time_ns).timing
            if timing is not None:
                times_ns[program] = timing.time_ns
    if not times_ns:
        return str(len(programs)), "", "", ""
    ratios = [time_ns / known.time_ns for time_ns in times_ns.values()]
    fastest = sorted(times_ns, key=times_ns.__getitem__)[:_COMPARED]
    own, *others = (
        outcome.timing.time_ns if outcome.timing is not None else float("nan")
        for outcome in evaluator.compare([_lowered(evaluator, known.candidate), *fastest])
    )
    return (
        str(len(programs)),
        f"{sum(ratio < FASTER for ratio in ratios) / len(ratios):.0%}",
        f"{statistics.median(ratios):.2f}",
        " ".join(f"{other / own:.2f}" for other in others),
    )


def _drawn(
    evaluator: CpuEvaluator,
    near_it: Neighbourhood,
    steps: Sequence[Step],
    known: Known,
    options: argparse.Namespace,
) -> list[Lowered]:
    """Distinct programs, none of them the known one."""
    rng = np.random.default_rng(options.seed)
    met = {_lowered(evaluator, known.candidate).digest}

    def draw() -> Candidate | None:
        return near_it.draw([steps], Cut(known.time_ns, 1.0), rng)

    found = new_programs(evaluator, draw, met, options.count, _TRIES * options.count)
    return [program for _, program in found]


def _lowered(evaluator: CpuEvaluator, candidate: Candidate) -> Lowered:
    program = evaluator.lower(candidate)
    assert isinstance(program, Lowered)
    return program


if __name__ == "__main__":
    run(main)
