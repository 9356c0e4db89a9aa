"""Of several implementations drawn below a node, the one whose resources together need least."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from spacedsl.engine.candidate import Candidate
from spacedsl.search.climbs import DOUBT
from spacedsl.search.costs.model import Phase, time_ns
from spacedsl.search.descent import Descent
from spacedsl.search.drawing import FIRST_CROSSED, FIRST_NEEDED, FIRST_WALKS, STARTS, UNESTIMATED, Drawing
from spacedsl.search.partitions import Partition
from spacedsl.search.phases import Known
from spacedsl.search.policies import ThresholdAscent, near
from spacedsl.search.rollouts import Bounded, Exhausted, Implementation
from spacedsl.search.run import Options
from spacedsl.search.state import State
from spacedsl.search.tree import Step, Tree
from tests.search.toy import (
    Constraint,
    ExactBound,
    InOrder,
    NoBound,
    ToyCosts,
    ToyEvaluator,
    ToyInstance,
    cost,
    search,
    toy_phase,
    values_of,
)


class Needs(NoBound):
    """The scarcest resource needs the same everywhere; the others tell the implementations apart."""

    def terms_ns(self, candidate: Candidate) -> list[float]:
        values = values_of(candidate)
        return [100.0, 7.0 * values[0], 5.0 * values[1], 3.0 * values[2]]


def parts(instance: ToyInstance, draws: int) -> tuple[Drawing, State]:
    root = instance.root()
    assert root is not None
    drawing = Drawing(Descent(instance, InOrder(instance), Needs()), ThresholdAscent(draws=draws))
    return drawing, State(Tree(instance, root, 0.0, 1), 5)


@pytest.mark.parametrize("seed", range(5))
def test_of_several_the_one_that_needs_least_is_visited(seed: int) -> None:
    drawing, state = parts(ToyInstance([4, 4, 4]), 4)
    (visit,) = drawing.visits(state, np.random.default_rng(seed))
    rng = np.random.default_rng(seed)
    expanded = drawing.descent.expand(Bounded(state.tree.candidate(state.tree.root), 0.0))
    drawn = [drawing.descent.rollout(expanded, state.cut, rng) for _ in range(4)]
    needed = [sum(Needs().terms_ns(end.end.candidate)) for end in drawn if isinstance(end, Implementation)]
    assert isinstance(visit.end, Implementation)
    assert sum(Needs().terms_ns(visit.end.end.candidate)) == min(needed)
    assert len(set(needed)) > 1
    assert not state.iterations


def test_one_draw_is_the_rollout_that_it_is() -> None:
    drawing, state = parts(ToyInstance([4, 4, 4]), 1)
    (visit,) = drawing.visits(state, np.random.default_rng(0))
    rollout = drawing.descent.rollout(visit.expanded, state.cut, np.random.default_rng(0))
    assert isinstance(visit.end, Implementation)
    assert isinstance(rollout, Implementation)
    assert visit.end.steps == rollout.steps


def test_where_nothing_is_to_be_found_one_draw_says_so() -> None:
    """What it refuted closes the node: all that lies below is worse than the cut."""
    instance = ToyInstance([4, 4, 4], [Constraint((0, 1), lambda a, b: a <= b)])
    drawing, state = parts(instance, 4)
    drawing = replace(drawing, descent=replace(drawing.descent, bound=ExactBound(instance, cost)))
    state.tree.recut(0.5 * min(map(cost, instance.solutions())), 1.0)
    rng = np.random.default_rng(0)
    (visit,) = drawing.visits(state, rng)
    assert isinstance(visit.end, Exhausted)
    once = np.random.default_rng(0)
    drawing.descent.rollout(visit.expanded, state.cut, once)
    assert rng.random() == once.random()


def test_the_default_policy_draws_several() -> None:
    assert near().draws > ThresholdAscent().draws == 1


class _Distance(ToyCosts):
    """From one of the implementations."""

    def phases(self, candidate: Candidate) -> Sequence[Phase]:
        apart = zip(values_of(candidate), (2, 1, 3), strict=True)
        return [
            toy_phase(name, ((place, value),), float((value - wanted) ** 2))
            for place, (name, (value, wanted)) in enumerate(zip("abc", apart, strict=True))
        ]


def test_a_walk_ends_where_no_neighbour_costs_less() -> None:
    """Of 64 implementations, the cheapest one is found; their bounds are all the same."""
    instance = ToyInstance([4, 4, 4])
    root = instance.root()
    assert root is not None

    costs = _Distance()
    drawing = Drawing(Descent(instance, InOrder(instance), NoBound()), near(), phases=Known(costs))
    state = State(Tree(instance, root, 0.0, 1), 5)
    ends = [visit.end for visit in drawing.visits(state, np.random.default_rng(0), 10)]
    found = [time_ns(costs, end.end.candidate) for end in ends if isinstance(end, Implementation)]
    assert len(found) == 10
    assert found.count(0.0) >= 7


def test_walks_by_estimates_begin_where_least_is_needed_and_go_on_where_others_ended() -> None:
    """What needs least is not what takes least: estimates lead from there to the one of 4096 that does."""
    instance = ToyInstance([8, 8, 8, 8])
    asked: list[tuple[int, ...]] = []

    def estimate_ns(candidate: Candidate) -> float:
        asked.append(values_of(candidate))
        return 1.0 + sum((value - 6) ** 2 for value in asked[-1])

    def ended(seed: int) -> list[str]:
        found = search(
            instance,
            ToyEvaluator(lambda values: 1.0 + sum((value - 6) ** 2 for value in values)),
            Needs(),
            "near",
            Options(seed=seed, evaluations=6),
            estimate_ns=estimate_ns,
        )
        return [trial.digest for trial in found.trials]

    first = ended(0)
    # Two short walks begin at one start each; then others begin at the best of several.
    needless = [values[:3] == (0, 0, 0) for values in asked]
    assert needless[0]
    assert any(all(needless[n : n + STARTS]) for n in range(FIRST_WALKS, len(asked) - STARTS + 1))
    assert len(first) == 6
    assert (6, 6, 6, 6) in asked
    assert ended(0) == first != ended(1)


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_walks_come_to_the_same_in_any_number_of_processes(processes: int) -> None:
    def ends(processes: int) -> list[Sequence[Step]]:
        drawing, state = parts(ToyInstance([4, 4, 4]), 1)
        drawing = replace(drawing, policy=near(), phases=Known(_Distance()))
        visits = drawing.visits(state, np.random.default_rng(0), 7, processes)
        return [visit.end.steps for visit in visits if isinstance(visit.end, Implementation)]

    assert ends(processes) == ends(1)
    assert len(ends(1)) == 7


@pytest.mark.parametrize("late", [False, True])
def test_walks_end_where_they_are_when_there_is_no_time_left(late: bool) -> None:
    """Five steps into the walk to where the first one begins; `late`: five steps into that one."""
    taken, beginning = 0, UNESTIMATED

    def is_over() -> bool:
        nonlocal taken
        taken += 1
        return taken > 5 + late * beginning

    drawing, state = parts(ToyInstance([60, 60, 60]), 1)
    asked: list[Candidate] = []

    def estimate_ns(candidate: Candidate) -> float:
        asked.append(candidate)
        return 1.0 + sum(values_of(candidate))

    drawing = replace(drawing, policy=near(), estimate_ns=estimate_ns)
    visits = list(drawing.visits(state, np.random.default_rng(0), 3, is_over=is_over))
    assert len(visits) == 3
    assert all(isinstance(visit.end, Implementation) for visit in visits)
    # Where each of them begins, of which there is one only, and what that costs.
    assert len(asked) == (1 + 1 + 5 + 2 * 2 if late else 3 * 2)


def test_no_walk_begins_behind_the_end_and_what_had_begun_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three, the last one is the first to begin, as it may be in another process."""

    def backwards(end_of: Callable[[int], object], seeds: Sequence[int], processes: int) -> list[object]:
        return [end_of(seed) for seed in reversed(seeds)][::-1]

    monkeypatch.setattr("spacedsl.search.drawing.side_by_side", backwards)
    looks = itertools.count()
    drawing, state = parts(ToyInstance([60, 60, 60]), 1)
    state.evaluations = 1
    drawing = replace(drawing, policy=near(), estimate_ns=lambda candidate: 1.0 + sum(values_of(candidate)))
    rng = np.random.default_rng(0)
    (visit,) = drawing.visits(state, rng, 3, is_over=lambda: next(looks) > 5)
    assert isinstance(visit.end, Implementation)


class _Parts(NoBound):
    """What each decision costs is a resource of its own."""

    def terms_ns(self, candidate: Candidate) -> list[float]:
        return [1.0 + value for value in values_of(candidate)]


def test_neighbours_chosen_by_what_was_learnt_come_down_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody says that of three needs the largest counts, of five others all do, and two do not."""

    def time_ns(values: tuple[int, ...]) -> float:
        return 60.0 + max(8 * values[0], 6 * values[1], 4 * values[2]) + sum(values[3:8])

    def above_best_ns(guided: float, seed: int) -> float:
        monkeypatch.setattr("spacedsl.search.drawing.GUIDED", guided)
        options = Options(seed=seed, evaluations=100)
        result = search(ToyInstance([8] * 10), ToyEvaluator(time_ns), _Parts(), "near", options)
        assert result.progress.best_ns is not None
        return result.progress.best_ns - 60.0

    plain, guided = (sum(above_best_ns(share, seed) for seed in range(30)) for share in (0.0, 1.0))
    assert guided < 0.7 * plain


@pytest.mark.parametrize("processes", [1, 3])
def test_a_climb_begins_where_walks_by_needs_end_if_a_model_says_what_is_needed(processes: int) -> None:
    """Then come neighbours of what was measured there. The bound says the same of all."""
    drawing, state = parts(ToyInstance([40, 40, 40]), 1)
    plain = replace(drawing, policy=near(), descent=replace(drawing.descent, bound=NoBound()))
    by_needs = replace(plain, descent=replace(plain.descent, needs=lambda c: [1.0 + v for v in values_of(c)]))
    assert by_needs.walks(state) and not plain.walks(state)
    visits = by_needs.visits(state, np.random.default_rng(0), 4, processes)
    ends = [visit.end.end.candidate for visit in visits if isinstance(visit.end, Implementation)]
    assert len(ends) == 4
    assert all(by_needs.descent.needed_ns(end) < 15 for end in ends), "of 40 values each, by 50 steps"
    state.climb = replace(state.climb, valid=FIRST_NEEDED + FIRST_CROSSED)
    assert not by_needs.walks(state)


@pytest.mark.parametrize(("valid", "is_crossed"), [(FIRST_NEEDED - 1, False), (FIRST_NEEDED, True)])
def test_walks_by_needs_begin_at_what_two_known_implementations_are_together(
    valid: int, is_crossed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the two is good in one half, and what begins anywhere is in neither; the walk takes no step."""
    drawing, state = parts(ToyInstance([40, 40, 40, 40]), 1)
    halves = (Partition("halves", (frozenset({0, 1}), frozenset({2, 3}))),)
    descent = replace(drawing.descent, bound=NoBound(), needs=lambda c: [1.0 + v for v in values_of(c)])
    drawing = replace(drawing, policy=near(), descent=descent, partitions=halves)
    known = [tuple(Step(i, 1 << v) for i, v in enumerate(each)) for each in ((0, 1, 30, 31), (30, 31, 0, 1))]
    monkeypatch.setattr(Drawing, "_known", lambda *_: known)
    monkeypatch.setattr("spacedsl.search.drawing.BEGUN_STEPS", 0)
    monkeypatch.setattr("spacedsl.search.drawing.NEEDED", 0)
    state.climb = replace(state.climb, valid=valid)
    (visit,) = drawing.visits(state, np.random.default_rng(0))
    assert isinstance(visit.end, Implementation)
    assert (values_of(visit.end.end.candidate) == (0, 1, 0, 1)) is is_crossed


def test_one_of_four_looks_elsewhere_by_needs_where_nothing_gets_better(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawing, state = parts(ToyInstance([40, 40, 40]), 1)
    descent = replace(drawing.descent, needs=lambda c: [1.0 + v for v in values_of(c)])
    drawing = replace(drawing, policy=near(), descent=descent)
    state.climb = replace(state.climb, valid=FIRST_NEEDED + FIRST_CROSSED, idle=DOUBT)
    monkeypatch.setattr(Drawing, "_near", lambda *_: None)
    (visit,) = drawing.visits(state, np.random.default_rng(0))
    assert isinstance(visit.end, Implementation)
    assert descent.needed_ns(visit.end.end.candidate) < 15
