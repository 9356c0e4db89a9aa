"""Walks downhill by what a cost model says: from an implementation to cheaper ones near it.

In: where a walk begins, what implementations cost, how many steps it has, a generator. Out: where it ends.
Most steps change one decision, and little else; where partitions are given, others draw all choices between
groups anew. Which choice or partition it is, is drawn by what changes of it have gained so
far, as operators are in adaptive large neighbourhood search (Ropke and Pisinger, Transportation Science
2006): there may be choices that hardly matter to a kernel. Nothing is measured here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from spacedsl.engine.candidate import Candidate
from spacedsl.search.costs.model import Decisions
from spacedsl.search.neighbours import Neighbourhood
from spacedsl.search.partitions import Partition
from spacedsl.search.rollouts import Cut

GAINED, TRIED = 2, 8
"""What changes of a choice are taken to have done before there are any."""


@dataclass(slots=True)
class Promise:
    """Of each choice or partition: how often a change of it was tried, and how often it gained something."""

    tried: Counter[str] = field(default_factory=Counter)
    gained: Counter[str] = field(default_factory=Counter)

    def drawn(self, names: Sequence[str], rng: np.random.Generator) -> str:
        shares = np.array([(self.gained[name] + GAINED) / (self.tried[name] + TRIED) for name in names])
        return names[int(rng.choice(len(names), p=shares / shares.sum()))]

    def learn(self, name: str, *, is_gain: bool) -> None:
        self.tried[name] += 1
        self.gained[name] += is_gain


Change = Callable[[Candidate, str | None, Cut, np.random.Generator], Candidate | None]


def _nothing() -> None:
    return None


def never() -> bool:
    return False


def walked(
    near: Neighbourhood,
    start: Candidate,
    costs: Callable[[Candidate], float],
    steps: int,
    cut: Cut,
    rng: np.random.Generator,
    taken: Callable[[], Decisions | None] = _nothing,
    is_over: Callable[[], bool] = never,
    partitions: Sequence[Partition] = (),
    change: Change | None = None,
) -> Candidate:
    """`taken`: what a step takes over, instead of a change of one decision; None for nothing. `is_over`:
    whether no more steps are to be taken. `partitions`: between whose groups a step may draw all anew.
    `change`: how one decision of a choice becomes another (`near.beside`).
    """
    change = change or near.beside
    best, cost_ns, promise = start, costs(start), Promise()
    groups = {partition.name: partition for partition in partitions}
    names = (*near.open, *groups)
    for _ in range(steps):
        if is_over():
            break
        decisions, changed = taken(), ""
        if decisions is not None:
            other = near.with_decisions(best, decisions, cut, rng)
        elif near.open:
            changed = promise.drawn(names, rng)
            if changed in groups:
                other = near.relaxed(best, groups[changed], cut, rng)
            else:
                other = change(best, changed, cut, rng)
        else:
            continue
        other_ns = cost_ns if other is None else costs(other)
        if changed:
            promise.learn(changed, is_gain=other_ns < cost_ns)
        if other is not None and other_ns < cost_ns:
            best, cost_ns = other, other_ns
    return best
