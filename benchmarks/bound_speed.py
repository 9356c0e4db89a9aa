"""What a bound costs: microseconds of processor time for a candidate, one by one and all children at once.

A rollout asks for it at each decision: milliseconds, in compiled code and in Python.

    python -m benchmarks.bound_speed [KERNEL.yaml ..] [--descents 20] [--seed 0]

Candidates are those of random descents, in the space's own order; the children of each are bounded in one
call. Beside it: what the reference in Python costs, and what propagating a child does. Rollouts begin at the
root, in the order that the search takes; their cut is at so many times its bound.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks import LIBRARY
from benchmarks.arguments import existing_file, positive, run
from spacedsl.api.problem import Problem, pose
from spacedsl.codegen.machine.characterize import local_device
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.kernel_file import load_kernel
from spacedsl.search.bounds.cpu import CpuBound
from spacedsl.search.orderings import select_ordering, select_rollouts
from spacedsl.search.rollouts import Bounded, Cut, Rollouts

_REFERENCE = 20
"""Candidates that the reference bounds: it is slow."""

_ROLLOUTS = 100

_CUT = 4.0
"""Of rollouts: times the bound of the root."""


def families(problem: Problem, descents: int, seed: int) -> tuple[list[list[Candidate]], float]:
    """The valid children of each candidate on random descents, and us for each child to propagate."""
    ordering, random = select_ordering(problem.instance, problem.space), np.random.default_rng(seed)
    found: list[list[Candidate]] = []
    tried, propagating_s = 0, 0.0
    for _ in range(descents):
        candidate: Candidate | None = problem.root
        while candidate is not None and (branching := ordering.next(candidate)) is not None:
            began = time.process_time()
            children = [problem.instance.restrict(candidate, branching.variable, m) for m in branching.masks]
            propagating_s += time.process_time() - began
            tried += len(children)
            valid = [child for child in children if child is not None]
            found.append(valid)
            candidate = valid[int(random.integers(len(valid)))] if valid else None
    return found, 1e6 * propagating_s / tried


def rollout_ms(problem: Problem, bound: CpuBound, *, is_compiled: bool) -> float:
    """Of processor time, for each."""
    instance = problem.instance
    ordering = select_rollouts(instance, problem.space) or select_ordering(instance, problem.space)
    rollouts = Rollouts(instance, ordering, bound, 64, 1, is_compiled=is_compiled)
    start, first = Bounded(problem.root, bound(problem.root)), ordering.next(problem.root)
    assert first is not None
    cut = Cut(_CUT * start.bound_ns, 1.0)
    began = time.process_time()
    for seed in range(_ROLLOUTS):
        rollouts.draw(start, first, {}, cut, seed)
    return 1e3 * (time.process_time() - began) / _ROLLOUTS


def microseconds(run: Callable[[], object], candidates: int) -> float:
    """The least of several runs, for each candidate."""
    best = float("inf")
    for _ in range(5):
        began = time.process_time()
        run()
        best = min(best, time.process_time() - began)
    return 1e6 * best / candidates


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bound_speed", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("kernels", nargs="*", type=existing_file, default=sorted(LIBRARY.glob("*.yaml")))
    parser.add_argument("--descents", type=positive, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    print(
        f"{'kernel':16} {'statements':>10} {'single':>7} {'batch':>7} {'reference':>9} {'propagation':>11}"
        f" {'rollout, ms':>11} {'in Python':>9}"
    )
    device = local_device(progress=lambda activity: print(activity, file=sys.stderr))
    for path in options.kernels:
        kernel = load_kernel(path, {})
        problem = pose(kernel, kernel.space, device, lambda event: None)
        bound, statements = CpuBound(problem.instance, device), len(kernel.backbone.statements)
        found, propagation_us = families(problem, options.descents, options.seed)
        if bound.native is None:
            print(f"{path.stem:16} no compiled code: {bound.no_native}")
            continue
        every = [candidate for children in found for candidate in children]
        some = every[:: max(1, len(every) // _REFERENCE)][:_REFERENCE]
        single = microseconds(lambda: [bound(c) for c in every], len(every))  # noqa: B023
        batch = microseconds(lambda: [bound.of_all(c) for c in found], len(every))  # noqa: B023
        slow = microseconds(lambda: [bound.reference_ns(c) for c in some], len(some))  # noqa: B023
        print(
            f"{path.stem:16} {statements:10} {single:7.1f} {batch:7.1f} {slow:9.0f} {propagation_us:11.1f}"
            f" {rollout_ms(problem, bound, is_compiled=True):11.2f}"
            f" {rollout_ms(problem, bound, is_compiled=False):9.2f}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    run(main)
