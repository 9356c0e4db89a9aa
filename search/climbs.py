"""When a search has improved on the same implementations for long enough, and begins again elsewhere.

In: what each evaluation found, in order. Out: since which iteration implementations belong together, and how
many of them are valid. It is part of the fold over what happened: nothing is drawn here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

PATIENCE = 200
"""Evaluations without a better one, after which a climb is given up."""

GAIN = 0.01
"""By which share a time has to be less to count as better: what is less than that may be the clock."""

DOUBT = 50
"""Evaluations without a better one, after which a climb gets on no more: the fastest are measured again,
since beside a time that was luck nothing counts as better, and some iterations look elsewhere.
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
    champion: str | None = None
    """The code that was the fastest when the fastest were measured side by side."""
    stale: int = 0
    """Evaluations since it seemed to be."""

    @property
    def gets_on(self) -> bool:
        """Whether something was better not long ago."""
        return self.idle < DOUBT

    def after(self, iteration: int, time_ns: float | None, iterations: int) -> Climb:
        """The climb after an iteration's evaluation, which failed where there is no time.

        Iterations before the climb count nowhere. `iterations`: those so far; the next begins a new climb.
        """
        if iteration < self.first:
            return self
        valid = self.valid + (time_ns is not None)
        now = replace(self, valid=valid, stale=self.stale + 1)
        if time_ns is not None and time_ns < (1 - GAIN) * self.best_ns:
            return replace(now, best_ns=time_ns, idle=0)
        if self.idle + 1 == PATIENCE:
            return Climb(iterations + 1)
        return replace(now, idle=self.idle + 1)

    def remeasured(self, times_ns: Mapping[str, float], iterations: int) -> Climb:
        """The climb once some of its implementations, the champion among them, were measured side by side.

        `times_ns`: by code; `iterations`: as in `after`. Where the machine is at times faster, there is
        always something that seems better: it is, if it beats the champion at the same moment.
        """
        if not times_ns:
            return replace(self, best_ns=math.inf)
        fastest = min(times_ns, key=lambda digest: times_ns[digest])
        best_ns = times_ns[fastest]
        before_ns = math.inf if self.champion is None else times_ns.get(self.champion, math.inf)
        if best_ns < (1 - GAIN) * before_ns:
            return replace(self, best_ns=best_ns, champion=fastest, stale=min(self.idle, self.stale))
        return Climb(iterations + 1) if self.stale >= PATIENCE else replace(self, best_ns=best_ns)
