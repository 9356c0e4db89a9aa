"""Whether the bound is true and how tight it is: random implementations, measured, against their ancestors.

    python -m benchmarks.bound_admissibility [KERNEL.yaml ..] [--leaves 20] [--size m=256 ..] [--seed 0]
                                             [--folder FOLDER]

Each implementation comes from a random descent; half of the descents lean towards children with low bounds,
where a wrong bound would show. On the way, the bound must never fall; at its end, no bound on the way may
lie above the measured time. Prints a table: the spread of measured time over bound, the same ratio and the
largest term for the fastest implementation, and what was wrong. Exit status 1 if anything was.

With `--folder`, descents and times go to a file for each kernel, and those of earlier runs count: they are
compared with the bound as it is now and are not measured again. `--leaves` says how many there are to be in
all. Those of another text of the kernel, or of a space with other decisions, are passed over.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from benchmarks import LIBRARY
from benchmarks.arguments import existing_file, positive, run
from spacedsl.api.problem import pose
from spacedsl.api.targets import TARGETS
from spacedsl.cli.options import parse_sizes
from spacedsl.codegen.evaluator import CpuEvaluator
from spacedsl.codegen.machine.characterize import local_device
from spacedsl.codegen.running.measurement import Options
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.kernels.backbones import MeasurableKernel, load_measurable
from spacedsl.kernels.evaluation import Outcome, Timing
from spacedsl.search.bounds.protocol import Bound
from spacedsl.search.orderings import Ordering, select_ordering
from spacedsl.search.state import is_violation

_TRIED_CHILDREN = 3
"""Of which a leaning descent takes the one with the lowest bound."""

Decisions = list[tuple[int, int]]
"""From the root: pairs (index of a variable, mask of its values)."""


@dataclass(slots=True)
class Findings:
    """What was met for one kernel."""

    ratios: list[float] = field(default_factory=list)
    """Measured time over the greatest bound on the path."""
    best_ns: float | None = None
    best: str = ""
    """Of the fastest implementation: its ratio and the largest term."""
    failures: Counter[str] = field(default_factory=Counter)
    """By cause."""
    falls: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def add(self, bound: Bound, leaf: Candidate, bounds_ns: Sequence[float], timing: Timing) -> None:
        """`bounds_ns`: from the root to the leaf, not clamped."""
        falls = [(a, b) for a, b in itertools.pairwise(bounds_ns) if b < a]
        self.falls += [f"from {a:.0f} to {b:.0f} ns" for a, b in falls]
        greatest_ns = max(bounds_ns)
        if is_violation(timing, greatest_ns):
            self.violations.append(f"{timing.time_ns:.0f} ns under {greatest_ns:.0f} ns")
        self.ratios.append(timing.time_ns / greatest_ns)
        if self.best_ns is None or timing.time_ns < self.best_ns:
            self.best_ns = timing.time_ns
            self.best = f"{timing.time_ns / bounds_ns[-1]:6.2f}  {bound.explain(leaf)[0].resource}"


@dataclass(frozen=True, slots=True)
class Recorded:
    """Implementations of one kernel that were measured: a line of JSON for each; None: nothing is kept."""

    path: Path | None
    key: str
    """Of the kernel and of the decision variables that the decisions belong to."""

    def read(self) -> Iterator[tuple[Decisions, Timing]]:
        if self.path is None or not self.path.exists():
            return
        for line in self.path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if entry["key"] == self.key:
                yield (
                    [(variable, int(mask)) for variable, mask in entry["decisions"]],
                    Timing(**entry["timing"]),
                )

    def write(self, decisions: Decisions, timing: Timing) -> None:
        if self.path is not None:
            # Masks may be longer than what readers of JSON take for an integer.
            shown = [(variable, str(mask)) for variable, mask in decisions]
            entry = {"key": self.key, "decisions": shown, "timing": asdict(timing)}
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")


def descend(
    instance: Instance, ordering: Ordering, bound: Bound, random: np.random.Generator, *, leans: bool
) -> tuple[Candidate, Decisions] | None:
    """A random implementation; None at a dead end."""
    candidate, decisions = instance.root(), list[tuple[int, int]]()
    while candidate is not None:
        branching = ordering.next(candidate)
        if branching is None:
            return candidate, decisions
        masks = random.permutation(np.array(branching.masks, dtype=object))
        children: list[tuple[Candidate, int]] = []
        for mask in map(int, masks):
            child = instance.restrict(candidate, branching.variable, mask)
            if child is not None:
                children.append((child, mask))
            if len(children) == (_TRIED_CHILDREN if leans else 1):
                break
        if not children:
            return None
        candidate, mask = min(children, key=lambda pair: bound(pair[0]))
        decisions.append((branching.variable.index, mask))
    return None


def path_of(instance: Instance, decisions: Decisions) -> list[Candidate]:
    """From the root to what the decisions lead to."""
    found = [instance.root()]
    for variable, mask in decisions:
        found.append(
            instance.restrict(found[-1], instance.variables[variable], mask)
            if found[-1] is not None
            else None
        )
    return [candidate for candidate in found if candidate is not None]


def examine(kernel: MeasurableKernel, options: argparse.Namespace) -> Findings:
    device = local_device(progress=lambda activity: print(activity, file=sys.stderr))
    problem = pose(kernel, kernel.space, device, lambda event: None)
    instance = problem.instance
    bound = TARGETS["cpu"].bound(instance, device)
    ordering = select_ordering(instance, problem.space)
    random = np.random.default_rng(options.seed)
    found = Findings()
    variables = [(v.choice, v.names, v.universe) for v in instance.variables]
    key = hashlib.sha256(f"{kernel.text} {sorted(kernel.sizes.items())} {variables}".encode())
    folder: Path | None = options.folder
    recorded = Recorded(folder and folder / f"{kernel.path.stem}.jsonl", key.hexdigest())

    def compare(decisions: Decisions, timing: Timing) -> None:
        path = path_of(instance, decisions)
        if len(path) == len(decisions) + 1 and ordering.next(path[-1]) is None:
            found.add(bound, path[-1], bound.of_all(path), timing)

    for known in recorded.read():
        compare(*known)
    with CpuEvaluator(kernel, device, Options(budget_s=0.3)) as evaluator:
        for number in range(20 * options.leaves):
            if len(found.ratios) + found.failures.total() >= options.leaves:
                break
            end = descend(instance, ordering, bound, random, leans=number % 2 == 0)
            if end is None:
                continue
            lowered = evaluator.lower(end[0])
            outcome = lowered if isinstance(lowered, Outcome) else evaluator.run(lowered, found.best_ns)
            if outcome.timing is None:
                found.failures[str(outcome.failure)] += 1
                continue
            recorded.write(end[1], outcome.timing)
            compare(end[1], outcome.timing)
    return found


def _row(name: str, found: Findings) -> str:
    spread = [""] * 5
    if len(found.ratios) > 1:
        quartiles = statistics.quantiles(found.ratios, n=4, method="inclusive")
        spread = [f"{r:.2f}" for r in (min(found.ratios), *quartiles, max(found.ratios))]
    return (
        f"{name:21} {len(found.ratios):6} {found.failures.total():8} {len(found.falls):5} "
        f"{len(found.violations):10} " + " ".join(f"{s:>7}" for s in spread) + f"  {found.best}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bound_admissibility", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("kernels", nargs="*", type=existing_file, default=sorted(LIBRARY.glob("*.yaml")))
    parser.add_argument("--leaves", type=positive, default=20)
    parser.add_argument("--size", action="append", default=[], metavar="NAME=N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args(arguments)
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    print(
        f"{'kernel':21} {'leaves':>6} {'failures':>8} {'falls':>5} {'violations':>10}  "
        "measured time / bound: least, quartiles, most; of the fastest"
    )
    wrong: list[str] = []
    failures: Counter[str] = Counter()
    for path in options.kernels:
        found = examine(load_measurable(path, parse_sizes(options.size)), options)
        print(_row(path.stem, found), flush=True)
        wrong += [f"{path.stem}: {text}" for text in (*found.falls, *found.violations)]
        failures += found.failures
    for cause, count in failures.most_common():
        print(f"{count} failed: {cause}")
    for text in wrong:
        print(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    run(main)
