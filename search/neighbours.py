"""Implementations near one that is known: large neighbourhood search, with propagation as the repair.

In: implementations that were measured, fastest first, the cut, a generator. Out: an implementation that
differs from one of them in a decision and in what goes along with it, or none. One decision changes; all
others stay as they were where the constraints allow it, and a rollout decides the rest. So it is propagation
that says what goes along (Perron, Shaw and Furnon, CP 2004). Nothing is measured here, and the tree is not
touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance, Variable
from spacedsl.search.descent import Bounded, Cut, Descent, Implementation
from spacedsl.search.tree import Step, replay

T = TypeVar("T")

UNLIKE = 3
"""Decisions in which implementations differ that are each worth neighbours of their own."""


def unlike(implementations: Iterable[Sequence[Step]]) -> Iterator[Sequence[Step]]:
    """Those that differ from each one before them: of implementations that are alike, the first.

    So niches are cleared in evolutionary search (Pétrowski, ICEC 1996): else, of a good implementation and
    what hardly differs from it, all are among the fastest, and little else is.
    """
    kept: list[frozenset[Step]] = []
    for steps in implementations:
        decided = frozenset(steps)
        if all(len(decided ^ other) >= 2 * UNLIKE for other in kept):
            kept.append(decided)
            yield steps


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """`root`: the candidate that all implementations of the search lie below."""

    descent: Descent
    root: Candidate
    rank: float = 0.5
    """Each known implementation is passed over for the next slower one with probability 1 - `rank`."""

    def draw(self, known: Sequence[Sequence[Step]], cut: Cut, rng: np.random.Generator) -> Candidate | None:
        """A neighbour of one of the known implementations, each given by the steps that lead to it."""
        place = min(int(rng.geometric(self.rank)), len(known)) - 1
        start = self._changed(known[place], rng)
        if start is None:
            return None
        bounded = Bounded(start, self.descent.bound(start))
        if cut.excludes(bounded.bound_ns):
            return None
        end = self.descent.rollout(self.descent.expand(bounded), cut, rng)
        return end.end.candidate if isinstance(end, Implementation) else None

    def _changed(self, steps: Sequence[Step], rng: np.random.Generator) -> Candidate | None:
        """A candidate without the implementation, and as much like it as the constraints then allow.

        Every choice of the space is as likely to be the one that changes: some have many more instances
        than others. The others follow choice by choice: what is kept first decides what gives way.
        """
        instance = self.descent.instance
        by_choice: dict[str, list[Variable]] = {}
        for index in dict.fromkeys(step.variable for step in steps):
            by_choice.setdefault(instance.variables[index].choice, []).append(instance.variables[index])
        if not by_choice:
            return None
        choices = list(by_choice)
        changed = _drawn(by_choice[_drawn(choices, rng)], rng)
        known = replay(instance, self.root, steps)
        before = self._where_present(changed, steps)
        others = before.mask(changed) & ~known.mask(changed)
        values = [1 << bit for bit in range(others.bit_length()) if others >> bit & 1]
        candidate = instance.restrict(before, changed, _drawn(values, rng)) if values else None
        if candidate is None:
            return None
        kept = [
            v for place in rng.permutation(len(choices)) for v in _shuffled(by_choice[choices[place]], rng)
        ]
        return _like(instance, candidate, known, kept)

    def _where_present(self, variable: Variable, steps: Sequence[Step]) -> Candidate:
        """The root, or the candidate on the way to an implementation that decides the variable next."""
        if self.root.is_open(variable):
            return self.root
        place = next(place for place, step in enumerate(steps) if step.variable == variable.index)
        return replay(self.descent.instance, self.root, steps[:place])


def _like(
    instance: Instance, candidate: Candidate, known: Candidate, variables: Iterable[Variable]
) -> Candidate:
    """As `known` in these variables, one after the other, but for what the constraints then refuse.

    Decisions on objects that are not yet present wait for those that make them so.
    """
    waiting = list(variables)
    while True:
        before = candidate
        for variable in waiting:
            wanted = candidate.mask(variable) & known.mask(variable)
            if wanted and candidate.is_open(variable):
                candidate = instance.restrict(candidate, variable, wanted) or candidate
        waiting = [v for v in waiting if not candidate.is_present(v)]
        if candidate is before or not waiting:
            return candidate


def _drawn(items: Sequence[T], rng: np.random.Generator) -> T:
    return items[int(rng.integers(len(items)))]


def _shuffled(items: Sequence[T], rng: np.random.Generator) -> list[T]:
    return [items[place] for place in rng.permutation(len(items))]
