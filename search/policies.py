"""How a search walks down its tree: given a node, which live child comes next.

In: an expanded node with at least one live child, and the cut. Out: that child. How many iterations go to
neighbours of good implementations instead of down the tree, and how many are drawn below a node for each that
is measured, is part of a policy, too. A policy holds options and no state: what it knows lies in the nodes'
statistics, so that a resumed run decides as an uninterrupted one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Protocol

import numpy as np

from spacedsl.search.tree import Node, Tree

FLOOR_NS = 1e-6
"""Keeps the weight of a bound of zero finite."""


def weight(bound_ns: float, cut_ns: float | None) -> float:
    """How much a candidate is worth trying: p ~ max(T - b, 0), and 1/b while there is no best time T."""
    if cut_ns is None:
        return 1.0 / (bound_ns + FLOOR_NS)
    return max(cut_ns - bound_ns, 0.0)


def draw(weights: Sequence[float], fraction: float) -> int:
    """An index with probability proportional to its weight; at least one weight is positive.

    `fraction`: a random number from 0 to 1.
    """
    point = fraction * reduce(add, weights)
    last = 0
    for index, w in enumerate(weights):
        if w > 0:
            last = index
            point -= w
            if point < 0:
                break
    return last


class Policy(Protocol):
    @property
    def kept_times(self) -> int:
        """How many of its fastest results a node has to remember."""
        ...

    @property
    def share_near(self) -> float:
        """Share of the iterations that visit a neighbour of a good implementation (`neighbours.py`). Without
        a cost model all of them do while a climb gets on, unless it is 0.
        """
        ...

    @property
    def draws(self) -> int:
        """How many implementations are drawn below a node for each that is measured (`drawing.py`)."""
        ...

    def choose(self, tree: Tree, node: Node, rng: np.random.Generator) -> Node:
        """One of the node's live children, of which there is at least one."""
        ...


@dataclass(frozen=True, slots=True)
class ThresholdAscent:
    """Threshold Ascent on Graph: follow the children through which most of the node's best results came.

    A child that was tried t times, s of them among the best `top_k` results of the node, scores the upper
    confidence limit of s / t (de Mesmay et al., ICML 2009; Streeter and Smith, CP 2006). Children that have
    not been tried come first, drawn by their bounds.
    """

    top_k: int = 10
    delta: float = 1.0
    share_near: float = 0.0
    draws: int = 1

    @property
    def kept_times(self) -> int:
        return self.top_k

    def choose(self, tree: Tree, node: Node, rng: np.random.Generator) -> Node:
        live = node.live
        untried = [child for child in live if child.visits == 0]
        if untried:
            return _draw_by_bound(tree, untried, rng)
        best = set(node.fastest)
        trials = sum(child.visits for child in live)
        scores = [
            threshold_score(
                successes=len(best.intersection(child.fastest)),
                trials=child.visits,
                all_trials=trials,
                arms=len(live),
                delta=self.delta,
            )
            for child in live
        ]
        # Ties are common while few results are known: the lower bound decides them.
        return max(zip(scores, live, strict=True), key=lambda pair: (pair[0], -pair[1].least_ns))[1]


def threshold_score(*, successes: int, trials: int, all_trials: int, arms: int, delta: float) -> float:
    """Upper confidence limit of s / t: (s + a + sqrt(a (2 s + a))) / t with a = max(0, ln(2 T k / delta)).

    T are the trials of all k arms together.
    """
    alpha = max(0.0, math.log(2 * all_trials * arms / delta))
    return (successes + alpha + math.sqrt(alpha * (2 * successes + alpha))) / trials


@dataclass(frozen=True, slots=True)
class BestFirst:
    """Always towards the least live bound; equal ones in order."""

    kept_times: int = 1
    share_near: float = 0.0
    draws: int = 1

    def choose(self, tree: Tree, node: Node, rng: np.random.Generator) -> Node:
        return min(node.live, key=lambda child: child.least_ns)


@dataclass(frozen=True, slots=True)
class Uniform:
    """Any live child, with equal probability."""

    kept_times: int = 1
    share_near: float = 0.0
    draws: int = 1

    def choose(self, tree: Tree, node: Node, rng: np.random.Generator) -> Node:
        live = node.live
        return live[int(rng.integers(len(live)))]


def _draw_by_bound(tree: Tree, nodes: Sequence[Node], rng: np.random.Generator) -> Node:
    weights = [weight(node.bound_ns * tree.scale, tree.cut_ns) for node in nodes]
    return nodes[draw(weights, float(rng.random()))]


def near() -> ThresholdAscent:
    """Iterations improve on the best implementations; where that fails for long, one in four looks elsewhere.

    A node of the tree fixes the first decisions of its path, and a change of an early one is a new path whose
    later decisions are drawn anew. From one good implementation to the next it is mostly one decision.
    """
    return ThresholdAscent(share_near=0.75, draws=4)


POLICIES: dict[str, Callable[[], Policy]] = {
    "near": near,
    "tag": ThresholdAscent,
    "bound": BestFirst,
    "uniform": Uniform,
}
"""Policies by the names that the command line knows."""
