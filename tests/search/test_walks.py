"""Walks by a cost model: they end no higher than they began, and change what gains something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from spacedsl.engine.candidate import Candidate
from spacedsl.search.costs.model import time_ns
from spacedsl.search.costs.pipeline import PipelineCosts
from spacedsl.search.descent import Descent
from spacedsl.search.neighbours import Neighbourhood
from spacedsl.search.orderings import select_ordering
from spacedsl.search.partitions import Partition
from spacedsl.search.rollouts import Cut
from spacedsl.search.tree import Step, replay
from spacedsl.search.walks import Promise, walked
from tests.codegen.devices import DEVICE
from tests.kernels.pipeline.cases import instance
from tests.kernels.pipeline.test_library import CASES, load
from tests.search.toy import InOrder, NoBound, ToyInstance, values_of

UNCUT = Cut(None, 1.0)


def begun(name: str) -> tuple[Neighbourhood, PipelineCosts, Candidate]:
    here = instance(load(name, CASES[name].sizes).backbone)
    root = here.root()
    assert root is not None
    near = Neighbourhood(Descent(here, select_ordering(here, here.space, None), NoBound()), root)
    start = near.planned((), UNCUT, np.random.default_rng(1))
    assert start is not None
    return near, PipelineCosts(here, DEVICE), start


def test_a_walk_goes_downhill_and_is_the_same_again() -> None:
    near, costs, start = begun("unsharp")

    def cost(candidate: Candidate) -> float:
        return time_ns(costs, candidate)

    ends = [walked(near, start, cost, 100, UNCUT, np.random.default_rng(2)) for _ in range(2)]
    assert ends[0].vector == ends[1].vector
    assert cost(ends[0]) < cost(start)


def test_what_a_step_takes_over_is_tried_instead_of_a_change() -> None:
    near, _, start = begun("unsharp")
    step = near.descent.instance.variables_of("site")[0]
    wanted = [(step.index, 1 << bit) for bit in range(len(step.universe)) if near.root.mask(step) >> bit & 1]
    seen: list[int] = []

    def cost(candidate: Candidate) -> float:
        seen.append(candidate.mask(step))
        return 1.0

    given = iter([(pair,) for pair in wanted])
    walked(near, start, cost, len(wanted), UNCUT, np.random.default_rng(2), lambda: next(given))
    # What no implementation has costs nothing.
    assert seen[1:] == [mask for _, mask in wanted if mask in seen[1:]]
    assert len(seen) > 2


def test_what_gains_something_together_only_is_changed_together() -> None:
    """Where a walk knows groups: two decisions of which either one alone costs more."""
    instance = ToyInstance([4, 4, 4])
    root = instance.root()
    assert root is not None
    descent, rng = Descent(instance, InOrder(instance), NoBound()), np.random.default_rng(0)
    pair = Partition("Pairs", (frozenset({0, 1}), frozenset({2})))
    start = replay(instance, root, [Step(place, 1) for place in range(3)])

    def cost(candidate: Candidate) -> float:
        first, second, third = values_of(candidate)
        return 10 * abs(first - second) + 9 - first - second - third

    near = Neighbourhood(descent, root)
    alone = walked(near, start, cost, 100, UNCUT, rng)
    together = walked(near, start, cost, 100, UNCUT, rng, partitions=(pair,))
    assert values_of(alone) == (0, 0, 3)
    assert values_of(together) == (3, 3, 3)


def shares(promise: Promise, choices: Sequence[str]) -> Counter[str]:
    rng = np.random.default_rng(3)
    return Counter(promise.drawn(choices, rng) for _ in range(4000))


def test_what_has_gained_more_is_changed_more_often() -> None:
    """Nothing is given up."""
    promise = Promise()
    assert max(shares(promise, ("a", "b", "c")).values()) < 1500
    for number in range(40):
        promise.learn("a", is_gain=number % 2 == 0)
        promise.learn("b", is_gain=False)
    found = shares(promise, ("a", "b", "c"))
    assert found["a"] > found["c"] > found["b"] > 50
