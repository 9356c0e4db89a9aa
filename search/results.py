"""What a search hands back.

In: the final state of a search. Out: `Result`, and what is written from it. Nothing is written here.
"""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from spacedsl.engine.candidate import Candidate, Decision
from spacedsl.kernels.evaluation import Timing
from spacedsl.search.events import Progress
from spacedsl.search.state import Trial
from spacedsl.search.store import About

SCHEMA = 1
"""Of the summary and of `best.json`."""


class Stop(enum.StrEnum):
    """Why a search ended."""

    BUDGET = "budget"
    EXHAUSTED = "exhausted"
    INTERRUPTED = "interrupted"
    EMPTY = "empty"  # the constraints leave nothing, before any decision
    CONTRADICTION = "contradiction"  # the decisions fixed by the expert contradict the constraints


@dataclass(frozen=True, slots=True)
class Finalist:
    """One of the fastest implementations, with its last timing."""

    candidate: Candidate
    digest: str
    code: str
    timing: Timing
    bound_ns: float
    is_tied: bool
    """Whether its time cannot be told from the best one's."""

    @property
    def decisions(self) -> tuple[Decision, ...]:
        return self.candidate.decisions()


@dataclass(frozen=True, slots=True)
class Result:
    stop: Stop
    message: str
    """What there is to add to the reason of the stop."""
    seed: int
    root_bound_ns: float | None
    """None where there is no root: the space is empty."""
    progress: Progress
    finalists: tuple[Finalist, ...]
    """Fastest first; measured side by side unless there is only one, or the run was interrupted."""
    trials: tuple[Trial, ...]

    @property
    def best(self) -> Finalist | None:
        return self.finalists[0] if self.finalists else None


def summary(
    result: Result,
    *,
    kernel: str,
    target: str,
    device: str,
    run: Path | None = None,
    code: Path | None = None,
    decisions: Path | None = None,
) -> dict[str, Any]:
    """The document that `--json` prints at the end of an exploration; paths become absolute."""
    progress, best = result.progress, result.best
    return {
        "schema": SCHEMA,
        "kernel": kernel,
        "target": target,
        "device": device,
        "seed": result.seed,
        "evaluations": progress.evaluations,
        "valid": progress.valid,
        "failures": {str(failure): entry.count for failure, entry in progress.failures.items()},
        "best": None
        if best is None
        else {
            "time_ns": best.timing.time_ns,
            "time_ci_ns": [best.timing.low_ns, best.timing.high_ns],
            "bound_ns": best.bound_ns,
            "code": _absolute(code),
            "decisions": _absolute(decisions),
            # There is a timing only of code whose results were compared with the reference.
            "verified": True,
        },
        "root_bound_ns": result.root_bound_ns,
        "bound_violations": progress.bound_violations,
        "search_s": progress.seconds,
        "run": _absolute(run),
    }


def best_record(finalist: Finalist, about: About) -> dict[str, Any]:
    """The content of `best.json`: all that rebuilding the same code and judging its time again needs."""
    return {
        "schema": SCHEMA,
        "kernel": {
            "name": about.kernel,
            "path": about.kernel_path,
            "text": about.kernel_text,
            "sizes": dict(about.sizes),
        },
        "space": about.space_path,
        "target": about.target,
        "device": dict(about.device),
        "decisions": [asdict(decision) for decision in finalist.decisions],
        "hashes": {
            "space": about.space_digest,
            "generator": about.generator_digest,
            "code": finalist.digest,
        },
        "compiler": about.compiler,
        "flags": list(about.flags),
        "time_ns": finalist.timing.time_ns,
        "time_ci_ns": [finalist.timing.low_ns, finalist.timing.high_ns],
        "samples": finalist.timing.samples,
        "bound_ns": finalist.bound_ns,
    }


def _absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.resolve())
