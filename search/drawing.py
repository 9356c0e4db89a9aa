"""Which implementation comes next: down the tree, or near a good one; of several drawn, the most promising.

In: the state of a search, a generator. Out: the node of the tree, its expansion, and the steps from there to
an implementation, or why there is none. Neither state nor tree changes, and nothing is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from spacedsl.search.cost_model import CostModel, by_bound
from spacedsl.search.descent import Bounded, Descent, Exhausted, Expanded, GivenUp, Implementation
from spacedsl.search.neighbours import Neighbourhood
from spacedsl.search.policies import Policy
from spacedsl.search.state import State
from spacedsl.search.tree import Node, Tree

FIRST_ROLLOUTS = 40
"""Valid implementations from all over the space before any is looked for near another."""

KNOWN = 16
"""Of the fastest implementations have neighbours."""

TRIES = 8
"""Neighbours that are drawn for each that is wanted, where bounds exclude them."""


class Visit(NamedTuple):
    node: Node
    expanded: Expanded
    end: Implementation | Exhausted | GivenUp


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """`model`: what the times of measured implementations say of others; None while they say nothing."""

    descent: Descent
    policy: Policy
    model: CostModel | None = None

    def visit(self, state: State, rng: np.random.Generator) -> Visit:
        return self._near(state, rng) or self._down(state, rng)

    def _down(self, state: State, rng: np.random.Generator) -> Visit:
        """The node that the policy comes to, its expansion, and how rollouts from there ended.

        What the first one refutes is learnt; the others are drawn only where it found an implementation.
        """
        node = self._select(state.tree, rng)
        expanded = self.descent.expand(Bounded(state.tree.candidate(node), node.bound_ns))
        ends: list[Implementation] = []
        for _ in range(self.policy.draws):
            end = self.descent.rollout(expanded, state.cut, rng)
            if isinstance(end, Implementation):
                ends.append(end)
            elif not ends:
                return Visit(node, expanded, end)
        return Visit(node, expanded, ends[self._by_promise([end.end for end in ends])[0]])

    def _near(self, state: State, rng: np.random.Generator) -> Visit | None:
        """An implementation near the best ones that was not yet met, the node that it lies below, and the
        expansion of that; None: the policy shall choose.
        """
        if state.valid < FIRST_ROLLOUTS or float(rng.random()) >= self.policy.share_near:
            return None
        neighbourhood = Neighbourhood(self.descent, state.tree.candidate(state.tree.root))
        known = [contender.steps for contender in state.fastest(KNOWN)]
        drawn: list[Bounded] = []
        for _ in range(TRIES * self.policy.draws):
            neighbour = neighbourhood.draw(known, state.cut, rng)
            if neighbour is not None:
                drawn.append(neighbour)
            if len(drawn) == self.policy.draws:
                break
        for place in self._by_promise(drawn):
            visit = self._towards(state, drawn[place])
            if visit is not None:
                return visit
        return None

    def _towards(self, state: State, neighbour: Bounded) -> Visit | None:
        """The way to an implementation; None where it was met, or lies below what is closed."""
        node = state.tree.holder(neighbour.candidate)
        if node.closed is not None:
            return None
        expanded = self.descent.expand(Bounded(state.tree.candidate(node), node.bound_ns))
        end = self.descent.towards(expanded, neighbour.candidate)
        is_met = state.steps(node, (*expanded.expansion.forced, *end.steps)) in state.met
        return None if is_met else Visit(node, expanded, end)

    def _by_promise(self, implementations: Sequence[Bounded]) -> list[int]:
        if self.model is None:
            return by_bound(implementations)
        return self.model.by_promise(implementations)

    def _select(self, tree: Tree, rng: np.random.Generator) -> Node:
        node = tree.root
        while node.is_expanded:
            node = self.policy.choose(tree, node, rng)
        return node
