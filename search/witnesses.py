"""How slow the machine is at a moment, by programs that are looked at again and again.

In: an evaluator, and before each measurement the fastest implementations. Out: the slowdown, which times are
divided by before they are compared with those of other moments: others that share caches and memory make all
take twice as long, from one second to the next. Nothing is compared here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from spacedsl.kernels.evaluation import Evaluator, Lowered
from spacedsl.search.state import Contender

COUNT = 2
"""Of witnesses. What only one of them says is no slowdown: it may be slow by itself."""

LEAST = 10
"""Implementations that are known before any is a witness: each of the first ones is soon outdone."""

STEADY = 0.05
"""The share by which all of them have to take longer, or less long, for the machine to have changed: less may
be the clock."""

OUTDONE = 1.3
"""Where the fastest is faster by this factor, it becomes a witness: what is slow may be so for other reasons
than what is fast. Each change of witnesses adds the error of a glance, so there are few.
"""

SHARE = 0.05
"""Of the time of a search, at most, that goes into glances: some programs take seconds."""


@dataclass(slots=True, eq=False)
class Witnesses:
    """Of one part of a run."""

    evaluator: Evaluator
    clock: Callable[[], float]
    """Seconds."""
    _programs: Sequence[Lowered] = field(default=(), init=False)
    _usual_ns: Sequence[float] = field(default=(), init=False)
    """What glances at them have said when they were chosen."""
    _slowdown: float = field(default=1.0, init=False)
    """At that moment."""
    _fastest_ns: float = field(default=math.inf, init=False)
    """Of them, without slowdown."""
    _last: float = field(default=1.0, init=False)
    """What they have said last."""
    _silent_until_s: float = field(default=-math.inf, init=False)

    def slowdown(self, contenders: Sequence[Contender], made: Callable[[Contender], Lowered]) -> float:
        """How many times as long as in the beginning the machine takes now.

        `contenders`: fastest first. `made`: gives their programs.
        """
        fastest = contenders[:COUNT]
        if len(contenders) < LEAST or self.clock() < self._silent_until_s:
            return self._last
        began_s = self.clock()
        now_ns = self.evaluator.glance(self._programs)
        ended_s = self.clock()
        if now_ns is None:
            ended_s = math.inf
        elif now_ns:
            self._last = self._slowdown * ratio(self._usual_ns, now_ns)
            if fastest[0].comparable_ns * OUTDONE < self._fastest_ns:
                self._choose(fastest, made)
        elif self._choose(fastest, made):
            self._last = self._slowdown
        else:
            ended_s = self.clock()
        self._silent_until_s = ended_s + (ended_s - began_s) / SHARE
        return self._last

    def behind(self, before: float) -> float:
        """The same once something has been measured: no more than `before` it.

        What changed meanwhile speaks for no program: of what would be the best, neither moment may say more.
        """
        now_ns = self.evaluator.glance(self._programs) if self._programs else ()
        if now_ns:
            self._last = self._slowdown * ratio(self._usual_ns, now_ns)
        return min(before, self._last)

    def _choose(self, fastest: Sequence[Contender], made: Callable[[Contender], Lowered]) -> bool:
        """Whether there are witnesses. What those before them say of the same moment is the slowdown then; of
        the first ones, what they take beside what they took.
        """
        programs = [made(contender) for contender in fastest]
        found_ns = self.evaluator.glance([*self._programs, *programs])
        if not found_ns:
            self._programs = ()
            return False
        before = len(self._programs)
        usual_ns, known_ns = found_ns[before:], [contender.comparable_ns for contender in fastest]
        if before:
            self._slowdown *= ratio(self._usual_ns, found_ns[:before])
        else:
            self._slowdown = ratio(known_ns, usual_ns)
        self._programs, self._usual_ns, self._fastest_ns = programs, usual_ns, known_ns[0]
        return True


def ratio(before_ns: Sequence[float], now_ns: Sequence[float]) -> float:
    """How many times as long as before all of some programs take, at least; or, where all of them take less
    long, at most. 1 where they do not agree.
    """
    ratios = [now / before for before, now in zip(before_ns, now_ns, strict=True)]
    if min(ratios) > 1 + STEADY:
        return min(ratios)
    return max(ratios) if max(ratios) < 1 - STEADY else 1.0
