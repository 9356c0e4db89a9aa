"""Whether the bound is true and how tight it is: random implementations, measured, against their ancestors.

    python -m benchmarks.bound_admissibility [KERNEL.yaml ..] [--leaves 20] [--size m=256 ..] [--seed 0]

Each implementation comes from a random descent; half of the descents lean towards children with low bounds,
where a wrong bound would show. On the way, the bound must never fall; at its end, no bound on the way may
lie above the measured time. Prints a table: the spread of measured time over bound, and what was wrong.
Exit status 1 if anything was.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from spacedsl.cli.options import parse_sizes
from spacedsl.codegen.characterize import local_device
from spacedsl.codegen.evaluator import CpuEvaluator
from spacedsl.codegen.measurement import Options
from spacedsl.compiler import compile_space
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance, instantiate
from spacedsl.kernels.evaluation import Outcome
from spacedsl.kernels.kernel_file import KernelFile, load_kernel
from spacedsl.language import load_space
from spacedsl.search.bounds.cpu import CpuBound
from spacedsl.search.orderings import Ordering, select_ordering
from spacedsl.search.state import is_violation

_LIBRARY = Path(__file__).resolve().parent.parent / "kernels" / "library"
_TRIED_CHILDREN = 3
"""Of which a leaning descent takes the one with the lowest bound."""


@dataclass(slots=True)
class Findings:
    """What was met for one kernel."""

    ratios: list[float] = field(default_factory=list)
    """Measured time over the leaf's bound."""
    failures: int = 0
    falls: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Leaf:
    candidate: Candidate
    bounds_ns: tuple[float, ...]
    """From the root, not clamped."""


def descend(
    instance: Instance, ordering: Ordering, bound: CpuBound, random: np.random.Generator, *, leans: bool
) -> Leaf | None:
    """A random implementation; None at a dead end."""
    candidate = instance.root()
    bounds_ns: list[float] = []
    while candidate is not None:
        bounds_ns.append(bound(candidate))
        branching = ordering.next(candidate)
        if branching is None:
            return Leaf(candidate, tuple(bounds_ns))
        masks = random.permutation(np.array(branching.masks, dtype=object))
        children: list[Candidate] = []
        for mask in masks:
            child = instance.restrict(candidate, branching.variable, int(mask))
            if child is not None:
                children.append(child)
            if len(children) == (_TRIED_CHILDREN if leans else 1):
                break
        candidate = min(children, key=bound, default=None)
    return None


def examine(kernel: KernelFile, leaves: int, seed: int) -> Findings:
    device = local_device(progress=lambda activity: print(activity, file=sys.stderr))
    space = load_space(kernel.space)
    instance = instantiate(compile_space(space), kernel.backbone, device)
    bound, ordering = CpuBound(instance, device), select_ordering(instance, space)
    random = np.random.default_rng(seed)
    found = Findings()
    best_ns: float | None = None
    measured = 0
    with CpuEvaluator(kernel, device, Options(budget_s=0.3)) as evaluator:
        for number in range(20 * leaves):
            if measured == leaves:
                break
            leaf = descend(instance, ordering, bound, random, leans=number % 2 == 0)
            if leaf is None:
                continue
            measured += 1
            falls = [(a, b) for a, b in zip(leaf.bounds_ns, leaf.bounds_ns[1:], strict=False) if b < a]
            found.falls += [f"from {a:.0f} to {b:.0f} ns" for a, b in falls]
            lowered = evaluator.lower(leaf.candidate)
            outcome = lowered if isinstance(lowered, Outcome) else evaluator.run(lowered, best_ns)
            if outcome.timing is None:
                found.failures += 1
                continue
            best_ns = min(outcome.timing.time_ns, best_ns or outcome.timing.time_ns)
            greatest_ns = max(leaf.bounds_ns)
            if is_violation(outcome.timing, greatest_ns):
                found.violations.append(f"{outcome.timing.time_ns:.0f} ns under {greatest_ns:.0f} ns")
            found.ratios.append(outcome.timing.time_ns / greatest_ns)
    return found


def _row(name: str, found: Findings) -> str:
    spread = [""] * 5
    if len(found.ratios) > 1:
        quartiles = statistics.quantiles(found.ratios, n=4, method="inclusive")
        spread = [f"{r:.2f}" for r in (min(found.ratios), *quartiles, max(found.ratios))]
    return (
        f"{name:16} {len(found.ratios):6} {found.failures:8} {len(found.falls):5} {len(found.violations):10} "
        + " ".join(f"{s:>7}" for s in spread)
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bound_admissibility", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("kernels", nargs="*", type=Path, default=sorted(_LIBRARY.glob("*.yaml")))
    parser.add_argument("--leaves", type=int, default=20)
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    print(
        f"{'kernel':16} {'leaves':>6} {'failures':>8} {'falls':>5} {'violations':>10}  measured time / bound"
    )
    wrong: list[str] = []
    for path in options.kernels:
        found = examine(load_kernel(path, parse_sizes(options.size)), options.leaves, options.seed)
        print(_row(path.stem, found), flush=True)
        wrong += [f"{path.stem}: {text}" for text in (*found.falls, *found.violations)]
    for text in wrong:
        print(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
