"""When a search has improved on the same implementations for long enough, and begins again elsewhere.

In: what each evaluation found, in order. Out: since which iteration implementations belong together, and how
many of them are valid. It is part of the fold over what happened: nothing is drawn here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from spacedsl.kernels.evaluation import Timing

PATIENCE = 200
"""Evaluations without a better one, after which a climb is given up."""

GAIN = 0.01
"""By which share a time has to be less to count as better: what is less than that may be the clock."""

DOUBT = 50
"""Evaluations without a better one, after which the fastest are measured again: beside a time that was luck,
nothing counts as better.
"""


@dataclass(frozen=True, slots=True)
class Climb:
    """A walk from implementation to implementation, each near one of the fastest before it."""

    first: int = 1
    """The iteration that it begins with."""
    valid: int = 0
    best_ns: float = math.inf
    """The best time that counted as better."""
    idle: int = 0
    """Evaluations since then."""

    def after(self, iteration: int, timing: Timing | None, iterations: int) -> Climb:
        """The climb after an iteration's evaluation, which failed where there is no timing.

        Iterations before the climb count nowhere. `iterations`: those so far; the next begins a new climb.
        """
        if iteration < self.first:
            return self
        valid = self.valid + (timing is not None)
        if timing is not None and timing.time_ns < (1 - GAIN) * self.best_ns:
            return Climb(self.first, valid, timing.time_ns)
        if self.idle + 1 == PATIENCE:
            return Climb(iterations + 1)
        return Climb(self.first, valid, self.best_ns, self.idle + 1)

    def remeasured(self, best_ns: float) -> Climb:
        """The climb once its fastest implementations were measured again, side by side."""
        return replace(self, best_ns=best_ns)
