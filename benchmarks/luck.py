"""What it is worth to measure the fastest again, where times are partly luck.

    python -m benchmarks.luck [--evaluations 400] [--seeds 6] [--functions 4]

Nothing is built or timed: an implementation is 15 decisions among 4 values, and costs a sum of random tables
of three of them, so that there are many local optima. What the search sees is the cost times what a clock
adds: 1 % of noise, and a machine that is at times faster, at times slower. Side by side, all are seen at the
same moment. Prints the true cost of what searches end with, over what they end with where nothing is measured
again before the end: geometric means over functions and seeds, with their standard errors. Then the same of
restless machines, which may be others at each look at them, over where nobody looks behind what was measured,
and over where what takes the place of witnesses is looked at once: there, glances err by a tenth, and the
best are much faster than most, so that witnesses change often.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Sequence
from unittest.mock import patch

import numpy as np

from benchmarks.arguments import positive, run
from benchmarks.tables import console, headed
from spacedsl.kernels.evaluation import Lowered, Outcome, Timing
from spacedsl.search import state, witnesses
from spacedsl.search.climbs import DOUBT
from spacedsl.search.run import Options
from spacedsl.search.witnesses import LOOKS, Witnesses
from tests.search.toy import NoBound, ToyEvaluator, ToyInstance, search, values_of

_DECISIONS, _VALUES, _TABLES, _TOGETHER = 15, 4, 12, 3
_NEVER = 1 << 30

Cost = Callable[[tuple[int, ...]], float]
Slowdown = Callable[[np.random.Generator, float], float]
"""How many times as long all takes now, from the logarithm of what it was before."""


def tables(seed: int) -> Cost:
    """Half of the cost is the same for all."""
    random = np.random.default_rng(seed)
    places = [random.permutation(_DECISIONS)[:_TOGETHER] for _ in range(_TABLES)]
    parts = random.random((_TABLES, *[_VALUES] * _TOGETHER)) ** 2

    def cost(values: tuple[int, ...]) -> float:
        return 300.0 + 75.0 * sum(
            float(part[tuple(values[place] for place in taken)])
            for part, taken in zip(parts, places, strict=True)
        )

    return cost


def steady(random: np.random.Generator, before: float) -> float:
    return 0.0


def drifting(random: np.random.Generator, before: float) -> float:
    """Within a hundred evaluations, by about a tenth in both directions."""
    return 0.9 * before + 0.05 * float(random.normal())


def lucky(random: np.random.Generator, before: float) -> float:
    """Once in 33 times, all takes three quarters of the time."""
    return math.log(0.75) if random.random() < 0.03 else 0.02 * float(random.normal())


class Clock(ToyEvaluator):
    """Sees costs as the machine is at the moment."""

    def __init__(self, cost: Cost, slowdown: Slowdown, random: np.random.Generator) -> None:
        super().__init__(cost)
        self._slowdown, self._random, self._now = slowdown, random, 0.0

    def run(self, lowered: Lowered, best_ns: float | None, limit_s: float | None = None) -> Outcome:
        self._now = self._slowdown(self._random, self._now)
        return self._seen(super().run(lowered, best_ns, limit_s))

    def compare(self, contenders: Sequence[Lowered], processes: int = 1) -> Sequence[Outcome]:
        self._now = self._slowdown(self._random, self._now)
        return [self._seen(outcome) for outcome in super().compare(contenders)]

    def _seen(self, outcome: Outcome) -> Outcome:
        assert outcome.timing is not None
        time_ns = outcome.timing.time_ns * math.exp(self._now + 0.01 * float(self._random.normal()))
        return Outcome(Timing(time_ns, 0.99 * time_ns, 1.01 * time_ns, outcome.timing.samples))


class RestlessClock(Clock):
    """Sees what witnesses take, too. At each look, the machine may be as fast as it can be, or slower."""

    def __init__(
        self, cost: Cost, slowdown: Slowdown, random: np.random.Generator, glances_err_by: float = 0.0
    ) -> None:
        super().__init__(cost, slowdown, random)
        self._glances_err_by = glances_err_by

    def glance(self, programs: Sequence[Lowered]) -> Sequence[float]:
        self._now = self._slowdown(self._random, self._now)
        seen = (self._seen(ToyEvaluator.run(self, program, None)).timing for program in programs)
        return [self._glanced(timing.time_ns) for timing in seen if timing is not None]

    def _glanced(self, time_ns: float) -> float:
        return time_ns * math.exp(self._glances_err_by * float(self._random.normal()))


def restless(share: float) -> Slowdown:
    def slowdown(random: np.random.Generator, before: float) -> float:
        return math.log(random.choice([1.0, 1.0, 1.3, 1.75])) if random.random() < share else before

    return slowdown


def ended_with(clock: Clock, seed: int, evaluations: int) -> float:
    """The true cost of what a search reports as the best."""
    options = Options(seed=seed, evaluations=evaluations)
    result = search(ToyInstance([_VALUES] * _DECISIONS), clock, NoBound(), "near", options)
    assert result.best is not None
    return clock.cost(values_of(result.best.candidate))


def found(cost: Cost, slowdown: Slowdown, seed: int, evaluations: int, doubt: int) -> float:
    with patch.object(state, "DOUBT", doubt):
        return ended_with(Clock(cost, slowdown, np.random.default_rng(seed)), seed, evaluations)


def found_restless(cost: Cost, share: float, seed: int, evaluations: int, *, looks_behind: bool) -> float:
    clock = RestlessClock(cost, restless(share), np.random.default_rng(seed))
    if looks_behind:
        return ended_with(clock, seed, evaluations)
    with patch.object(Witnesses, "behind", lambda _, before: before):
        return ended_with(clock, seed, evaluations)


def found_with_looks(cost: Cost, share: float, seed: int, evaluations: int, looks: int) -> float:
    def steep(values: tuple[int, ...]) -> float:
        return (cost(values) / 300.0) ** 4

    clock = RestlessClock(steep, restless(share), np.random.default_rng(seed), glances_err_by=0.1)
    with patch.object(witnesses, "LOOKS", looks):
        return ended_with(clock, seed, evaluations)


def ratio_of(costs: Sequence[float], others: Sequence[float]) -> str:
    logs = [math.log(a / n) for a, n in zip(costs, others, strict=True)]
    error = statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
    return f"{math.exp(statistics.mean(logs)):.3f} ± {error:.3f}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.luck", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--evaluations", type=positive, default=400)
    parser.add_argument("--seeds", type=positive, default=6)
    parser.add_argument("--functions", type=positive, default=4)
    options = parser.parse_args(arguments)
    table = headed(
        "True cost of what is found, over that without measuring again",
        ("clock", *(f"after {doubt} without gain" for doubt in (DOUBT // 2, DOUBT, 2 * DOUBT))),
        words=("clock",),
    )
    pairs = [(tables(number), seed) for number in range(options.functions) for seed in range(options.seeds)]
    for slowdown in (steady, drifting, lucky):
        never = [found(cost, slowdown, seed, options.evaluations, _NEVER) for cost, seed in pairs]
        cells = []
        for doubt in (DOUBT // 2, DOUBT, 2 * DOUBT):
            again = [found(cost, slowdown, seed, options.evaluations, doubt) for cost, seed in pairs]
            cells.append(ratio_of(again, never))
        table.add_row(slowdown.__name__, *cells)
    console().print(table)
    table = headed(
        "True cost of what is found on restless machines, over that",
        ("another machine", "without looking behind", f"with one look in place of {LOOKS}"),
        words=("another machine",),
    )
    for share in (0.1, 0.3):
        behind, before = (
            [
                found_restless(cost, share, seed, options.evaluations, looks_behind=looks_behind)
                for cost, seed in pairs
            ]
            for looks_behind in (True, False)
        )
        many, one = (
            [found_with_looks(cost, share, seed, options.evaluations, looks) for cost, seed in pairs]
            for looks in (LOOKS, 1)
        )
        table.add_row(f"with {100 * share:.0f} % of looks", ratio_of(behind, before), ratio_of(many, one))
    console().print(table)
    return 0


if __name__ == "__main__":
    run(main)
