"""How much of a run programs may take that are slow: of some kernels one in ten takes 1000 times the best.

In: bounds, times, and what is left of a budget. Out: the limit of a call while nothing is known to be faster,
and how many contenders are worth being measured again. Nothing is run here.
"""

from __future__ import annotations

from collections.abc import Sequence

LEAST_S = 2.0
"""Of a call: what is merely slow ends, and there is something to show."""

HOPED_FACTOR = 25.0
"""Of the bound: as long a call may take in any case, where all implementations take seconds."""

GROWTH = 1.25
"""Of that limit with each program that is given up. What grows faster has spent a minute on six programs, of
which four or five in a row may be useless."""

MOST_GROWN = 100
"""Times: long before that, the patience of whoever runs programs is what limits."""

CALLS = 6
"""What one timing of a program costs that takes longer than timings may last: one for each test case, and
two that count."""

LEAST_COMPARING_S = 20.0
SHARE_COMPARING = 1 / 3
"""Of the time of a search, for measuring the fastest again at its end; `LEAST_COMPARING_S` in any case."""


def call_limit_s(bound_ns: float, given_up: int, left_s: float, left: float) -> float | None:
    """Seconds of one call, while no time is known, more after each program that was given up. None: as many
    as any may take.

    `bound_ns`: no implementation is faster. `left_s`, `left`: seconds and evaluations of the budget. What
    they end with may be all that is ever shown.
    """
    limit_s = max(LEAST_S, HOPED_FACTOR * bound_ns / 1e9) * GROWTH ** min(given_up, MOST_GROWN)
    return limit_s if left > 1 and limit_s < left_s else None


def affordable(times_ns: Sequence[float], spent_s: float, processes: int) -> tuple[int, int]:
    """How many of the fastest are measured again, and in how many processes: rather in fewer of these than
    one alone. `times_ns`: fastest first.
    """
    allowed_s = max(LEAST_COMPARING_S, SHARE_COMPARING * spent_s)

    def count(processes: int) -> int:
        costs_s = (processes * CALLS * sum(times_ns[: n + 1]) / 1e9 for n in range(len(times_ns)))
        return sum(cost_s <= allowed_s for cost_s in costs_s)

    found = count(processes)
    return (found, processes) if found >= min(2, len(times_ns)) else (count(1), 1)
