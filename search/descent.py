"""Steps downwards from a candidate: all children of one decision, or a random way to an implementation.

In: a candidate with its bound, and the cut. Out: its expansion, or what a rollout ended in. The tree is not
touched. Bounds here are not scaled and never fall on the way down: a child's is at least its parent's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.search.bounds.protocol import Bound
from spacedsl.search.costs.model import Needs
from spacedsl.search.orderings import Branching, Ordering
from spacedsl.search.remembered import Remembered
from spacedsl.search.rollouts import Bounded, Cut, Exhausted, GivenUp, Implementation, Rollouts
from spacedsl.search.tree import Expansion, Step

MOST_NEEDS = 4096
"""Implementations of which it is remembered what they need."""


@dataclass(frozen=True, slots=True)
class Expanded:
    """An expansion with its candidates: the one after the forced decisions, and the children."""

    expansion: Expansion
    start: Bounded
    children: tuple[Bounded, ...]


@dataclass(frozen=True, slots=True)
class Descent:
    instance: Instance
    ordering: Ordering
    bound: Bound
    repairs: int = 64
    """Dead ends that a rollout repairs before it gives up."""
    rollouts: Ordering | None = None
    """In which order a rollout takes what a node leaves open; None: in that of the tree."""
    bounded_every: int = 1
    """Decisions of a rollout from one bound to the next: in between, candidates have their parents'."""
    needs: Needs | None = None
    """Of implementations, from a cost model; None: what the bound says of them."""
    _rollouts: Rollouts = field(init=False, repr=False)
    _needs_ns: Remembered[Sequence[float]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_needs_ns", Remembered(self.needs or self.bound.terms_ns, MOST_NEEDS))
        order = self.rollouts or self.ordering
        rollouts = Rollouts(self.instance, order, self.bound, self.repairs, self.bounded_every)
        object.__setattr__(self, "_rollouts", rollouts)

    def needs_ns(self, implementation: Candidate) -> Sequence[float]:
        """What each resource needs."""
        return self._needs_ns(implementation)

    def needed_ns(self, implementation: Candidate) -> float:
        """What all resources need, one after the other.

        A bound is what the scarcest needs; of implementations, their sum orders times better.
        """
        return sum(self.needs_ns(implementation))

    def expand(self, start: Bounded) -> Expanded:
        """Branches on the next decision that leaves a choice; those with one valid group are forced."""
        forced: list[Step] = []
        refused = 0
        while True:
            branching = self.ordering.next(start.candidate)
            if branching is None:
                return Expanded(Expansion(tuple(forced), start.bound_ns, None, (), (), refused), start, ())
            valid = self._children(start, branching)
            refused += len(branching.masks) - len(valid)
            if len(valid) != 1:
                break
            forced.append(Step(branching.variable.index, valid[0][0]))
            start = valid[0][1]
        children = tuple(child for _, child in valid)
        expansion = Expansion(
            forced=tuple(forced),
            bound_ns=start.bound_ns,
            variable=branching.variable.index,
            masks=tuple(mask for mask, _ in valid),
            bounds_ns=tuple(child.bound_ns for child in children),
            refused=refused,
        )
        return Expanded(expansion, start, children)

    def rollout(
        self, node: Expanded, cut: Cut, rng: np.random.Generator
    ) -> Implementation | Exhausted | GivenUp:
        """A random implementation below a node."""
        if node.expansion.variable is None:
            return _alone(node.start, cut)
        masks = node.expansion.masks
        first = Branching(self.instance.variables[node.expansion.variable], masks)
        known = dict(zip(masks, node.children, strict=True))
        return self._rollouts.draw(node.start, first, known, cut, _seed(rng))

    def completed(
        self, start: Bounded, cut: Cut, rng: np.random.Generator
    ) -> Implementation | Exhausted | GivenUp:
        """A random implementation below a candidate that is no node, or which is one itself."""
        first = self._rollouts.ordering.next(start.candidate)
        if first is None:
            return _alone(start, cut)
        return self._rollouts.draw(start, first, {}, cut, _seed(rng))

    def towards(self, node: Expanded, implementation: Candidate) -> Implementation:
        """The steps from a node to an implementation below it."""
        if node.expansion.variable is None:
            return Implementation(node.start, (), 0)
        steps: list[Step] = []
        end = node.start.candidate
        for step, candidate in self.way(end, implementation):
            steps.append(step)
            end = candidate
        return Implementation(self._rollouts.bounded(Bounded(end, node.start.bound_ns)), tuple(steps), 0)

    def in_order(self, node: Expanded, end: Implementation) -> Implementation:
        """What a rollout below a node came to, by the steps of the tree's ordering: one way to each."""
        if self.rollouts is None:
            return end
        way = self.way(node.start.candidate, end.end.candidate)
        return replace(end, steps=tuple(step for step, _ in way))

    def way(self, start: Candidate, implementation: Candidate) -> Iterator[tuple[Step, Candidate]]:
        """Each step from a candidate to an implementation below it, and where it leads to."""
        while (branching := self.ordering.next(start)) is not None:
            wanted = implementation.mask(branching.variable)
            mask = next(mask for mask in branching.masks if mask & wanted)
            child = self.instance.restrict(start, branching.variable, mask)
            assert child is not None, "an implementation meets the constraints"
            yield Step(branching.variable.index, mask), child
            start = child

    def _children(self, parent: Bounded, branching: Branching) -> list[tuple[int, Bounded]]:
        """All children that constraints and bound leave, with their masks; bounded at once."""
        valid: list[tuple[int, Candidate]] = []
        for mask in branching.masks:
            candidate = self.instance.restrict(parent.candidate, branching.variable, mask)
            if candidate is not None:
                valid.append((mask, candidate))
        bounds_ns = self.bound.of_all([candidate for _, candidate in valid])
        return [
            (mask, Bounded(candidate, max(parent.bound_ns, bound_ns)))
            for (mask, candidate), bound_ns in zip(valid, bounds_ns, strict=True)
            if not math.isinf(bound_ns)
        ]


def _alone(complete: Bounded, cut: Cut) -> Implementation | Exhausted:
    """Of a rollout from an implementation."""
    if cut.excludes(complete.bound_ns):
        return Exhausted(complete.bound_ns, 0)
    return Implementation(complete, (), 0)


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(1 << 63))
