"""How much of a run programs may take that are slow: of some kernels one in ten takes 1000 times the best.

In: bounds, times, and what is left of a budget. Out: the limit of a call while nothing is known to be faster,
and how many contenders are worth being measured again. Nothing is run here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

LEAST_S = 2.0
"""Of a call: what is merely slow ends, and there is something to show."""

HOPED_FACTOR = 25.0
"""Of the bound: as long a call may take in any case, where all implementations take seconds."""

GROWTH = 1.25
"""Of that limit with each program that is given up. What grows faster has spent a minute on six programs, of
which four or five in a row may be useless."""

MOST_GROWN = 100
"""Times: long before that, the patience of whoever runs programs is what limits."""

CALLS, TIMING_S = 6, 0.5
"""What measuring a program again costs: calls for checks and before samples, and its samples, which are one
call at least."""

LEAST_COMPARING_S = 30.0
SHARE_COMPARING = 1 / 3
"""Of the time of a search, for measuring the fastest again at its end; `LEAST_COMPARING_S` in any case."""


def call_limit_s(bound_ns: float, given_up: int, left_s: float, left: float) -> float | None:
    """Seconds of one call, while no time is known, more after each program that was given up. None: as many
    as any may take.

    `bound_ns`: no implementation is faster. `left_s`, `left`: seconds of the budget, and programs that can
    still be measured. What they end with may be all that is ever shown; where seconds do not count, nothing
    is given up for them.
    """
    limit_s = max(LEAST_S, HOPED_FACTOR * bound_ns / 1e9) * GROWTH ** min(given_up, MOST_GROWN)
    return limit_s if left > 1 and limit_s < left_s < math.inf else None


def affordable(times_ns: Sequence[float], spent_s: float, processes: int) -> tuple[int, int]:
    """How many of the fastest are measured again, and in how many processes: rather several in one of these
    than one in all. `times_ns`: fastest first.
    """
    allowed_s = max(LEAST_COMPARING_S, SHARE_COMPARING * spent_s)
    costs_s = [CALLS * time_ns / 1e9 + max(TIMING_S, time_ns / 1e9) for time_ns in times_ns]

    def count(processes: int) -> int:
        return sum(processes * cost_s <= allowed_s for cost_s in accumulate(costs_s))

    found, alone = count(processes), count(1)
    return (alone, 1) if found < 2 and alone > found else (found, processes)
