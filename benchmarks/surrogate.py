"""What a search learns of times, on searches that were recorded: how it orders what was measured next.

    python -m benchmarks.surrogate RUN ..

A RUN is the folder of an exploration without a cost model, or one that holds such folders. Behind the first
60 evaluations, the next 60 are ordered at each tenth, by the sum of what resources need and by what the
search has learnt until then. Shown are how many of these were faster than all before by 1 %, which share of
them stands in the first quarter and in the first tenth of either order, and the mean rank correlation with
what was measured (Spearman's). Nothing is built or measured.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
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

Measured = tuple[list[list[float]], list[float]]
"""Needs of resources and times, in the order of the evaluations."""

Array = NDArray[np.float64]


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
        ("run", "evaluations", "faster", "ordered by", "first quarter", "first tenth", "rank correlation"),
        words=("run", "ordered by"),
    )
    for folder in folders:
        needs_ns, times_ns = measured(folder)
        table.add_section()
        for way, (places, correlations) in ordered(needs_ns, times_ns).items():
            row = (
                f"{np.mean(np.array(places) < share):.0%}" if places else "" for share in (_QUARTER, _TENTH)
            )
            mean = f"{np.mean(correlations):.2f}" if correlations else ""
            table.add_row(folder.name, str(len(times_ns)), str(len(places)), way, *row, mean)
    console().print(table)
    return 0


def measured(folder: Path) -> Measured:
    """What a run has measured, failures left out."""
    with Store.open(folder, read_only=True) as store:
        about = store.about()
        problem = pose_again(about, folder, lambda event: None)
        bound = TARGETS[about.target].bound(problem.instance, problem.device)
        state = State(Tree(problem.instance, problem.root, bound(problem.root), 1), 1)
        restore(state, store)
    found = [replay(problem.instance, problem.root, timed.steps) for timed in state.timed]
    return [bound.terms_ns(candidate) for candidate in found], [timed.time_ns for timed in state.timed]


def ordered(
    needs_ns: Sequence[Sequence[float]], times_ns: Sequence[float]
) -> dict[str, tuple[list[float], list[float]]]:
    """By either way, the places of what was faster, as shares of what stands before it, and correlations."""
    found: dict[str, tuple[list[float], list[float]]] = {"sum": ([], []), "learnt": ([], [])}
    surrogate = Surrogate()
    for now, end in _windows(len(times_ns)):
        for place in range(surrogate.learnt, now):
            surrogate.learn(needs_ns[place], times_ns[place])
        following = needs_ns[now:end]
        sums: Array = np.array([sum(needs) for needs in following])
        for way, guessed in (("sum", sums), ("learnt", surrogate.expected(following)[0])):
            places, correlations = found[way]
            places += [
                float(np.mean(guessed < guessed[place - now]))
                for place in range(now, now + _EACH)
                if times_ns[place] < (1 - GAIN) * min(times_ns[:place])
            ]
            correlation = float(spearmanr(guessed, times_ns[now:end]).statistic)
            correlations += [] if math.isnan(correlation) else [correlation]
    return found


def _windows(evaluations: int) -> Iterator[tuple[int, int]]:
    for now in range(_FIRST, evaluations - _EACH, _EACH):
        yield now, min(now + _NEXT, evaluations)


if __name__ == "__main__":
    run(main)
