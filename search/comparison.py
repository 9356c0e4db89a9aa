"""The last comparison: the fastest implementations of a search, measured side by side.

In: finalists with the timings that the search gave them, and the outcomes of measuring all of them in turn.
Out: the finalists, fastest first, ties marked. A contender that failed at this late stage does not win.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spacedsl.engine.candidate import Candidate, Decision
from spacedsl.kernels.evaluation import Failure, Outcome, Timing


@dataclass(frozen=True, slots=True)
class Finalist:
    """One of the fastest implementations, with its last timing."""

    candidate: Candidate
    digest: str
    code: str
    timing: Timing
    bound_ns: float
    is_tied: bool = False
    """Whether its time cannot be told from the best one's."""

    @property
    def decisions(self) -> tuple[Decision, ...]:
        return self.candidate.decisions()


def ranked(finalists: Sequence[Finalist], outcomes: Sequence[Outcome]) -> tuple[Finalist, ...]:
    """The finalists with their new timings, fastest first.

    Where none has a timing, those stay that did not give a wrong result, with the timings that they had: a
    worker that was lost says nothing about the code.
    """
    pairs = tuple(zip(finalists, outcomes, strict=True))
    timed = [replace(f, timing=outcome.timing) for f, outcome in pairs if outcome.timing is not None]
    if not timed:
        return tuple(f for f, outcome in pairs if outcome.failure is not Failure.WRONG_RESULT)
    best, *others = sorted(timed, key=lambda finalist: finalist.timing.time_ns)
    return (best, *(replace(f, is_tied=f.timing.low_ns <= best.timing.high_ns) for f in others))
