"""Comparisons: some of the fastest implementations of a search, measured side by side.

In: finalists, and the outcomes of measuring all of them in turn. Out: what these outcomes say of each, and
the finalists, fastest first, ties marked. A contender that failed at this late stage does not win.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.decision import Decision
from spacedsl.kernels.evaluation import Failure, Outcome, Timing


@dataclass(frozen=True, slots=True)
class Comparison:
    """New outcomes of contenders, by the digest of their code; those that are absent keep what they had. One
    with neither a timing nor a failure was passed over: it keeps its outcome, and gives way to the others.
    """

    outcomes: Mapping[str, Outcome]


@dataclass(frozen=True, slots=True)
class Finalist:
    """One of the fastest implementations, with its last timing."""

    candidate: Candidate
    digest: str
    code: str
    timing: Timing
    bound_ns: float
    slowdown: float = 1.0
    """Of the machine, when it was timed; the same for all that were measured side by side."""
    is_tied: bool = False
    """Whether its time cannot be told from the best one's; for the best one, from another's."""

    @property
    def decisions(self) -> tuple[Decision, ...]:
        return self.candidate.decisions()


def judged(
    digests: Sequence[str], outcomes: Sequence[Outcome], passed_over: Sequence[str] = ()
) -> Comparison:
    """What the outcomes say. Where none has a timing, only wrong results count: a worker that was lost says
    nothing about the code.
    """
    is_timed = any(outcome.is_valid for outcome in outcomes)
    found = {
        digest: outcome
        for digest, outcome in zip(digests, outcomes, strict=True)
        if is_timed or outcome.failure is Failure.WRONG_RESULT
    }
    return Comparison(found | {digest: Outcome(None) for digest in passed_over if is_timed})


def ranked(finalists: Sequence[Finalist]) -> tuple[Finalist, ...]:
    """Fastest first, as times of different moments compare, ties with the best one marked."""
    if not finalists:
        return ()
    best, *others = sorted(finalists, key=lambda finalist: finalist.timing.time_ns / finalist.slowdown)
    most_ns = best.timing.high_ns / best.slowdown
    others = [replace(f, is_tied=f.timing.low_ns / f.slowdown <= most_ns) for f in others]
    return (replace(best, is_tied=any(f.is_tied for f in others)), *others)
