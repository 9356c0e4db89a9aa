"""Slow programs have their share of a run, and no more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from spacedsl.kernels.evaluation import Failure, Lowered, Outcome
from spacedsl.search.patience import affordable, call_limit_s
from spacedsl.search.results import Result
from spacedsl.search.run import Options
from tests.search.toy import ToyEvaluator, ToyInstance, search, timing


@dataclass
class Slow(ToyEvaluator):
    """Programs take as many seconds as they cost, three calls each."""

    now_s: float = 0.0
    limits_s: list[float | None] = field(default_factory=list)
    given_up: int = 0

    def run(self, lowered: Lowered, best_ns: float | None, limit_s: float | None = None) -> Outcome:
        seconds = self.cost(tuple(map(int, lowered.code.split())))
        self.limits_s.append(limit_s)
        if seconds > (limit_s or 30.0):
            self.now_s += limit_s or 30.0
            self.given_up += 1
            return Outcome(None, Failure.RUN_TIMEOUT, f"stopped after {limit_s} s")
        self.now_s += 3 * seconds
        return Outcome(timing(seconds * 1e9))

    def compare(self, contenders: Sequence[Lowered], processes: int = 1) -> Sequence[Outcome]:
        times_s = [self.cost(tuple(map(int, c.code.split()))) for c in contenders]
        self.now_s += processes * 6 * sum(times_s)
        self.compared.append(tuple(c.digest for c in contenders))
        return [Outcome(timing(time_s * 1e9)) for time_s in times_s]


def searched(evaluator: Slow, options: Options, sizes: Sequence[int] = (4, 4, 4)) -> Result:
    return search(ToyInstance(list(sizes)), evaluator, options=options, clock=lambda: evaluator.now_s)


def test_programs_that_take_ten_minutes_do_not_take_all_of_a_search_of_one_minute() -> None:
    fast: dict[tuple[int, ...], float] = {(2, 2, 2): 0.01, (2, 2, 1): 0.02, (1, 2, 2): 0.03}
    measured = 0
    for seed in range(5):
        evaluator = Slow(lambda values: fast.get(values, 600.0 if sum(values) % 3 else 0.5))
        result = searched(evaluator, Options(seed=seed, seconds=60.0))
        assert result.best is not None and result.best.timing.time_ns <= 0.5e9
        assert result.progress.failures[Failure.RUN_TIMEOUT].count == evaluator.given_up
        first = next(n for n, limit_s in enumerate(evaluator.limits_s) if limit_s is None)
        assert evaluator.limits_s[:first] == [2 * 1.25**n for n in range(first)]
        assert set(evaluator.limits_s[first:]) == {None}
        measured += len(evaluator.limits_s)
    # Of 30 s each, a search would come to two or three.
    assert measured > 5 * 5


@pytest.mark.parametrize("budget", [Options(), Options(seconds=60.0)])
@pytest.mark.parametrize("sizes", [[1], [2, 2]])
def test_nothing_is_given_up_where_there_is_nothing_else(sizes: list[int], budget: Options) -> None:
    evaluator = Slow(lambda values: 5.0 + sum(values))
    result = searched(evaluator, budget, sizes)
    assert result.best is not None
    assert budget.seconds or result.best.timing.time_ns == 5e9


def test_what_was_given_up_is_tried_again_where_nothing_else_is_left() -> None:
    """Each of four takes longer than a first program may, and most are measured before nothing is left."""
    recovered = 0
    for seed in range(6):
        evaluator = Slow(lambda values: 5.0 + sum(values))
        options = Options(seconds=60.0, seed=seed, batch=4)
        result = searched(evaluator, options, [2, 2])
        progress = result.progress
        assert result.best is not None
        assert progress.best_ns == result.best.timing.time_ns
        failed = sum(failure.count for failure in progress.failures.values())
        assert progress.valid + failed == 4
        recovered += evaluator.given_up - failed
    assert recovered > 1


def test_what_was_given_up_and_is_wrong_is_a_defect() -> None:
    """No time is known, and with as much time as it takes, none of four gives the right result."""

    class Wrong(Slow):
        def run(self, lowered: Lowered, best_ns: float | None, limit_s: float | None = None) -> Outcome:
            outcome = super().run(lowered, best_ns, limit_s)
            return outcome if outcome.timing is None else Outcome(None, Failure.WRONG_RESULT, "y[0] is 1")

    evaluator = Wrong(lambda values: 15.0 + sum(values))
    result = searched(evaluator, Options(seconds=400.0, seed=1, batch=4), [2, 2])
    failures = result.progress.failures
    assert result.best is None
    assert evaluator.given_up
    assert {failure: each.count for failure, each in failures.items()} == {Failure.WRONG_RESULT: 4}
    assert {defect.failure for defect in result.defects} == {Failure.WRONG_RESULT}


def test_what_is_not_compared_gives_way_to_what_is() -> None:
    """One process has room for some of twelve; side by side, all of these are slower than they had seemed."""

    class Slower(Slow):
        def compare(self, contenders: Sequence[Lowered], processes: int = 1) -> Sequence[Outcome]:
            return [
                Outcome(timing(1.5 * outcome.timing.time_ns))
                for outcome in super().compare(contenders, processes)
                if outcome.timing is not None
            ]

    evaluator = Slower(lambda values: 1.0 + sum(values) / 100)
    result = searched(evaluator, Options(evaluations=30))
    (compared,) = evaluator.compared
    assert 2 <= len(compared) < Options().contenders
    assert {finalist.digest for finalist in result.finalists} == {*compared}
    assert result.progress.valid == result.progress.evaluations == 30


def test_of_a_kernel_whose_implementations_all_take_seconds_some_are_found_right() -> None:
    evaluator = Slow(lambda values: 20.0 + sum(values))
    result = searched(evaluator, Options(seconds=200.0))
    assert evaluator.limits_s[:3] == [2, 2.5, 3.125]
    assert result.best is not None
    # One comparison would cost more than a third of the search.
    assert not evaluator.compared


@pytest.mark.parametrize("budget", [Options(seconds=3.0), Options(evaluations=1)])
def test_what_the_budget_ends_with_may_take_as_long_as_any(budget: Options) -> None:
    evaluator = Slow(lambda values: 25.0)
    assert searched(evaluator, budget).best is not None


def test_the_limit_grows_with_the_bound_and_with_what_was_given_up() -> None:
    assert call_limit_s(1e3, 0, 90.0, math.inf) == 2
    assert call_limit_s(1e9, 0, 90.0, math.inf) == 25
    assert call_limit_s(1e3, 2, 90.0, math.inf) == 3.125
    assert call_limit_s(1e3, 0, math.inf, math.inf) is None
    assert (call_limit_s(1e3, 10_000, 1e12, math.inf) or 0) > 30
    assert call_limit_s(1e3, 3, 3.0, math.inf) is None
    assert call_limit_s(1e3, 0, 90.0, 1) is None
    assert call_limit_s(math.inf, 0, math.inf, math.inf) is None


def test_the_fastest_are_compared_as_far_as_there_is_time() -> None:
    assert affordable([1e6] * 12, 60.0, 3) == (12, 3)
    assert affordable([0.0] * 12, 60.0, 3) == (12, 3)
    # 7 calls each: 21 s in three processes.
    assert affordable([1e9] * 12, 130.0, 3) == (2, 3)
    assert affordable([1e9] * 12, 60.0, 3) == (4, 1)
    assert affordable([1e9], 60.0, 3) == (1, 3)
    assert affordable([1e9, 30e9], 60.0, 3) == (1, 3)
    assert affordable([3e9, 30e9], 60.0, 3) == (1, 1)
    assert affordable([28e9], 90.0, 3) == (0, 3)
