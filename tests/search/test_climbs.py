"""When a search begins again elsewhere, and what it then looks near."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from spacedsl.engine.candidate import Candidate
from spacedsl.search import climbs, drawing
from spacedsl.search.climbs import GAIN, PATIENCE, Climb
from spacedsl.search.drawing import Drawing, Visit
from spacedsl.search.neighbours import Neighbourhood
from spacedsl.search.rollouts import Cut
from spacedsl.search.run import Options
from spacedsl.search.state import State
from spacedsl.search.tree import Step
from tests.search.toy import NoBound, ToyEvaluator, ToyInstance, cost, search


def climbed(*times_ns: float | None) -> Climb:
    """The climb after evaluations, each of the iteration with its number."""
    climb = Climb()
    for number, time_ns in enumerate(times_ns, 1):
        climb = climb.after(number, time_ns, number)
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
    assert Climb(8).after(7, 1.0, 12) == Climb(8)


def test_beside_a_time_that_was_luck_nothing_counts_as_better_until_it_is_measured_again() -> None:
    climb = climbed(8.0, 9.0)
    assert climb.after(3, 9.0, 3) == Climb(1, 3, 8.0, 2, stale=3)
    again = climb.remeasured({"lucky": 10.0, "other": 11.0}, 2)
    assert again.after(3, 9.0, 3) == Climb(1, 3, 9.0, 0, "lucky", stale=2)


def test_what_seems_better_and_is_not_beside_the_champion_does_not_prolong_a_climb() -> None:
    climb = climbed(10.0).remeasured({"first": 10.0}, 1)
    for number in range(2, 2 + PATIENCE):
        # Whatever the clock says at the moment, it says of the champion, too.
        seems_ns = 10.0 * 0.97 ** (number % 5)
        climb = climb.after(number, seems_ns, number)
        now = {"first": seems_ns, str(number): seems_ns * (1 - GAIN / 2)}
        climb = climb.remeasured(now, number)
    assert climb == Climb(2 + PATIENCE)


def test_a_new_champion_prolongs_a_climb() -> None:
    climb = climbed(*[10.0] * (PATIENCE - 1)).remeasured({"first": 10.0}, PATIENCE - 1)
    climb = climb.after(PATIENCE, 9.0, PATIENCE)
    later = climb.remeasured({"first": 12.0, "second": 10.8}, PATIENCE)
    assert (later.first, later.champion, later.best_ns, later.stale) == (1, "second", 10.8, 0)
    assert climb.remeasured({"second": 9.0}, PATIENCE).champion == "second"
    assert math.isinf(climb.remeasured({}, PATIENCE).best_ns)


def test_a_new_climb_looks_near_what_it_has_found_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins with implementations from all over, and what counts at the end is the best of all climbs."""
    monkeypatch.setattr(drawing, "FIRST_ROLLOUTS", 20)
    monkeypatch.setattr(climbs, "PATIENCE", 60)
    near, down, draw = Drawing._near, Drawing._down, Neighbourhood.draw
    state_of: list[State] = []
    firsts: dict[int, int] = {}
    """Of each climb, by its first iteration: what was drawn from all over before anything else."""
    looked_near = set[int]()

    def looking(self: Drawing, state: State, rng: np.random.Generator) -> Visit | None:
        state_of[:] = [state]
        return near(self, state, rng)

    def going_down(self: Drawing, state: State, rng: np.random.Generator) -> Visit:
        if state.climb.first not in looked_near:
            firsts[state.climb.first] = firsts.get(state.climb.first, 0) + 1
        return down(self, state, rng)

    def drawing_near(
        self: Neighbourhood, known: Sequence[Sequence[Step]], cut: Cut, rng: np.random.Generator
    ) -> Candidate | None:
        (state,) = state_of
        looked_near.add(state.climb.first)
        everything = (*state.contenders, *state.reserve)
        own = {contender.steps for contender in everything if contender.iteration >= state.climb.first}
        assert set(map(tuple, known)) <= own
        return draw(self, known, cut, rng)

    monkeypatch.setattr(Drawing, "_near", looking)
    monkeypatch.setattr(Drawing, "_down", going_down)
    monkeypatch.setattr(Neighbourhood, "draw", drawing_near)
    options = Options(seed=0, evaluations=600, contenders=5)
    result = search(ToyInstance([4] * 8), ToyEvaluator(cost), NoBound(), "near", options)
    assert len(looked_near) >= 3
    assert all(firsts[first] >= 20 for first in looked_near)
    timings = [trial.outcome.timing for trial in result.trials]
    assert result.progress.best_ns == min(timing.time_ns for timing in timings if timing is not None)
