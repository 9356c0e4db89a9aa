"""Statistics of repeated timings: the median, its confidence interval, and when there are enough samples.

In: nanoseconds of single calls. Out: a `Timing`. Nothing is measured here. The interval assumes no
distribution: its ends are order statistics whose ranks follow from the binomial distribution with p =
1/2.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence

from spacedsl.kernels.evaluation import Timing

_CONFIDENCE = 0.95


def summarise(samples_ns: Sequence[float]) -> Timing:
    """The median and its 95 % confidence interval, or the range of fewer than six samples.

    The median is what a user sees on the same machine, but of one library measured again and again beside
    other work it is not the most reproducible figure. Coefficients of variation over 24 measurements of
    0.5 s each, on two cores with a load of 3 to 5, of the median, the minimum, and the median of the minima
    of rounds of 20 ms: 5.0, 1.7 and 1.7 % for a call of 20 us on one core, 22, 18 and 18 % for one of 30 ms
    on both, 19, 16 and 19 % for one of 60 ms bound by memory. Drift moves all of them once a call is long:
    contenders are compared in turns, not by their records.
    """
    ordered = sorted(samples_ns)
    rank = max(_lower_rank(len(ordered)), 1)
    return Timing(statistics.median(ordered), ordered[rank - 1], ordered[-rank], len(ordered))


@functools.cache
def _lower_rank(count: int) -> int:
    """The largest r with P(r-th smallest sample > median) <= 2.5 %; 0 where there is none."""
    from scipy.special import bdtrik

    return math.ceil(float(bdtrik((1 - _CONFIDENCE) / 2, count, 0.5)))


def is_settled(timing: Timing, relative_error: float) -> bool:
    """Whether the median is known to within `relative_error` of itself, either way, with 95 % confidence."""
    width = max(timing.high_ns - timing.time_ns, timing.time_ns - timing.low_ns)
    return _lower_rank(timing.samples) > 0 and width <= relative_error * timing.time_ns
