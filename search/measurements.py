"""Measurements of another machine: what became of programs whose times the search only knew from a model.

In: what a GPU somewhere said of some programs of a run. Out: the same in order. The state of a search is a
fold over predictions and takes no notice of them: two scales of time in one tree would cut each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spacedsl.engine.decision import Decision
from spacedsl.kernels.evaluation import Outcome


@dataclass(frozen=True, slots=True)
class Measurement:
    """The outcome of one program on a machine that is not this one, and what makes the program again."""

    digest: str
    device: str
    """As its driver calls it."""
    outcome: Outcome
    bound_ns: float
    decisions: tuple[Decision, ...]


def fastest_first(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Those that were right."""
    return sorted((m for m in measurements if m.outcome.timing is not None), key=_time_ns)


def _time_ns(measurement: Measurement) -> float:
    timing = measurement.outcome.timing
    assert timing is not None
    return timing.time_ns
