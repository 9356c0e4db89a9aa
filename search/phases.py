"""What has been measured of the phases of implementations, and what that makes one take to be of others.

In: implementations with measured phases, in the order of their evaluations; a cost model; then complete
candidates. Out: nanoseconds. A phase that has been measured takes what was measured, whatever is before and
behind it. One that has not takes what the model says, times how far the model is off for others of its name,
give or take what it scatters by (Thompson sampling: Thompson, Biometrika 1933; Russo et al., A Tutorial on
Thompson Sampling, 2018). So the model matters less and less, and phases are chosen one by one, where whole
implementations are too many.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from spacedsl.engine.candidate import Candidate
from spacedsl.search.costs.model import CostModel, Decisions, Phase

FEW = 4
"""Measured phases of a name, at least, for what they say of others; else all of them say it together."""

WIDEST = 0.7
"""Standard deviation of logarithms, at most."""


@dataclass(slots=True)
class Known:
    """Of one search."""

    costs: CostModel
    learnt: int = 0
    """Implementations."""
    times_ns: dict[Decisions, list[float]] = field(default_factory=dict)
    _names: dict[str, dict[frozenset[int], list[Decisions]]] = field(default_factory=dict)
    """By name and by which variables are in them: phases that are nests of the same steps are alike there."""
    _off: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Logarithms of measured over predicted times, by name."""

    def learn(self, candidate: Candidate, phases_ns: Sequence[tuple[str, float]]) -> None:
        self.learnt += 1
        if not phases_ns:
            return
        measured = dict(phases_ns)
        for phase in self.costs.phases(candidate):
            time_ns = measured.get(phase.name)
            if time_ns is None or time_ns <= 0 or phase.time_ns <= 0:
                continue
            times = self.times_ns.setdefault(phase.decisions, [])
            if not times:
                kinds = self._names.setdefault(phase.name, {})
                kinds.setdefault(_variables(phase.decisions), []).append(phase.decisions)
            times.append(time_ns)
            self._off[phase.name].append(math.log(time_ns / phase.time_ns))

    def time_ns(self, decisions: Decisions) -> float | None:
        times = self.times_ns.get(decisions)
        return statistics.median(times) if times else None

    def off(self, name: str) -> tuple[float, float]:
        """Mean and standard deviation of logarithms."""
        own = self._off.get(name, ())
        if len(own) < FEW:
            own = [each for others in self._off.values() for each in others]
        if len(own) < FEW:
            return 0.0, 0.0
        return statistics.median(own), min(WIDEST, statistics.pstdev(own))

    def drawn(self, rng: np.random.Generator) -> Decisions | None:
        """One of the fastest phases of the same steps, whichever those are."""
        if not self._names:
            return None
        kinds = self._names[_one_of(sorted(self._names), rng)]
        alike = list(kinds.values())[int(rng.integers(len(kinds)))]
        ranked = sorted(alike, key=lambda decisions: statistics.median(self.times_ns[decisions]))
        return ranked[min(int(rng.geometric(0.5)), len(ranked)) - 1]


@dataclass(slots=True)
class Guess:
    """What implementations take, as one walk sees it. `spread`: 0 for what is most likely."""

    known: Known
    spread: float
    rng: np.random.Generator
    _guessed: dict[Decisions, float] = field(default_factory=dict, init=False)
    _off: dict[str, tuple[float, float]] = field(default_factory=dict, init=False)

    def __call__(self, candidate: Candidate) -> float:
        return sum(map(self.phase_ns, self.known.costs.phases(candidate)))

    def phase_ns(self, phase: Phase) -> float:
        guessed = self._guessed.get(phase.decisions)
        if guessed is None:
            guessed = self.known.time_ns(phase.decisions)
            if guessed is None:
                if phase.name not in self._off:
                    self._off[phase.name] = self.known.off(phase.name)
                mean, deviation = self._off[phase.name]
                more = self.spread * deviation * self.rng.standard_normal() if self.spread else 0.0
                guessed = phase.time_ns * math.exp(mean + more)
            self._guessed[phase.decisions] = guessed
        return guessed


def _variables(decisions: Decisions) -> frozenset[int]:
    return frozenset(variable for variable, _ in decisions)


def _one_of(names: Sequence[str], rng: np.random.Generator) -> str:
    return names[int(rng.integers(len(names)))]
