"""Steps downwards from a candidate: all children of one decision, or a random way to an implementation.

In: a candidate with its bound, and the cut. Out: its expansion, or what a rollout ended in. The tree is not
touched. Bounds here are not scaled and never fall on the way down: a child's is at least its parent's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance, Variable
from spacedsl.search.bounds.protocol import Bound
from spacedsl.search.orderings import Branching, Ordering
from spacedsl.search.policies import draw, weight
from spacedsl.search.tree import Expansion, Step


@dataclass(frozen=True, slots=True)
class Bounded:
    """A candidate and its bound, which is not scaled."""

    candidate: Candidate
    bound_ns: float


@dataclass(frozen=True, slots=True)
class Implementation:
    """A rollout came to the end of all decisions by these steps."""

    end: Bounded
    steps: tuple[Step, ...]
    refused: int
    """Values that the constraints refused on the way."""


@dataclass(frozen=True, slots=True)
class Exhausted:
    """A rollout refuted everything: what lies below it has at least this bound; infinite: nothing does."""

    bound_ns: float
    refused: int


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A rollout met more dead ends than it may repair."""

    refused: int


@dataclass(frozen=True, slots=True)
class Cut:
    """The best confirmed time, if there is one, and the factor that bounds are multiplied by."""

    time_ns: float | None
    scale: float

    def weight(self, bound_ns: float) -> float:
        return weight(bound_ns * self.scale, self.time_ns)

    def excludes(self, bound_ns: float) -> bool:
        return self.time_ns is not None and bound_ns * self.scale >= self.time_ns


@dataclass(frozen=True, slots=True)
class Expanded:
    """An expansion with its candidates: the one after the forced decisions, and the children."""

    expansion: Expansion
    start: Bounded
    children: tuple[Bounded, ...]


@dataclass(slots=True)
class _Frame:
    """One decision of a rollout: the groups not yet refuted, and the children already propagated."""

    start: Bounded
    variable: Variable
    open: list[int]
    known: dict[int, Bounded] = field(default_factory=dict)
    taken: int = 0
    """The group that the next frame lies below."""


@dataclass(slots=True)
class _Refuted:
    """What a rollout has learnt: groups that constraints refused, the least bound that the cut excluded."""

    refused: int = 0
    least_excluded_ns: float = math.inf


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

    def needed_ns(self, candidate: Candidate) -> float:
        """What all resources need, one after the other.

        A bound is what the scarcest needs; of implementations, their sum orders times better.
        """
        return sum(self.bound.terms_ns(candidate))

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
        """A random implementation below a node: each child is taken with probability p ~ max(T - b, 0).

        A decision without any value left refutes the one before it, which then takes another value.
        """
        if cut.excludes(node.start.bound_ns):
            return Exhausted(node.start.bound_ns, 0)
        if node.expansion.variable is None:
            return Implementation(node.start, (), 0)
        refuted = _Refuted()
        frames = [self._first_frame(node, self.instance.variables[node.expansion.variable], cut, refuted)]
        dead_ends = 0
        while frames:
            child = self._draw(
                frames[-1], cut, refuted, rng, is_bounded=len(frames) % self.bounded_every == 0
            )
            if child is None:
                frames.pop()
                if frames:
                    frames[-1].open.remove(frames[-1].taken)
                    dead_ends += 1
                    if dead_ends > self.repairs:
                        return GivenUp(refuted.refused)
                continue
            branching = (self.rollouts or self.ordering).next(child.candidate)
            if branching is None:
                end = self._bounded(child) if len(frames) % self.bounded_every else child
                if not (math.isinf(end.bound_ns) or cut.excludes(end.bound_ns)):
                    steps = tuple(Step(frame.variable.index, frame.taken) for frame in frames)
                    return Implementation(end, steps, refuted.refused)
                frames[-1].open.remove(frames[-1].taken)
                refuted.least_excluded_ns = min(refuted.least_excluded_ns, end.bound_ns)
                continue
            frames.append(_Frame(child, branching.variable, list(branching.masks)))
        return Exhausted(refuted.least_excluded_ns, refuted.refused)

    def towards(self, node: Expanded, implementation: Candidate) -> Implementation:
        """The steps from a node to an implementation below it."""
        if node.expansion.variable is None:
            return Implementation(node.start, (), 0)
        steps: list[Step] = []
        end = node.start.candidate
        for step, candidate in self.way(end, implementation):
            steps.append(step)
            end = candidate
        return Implementation(self._bounded(Bounded(end, node.start.bound_ns)), tuple(steps), 0)

    def way(self, start: Candidate, implementation: Candidate) -> Iterator[tuple[Step, Candidate]]:
        """Each step from a candidate to an implementation below it, and where it leads to."""
        while (branching := self.ordering.next(start)) is not None:
            wanted = implementation.mask(branching.variable)
            mask = next(mask for mask in branching.masks if mask & wanted)
            child = self.instance.restrict(start, branching.variable, mask)
            assert child is not None, "an implementation meets the constraints"
            yield Step(branching.variable.index, mask), child
            start = child

    def _bounded(self, known: Bounded) -> Bounded:
        """With a bound of its own."""
        return Bounded(known.candidate, max(known.bound_ns, self.bound(known.candidate)))

    def _first_frame(self, node: Expanded, variable: Variable, cut: Cut, refuted: _Refuted) -> _Frame:
        frame = _Frame(node.start, variable, [])
        for mask, child in zip(node.expansion.masks, node.children, strict=True):
            if cut.excludes(child.bound_ns):
                refuted.least_excluded_ns = min(refuted.least_excluded_ns, child.bound_ns)
            else:
                frame.open.append(mask)
                frame.known[mask] = child
        return frame

    def _draw(
        self, frame: _Frame, cut: Cut, refuted: _Refuted, rng: np.random.Generator, *, is_bounded: bool
    ) -> Bounded | None:
        """A child of the frame; None once all its groups are refuted.

        Propagating every child to know its weight would cost most of a rollout. A child's bound is at least
        its parent's, so the parent's weight is an upper limit, and rejection sampling under it draws from
        the same distribution: a child drawn uniformly is kept with probability weight / limit. Once all
        weights are known the draw is direct.
        """
        limit = cut.weight(frame.start.bound_ns)
        while frame.open:
            if all(mask in frame.known for mask in frame.open):
                weights = [cut.weight(frame.known[mask].bound_ns) for mask in frame.open]
                frame.taken = frame.open[draw(weights, rng)]
                return frame.known[frame.taken]
            mask = frame.open[int(rng.integers(len(frame.open)))]
            child = frame.known.get(mask) or self._child(
                frame.start, frame.variable, mask, is_bounded=is_bounded
            )
            if child is None:
                frame.open.remove(mask)
                refuted.refused += 1
            elif cut.excludes(child.bound_ns):
                frame.open.remove(mask)
                refuted.least_excluded_ns = min(refuted.least_excluded_ns, child.bound_ns)
            else:
                frame.known[mask] = child
                if float(rng.random()) * limit < cut.weight(child.bound_ns):
                    frame.taken = mask
                    return child
        return None

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

    def _child(self, parent: Bounded, variable: Variable, mask: int, *, is_bounded: bool) -> Bounded | None:
        """The candidate after a decision, propagated and bounded; None where the constraints refuse it, or
        the bound does: nothing takes forever. Else its parent's bound holds for it, too.
        """
        candidate = self.instance.restrict(parent.candidate, variable, mask)
        if candidate is None:
            return None
        bound_ns = self.bound(candidate) if is_bounded else parent.bound_ns
        return None if math.isinf(bound_ns) else Bounded(candidate, max(parent.bound_ns, bound_ns))
