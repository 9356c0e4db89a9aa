"""What a search learns of times, on searches that were recorded: how it orders what was measured next.

    python -m benchmarks.surrogate RUN ..

A RUN is the folder of an exploration whose implementations have neighbours (linear algebra on a CPU), or one
that holds such folders. Behind the first 60 evaluations, the next 60 are ordered at each tenth: by all that
resources need as the bound has it, as a cost model has it, and by what the search has learnt until then. How
many of these were faster than all before by 1 % is shown, which share of them stands in the first quarter and
in the first tenth of each order, and the mean rank correlation with what was measured (Spearman's); also that
of the first 40 evaluations. Nothing is built or measured.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from benchmarks.arguments import existing_folder, run
from benchmarks.tables import console, headed
from spacedsl.api.exploration import pose_again
from spacedsl.api.targets import TARGETS
from spacedsl.search.climbs import GAIN
from spacedsl.search.restoring import restore
from spacedsl.search.state import State
from spacedsl.search.store import DATABASE, Store
from spacedsl.search.surrogate import Surrogate
from spacedsl.search.tree import Tree, replay

_FIRST, _NEXT, _EACH = 60, 60, 10
_QUARTER, _TENTH = 0.25, 0.1
_BEGINNING = 40

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Measured:
    """In the order of the evaluations."""

    needs_ns: Sequence[Sequence[float]]
    """Of each resource."""
    bound_ns: Sequence[float]
    """What the bound says that all resources need, one after the other."""
    times_ns: Sequence[float]

    @property
    def together_ns(self) -> Mapping[str, Sequence[float]]:
        return {"bound": self.bound_ns, "needs": [sum(each) for each in self.needs_ns]}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.surrogate", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("runs", nargs="+", type=existing_folder, metavar="RUN")
    options = parser.parse_args(arguments)
    found = {each: [database.parent for database in each.rglob(DATABASE)] for each in options.runs}
    for each, runs in found.items():
        if not runs:
            parser.error(f"{each} holds no run: there is no {DATABASE} in it, or below")
    folders = sorted({folder for runs in found.values() for folder in runs})
    table = headed(
        "What was faster than all before, and where it stands among the next evaluations",
        (
            "run",
            "evaluations",
            "faster",
            "ordered by",
            "first quarter",
            "first tenth",
            "rank correlation",
            f"of the first {_BEGINNING}",
        ),
        words=("run", "ordered by"),
    )
    for folder in folders:
        run_of = measured(folder)
        table.add_section()
        for way, (places, correlations) in ordered(run_of).items():
            row = (
                f"{np.mean(np.array(places) < share):.0%}" if places else "" for share in (_QUARTER, _TENTH)
            )
            mean = f"{np.mean(correlations):.2f}" if correlations else ""
            first = _correlation(run_of.together_ns.get(way, ())[:_BEGINNING], run_of.times_ns[:_BEGINNING])
            beginning = "" if first is None else f"{first:.2f}"
            table.add_row(
                folder.name, str(len(run_of.times_ns)), str(len(places)), way, *row, mean, beginning
            )
    console().print(table)
    return 0


def measured(folder: Path) -> Measured:
    """What a run has measured, failures left out."""
    with Store.open(folder, read_only=True) as store:
        about = store.about()
        problem = pose_again(about, folder, lambda event: None)
        target = TARGETS[about.target]
        bound = target.bound(problem.instance, problem.device)
        needs_ns = target.needs(problem.kernel, problem.instance, problem.device) or bound.terms_ns
        state = State(Tree(problem.instance, problem.root, bound(problem.root), 1), 1)
        restore(state, store)
    found = [replay(problem.instance, problem.root, timed.steps) for timed in state.timed]
    return Measured(
        [[*needs_ns(candidate)] for candidate in found],
        [sum(bound.terms_ns(candidate)) for candidate in found],
        [timed.time_ns for timed in state.timed],
    )


def _correlation(said_ns: Sequence[float] | Array, times_ns: Sequence[float]) -> float | None:
    """Of ranks; None where all are the same, or there is nothing."""
    if len(said_ns) < 2 or np.ptp(said_ns) == 0 or np.ptp(times_ns) == 0:
        return None
    return float(spearmanr(said_ns, times_ns).statistic)


def ordered(run_of: Measured) -> dict[str, tuple[list[float], list[float]]]:
    """By each way, the places of what was faster, as shares of what stands before it, and correlations."""
    times_ns = run_of.times_ns
    found: dict[str, tuple[list[float], list[float]]] = {
        way: ([], []) for way in (*run_of.together_ns, "learnt")
    }
    surrogate = Surrogate()
    for now, end in _windows(len(times_ns)):
        for place in range(surrogate.learnt, now):
            surrogate.learn(run_of.needs_ns[place], times_ns[place])
        guesses = {way: np.array(said_ns[now:end]) for way, said_ns in run_of.together_ns.items()}
        guesses["learnt"] = surrogate.expected(run_of.needs_ns[now:end])[0]
        for way, guessed in guesses.items():
            places, correlations = found[way]
            places += [
                float(np.mean(guessed < guessed[place - now]))
                for place in range(now, now + _EACH)
                if times_ns[place] < (1 - GAIN) * min(times_ns[:place])
            ]
            correlation = _correlation(guessed, times_ns[now:end])
            correlations += [] if correlation is None else [correlation]
    return found


def _windows(evaluations: int) -> Iterator[tuple[int, int]]:
    for now in range(_FIRST, evaluations - _EACH, _EACH):
        yield now, min(now + _NEXT, evaluations)


if __name__ == "__main__":
    run(main)
