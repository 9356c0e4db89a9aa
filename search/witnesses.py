"""How slow the machine is at a moment, by programs that are looked at again and again.

In: an evaluator, and before each measurement the fastest implementations. Out: the slowdown, which times are
divided by before they are compared with those of other moments: others that share caches and memory make all
take twice as long, from one second to the next. Nothing is compared here.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from spacedsl.kernels.evaluation import Evaluator, Lowered, Outcome
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
than what is fast. Each change of witnesses adds an error, so there are few.
"""

LOOKS = 9
"""At those to come, beside the witnesses that there are, before they take their place: the middle one of that
many says what they take. One look may be luck, and what it is off by would stay for good.
"""

SHARE = 0.05
"""Of the time of a search, at most, that goes into glances: some programs take seconds."""


@dataclass(frozen=True, slots=True)
class _Heirs:
    """What is to take the place of the witnesses."""

    programs: Sequence[Lowered]
    known_ns: float
    """What the fastest of them took when it was measured, without slowdown."""
    heard_ns: list[Sequence[float]] = field(default_factory=list)
    """What glances have said, without the slowdown of the moment: a row for each."""

    def usual_ns(self) -> list[float]:
        return [statistics.median(column) for column in zip(*self.heard_ns, strict=True)]


@dataclass(slots=True, eq=False)
class Witnesses:
    """Of one part of a run."""

    evaluator: Evaluator
    clock: Callable[[], float]
    """Seconds."""
    _programs: Sequence[Lowered] = field(default=(), init=False)
    _usual_ns: Sequence[float] = field(default=(), init=False)
    """What glances at them say where there is no slowdown."""
    _known_ns: float = field(default=math.inf, init=False)
    """What the fastest of them took when it was measured, without slowdown."""
    _heirs: _Heirs | None = field(default=None, init=False)
    _passed_over: set[str] = field(default_factory=set, init=False)
    """Digests of those that were looked at and are not as fast as they had been measured."""
    _last: float = field(default=1.0, init=False)
    """The slowdown that was found last."""
    _silent_until_s: float = field(default=-math.inf, init=False)

    def slowdown(self, contenders: Sequence[Contender], made: Callable[[Contender], Lowered]) -> float:
        """How many times as long as in the beginning the machine takes now.

        `contenders`: fastest first. `made`: gives their programs.
        """
        if len(contenders) < LEAST or self.clock() < self._silent_until_s:
            return self._last
        began_s = self.clock()
        now_ns = self._glance()
        if now_ns is None:
            self._silent_until_s = math.inf
            return self._last
        if not self._programs and self._begin(contenders, made):
            now_ns = self._glance()
        if now_ns:
            self._hear(now_ns)
        elif self._programs:
            self._forget()
        if self._heirs is None:
            self._name(contenders, made)
        ended_s = self.clock()
        self._silent_until_s = ended_s + (ended_s - began_s) / SHARE
        return self._last

    def behind(self, before: float) -> float:
        """The same once something has been measured: no more than `before` it.

        What changed meanwhile speaks for no program: of what would be the best, neither moment may say more.
        """
        now_ns = self._glance() if self._programs else ()
        if now_ns:
            self._last = ratio(self._usual_ns, now_ns[: len(self._programs)])
        return min(before, self._last)

    def _glance(self) -> Sequence[float] | None:
        """At witnesses, then heirs, all of them each time: what is not asked for is unloaded."""
        heirs = () if self._heirs is None else self._heirs.programs
        return self.evaluator.glance([*self._programs, *heirs])

    def _hear(self, now_ns: Sequence[float]) -> None:
        """What witnesses and heirs take at this moment."""
        witnesses = len(self._programs)
        self._last = ratio(self._usual_ns, now_ns[:witnesses])
        if self._heirs is not None:
            self._heirs.heard_ns.append([ns / self._last for ns in now_ns[witnesses:]])
            if len(self._heirs.heard_ns) == LOOKS:
                self._succeed(self._heirs)

    def _forget(self) -> None:
        """One of those that were looked at has failed: heirs, or else witnesses, are never asked again."""
        failed = self._programs if self._heirs is None else self._heirs.programs
        self._passed_over.update(program.digest for program in failed)
        if self._heirs is None:
            self._programs, self._usual_ns, self._known_ns = (), (), math.inf
        self._heirs = None

    def _begin(self, contenders: Sequence[Contender], made: Callable[[Contender], Lowered]) -> bool:
        """Whether there are witnesses now, the first ones: without slowdown, they take what they took."""
        fastest = self._fastest(contenders)
        if fastest:
            self._programs = [made(contender) for contender in fastest]
            self._usual_ns = [contender.comparable_ns for contender in fastest]
            self._known_ns = self._usual_ns[0]
        return bool(fastest)

    def _name(self, contenders: Sequence[Contender], made: Callable[[Contender], Lowered]) -> None:
        """Heirs, where the witnesses are outdone."""
        fastest = self._fastest(contenders)
        if fastest and fastest[0].comparable_ns * OUTDONE < self._known_ns:
            self._heirs = _Heirs([made(contender) for contender in fastest], fastest[0].comparable_ns)

    def _fastest(self, contenders: Sequence[Contender]) -> Sequence[Contender]:
        """So many as there have to be, or none."""
        left = [contender for contender in contenders if contender.digest not in self._passed_over]
        return left[:COUNT] if len(left) >= COUNT else ()

    def _succeed(self, heirs: _Heirs) -> None:
        """They become the witnesses, unless what was measured of them was luck."""
        usual_ns = heirs.usual_ns()
        if min(usual_ns) * OUTDONE > min(self._usual_ns):
            self._passed_over.update(program.digest for program in heirs.programs)
        else:
            self._programs, self._usual_ns, self._known_ns = heirs.programs, usual_ns, heirs.known_ns
        self._heirs = None


def ratio(before_ns: Sequence[float], now_ns: Sequence[float]) -> float:
    """How many times as long as before all of some programs take, at least; or, where all of them take less
    long, at most. 1 where they do not agree.
    """
    ratios = [now / before for before, now in zip(before_ns, now_ns, strict=True)]
    if min(ratios) > 1 + STEADY:
        return min(ratios)
    return max(ratios) if max(ratios) < 1 - STEADY else 1.0


def credible(slowdown: float, measured: Iterable[tuple[Outcome, float]]) -> float:
    """The part of a slowdown by which nothing becomes faster than it can be; no less than 1 of one above.

    `measured`: outcomes of one moment, each with its lower bound in nanoseconds. What slows down witnesses
    that wait for memory may leave what only computes as fast as it is.
    """
    most = [out.timing.time_ns / bound_ns for out, bound_ns in measured if out.timing and bound_ns > 0]
    return max(1.0, min([slowdown, *most])) if slowdown > 1 else slowdown
