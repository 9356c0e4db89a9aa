"""What a contest came to: times, and their ratios to our best, with intervals.

In: a contest. Out: a `Row` for each contender. A ratio is a contender's time over ours: the median over
rounds of the ratio of medians, with its 95 % interval; beside it stands the ratio of the least times, which
other work on the machine disturbs least. Absolute times are there to be seen and not to be compared with
those of another run. What ratios should be is for the reports.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.contest import Contender, Contest
from spacedsl.codegen.running.timing import summarise
from spacedsl.kernels.evaluation import Timing


@dataclass(frozen=True, slots=True)
class Ratio:
    """The median over rounds, and its 95 % interval."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, ratios: Sequence[float]) -> Ratio:
        found = summarise(ratios)
        return cls(found.time_ns, found.low_ns, found.high_ns)

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"


@dataclass(frozen=True, slots=True)
class Row:
    """One contender."""

    name: str
    variant: str
    """Which of the contenders of this name: a way to call it, or where a record lies."""
    wall: Timing
    """Of one call, in ns."""
    cpu_ns: float
    """Processor time of all threads in one call."""
    cpus_busy: float
    """On average."""
    ratio: Ratio
    """Its time over that of our best."""
    least_ratio: float
    """Its least time over the least one of our best."""

    @property
    def label(self) -> str:
        return f"{self.name}, {self.variant}" if self.variant else self.name


def rows(contest: Contest, ours: str) -> tuple[Row, ...]:
    """Fastest first; none where nothing that is called `ours` is right."""
    medians = {id(c): c.medians_ns for c in contest.contenders}
    own = [c for c in contest.contenders if c.name == ours]
    if not own:
        return ()
    best = min(own, key=lambda c: statistics.median(medians[id(c)]))

    def row(contender: Contender) -> Row:
        ratios = [a / b for a, b in zip(medians[id(contender)], medians[id(best)], strict=True)]
        return Row(
            contender.name,
            contender.label,
            summarise([ns for turn in contender.rounds for ns in turn.wall_ns]),
            statistics.median(turn.cpu_ns for turn in contender.rounds),
            statistics.fmean(turn.cpus_busy for turn in contender.rounds),
            Ratio.of(ratios),
            contender.least_ns / best.least_ns,
        )

    return tuple(sorted(map(row, contest.contenders), key=lambda r: r.ratio.median))


def duration(ns: float) -> str:
    """For a person."""
    return f"{ns / 1e6:.4g} ms" if ns >= 1e6 else f"{ns / 1e3:.4g} us"
