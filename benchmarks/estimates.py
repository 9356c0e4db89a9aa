"""How well what resources need tells what the model of a GPU says, and where walks by it end.

    python -m benchmarks.estimates KERNEL.yaml .. [--device h200] [--count 150] [--walks 4] [--size m=4096 ..]

Of random implementations of each kernel, estimates (predictions without a compiler) beside the sum of what
their resources need, as searches for GPUs go by both. Rank correlations are Spearman's, of all and of the
fastest third by estimate. Each walk by needs begins and has as many steps as those that a search begins with;
shown are medians of estimates where they begin and end, and processor seconds of a walk and of an estimate.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from statistics import median

import numpy as np
from scipy.stats import spearmanr

from benchmarks.arguments import existing_file, positive, run
from benchmarks.tables import console, headed
from spacedsl.api.problem import Problem, pose
from spacedsl.api.targets import TARGETS
from spacedsl.cli.options import parse_sizes
from spacedsl.codegen.cuda.evaluator import PredictingEvaluator
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.device import gpus, load_gpu
from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.kernels.kernel_file import load_kernel
from spacedsl.search.bounds.gpu.bound import GpuBound
from spacedsl.search.descent import Descent
from spacedsl.search.drawing import UNESTIMATED, UNPLANNED
from spacedsl.search.neighbours import Neighbourhood
from spacedsl.search.orderings import select_ordering, select_rollouts
from spacedsl.search.rollouts import Cut
from spacedsl.search.walks import walked

_CUT = Cut(None, 1.0)
"""Nothing is too slow."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.estimates", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("kernels", nargs="+", type=existing_file, metavar="KERNEL.yaml")
    parser.add_argument("--device", choices=sorted(gpus()), default="h200")
    parser.add_argument("--count", type=positive, default="150", metavar="N", help="random implementations")
    parser.add_argument("--walks", type=positive, default="4", metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N")
    options = parser.parse_args(arguments)
    device = load_gpu(gpus()[options.device])
    table = headed(
        "Estimates beside what resources need, and walks by that",
        (
            "kernel", "rank correlation", "of the fastest", "least, us", "median, us", "begin, us", "end, us",
            "s of a walk", "s of an estimate",
        ),
        words=("kernel",),
    )  # fmt: skip
    for path in options.kernels:
        kernel = load_kernel(path, parse_sizes(options.size), "gpu")
        problem = pose(kernel, kernel.space_for("gpu"), device, lambda event: None)
        table.add_row(kernel.name, *_row(problem, device, options))
    console().print(table)
    return 0


def _row(problem: Problem, device: GpuDevice, options: argparse.Namespace) -> tuple[str, ...]:
    instance, evaluator = problem.instance, PredictingEvaluator(problem.kernel, device)
    descent = Descent(
        instance,
        select_ordering(instance, problem.space),
        GpuBound(instance, device),
        rollouts=select_rollouts(instance, problem.space),
        bounded_every=TARGETS["cuda"].bounded_every,
    )
    near, rng = Neighbourhood(descent, problem.root), np.random.default_rng(options.seed)
    drawn: list[Candidate] = []
    while len(drawn) < options.count:
        candidate = near.planned((), _CUT, rng)
        if candidate is not None:
            drawn.append(candidate)
    started = time.process_time()
    estimates_ns = np.array([evaluator.estimate_ns(candidate) for candidate in drawn])
    estimate_s = (time.process_time() - started) / len(drawn)
    needs_ns = np.array([descent.needed_ns(candidate) for candidate in drawn])
    third = np.argsort(estimates_ns, kind="stable")[: max(2, len(drawn) // 3)]
    groups = (range(at, min(at + UNPLANNED, len(drawn))) for at in range(0, len(drawn), UNPLANNED))
    starts = [min(group, key=needs_ns.__getitem__) for group in groups][: options.walks]
    started = time.process_time()
    ends = [walked(near, drawn[at], descent.needed_ns, UNESTIMATED, _CUT, rng) for at in starts]
    walk_s = (time.process_time() - started) / len(ends)
    ends_ns = [evaluator.estimate_ns(candidate) for candidate in ends]
    return (
        f"{spearmanr(estimates_ns, needs_ns)[0]:.2f}",
        f"{spearmanr(estimates_ns[third], needs_ns[third])[0]:.2f}",
        *(f"{each / 1e3:.4g}" for each in (min(estimates_ns), median(estimates_ns))),
        *(f"{median(each) / 1e3:.4g}" for each in (estimates_ns[starts], ends_ns)),
        f"{walk_s:.2f}", f"{estimate_s:.3f}",
    )  # fmt: skip


if __name__ == "__main__":
    run(main)
