"""The interval of the median covers it as often as it says, and settles when it is narrow."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from spacedsl.codegen.running.timing import _lower_rank, is_settled, summarise
from spacedsl.codegen.running.worker import are_disturbed


@pytest.mark.parametrize("count", [1, 2, 5, 6, 7, 10, 25, 60, 99])
def test_the_rank_is_that_of_the_binomial_distribution(count: int) -> None:
    rank = _lower_rank(count)
    assert stats.binom.cdf(rank - 1, count, 0.5) <= 0.025 < stats.binom.cdf(rank, count, 0.5)


@pytest.mark.parametrize("count", [100, 101, 500, 2000])
def test_the_approximate_rank_is_off_by_one_at_most(count: int) -> None:
    exact = int(stats.binom.ppf(0.025, count, 0.5))
    assert abs(_lower_rank(count) - exact) <= 1


def test_the_interval_covers_the_median_of_a_skewed_distribution() -> None:
    random = np.random.default_rng(0)
    median = float(np.exp(0))
    covered = 0
    for _ in range(1000):
        timing = summarise(random.lognormal(0, 1, 30).tolist())
        covered += timing.low_ns <= median <= timing.high_ns
    assert covered >= 930


def test_few_samples_give_their_range_and_are_never_settled() -> None:
    timing = summarise([3.0, 1.0, 2.0])
    assert (timing.time_ns, timing.low_ns, timing.high_ns, timing.samples) == (2.0, 1.0, 3.0, 3)
    assert not is_settled(summarise([1.0] * 5), 0.01)
    assert is_settled(summarise([1.0] * 6), 0.01)


def test_one_sided_scatter_is_not_settled() -> None:
    assert not is_settled(summarise([1.0] * 8 + [1.5] * 7), 0.01)


def test_what_the_system_itself_takes_of_a_long_sample_disturbs_it_as_little_as_nothing() -> None:
    samples = np.array([20_000_000, 20_000_000, 20_000_000, 1_000_000, 10_000])
    assert not are_disturbed(samples, np.array([0, 60_000, 200_000, 9_000, 0])).any()
    assert are_disturbed(samples, np.array([-1, 200_001, 4_000_000, 60_000, 101])).all()
