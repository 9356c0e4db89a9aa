"""What a search hands back.

In: the final state of a search. Out: `Result`. Nothing is written here.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from spacedsl.search.comparison import Finalist
from spacedsl.search.events import Failed, Progress
from spacedsl.search.state import Trial


class Stop(enum.StrEnum):
    """Why a search ended."""

    BUDGET = "budget"
    EXHAUSTED = "exhausted"
    INTERRUPTED = "interrupted"
    EMPTY = "empty"  # the constraints leave nothing, before any decision
    CONTRADICTION = "contradiction"  # the decisions fixed by the expert contradict the constraints


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
    """Fastest first; measured side by side unless the run was interrupted, or they take too long for that."""
    trials: tuple[Trial, ...]
    defects: tuple[Failed, ...] = ()
    """The first failures that are defects, few of each class: the space should not offer them, or the code
    is wrong.
    """

    @property
    def best(self) -> Finalist | None:
        return self.finalists[0] if self.finalists else None
