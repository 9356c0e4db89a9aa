"""How many programs a search evaluates in a minute, and where its seconds go.

    python -m benchmarks.search_speed KERNEL.yaml .. [--time 45s] [--seed 0] [--batch 1 ..] [--size m=64 ..]

Each kernel is searched from nothing with every size of batch in turns, and nothing else of this project
builds or measures meanwhile. Shown are, of the seconds of the search: lowering to C, building, measuring
(checks and timing), and the rest: drawing, propagation, bounds, statistics. A batch of 1 builds
one program at a time. Runs are not kept.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from benchmarks.arguments import duration_s, existing_file, positive, run
from benchmarks.tables import console, headed
from spacedsl.api.problem import Problem, pose
from spacedsl.cli.options import parse_sizes
from spacedsl.codegen.evaluator import CpuEvaluator
from spacedsl.codegen.lock import machine_lock
from spacedsl.codegen.machine.characterize import local_device
from spacedsl.codegen.running.measurement import Options as Measuring
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.device import CpuDevice
from spacedsl.kernels.evaluation import Lowered, Outcome
from spacedsl.kernels.kernel_file import load_kernel
from spacedsl.search.bounds.cpu import CpuBound
from spacedsl.search.costs.linalg import LinalgNeeds
from spacedsl.search.orderings import select_ordering, select_rollouts
from spacedsl.search.policies import POLICIES
from spacedsl.search.run import Options, Search


@dataclass(slots=True, eq=False)
class Watched(CpuEvaluator):
    """Counts its seconds."""

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def lower(self, candidate: Candidate) -> Lowered | Outcome:
        with self._counted("lowering"):
            return CpuEvaluator.lower(self, candidate)

    def build(self, programs: Sequence[Lowered]) -> None:
        with self._counted("building"):
            CpuEvaluator.build(self, programs)

    def run(self, lowered: Lowered, best_ns: float | None, limit_s: float | None = None) -> Outcome:
        with self._counted("measuring"):
            return CpuEvaluator.run(self, lowered, best_ns, limit_s)

    def glance(self, programs: Sequence[Lowered]) -> Sequence[float]:
        with self._counted("measuring"):
            return CpuEvaluator.glance(self, programs)

    @contextmanager
    def _counted(self, part: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.seconds[part] += time.monotonic() - started


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.search_speed", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("kernels", nargs="+", type=existing_file, metavar="KERNEL.yaml")
    parser.add_argument("--time", type=duration_s, default="45s", help="of each search")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--batch", type=positive, action="append", metavar="N", help="repeatable; default 1 and 4"
    )
    parser.add_argument("--policy", choices=POLICIES, default="near")
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N")
    options = parser.parse_args(arguments)
    table = headed(
        "Evaluations, and the shares of a search's seconds",
        ("kernel", "batch", "a minute", "known", "lowering", "building", "measuring", "rest", "best, us"),
        words=("kernel",),
    )
    err = Console(stderr=True)
    for path in options.kernels:
        kernel = load_kernel(path, parse_sizes(options.size))
        problem = pose(kernel, kernel.space, local_device(progress=err.print), lambda event: None)
        for batch in options.batch or (1, 4):
            table.add_row(kernel.name, str(batch), *_searched(problem, batch, options))
    console().print(table)
    return 0


def _searched(problem: Problem, batch: int, options: argparse.Namespace) -> tuple[str, ...]:
    device = problem.device
    assert isinstance(device, CpuDevice)
    with machine_lock(), tempfile.TemporaryDirectory() as folder:
        evaluator = Watched(problem.kernel, device, Measuring(lock=Path(folder, "lock")))
        result = Search(
            problem.instance,
            bound=CpuBound(problem.instance, device),
            evaluator=evaluator,
            ordering=select_ordering(problem.instance, problem.space),
            rollouts=select_rollouts(problem.instance, problem.space),
            needs=LinalgNeeds(problem.instance, device),
            policy=POLICIES[options.policy](),
            options=Options(seed=options.seed, seconds=options.time, contenders=1, batch=batch),
            decisions=problem.kernel.decisions,
        ).run()
    progress, seconds = result.progress, evaluator.seconds
    shares = [seconds[part] / progress.seconds for part in ("lowering", "building", "measuring")]
    best_us = float("nan") if progress.best_ns is None else progress.best_ns / 1e3
    return (
        f"{60 * progress.evaluations / progress.seconds:.0f}", str(progress.duplicates),
        *(f"{share:.0%}" for share in (*shares, 1 - sum(shares))), f"{best_us:.4g}",
    )  # fmt: skip


if __name__ == "__main__":
    run(main)
