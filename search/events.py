"""What happens in a search, as records: the search passes them to a callback and never prints.

In: nothing. Out: frozen values that others show, log, store or draw. Times are in ns but for `seconds`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from spacedsl.kernels.evaluation import Failure, Outcome, Timing
from spacedsl.search.tree import Step


@dataclass(frozen=True, slots=True)
class FailureCount:
    """How often a class of failure occurred, and the first message of it."""

    count: int
    first_message: str


@dataclass(frozen=True, slots=True)
class Progress:
    """Where the search stands, after every iteration and every evaluation."""

    iterations: int
    evaluations: int
    valid: int
    duplicates: int
    dead_ends: int
    """Iterations that came to no implementation."""
    failures: Mapping[Failure, FailureCount]
    best_ns: float | None
    least_bound_ns: float
    """No implementation that is still to be found is faster; infinite once all are known or cut."""
    gap: float | None
    """(best - least live bound) / best; None while there is no best."""
    share_cut: float
    bound_violations: int
    seconds: float
    remarks: Mapping[str, int] = field(default_factory=dict)
    """How many valid evaluations had which."""


@dataclass(frozen=True, slots=True)
class Started:
    """`iterations` are those of the run that is resumed: 0 for a new one."""

    root_bound_ns: float
    seed: int
    iterations: int


@dataclass(frozen=True, slots=True)
class Evaluated:
    """An implementation's outcome is known: measured now, or known from equal code (`is_duplicate`)."""

    iteration: int
    digest: str
    bound_ns: float
    outcome: Outcome
    is_duplicate: bool


@dataclass(frozen=True, slots=True)
class NewBest:
    """Measured twice, but for what takes long; the slower of both timings. `steps` lead to it from the root.

    Its time may be greater than that of the one before: where the machine is slower now, or where a
    comparison has shown that one to fail, or to be slower than it had seemed.
    """

    iteration: int
    digest: str
    bound_ns: float
    timing: Timing
    steps: tuple[Step, ...]
    is_compared: bool = False
    """Whether it is not new, but was found to be the best by a comparison."""


@dataclass(frozen=True, slots=True)
class Violation:
    """An implementation ran faster than the bound of a candidate that it was derived from.

    From now on all bounds are multiplied by `scale`, and what they had cut is open again.
    """

    iteration: int
    digest: str
    bound_ns: float
    timing: Timing
    scale: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The first failure of its class, or one of the first defects: the run is to say so.

    `steps` lead to the implementation from the root.
    """

    iteration: int
    digest: str
    failure: Failure
    message: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Comparing:
    """The last contenders are measured side by side or, where their times are predicted, checked again."""

    contenders: int
    is_timed: bool


@dataclass(frozen=True, slots=True)
class Finished:
    """`reason` is the value of a `Stop`; `message` says more where there is more to say."""

    reason: str
    message: str
    progress: Progress


Event = Started | Evaluated | NewBest | Violation | Failed | Progress | Comparing | Finished

Listener = Callable[[Event], None]
