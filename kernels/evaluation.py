"""What a search asks of whoever builds, checks and times implementations: data and a protocol alone.

It lies here because `search` and `codegen` both know it and never import each other.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from spacedsl.engine.candidate import Candidate


class Failure(enum.StrEnum):
    """Why an evaluation gave no time."""

    LOWERING = "lowering"
    BUILD_ERROR = "build_error"
    BUILD_TIMEOUT = "build_timeout"
    RUN_TIMEOUT = "run_timeout"
    CRASH = "crash"
    MEMORY = "memory"
    WRONG_RESULT = "wrong_result"
    WORKER_LOST = "worker_lost"

    @property
    def is_defect(self) -> bool:
        """Whether it is no property of the candidate: the space should not offer it, or its code is wrong."""
        return self in (Failure.LOWERING, Failure.CRASH, Failure.WRONG_RESULT)


@dataclass(frozen=True, slots=True)
class Timing:
    """Nanoseconds of one call: the median, a 95 % confidence interval of it, the number of samples."""

    time_ns: float
    low_ns: float
    high_ns: float
    samples: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one evaluation: a timing, or a failure with its message.

    The message of a timing is a remark, in the same words wherever it is made; mostly there is none.
    """

    timing: Timing | None
    failure: Failure | None = None
    message: str = ""
    phases_ns: tuple[tuple[str, float], ...] = ()
    """How long phases take that have been timed by themselves, by their names."""
    slowdown: float = 1.0
    """How many times as long as before what is known took at the same moment."""

    @property
    def comparable_ns(self) -> float | None:
        """What it would have taken without: times of different moments can be compared so."""
        return None if self.timing is None else self.timing.time_ns / self.slowdown

    @property
    def is_valid(self) -> bool:
        return self.timing is not None


@dataclass(frozen=True, slots=True)
class Lowered:
    """A complete candidate as code. `digest` is equal for equal code: such candidates are one evaluation."""

    digest: str
    code: str
    phases: tuple[str, ...] = ()
    """What is to be timed by itself: names of its parallel loops, with what comes before each; empty for one
    that has none of its own."""
    units: tuple[str, ...] = ()
    """The same code in files that are built by themselves: of many programs, most have been built before."""
    estimate_ns: float = 0.0
    """What a model says that it takes: of several, the least is the first to be measured."""

    @classmethod
    def of(
        cls, code: str, phases: tuple[str, ...] = (), units: tuple[str, ...] = (), estimate_ns: float = 0.0
    ) -> Lowered:
        return cls(hashlib.sha256(code.encode()).hexdigest(), code, phases, units, estimate_ns)


class Evaluator(Protocol):
    """Builds, checks and times. `open` before the first use, `close` after the last; both may recur.

    No method raises because of what a candidate does: whatever goes wrong with one is a `Failure` of it.
    """

    def open(self) -> None: ...

    def lower(self, candidate: Candidate) -> Lowered | Outcome:
        """The code of a complete candidate, or the outcome `LOWERING`."""
        ...

    def begin(self, program: Lowered) -> None:
        """May begin to build what one of the next calls of `build` is about, while others are lowered."""
        ...

    def build(self, programs: Sequence[Lowered]) -> None:
        """Builds what the next calls of `run` are about, as many at a time as there are CPUs."""
        ...

    def run(self, lowered: Lowered, best_ns: float | None, limit_s: float | None = None) -> Outcome:
        """Build where that was not done ahead, check, time. Timing may stop early once the code is clearly
        slower than `best_ns`. While no time is known, a call may take `limit_s`; None: as long as any may.

        What would be the best is timed again unless it takes long, and the slower of both timings counts:
        the fastest of many noisy timings is too fast, and a bound must not be compared with it.
        """
        ...

    def glance(self, programs: Sequence[Lowered]) -> Sequence[float] | None:
        """Nanoseconds that some programs take now, roughly, which are known to be right: one time for each,
        or none where one of them fails. None where times are the same at all moments.
        """
        ...

    def compare(self, contenders: Sequence[Lowered], processes: int = 1) -> Sequence[Outcome]:
        """Times several programs side by side, interleaved, so that drift of the machine hits all alike.

        Again in so many `processes`, one after the other, of which the middle one counts: in each, memory
        lies elsewhere.
        """
        ...

    def close(self) -> None: ...
