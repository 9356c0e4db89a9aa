"""Policies against values computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from spacedsl.search.policies import (
    BestFirst,
    ThresholdAscent,
    Uniform,
    draw,
    threshold_score,
    weight,
)
from spacedsl.search.tree import Closed, Expansion, Node, Tree
from tests.search.toy import ToyInstance


def tree_with(bounds_ns: tuple[float, ...], kept_times: int = 10) -> Tree:
    """A root with one child for each bound."""
    instance = ToyInstance([len(bounds_ns), 2])
    root = instance.root()
    assert root is not None
    tree = Tree(instance, root, 0.0, kept_times)
    masks = tuple(1 << i for i in range(len(bounds_ns)))
    tree.expand(tree.root, Expansion((), 0.0, 0, masks, bounds_ns, 0))
    return tree


def test_the_threshold_score_is_the_published_formula() -> None:
    # a = ln(2 * 4 * 3 / 1) = ln 24 = 3.17805; (2 + a + sqrt(a * (4 + a))) / 3
    score = threshold_score(successes=2, trials=3, all_trials=4, arms=3, delta=1.0)
    # = (5.178054 + sqrt(22.812242)) / 3 = (5.178054 + 4.776216) / 3
    assert score == pytest.approx(3.318090, rel=1e-6)
    # a = ln(2 * 1 * 1 / 2) = 0: no allowance is left, the score is the observed rate.
    assert threshold_score(successes=1, trials=4, all_trials=1, arms=1, delta=2.0) == 0.25
    # The logarithm is negative: a is 0, not less.
    assert threshold_score(successes=1, trials=4, all_trials=1, arms=1, delta=10.0) == 0.25


def test_threshold_ascent_follows_the_child_with_the_highest_score() -> None:
    tree = tree_with((0.0, 0.0, 0.0), kept_times=3)
    children = tree.root.children
    # 12 results, the best 3 of which count: two came through child 1 in 3 trials, one through child 0 in 3,
    # none through child 2 in 6.
    times = {0: (10.0, 50.0, 51.0), 1: (11.0, 12.0, 60.0), 2: (70.0, 71.0, 72.0, 73.0, 74.0, 75.0)}
    policy = ThresholdAscent(top_k=3)
    for child, results in times.items():
        for time_ns in results:
            tree.visit(children[child])
            tree.record(children[child], time_ns, f"{time_ns}")
    assert [time_ns for time_ns, _ in tree.root.fastest] == [10.0, 11.0, 12.0]
    alpha = math.log(2 * 12 * 3)
    scores = [(s + alpha + math.sqrt(alpha * (2 * s + alpha))) / t for s, t in ((1, 3), (2, 3), (0, 6))]
    assert policy.choose(tree, tree.root, np.random.default_rng(0)) is children[scores.index(max(scores))]


def test_the_same_code_found_twice_is_one_result() -> None:
    tree = tree_with((0.0, 0.0))
    first, second = tree.root.children
    tree.visit(first)
    tree.record(first, 10.0, "same")
    tree.visit(first)
    tree.record(first, 10.0, "same")
    tree.visit(second)
    tree.record(second, 20.0, "other")
    assert tree.root.fastest == [(10.0, "same"), (20.0, "other")]
    assert tree.root.visits == 3
    assert first.visits == 2


def test_untried_children_come_first_drawn_by_their_bounds() -> None:
    tree = tree_with((0.0, 50.0, 75.0, 100.0))
    tree.recut(100.0, 1.0)
    tree.visit(tree.root.children[0])
    tree.record(tree.root.children[0], 500.0, "slow")
    rng = np.random.default_rng(1)
    counts = dict.fromkeys(range(4), 0)
    for _ in range(3000):
        counts[ThresholdAscent().choose(tree, tree.root, rng).index] += 1
    assert counts[0] == 0  # tried before
    assert counts[3] == 0  # its bound is not below the best time
    # max(T - b, 0) is 50 and 25.
    assert counts[1] / 3000 == pytest.approx(2 / 3, abs=0.03)


def test_best_first_takes_the_least_live_bound_below_and_not_only_the_childs_own() -> None:
    tree = tree_with((10.0, 20.0))
    left, right = tree.root.children
    assert BestFirst().choose(tree, tree.root, np.random.default_rng(0)) is left
    tree.expand(left, Expansion((), 10.0, 1, (1, 2), (30.0, 40.0), 0))
    assert tree.least_live_bound_ns == 20.0
    assert BestFirst().choose(tree, tree.root, np.random.default_rng(0)) is right


def test_no_policy_visits_a_closed_child() -> None:
    tree = tree_with((10.0, 20.0, 30.0))
    tree.close(tree.root.children[0], Closed.MEASURED)
    tree.recut(30.0, 1.0)
    for policy in (ThresholdAscent(), BestFirst(), Uniform()):
        for seed in range(10):
            chosen: Node = policy.choose(tree, tree.root, np.random.default_rng(seed))
            assert chosen is tree.root.children[1]


def test_weights_follow_the_paper() -> None:
    assert weight(30.0, 100.0) == 70.0
    assert weight(130.0, 100.0) == 0.0
    assert weight(4.0, None) == pytest.approx(0.25)
    assert math.isfinite(weight(0.0, None))


def test_a_draw_is_proportional_and_never_takes_a_weight_of_zero() -> None:
    rng = np.random.default_rng(5)
    counts = np.bincount([draw([0.0, 1.0, 3.0, 0.0], float(rng.random())) for _ in range(4000)], minlength=4)
    assert counts[0] == counts[3] == 0
    assert counts[2] / 4000 == pytest.approx(0.75, abs=0.03)
