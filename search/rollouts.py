"""Rollouts: random ways down from a candidate to an implementation, under a bound, with repair.

In: a candidate with its bound, the cut, a seed. Out: an implementation with the steps that lead to it, or why
there is none. Where the bound and the order of decisions are compiled, so is all of a rollout
(`engine/native/rollouts.py`); the reference here takes the same decisions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance, Variable
from spacedsl.engine.native import rollouts as native
from spacedsl.engine.native.descents import NativeOrdering
from spacedsl.engine.native.propagation import NativePropagation
from spacedsl.engine.streams import Stream
from spacedsl.search.bounds.protocol import Bound
from spacedsl.search.orderings import Branching, Ordering, native_ordering
from spacedsl.search.policies import FLOOR_NS, draw, weight
from spacedsl.search.tree import Step


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
class Rollouts:
    """Each child is taken with probability p ~ max(T - b, 0). A decision without any value left refutes the
    one before it, which then takes another value.
    """

    instance: Instance
    ordering: Ordering
    bound: Bound
    repairs: int
    """Dead ends that a rollout repairs before it gives up."""
    bounded_every: int
    """Decisions from one bound to the next: in between, candidates have their parents'."""
    is_compiled: bool = True
    """Whether compiled code may run them."""
    _compiled: _Compiled | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_compiled", _compiled(self) if self.is_compiled else None)

    def draw(
        self, start: Bounded, first: Branching, known: Mapping[int, Bounded], cut: Cut, seed: int
    ) -> Implementation | Exhausted | GivenUp:
        """A random implementation below a candidate.

        `first`: the decision that it begins with. `known`: children that have been propagated, by mask.
        """
        if cut.excludes(start.bound_ns):
            return Exhausted(start.bound_ns, 0)
        least_excluded_ns = math.inf
        frame = _Frame(start, first.variable, [], dict(known))
        for mask in first.masks:
            child = known.get(mask)
            if child is not None and cut.excludes(child.bound_ns):
                least_excluded_ns = min(least_excluded_ns, child.bound_ns)
            else:
                frame.open.append(mask)
        if self._compiled is not None:
            return self._compiled.rollout(frame, cut, least_excluded_ns, seed)
        return _Reference(self, cut, Stream(seed, 0), [frame], least_excluded_ns).rollout()

    def bounded(self, known: Bounded) -> Bounded:
        """With a bound of its own."""
        return Bounded(known.candidate, max(known.bound_ns, self.bound(known.candidate)))


# ---- The reference ----------------------------------------------------------------------------------------


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
class _Reference:
    """One rollout, and what it has learnt."""

    of: Rollouts
    cut: Cut
    stream: Stream
    frames: list[_Frame]
    least_excluded_ns: float
    """The least bound that the cut excluded."""
    refused: int = 0
    """Groups that constraints refused."""

    def rollout(self) -> Implementation | Exhausted | GivenUp:
        frames, every, dead_ends = self.frames, self.of.bounded_every, 0
        while frames:
            child = self._child_of(frames[-1], is_bounded=len(frames) % every == 0)
            if child is None:
                frames.pop()
                if frames:
                    frames[-1].open.remove(frames[-1].taken)
                    dead_ends += 1
                    if dead_ends > self.of.repairs:
                        return GivenUp(self.refused)
                continue
            branching = self.of.ordering.next(child.candidate)
            if branching is not None:
                frames.append(_Frame(child, branching.variable, list(branching.masks)))
                continue
            end = self.of.bounded(child) if len(frames) % every else child
            if not (math.isinf(end.bound_ns) or self.cut.excludes(end.bound_ns)):
                steps = tuple(Step(frame.variable.index, frame.taken) for frame in frames)
                return Implementation(end, steps, self.refused)
            self._exclude(frames[-1], frames[-1].taken, end.bound_ns)
        return Exhausted(self.least_excluded_ns, self.refused)

    def _child_of(self, frame: _Frame, *, is_bounded: bool) -> Bounded | None:
        """A child of the frame; None once all its groups are refuted.

        Propagating every child to know its weight would cost most of a rollout. A child's bound is at least
        its parent's, so the parent's weight is an upper limit, and rejection sampling under it draws from
        the same distribution: a child drawn uniformly is kept with probability weight / limit. Once all
        weights are known the draw is direct.
        """
        limit = self.cut.weight(frame.start.bound_ns)
        while frame.open:
            if all(mask in frame.known for mask in frame.open):
                weights = [self.cut.weight(frame.known[mask].bound_ns) for mask in frame.open]
                frame.taken = frame.open[draw(weights, self.stream.fraction())]
                return frame.known[frame.taken]
            mask = frame.open[self.stream.integers(len(frame.open))]
            child = frame.known.get(mask) or self._learnt(frame, mask, is_bounded=is_bounded)
            if child is not None and self.stream.fraction() * limit < self.cut.weight(child.bound_ns):
                frame.taken = mask
                return child
        return None

    def _learnt(self, frame: _Frame, mask: int, *, is_bounded: bool) -> Bounded | None:
        """The candidate after a decision, propagated and bounded; None where the constraints refuse it, or
        the bound does (nothing takes forever), or the cut excludes it. Without a bound of its own, its
        parent's holds for it, too.
        """
        candidate = self.of.instance.restrict(frame.start.candidate, frame.variable, mask)
        child = None if candidate is None else Bounded(candidate, frame.start.bound_ns)
        if child is not None and is_bounded:
            child = self.of.bounded(child)
        if child is None or math.isinf(child.bound_ns):
            frame.open.remove(mask)
            self.refused += 1
            return None
        if self.cut.excludes(child.bound_ns):
            self._exclude(frame, mask, child.bound_ns)
            return None
        frame.known[mask] = child
        return child

    def _exclude(self, frame: _Frame, mask: int, bound_ns: float) -> None:
        frame.open.remove(mask)
        self.least_excluded_ns = min(self.least_excluded_ns, bound_ns)


# ---- In compiled code -------------------------------------------------------------------------------------


def _compiled(rollouts: Rollouts) -> _Compiled | None:
    """None where anything that it takes is known to Python alone."""
    bound = rollouts.bound.compiled
    if bound is None or rollouts.instance.native is None:
        return None
    ordering = native_ordering(rollouts.instance, rollouts.ordering)
    if ordering is None:
        return None
    cells = {variable.offset: variable.index for variable in rollouts.instance.variables}
    return _Compiled(rollouts, bound, rollouts.instance.native, ordering, cells)


@dataclass(frozen=True, slots=True)
class _Compiled:
    of: Rollouts
    bound: native.CompiledBound
    propagation: NativePropagation
    ordering: NativeOrdering
    variables: Mapping[int, int]
    """By cell."""

    def rollout(
        self, frame: _Frame, cut: Cut, least_excluded_ns: float, seed: int
    ) -> Implementation | Exhausted | GivenUp:
        bounds_ns = [child.bound_ns if (child := frame.known.get(mask)) else None for mask in frame.open]
        found = native.rollout(
            self.propagation,
            frame.start.candidate.vector,
            frame.start.bound_ns,
            native.FirstDecision(frame.variable.offset, frame.open, bounds_ns),
            self.ordering,
            native.Worth(
                self.bound,
                math.inf if cut.time_ns is None else cut.time_ns,
                cut.scale,
                FLOOR_NS,
                self.of.bounded_every,
                self.of.repairs,
            ),
            seed,
        )
        if found.is_given_up:
            return GivenUp(found.refused)
        if found.leaf is None:
            return Exhausted(min(least_excluded_ns, found.least_excluded_ns), found.refused)
        steps = tuple(Step(self.variables[cell], mask) for cell, mask in found.steps)
        end = Bounded(Candidate(self.of.instance, found.leaf), found.bound_ns)
        return Implementation(end, steps, found.refused)
