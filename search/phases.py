"""What has been measured of the phases of implementations, and what that makes one take to be of others.

In: implementations with measured phases, in the order of their evaluations; a cost model; then complete
candidates. Out: nanoseconds. A phase that has been measured takes what was measured, whatever is before and
behind it. One that has not takes what the model says, times how far the model is off for those of its form,
which are elsewhere in the pipeline, or else of its kind, or of all, give or take what it scatters by
(Thompson sampling: Thompson, Biometrika 1933; Russo et al., A Tutorial on Thompson Sampling, 2018). So the
model matters less and less, and phases are chosen one by one, where whole implementations are too many.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from spacedsl.engine.candidate import Candidate
from spacedsl.search.costs.model import CostModel, Decisions, Form, Phase

FEW = 4
"""Measured phases of a kind, at least, for what they say of others, else all of them say it together; of one
form, for how far they are apart."""

WIDEST = 0.7
"""Standard deviation of logarithms, at most."""

ALIKE = 0.1
"""The same, at least, of phases of one form."""


@dataclass(slots=True)
class Known:
    """Of one search."""

    costs: CostModel
    learnt: int = 0
    """Implementations."""
    times_ns: dict[Decisions, list[float]] = field(default_factory=dict)
    _kinds: dict[str, int] = field(default_factory=dict)
    """Of names."""
    _formed: dict[int, dict[int, dict[Form, list[Phase]]]] = field(default_factory=dict)
    """By kind and by which steps are in them: phases that are measured, of each form."""
    _off: dict[Form, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Logarithms of measured over predicted times."""
    _kinds_off: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))

    def learn(self, candidate: Candidate, phases_ns: Sequence[tuple[str, float]]) -> None:
        self.learnt += 1
        if not phases_ns:
            return
        measured = dict(phases_ns)
        for phase in self.costs.phases(candidate):
            time_ns = measured.get(phase.name)
            if time_ns is None or time_ns <= 0 or phase.time_ns <= 0:
                continue
            times, form = self.times_ns.setdefault(phase.decisions, []), phase.form
            if not times:
                self._kinds[phase.name] = form.kind
                forms = self._formed.setdefault(form.kind, {}).setdefault(form.steps, {})
                forms.setdefault(form, []).append(phase)
            times.append(time_ns)
            for off in (self._off[form], self._kinds_off[form.kind]):
                off.append(math.log(time_ns / phase.time_ns))

    def time_ns(self, decisions: Decisions) -> float | None:
        times = self.times_ns.get(decisions)
        return statistics.median(times) if times else None

    def off(self, form: Form) -> tuple[float, float]:
        """Mean and standard deviation of logarithms."""
        alike = self._kinds_off.get(form.kind, [])
        if len(alike) < FEW:
            alike = [each for others in self._kinds_off.values() for each in others]
        mean, deviation = 0.0, 0.0
        if len(alike) >= FEW:
            mean, deviation = statistics.median(alike), min(WIDEST, statistics.pstdev(alike))
        own = self._off.get(form, [])
        if own:
            mean = statistics.median(own)
        if len(own) >= FEW:
            deviation = min(WIDEST, max(ALIKE, statistics.pstdev(own)))
        return mean, deviation

    def drawn(self, rng: np.random.Generator) -> Decisions | None:
        """What gives a phase the form of one of the fastest of the same steps, whichever those are: it may be
        another phase that is like it.
        """
        if not self._kinds:
            return None
        name = _one_of(sorted(self._kinds), rng)
        steps = list(self._formed[self._kinds[name]].values())
        forms = steps[int(rng.integers(len(steps)))]
        ranked = sorted(forms.values(), key=self._point_ns)
        phase = ranked[min(int(rng.geometric(0.5)), len(ranked)) - 1][0]
        return self.costs.translated(phase.decisions, phase.name, _one_of(self.costs.alike(name), rng))

    def _point_ns(self, phases: Sequence[Phase]) -> float:
        """What is measured, for each point, of phases of one form."""
        times = [(time_ns, phase.points) for phase in phases for time_ns in self.times_ns[phase.decisions]]
        return statistics.median(time_ns / points for time_ns, points in times)


@dataclass(slots=True)
class Guess:
    """What implementations take, as one walk sees it. `spread`: 0 for what is most likely."""

    known: Known
    spread: float
    rng: np.random.Generator
    _guessed: dict[Decisions, float] = field(default_factory=dict, init=False)
    _off: dict[Form, tuple[float, float]] = field(default_factory=dict, init=False)

    def __call__(self, candidate: Candidate) -> float:
        return sum(map(self.phase_ns, self.known.costs.phases(candidate)))

    def phase_ns(self, phase: Phase) -> float:
        guessed = self._guessed.get(phase.decisions)
        if guessed is None:
            guessed = self.known.time_ns(phase.decisions)
            if guessed is None:
                if phase.form not in self._off:
                    self._off[phase.form] = self.known.off(phase.form)
                mean, deviation = self._off[phase.form]
                more = self.spread * deviation * self.rng.standard_normal() if self.spread else 0.0
                guessed = phase.time_ns * math.exp(mean + more)
            self._guessed[phase.decisions] = guessed
        return guessed


def _one_of(names: Sequence[str], rng: np.random.Generator) -> str:
    return names[int(rng.integers(len(names)))]
