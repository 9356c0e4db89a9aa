"""How evenly a search ends: explorations that differ in their seeds alone, and their bests side by side.

    python -m benchmarks.spread KERNEL.yaml .. [--seeds 5] [--time 60s | --evaluations N] [--policy near ..]
                                [--ordering NAME ..] [--size m=64 ..] [--runs FOLDER] [--json FILE]

Each kernel is explored from nothing with every seed, policy and ordering that is named, in turns. Then the
bests of all of them are measured in turns, in one process: the times that explorations report come from
different minutes, and a machine drifts. Shown are these times over the best one, when each best was found,
and what sets the bests apart: the nest of the instruction that lies deepest, outermost first (`p` parallel,
`u` unrolled, `v` vector).

With --runs the explorations are kept, and those that are already there are only measured again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

from rich.console import Console

from benchmarks.arguments import duration_s, existing_file, new_file, positive, run, short_ordering
from benchmarks.tables import console, headed
from spacedsl import api, record
from spacedsl.api.exploration import DEFAULT_POLICY
from spacedsl.cli.options import parse_sizes
from spacedsl.codegen.evaluator import CpuEvaluator
from spacedsl.codegen.machine.characterize import local_device
from spacedsl.kernels.evaluation import Lowered
from spacedsl.kernels.kernel_file import KernelFile, load_kernel
from spacedsl.search.policies import POLICIES

_LETTERS = {"PARALLEL": "p", "UNROLL": "u", "VECTOR": "v", "LOOP": ""}


@dataclass(frozen=True, slots=True)
class Explored:
    """One exploration. `reported_ns` is the time that it said its best takes."""

    kernel: str
    policy: str
    ordering: str
    seed: int
    best: str
    """The record, `best.json`."""
    reported_ns: float
    evaluations: int
    seconds: float
    found_after: int
    """Evaluations until the best was measured."""
    found_after_s: float
    share_cut: float
    failures: dict[str, int]
    nest: str


@dataclass(frozen=True, slots=True)
class Compared:
    explored: Explored
    time_ns: float
    """Of its best, in turns with all others of the kernel."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _arguments(arguments)
    err = Console(stderr=True)
    compared: list[Compared] = []
    for path in options.kernels:
        kernel = load_kernel(path, parse_sizes(options.size))
        with tempfile.TemporaryDirectory() as temporary:
            explored = _explorations(kernel, options.runs or Path(temporary), options, err)
            compared += _compared(kernel, explored, options.rounds, err)
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(each) for each in compared], indent=1))
    _show(compared)
    return 0


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spread", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("kernels", nargs="+", type=existing_file, metavar="KERNEL.yaml")
    parser.add_argument("--seeds", type=positive, default=5, metavar="N", help="0 .. N - 1; default 5")
    parser.add_argument("--time", type=duration_s, default="60s", help="of each exploration; default 60s")
    parser.add_argument(
        "--evaluations", type=positive, default=None, help="of each exploration, instead of a time"
    )
    parser.add_argument("--policy", action="append", choices=POLICIES, help="repeatable; default near")
    parser.add_argument("--ordering", action="append", help="repeatable; default that of the kernel")
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N")
    parser.add_argument("--runs", type=Path, default=None, metavar="FOLDER")
    parser.add_argument(
        "--rounds", type=positive, default=5, help="comparisons of all bests; their medians count"
    )
    parser.add_argument("--json", type=new_file, default=None, metavar="FILE")
    return parser.parse_args(arguments)


def _explorations(
    kernel: KernelFile, folder: Path, options: argparse.Namespace, err: Console
) -> list[Explored]:
    time_s = options.time if options.evaluations is None else None
    found = []
    ways = product(
        range(options.seeds),
        options.policy or [DEFAULT_POLICY],
        options.ordering or [kernel.search.ordering or ""],
    )
    for seed, policy, ordering in ways:
        way = " ".join(filter(None, (policy, short_ordering(ordering))))
        runs = folder / kernel.name / f"{way.replace(' ', '-')}-{seed}"
        kept = runs / "explored.json"
        if kept.exists():
            found.append(Explored(**json.loads(kept.read_text())))
            continue
        result = api.explore(
            kernel,
            time=time_s,
            evaluations=options.evaluations,
            seed=seed,
            policy=policy,
            ordering=ordering or None,
            runs=runs,
        )
        if result.best is None:
            err.print(f"{kernel.name} {way} seed {seed}: nothing was found")
            continue
        explored = _explored(kernel, policy, ordering, result, result.best)
        kept.write_text(json.dumps(asdict(explored)))
        found.append(explored)
        err.print(f"{kernel.name} {way} seed {seed}: {explored.reported_ns / 1e3:.4g} us")
    return found


def _explored(kernel: KernelFile, policy: str, ordering: str, result: api.Result, best: api.Best) -> Explored:
    decisions = record.read(best.decisions)
    digest = decisions.code.digest
    measured = [trial for trial in result.trials if not trial.is_duplicate]
    place = next(i for i, trial in enumerate(measured) if trial.digest == digest)
    return Explored(
        kernel=kernel.name,
        policy=policy,
        ordering=ordering,
        seed=result.seed,
        best=str(best.decisions),
        reported_ns=best.time_ns,
        evaluations=result.progress.evaluations,
        seconds=result.progress.seconds,
        found_after=place + 1,
        found_after_s=measured[place].seconds,
        share_cut=result.progress.share_cut,
        failures={str(failure): count.count for failure, count in result.progress.failures.items()},
        nest=nest(kernel, decisions),
    )


def nest(kernel: KernelFile, best: record.Record) -> str:
    """The loops of the instruction with most of them, outermost first, with their sizes and kinds."""
    deepest = max(kernel.backbone.instructions, key=lambda instruction: len(instruction.dims))
    values = {(d.choice, d.objects): d.values for d in best.decisions}
    names = [dim.name for dim in deepest.dims]

    def depth(name: str) -> int:
        around = (values.get(("order", (name, other)), ()) == ("INNER",) for other in names)
        return sum(around) + sum(values.get(("order", (other, name)), ()) == ("OUTER",) for other in names)

    def loop(name: str) -> str:
        (size,), (kind,) = values["size", (name,)], values["dim_kind", (name,)]
        return f"{name.partition('.')[2]}:{size}{_LETTERS[str(kind)]}"

    return " ".join(loop(name) for name in sorted(names, key=depth) if values["size", (name,)] != (1,))


def _compared(kernel: KernelFile, explored: Sequence[Explored], rounds: int, err: Console) -> list[Compared]:
    """The medians of several comparisons; what fails in all of them is left out."""
    device = local_device(progress=err.print)
    codes = [api.emit(each.best) for each in explored]
    times: list[list[float]] = [[] for _ in codes]
    with CpuEvaluator(kernel, device) as evaluator:
        for _ in range(rounds):
            outcomes = evaluator.compare([Lowered(f"{i:016}", code) for i, code in enumerate(codes)])
            for timed, outcome in zip(times, outcomes, strict=True):
                if outcome.timing is not None:
                    timed.append(outcome.timing.time_ns)
    return [
        Compared(each, statistics.median(timed)) for each, timed in zip(explored, times, strict=True) if timed
    ]


def _show(compared: Sequence[Compared]) -> None:
    table = headed(
        "Bests by seed, measured side by side",
        (
            "kernel",
            "policy",
            "ordering",
            "seed",
            "time, us",
            "/ best",
            "found at",
            "after",
            "of",
            "cut",
            "failed",
            "nest",
        ),
        words=("kernel", "policy", "ordering", "nest"),
    )
    spreads = headed(
        "Spread over seeds",
        ("kernel", "policy", "ordering", "seeds", "best, us", "median", "worst / best"),
        ("kernel", "policy", "ordering"),
    )
    groups: dict[tuple[str, str, str], list[Compared]] = {}
    for each in compared:
        run = each.explored
        groups.setdefault((run.kernel, run.policy, run.ordering), []).append(each)
    for (kernel, policy, ordering), group in groups.items():
        best_ns = min(each.time_ns for each in compared if each.explored.kernel == kernel)
        table.add_section()
        for each in sorted(group, key=lambda each: each.time_ns):
            run = each.explored
            table.add_row(
                kernel, policy, short_ordering(ordering), str(run.seed),
                f"{each.time_ns / 1e3:.4g}", f"{each.time_ns / best_ns:.2f}",
                f"{run.found_after_s:.0f} s", str(run.found_after), str(run.evaluations),
                f"{run.share_cut:.1%}", str(sum(run.failures.values())), run.nest,
            )  # fmt: skip
        times = sorted(each.time_ns for each in group)
        spreads.add_row(
            kernel, policy, short_ordering(ordering), str(len(times)), f"{times[0] / 1e3:.4g}",
            f"{statistics.median(times) / best_ns:.2f}", f"{times[-1] / times[0]:.2f}",
        )  # fmt: skip
    for ordering in dict.fromkeys(ordering for _, _, ordering in groups):
        if short_ordering(ordering) != ordering:
            console().print(f"{short_ordering(ordering)}: {ordering}")
    console().print(table)
    console().print(spreads)


if __name__ == "__main__":
    run(main)
