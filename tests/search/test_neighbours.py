"""Neighbours are implementations, differ from what they are near to, and in little else than they must."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance, Variable
from spacedsl.language.space import EnumChoice
from spacedsl.search import neighbours
from spacedsl.search.bounds.cpu import CpuBound
from spacedsl.search.climbs import DOUBT
from spacedsl.search.descent import Descent
from spacedsl.search.drawing import FIRST_ROLLOUTS, Drawing, Visit
from spacedsl.search.neighbours import Neighbourhood, unlike
from spacedsl.search.partitions import Partition, partitions
from spacedsl.search.policies import near
from spacedsl.search.rollouts import Bounded, Cut, Implementation
from spacedsl.search.run import Options, Search
from spacedsl.search.state import State
from spacedsl.search.tree import Step, replay
from tests.search.linalg import DEVICE, MATMUL, SHIFTED, native, ordering_of, root
from tests.search.toy import (
    Constraint,
    ExactBound,
    InOrder,
    NoBound,
    ToyEvaluator,
    ToyInstance,
    cost,
    search,
    values_of,
)

NO_CUT = Cut(None, 1.0)


def toy_steps(values: tuple[int, ...]) -> tuple[Step, ...]:
    return tuple(Step(i, 1 << value) for i, value in enumerate(values))


def toy_neighbours(
    instance: ToyInstance,
    values: tuple[int, ...],
    cut: Cut = NO_CUT,
    partitions: tuple[Partition, ...] = (),
) -> list[tuple[int, ...]]:
    start = instance.root()
    assert start is not None
    descent = Descent(instance, InOrder(instance), ExactBound(instance, cost))
    near_it = Neighbourhood(descent, start, partitions, share_relaxed=1.0)
    rng = np.random.default_rng(0)
    drawn = [near_it.draw([toy_steps(values)], cut, rng) for _ in range(300)]
    return [values_of(candidate) for candidate in drawn if candidate is not None]


def test_crossed_are_groups_of_one_and_the_rest_of_the_other() -> None:
    groups = (Partition("each", tuple(frozenset({i}) for i in range(4))),)
    instance = ToyInstance([4, 4, 4, 4])
    start = instance.root()
    assert start is not None
    near_it = Neighbourhood(Descent(instance, InOrder(instance), NoBound()), start, groups)
    one, other = (replay(instance, start, toy_steps((n,) * 4)) for n in (1, 2))
    rng = np.random.default_rng(0)
    drawn = [near_it.crossed(one, other, NO_CUT, rng) for _ in range(100)]
    found = {values_of(candidate) for candidate in drawn if candidate is not None}
    assert found == {values for values in itertools.product((1, 2), repeat=4) if values.count(2) in (1, 2)}


def test_without_constraints_exactly_one_decision_changes_and_any_may() -> None:
    known = (1, 2, 3)
    found = toy_neighbours(ToyInstance([4, 4, 4]), known)
    assert {sum(a != b for a, b in zip(known, values, strict=True)) for values in found} == {1}
    assert len(set(found)) == 9  # three other values of each of three variables


def test_what_is_bound_to_the_changed_decision_goes_along_and_nothing_else_does() -> None:
    instance = ToyInstance([4, 4, 4], [Constraint((0, 1), lambda a, b: a == b)])
    found = set(toy_neighbours(instance, (1, 1, 3)))
    assert found == {(v, v, 3) for v in (0, 2, 3)} | {(1, 1, v) for v in (0, 1, 2)}


def test_choices_between_groups_are_drawn_anew_all_at_once_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(neighbours, "GROUPS", 1)
    instance, known = ToyInstance([4, 4, 4, 4]), (3, 3, 3, 3)
    # The first two choices are about the one group, the third about the other, and the last about neither.
    partition = Partition("Half", (frozenset({0, 1}), frozenset({2})))
    found = set(toy_neighbours(instance, known, partitions=(partition,)))
    expected = {(a, b, 3, 3) for a in range(4) for b in range(4)} | {(3, 3, c, 3) for c in range(4)}
    assert found == {values for values in expected - {known} if cost(values) <= cost(known)}


def test_what_needs_more_than_the_known_one_is_drawn_again() -> None:
    instance, best = ToyInstance([4, 4]), (2, 2)
    assert cost(best) == min(map(cost, instance.solutions()))
    partition = Partition("Half", (frozenset({0}), frozenset({1})))
    found = toy_neighbours(instance, best, partitions=(partition,))
    others = sorted(cost(each) for each in instance.solutions() if each != best)
    assert found and {cost(each) for each in found} <= {*others[:3]}, "of those that need more, the least"


def test_below_a_node_lies_what_differs_from_an_implementation_elsewhere_no_more_than_it_must() -> None:
    instance = ToyInstance([4, 4, 4], [Constraint((0, 1), lambda a, b: a == b)])
    start = instance.root()
    assert start is not None
    below = instance.restrict(start, instance.variables[0], 1 << 2)
    assert below is not None
    near_it = Neighbourhood(Descent(instance, InOrder(instance), NoBound()), below)
    known, rng = replay(instance, start, toy_steps((1, 1, 3))), np.random.default_rng(0)
    found = near_it.like(known, NO_CUT, rng)
    assert found is not None
    assert values_of(found) == (2, 2, 3)


def test_of_implementations_that_are_alike_the_fastest_has_neighbours() -> None:
    fastest_first = [(0, 0, 0, 0), (0, 0, 1, 1), (0, 1, 1, 1), (1, 1, 1, 1), (2, 2, 1, 0), (1, 1, 2, 0)]
    found = list(unlike(map(toy_steps, fastest_first)))
    assert found == [toy_steps(values) for values in ((0, 0, 0, 0), (0, 1, 1, 1), (2, 2, 1, 0), (1, 1, 2, 0))]


def test_a_neighbour_meets_the_constraints_and_is_not_the_known_one() -> None:
    instance = ToyInstance([5, 5, 5], [Constraint((0, 1, 2), lambda a, b, c: (a + 2 * b + 3 * c) % 7 < 3)])
    solutions = set(instance.solutions())
    for known in sorted(solutions)[::9]:
        assert set(toy_neighbours(instance, known)) <= solutions - {known}


def test_what_the_cut_excludes_is_no_neighbour() -> None:
    known = (1, 2, 3)
    found = toy_neighbours(ToyInstance([4, 4, 4]), known, Cut(cost(known), 1.0))
    assert found
    assert all(cost(values) < cost(known) for values in found)


def _rollout(
    instance: Instance, start: Candidate, rng: np.random.Generator
) -> tuple[Descent, Implementation]:
    descent = Descent(instance, ordering_of(instance), CpuBound(instance, DEVICE))
    end = descent.rollout(descent.expand(Bounded(start, 0.0)), NO_CUT, rng)
    assert isinstance(end, Implementation)
    return descent, end


@pytest.mark.parametrize("seed", range(3))
def test_a_tile_size_changes_in_all_fused_loops_at_once(seed: int) -> None:
    """In a matrix product most neighbours keep most decisions, those on fused loops too."""
    instance, rng = native(MATMUL), np.random.default_rng(seed)
    start = root(instance)
    descent, end = _rollout(instance, start, rng)
    forced = descent.expand(Bounded(start, 0.0)).expansion.forced
    steps = (*forced, *end.steps)
    known = replay(instance, start, steps)
    assert known.is_complete
    near_it = Neighbourhood(descent, start)
    drawn = [near_it.draw([steps], NO_CUT, rng) for _ in range(40)]
    neighbours = [candidate for candidate in drawn if candidate is not None]
    assert len(neighbours) > 20
    assert all(candidate.is_complete for candidate in neighbours)
    changes = [
        sum(candidate.mask(v) != known.mask(v) for v in instance.variables) for candidate in neighbours
    ]
    assert min(changes) > 0
    other = [_rollout(instance, start, rng)[1].end.candidate for _ in range(20)]
    random_changes = [sum(c.mask(v) != known.mask(v) for v in instance.variables) for c in other]
    assert np.median(changes) < 0.5 * np.median(random_changes)


def _merged(instance: Instance, candidate: Candidate) -> set[tuple[str, ...]]:
    """Pairs of loops that are one."""
    order = instance.space.choices["order"]
    assert isinstance(order, EnumChoice)
    one = order.mask("MERGED")
    pairs = (v for v in instance.variables if v.choice == "order")
    return {tuple(map(str, v.objects)) for v in pairs if candidate.mask(v) == one}


def test_loops_of_two_nests_become_one_although_nobody_decided_to_keep_them_apart() -> None:
    """What is implied changes, too, and what was one loop before stays one."""
    instance, rng = native(SHIFTED), np.random.default_rng(1)
    start = root(instance)
    nests = {"load_X", "init", "max", "store_top"}, {"load_X_2", "load_top", "sub", "store_Y"}

    def between(pairs: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
        owners = {pair: [name.partition(".")[0] for name in pair] for pair in pairs}
        return {pair for pair in pairs if all(nest & set(owners[pair]) for nest in nests)}

    for _ in range(12):
        descent, end = _rollout(instance, start, rng)
        steps = (*descent.expand(Bounded(start, 0.0)).expansion.forced, *end.steps)
        before, near_it = _merged(instance, end.end.candidate), Neighbourhood(descent, start)
        drawn = [near_it.draw([steps], NO_CUT, rng) for _ in range(150)]
        after = [_merged(instance, candidate) for candidate in drawn if candidate is not None]
        assert not between(before)
        assert any(between(merged) and before <= merged for merged in after)


@pytest.mark.parametrize("seed", range(3))
def test_of_a_matrix_product_much_changes_at_once_where_it_needs_no_more(seed: int) -> None:
    instance, rng = native(MATMUL), np.random.default_rng(seed)
    start = root(instance)
    descent, end = _rollout(instance, start, rng)
    steps = (*descent.expand(Bounded(start, 0.0)).expansion.forced, *end.steps)
    known = replay(instance, start, steps)
    near_it = Neighbourhood(descent, start, partitions(instance), share_relaxed=1.0)
    drawn = [near_it.draw([steps], NO_CUT, rng) for _ in range(20)]
    found = [candidate for candidate in drawn if candidate is not None]
    assert found
    assert all(candidate.is_complete and candidate.vector != known.vector for candidate in found)
    assert all(descent.needed_ns(candidate) <= descent.needed_ns(known) for candidate in found)


def test_decisions_about_what_a_trigger_adds_change_and_are_kept_as_any_others() -> None:
    """Copies that go through a temporary are no part of the root."""
    near_it, known, present = _with_additions()
    steps = tuple(step for step, _ in near_it.descent.way(near_it.root, known))
    rng = np.random.default_rng(4)
    changes = _changes(known, present, [near_it.draw([steps], NO_CUT, rng) for _ in range(60)])
    assert len(changes) > 20
    assert 0 < np.count_nonzero(changes) < len(changes)
    assert np.median(changes) < len(present) / 20


def test_what_a_trigger_adds_stays_where_one_decision_of_a_choice_changes() -> None:
    """It hardly depends on how one array is stored; `beside` draws it anew all the same."""
    near_it, known, present = _with_additions()
    rng = np.random.default_rng(5)
    kept = [near_it.changed(known, "caching", NO_CUT, rng) for _ in range(60)]
    drawn_anew = [near_it.beside(known, "caching", NO_CUT, rng) for _ in range(60)]
    changes = _changes(known, present, kept)
    assert len(changes) > 20 and not any(changes)
    assert np.count_nonzero(_changes(known, present, drawn_anew)) > 20
    variables = near_it.descent.instance.variables_of("caching")
    for found in kept:
        assert found is None or any(found.mask(v) != known.mask(v) for v in variables)


def _with_additions() -> tuple[Neighbourhood, Candidate, list[Variable]]:
    """An implementation of a product with copies, and the decisions on what these add."""
    instance, rng = native(MATMUL), np.random.default_rng(3)
    start = root(instance)
    added = instance.absent(start.vector, instance.variables)
    present: list[Variable] = []
    while len(present) < 20:
        descent, end = _rollout(instance, start, rng)
        present = [v for v in added if end.end.candidate.is_present(v)]
    return Neighbourhood(descent, start), end.end.candidate, present


def _changes(known: Candidate, present: Sequence[Variable], drawn: Sequence[Candidate | None]) -> list[int]:
    """How many of these decisions are others in each that is drawn and has them."""
    return [
        sum(candidate.mask(v) != known.mask(v) for v in present)
        for candidate in drawn
        if candidate is not None and all(candidate.is_present(v) for v in present)
    ]


def test_the_steps_to_an_implementation_lead_to_it() -> None:
    instance, rng = native(MATMUL), np.random.default_rng(1)
    descent, end = _rollout(instance, root(instance), rng)
    expanded = descent.expand(Bounded(root(instance), 0.0))
    towards = descent.towards(expanded, end.end.candidate)
    assert towards.end.candidate.vector == end.end.candidate.vector
    assert towards.end.bound_ns == end.end.bound_ns
    assert replay(instance, expanded.start.candidate, towards.steps).vector == end.end.candidate.vector


def test_neighbours_find_the_optimum_of_a_large_space_in_few_evaluations() -> None:
    """By hand: 6 variables of 8 values, improved one at a time, need at most 6 * 7 changes from any start."""
    results = []
    for policy in (near(), near().__class__()):
        instance = ToyInstance([8] * 6)
        result = Search(
            instance,
            bound=NoBound(),
            evaluator=ToyEvaluator(cost),
            ordering=InOrder(instance),
            policy=policy,
            options=Options(seed=5, evaluations=FIRST_ROLLOUTS + 300),
        ).run()
        assert result.best is not None
        results.append(values_of(result.best.candidate))
    assert results[0] == (2,) * 6
    assert results[1] != (2,) * 6


def test_a_climb_that_gets_on_is_not_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tree is walked down again when nothing has been better for a while."""
    down, idle = Drawing._down, list[int]()

    def counted(self: Drawing, state: State, rng: np.random.Generator) -> Visit:
        if state.climb.valid >= FIRST_ROLLOUTS:
            idle.append(state.climb.idle)
        return down(self, state, rng)

    monkeypatch.setattr(Drawing, "_down", counted)
    options = Options(seed=5, evaluations=FIRST_ROLLOUTS + 200)
    search(ToyInstance([8] * 6), ToyEvaluator(cost), NoBound(), "near", options)
    assert len(idle) > 10
    assert min(idle) >= DOUBT


def test_equal_values_are_those_of_the_same_name_whatever_else_is_on_offer() -> None:
    """Two sizes, of 1, 2, 4 and of 2, 4, 8: the second value of one is the first of the other."""
    instance = ToyInstance([3, 3, 3])
    for variable, sizes in zip(instance.variables, ((1, 2, 4), (2, 4, 8), (1, 2, 4)), strict=True):
        variable.universe = sizes
    root = instance.root()
    assert root is not None
    near = Neighbourhood(Descent(instance, InOrder(instance), NoBound()), root)
    known = replay(instance, root, [Step(0, 0b010), Step(1, 0b010), Step(2, 0b010)])
    offers = near._offers(known, near._around(known), instance.variables[0].choice)
    names = (1, 2, 4, 8)
    pairs = {names[place]: zip(*offers.to_have(place), strict=True) for place in offers.values}
    found = {name: {(n, 1 << bit) for n, bit in each} for name, each in pairs.items()}
    assert found == {1: {(0, 1), (2, 1)}, 2: {(1, 1)}, 4: {(0, 4), (2, 4)}, 8: {(1, 4)}}
    assert [*offers.having(1)] == [0, 2] and [*offers.having(2)] == [1]
