"""When a search begins again elsewhere, and what it then looks near."""

from __future__ import annotations

import math

import pytest

from spacedsl.search import climbs, drawing
from spacedsl.search.climbs import GAIN, PATIENCE, Climb
from spacedsl.search.run import Options
from tests.search.toy import NoBound, ToyEvaluator, ToyInstance, search, timing


def climbed(*times_ns: float | None) -> Climb:
    """The climb after evaluations, each of the iteration with its number."""
    climb = Climb()
    for number, time_ns in enumerate(times_ns, 1):
        climb = climb.after(number, None if time_ns is None else timing(time_ns), number)
    return climb


def test_a_climb_ends_after_many_evaluations_without_a_better_one() -> None:
    assert climbed(10.0, *[10.0] * (PATIENCE - 1)) == Climb(1, PATIENCE, 10.0, PATIENCE - 1, stale=PATIENCE)
    assert climbed(10.0, *[10.0] * PATIENCE) == Climb(PATIENCE + 2)
    assert climbed(*[10.0] * PATIENCE, 9.0, *[10.0] * (PATIENCE - 1)).first == 1


def test_less_than_the_clock_may_err_is_no_gain_and_failures_are_none() -> None:
    assert climbed(10.0, 10.0 * (1 - GAIN / 2)) == Climb(1, 2, 10.0, 1, stale=2)
    assert climbed(10.0, None) == Climb(1, 1, 10.0, 1, stale=2)
    assert climbed(None, None) == Climb(1, 0, math.inf, 2, stale=2)


def test_what_was_drawn_before_a_climb_belongs_to_the_one_before() -> None:
    assert Climb(8).after(7, timing(1.0), 12) == Climb(8)


def test_beside_a_time_that_was_luck_nothing_counts_as_better_until_it_is_measured_again() -> None:
    climb = climbed(8.0, 9.0)
    assert climb.after(3, timing(9.0), 3) == Climb(1, 3, 8.0, 2, stale=3)
    again = climb.remeasured({"lucky": 10.0, "other": 11.0}, 2)
    assert again.after(3, timing(9.0), 3) == Climb(1, 3, 9.0, 0, "lucky", stale=2)


def test_what_seems_better_and_is_not_beside_the_champion_does_not_prolong_a_climb() -> None:
    climb = climbed(10.0).remeasured({"first": 10.0}, 1)
    for number in range(2, 2 + PATIENCE):
        # Whatever the clock says at the moment, it says of the champion, too.
        seems_ns = 10.0 * 0.97 ** (number % 5)
        climb = climb.after(number, timing(seems_ns), number)
        now = {"first": seems_ns, str(number): seems_ns * (1 - GAIN / 2)}
        climb = climb.remeasured(now, number)
    assert climb == Climb(2 + PATIENCE)


def test_a_new_champion_prolongs_a_climb() -> None:
    climb = climbed(*[10.0] * (PATIENCE - 1)).remeasured({"first": 10.0}, PATIENCE - 1)
    climb = climb.after(PATIENCE, timing(9.0), PATIENCE)
    later = climb.remeasured({"first": 12.0, "second": 10.8}, PATIENCE)
    assert (later.first, later.champion, later.best_ns, later.stale) == (1, "second", 10.8, 0)
    assert climb.remeasured({"second": 9.0}, PATIENCE).champion == "second"
    assert math.isinf(climb.remeasured({}, PATIENCE).best_ns)


def traps(values: tuple[int, ...]) -> float:
    """In each block of three, single changes lead away from the best values, unless two of them are there."""
    blocks = [values[first : first + 3] for first in range(0, len(values), 3)]
    return 1.0 + sum(0.0 if block == (3, 3, 3) else 1.0 + sum(block) for block in blocks)


def test_later_climbs_come_to_what_the_first_one_could_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "FIRST_ROLLOUTS", 20)

    def best_ns(seed: int, patience: int) -> float:
        monkeypatch.setattr(climbs, "PATIENCE", patience)
        options = Options(seed=seed, evaluations=1500, contenders=5)
        result = search(ToyInstance([4] * 12), ToyEvaluator(traps), NoBound(), "near", options)
        assert result.progress.evaluations == 1500
        assert result.progress.best_ns is not None
        return result.progress.best_ns

    one, several = ([best_ns(seed, patience) for seed in range(3)] for patience in (10**9, 80))
    assert all(s <= o for s, o in zip(several, one, strict=True))
    assert sum(several) < sum(one)
