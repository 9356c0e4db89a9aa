"""What a search learns of times from needs of resources."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from spacedsl.search import surrogate
from spacedsl.search.surrogate import SLOW, Surrogate

NEEDS = 5


def needs(count: int, seed: int) -> list[list[float]]:
    """The first need is the same for all, the last one nothing."""
    drawn = np.random.default_rng(seed).uniform(1.0, 20.0, (count, NEEDS))
    drawn[:, 0], drawn[:, -1] = 30.0, 0.0
    return [list(map(float, row)) for row in drawn]


def time_ns(row: list[float]) -> float:
    """Of two resources the scarcer one counts, of the third a part, and the sum of all says little."""
    return 20.0 + max(row[1], row[2]) + 0.2 * row[3]


def learnt(count: int, seed: int = 0) -> Surrogate:
    found = Surrogate()
    for row in needs(count, seed):
        found.learn(row, time_ns(row))
    return found


def test_times_of_others_are_ordered_by_what_was_learnt_and_not_by_the_sum_of_needs() -> None:
    others = needs(80, 1)
    truth = [time_ns(row) for row in others]
    expected, _ = learnt(80).expected(others)
    assert spearmanr(expected, truth).statistic > 0.9
    assert spearmanr([sum(row) for row in others], truth).statistic < 0.85


def test_what_was_measured_is_well_known_and_what_is_far_from_it_is_not() -> None:
    found = learnt(60)
    mean, deviation = found.expected([found.needs_ns[0], [30.0, 500.0, 0.1, 500.0, 0.0]])
    value = min(np.log(found.times_ns[0]), np.log(SLOW * min(found.times_ns)))
    assert mean[0] == pytest.approx(value, abs=0.2)
    assert deviation[0] < 0.2
    assert deviation[1] > 1.0


def test_one_time_is_enough_and_needs_of_nothing_are_no_fault() -> None:
    found = Surrogate()
    found.learn([0.0, 0.0], 100.0)
    mean, deviation = found.expected([[0.0, 0.0], [3.0, 0.0]])
    assert np.all(np.isfinite(mean))
    assert np.all(np.isfinite(deviation))
    assert mean[0] == pytest.approx(np.log(100.0))


def test_how_slow_a_slow_one_is_does_not_matter() -> None:
    others = needs(10, 1)
    slow, slower = learnt(40), learnt(40)
    row = [30.0, 20.0, 20.0, 20.0, 0.0]
    slow.learn(row, 1e3)
    slower.learn(row, 1e9)
    assert np.array_equal(slow.expected(others)[0], slower.expected(others)[0])


def test_the_least_times_and_the_last_ones_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surrogate, "MOST", 40)
    whole, part, others = learnt(200), Surrogate(), needs(10, 1)
    fastest = np.argsort(whole.times_ns, kind="stable")[:20]
    for place in sorted({*map(int, fastest), *range(180, 200)}):
        part.learn(whole.needs_ns[place], whole.times_ns[place])
    for one, other in zip(whole.expected(others), part.expected(others), strict=True):
        assert np.array_equal(one, other)


def test_times_are_drawn_as_they_are_expected() -> None:
    found, (row,) = learnt(30), needs(1, 1)
    mean, deviation = found.expected([row])
    drawn = found.drawn([row] * 2000, np.random.default_rng(0))
    assert drawn.mean() == pytest.approx(mean[0], abs=4 * deviation[0] / 2000**0.5)
    assert drawn.std() == pytest.approx(deviation[0], rel=0.1)
    assert np.array_equal(drawn, learnt(30).drawn([row] * 2000, np.random.default_rng(0)))
