"""Which implementation comes next: down the tree, near a good one, or where a walk by what a model says ends.

In: the state of a search, a generator. Out: the node of the tree, its expansion, and the steps from there to
an implementation, or why there is none. Neither state nor tree changes, and nothing is measured. Walks only
read, and take long: several go side by side.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple, TypeVar

import numpy as np

from spacedsl.engine.candidate import Candidate
from spacedsl.search.costs.model import Decisions
from spacedsl.search.descent import Descent, Expanded
from spacedsl.search.forks import side_by_side
from spacedsl.search.neighbours import Neighbourhood, unlike
from spacedsl.search.partitions import Partition
from spacedsl.search.phases import Guess, Known
from spacedsl.search.policies import Policy, Uniform
from spacedsl.search.remembered import Remembered
from spacedsl.search.rollouts import Bounded, Cut, Exhausted, GivenUp, Implementation
from spacedsl.search.state import State
from spacedsl.search.surrogate import Surrogate
from spacedsl.search.tree import Node, Step, replay
from spacedsl.search.walks import never, walked

FIRST_ROLLOUTS = 40
"""Valid implementations from all over the space before any is looked for near another: of each climb."""

FIRST_NEEDED = 8
"""The same where a cost model says what implementations need: each is the end of a walk by that, which begins
anywhere."""

FIRST_CROSSED, CROSSED = 4, 0.5
"""So many walks by needs come next, which begin at what two known implementations are together: what is good
in one place of each may be good in one. So does a share of those that are taken later.
"""

DRAWN, BEGUN, BEGUN_STEPS, NEEDED = 4, 8, 50, 300
"""Of several such walks that begin, each at the one that needs least of some implementations that are drawn,
the one that has come to the least after a few steps is gone on with, up to so many: where a walk may come to
is decided early. All of them together take as long as three or four measurements.
"""

KNOWN = 16
"""Of the fastest implementations that are unlike each other have neighbours."""

PLANNED, UNPLANNED = 12, 4
"""Implementations that are drawn where a walk begins, if there is a cost model, by plans and without. It
begins at the cheapest."""

LEAST_WALK, MOST_WALK, MOST_DECIDED = 100, 1000, 200_000
"""Its steps, at most: four for each variable, but for very small and very large spaces. All of them together
decide no more than so many variables. Half of the walks are shorter."""

MOST_DECIDED_UNMEASURED = 8 * MOST_DECIDED
"""The same where nothing will be measured: the model is all there is to learn from, and to check a large
program takes as long as a thousand steps."""

FIRST_COMPARED = 4
"""Known implementations before walks begin beside them."""

ESTIMATED = 60
"""Steps of a walk by estimates, at most; half of the walks are shorter."""

AS_IS = 0.5
"""The share of such walks that begin at what is known; others begin at a neighbour of it."""

FIRST_WALKS, FIRST_ESTIMATED = 2, 8
"""Walks by estimates that a search begins with, and their steps, each from one start: there is something to
show soon. The others begin anew."""

STARTS, UNESTIMATED = 6, 100
"""Walks by what resources need, and their steps, where nothing is known: an estimate takes as long as dozens
of steps. The one with the least estimate is gone on with.
"""

SPREADS = (0.0, 0.0, 0.5, 1.0)
"""Of guesses; which one is drawn for each walk."""

TRANSPLANTED = 0.2
"""The share of a walk's steps that take over a phase which has been measured."""

TRIES = 8
"""Neighbours that are drawn, where constraints or bounds exclude them or they were met, before the policy
chooses.
"""

GUIDED, COMPARED = 0.75, 10
"""The share of the neighbours that are chosen by what the search has learnt, and of how many each. The others
are measured as they are drawn: what was learnt may be wrong.
"""


A = TypeVar("A")


class Visit(NamedTuple):
    node: Node
    expanded: Expanded
    end: Implementation | Exhausted | GivenUp


@dataclass(frozen=True, slots=True)
class Drawing:
    descent: Descent
    policy: Policy
    partitions: Sequence[Partition] = ()
    """What neighbours may relax."""
    phases: Known | None = None
    """Which say what is worth a measurement; they learn what the state has of them."""
    estimate_ns: Callable[[Candidate], float] | None = None
    """What a model says of an implementation before it is built; None: there is no such model."""
    surrogate: Surrogate = field(default_factory=Surrogate)
    """What is known of whole implementations, where there is neither."""

    @property
    def is_walking(self) -> bool:
        """Whether all implementations are the ends of walks by what a model says."""
        is_estimated = self.estimate_ns is not None and self.policy.share_near > 0
        return self.phases is not None or is_estimated

    def walks(self, state: State) -> bool:
        """Whether the next ones are."""
        return self.is_walking or (self._is_by_needs and state.climb.valid < FIRST_NEEDED + FIRST_CROSSED)

    @property
    def _is_by_needs(self) -> bool:
        return self.descent.needs is not None and self.policy.share_near > 0

    def visits(
        self,
        state: State,
        rng: np.random.Generator,
        count: int = 1,
        processes: int = 1,
        is_over: Callable[[], bool] = never,
    ) -> Iterator[Visit]:
        """So many, one after the other: what the state has learnt meanwhile counts.

        Walks, though, all begin with the state as it is now, each with a generator of its own, so that they
        are the same in any number of processes. `is_over`: whether they are to end where they are, and none
        is to begin if anything has been measured.
        """
        if not self.walks(state):
            for _ in range(count):
                yield self._near(state, rng) or self._elsewhere(state, rng, processes)
            return
        self._learn(state)

        def is_too_late() -> bool:
            return state.evaluations > 0 and is_over()

        seeds = [int(rng.integers(2**63)) for _ in range(count)]
        ends = self._ends if self.is_walking else self._needed
        for end in ends(state, seeds, processes, is_over):
            if state.tree.is_exhausted:
                return
            if end is None and is_too_late():
                continue
            found = None if end is None else self._at_or_beside(end, state, rng)
            yield found or self._down(state, rng)

    def _ends(
        self, state: State, seeds: Sequence[int], processes: int, is_over: Callable[[], bool]
    ) -> list[Candidate | None]:
        """Where walks by what a model says come to, one for each seed; None: it did not begin."""

        def end_of(seed: int) -> Candidate | None:
            if state.evaluations > 0 and is_over():
                return None
            return self._walk(state, np.random.default_rng(seed), is_over)

        return self._side_by_side(state, end_of, seeds, processes)

    def _learn(self, state: State) -> None:
        """What has been measured of phases."""
        if self.phases is not None:
            root = state.tree.candidate(state.tree.root)
            for timed in state.timed[self.phases.learnt :]:
                self.phases.learn(replay(self.descent.instance, root, timed.steps), timed.phases_ns)

    def _walk(self, state: State, rng: np.random.Generator, is_over: Callable[[], bool]) -> Candidate | None:
        """Where one walk comes to; None: it did not begin."""
        if self.phases is not None:
            return self._cheap(state, self.phases, rng, is_over)
        assert self.estimate_ns is not None
        return self._estimated(state, self.estimate_ns, rng, is_over)

    def _cheap(
        self, state: State, phases: Known, rng: np.random.Generator, is_over: Callable[[], bool]
    ) -> Candidate | None:
        """Downhill by what phases take: from the cheapest of several implementations that are drawn, or from
        beside one of the fastest.
        """
        neighbourhood, known = self._neighbourhood(state), self._known(state)
        costs = Guess(phases, SPREADS[int(rng.integers(len(SPREADS)))], rng)
        start: Candidate | None = None
        if len(known) >= FIRST_COMPARED and float(rng.random()) < self.policy.share_near:
            start = _neighbour(neighbourhood, known, state.cut, rng)
        if start is None:
            plan = phases.costs.plan
            drawn = [neighbourhood.planned(plan(rng), state.cut, rng) for _ in range(PLANNED)]
            drawn += [neighbourhood.planned((), state.cut, rng) for _ in range(UNPLANNED)]
            start = _least(drawn, costs)
        if start is None:
            return None

        def taken() -> Decisions | None:
            return phases.drawn(rng) if float(rng.random()) < TRANSPLANTED else None

        return walked(neighbourhood, start, costs, self._length(rng), state.cut, rng, taken, is_over)

    def _estimated(
        self,
        state: State,
        estimate_ns: Callable[[Candidate], float],
        rng: np.random.Generator,
        is_over: Callable[[], bool],
    ) -> Candidate | None:
        """Downhill by estimates: from one of the fastest or beside it or, to begin with and once in a while,
        from where resources are needed least.
        """
        near, known, cut = self._neighbourhood(state), self._known(state), state.cut
        is_first, is_begun = not state.evaluations, state.evaluations > FIRST_WALKS and bool(known)
        if not (is_begun and (state.climb.gets_on or float(rng.random()) < self.policy.share_near)):
            starts: list[Candidate | None] = []
            while len(starts) < (1 if is_first else STARTS) and not (starts and is_over()):
                starts.append(self._least_needed(near, cut, rng, is_over))
            start = _least(starts, estimate_ns)
        else:
            beside = None if float(rng.random()) < AS_IS else _neighbour(near, known, cut, rng)
            start = beside or near.known(known, rng)
        if start is None:
            return None
        # A walk comes to some more than once, and an estimate takes long.
        estimated_ns = Remembered(estimate_ns, ESTIMATED)
        steps = _drawn_length(FIRST_ESTIMATED if is_first else ESTIMATED, rng)
        return walked(near, start, estimated_ns, steps, cut, rng, is_over=is_over, partitions=self.partitions)

    def _needed(
        self, state: State, seeds: Sequence[int], processes: int, is_over: Callable[[], bool]
    ) -> list[Candidate | None]:
        """Where walks by what is needed come to, one for each seed: from anywhere, or from between known
        implementations. None: it did not begin.
        """
        near, cut, needed_ns = self._neighbourhood(state), state.cut, self.descent.needed_ns
        parents = {seed: self._parents(state, np.random.default_rng(seed)) for seed in seeds}

        def beginning(seed: int, rng: np.random.Generator) -> Candidate | None:
            if known := parents[seed]:
                one, other = (known[place] for place in rng.permutation(len(known))[:2])
                return near.crossed(one, other, cut, rng)
            return _least([near.planned((), cut, rng) for _ in range(DRAWN)], needed_ns)

        def walk(start: Candidate | None, steps: int, rng: np.random.Generator) -> Candidate | None:
            if start is None:
                return None
            return walked(
                *(near, start, needed_ns, steps, cut, rng),
                is_over=is_over,
                partitions=self.partitions,
                change=near.changed,
            )

        def begun(which: tuple[int, int]) -> Candidate | None:
            seed, place = which
            if (place or state.evaluations) and is_over():
                return None
            rng = np.random.default_rng(which)
            return walk(beginning(seed, rng), BEGUN_STEPS, rng)

        def gone_on(seed: int) -> Candidate | None:
            rng = np.random.default_rng((seed, BEGUN))
            return walk(starts[seed], NEEDED - BEGUN_STEPS, rng)

        each = [(seed, place) for seed in seeds for place in range(BEGUN)]
        ends = dict(zip(each, self._side_by_side(state, begun, each, processes), strict=True))
        starts = {seed: _least([ends[seed, place] for place in range(BEGUN)], needed_ns) for seed in seeds}
        return self._side_by_side(state, gone_on, seeds, processes)

    def _side_by_side(
        self, state: State, function: Callable[[A], Candidate | None], of: Sequence[A], processes: int
    ) -> list[Candidate | None]:
        """What a function comes to, in several processes: vectors are all that goes from one to another."""
        root = state.tree.candidate(state.tree.root)

        def vector_of(argument: A) -> array[int] | None:
            found = function(argument)
            return None if found is None else found.vector

        vectors = side_by_side(vector_of, of, processes)
        return [None if vector is None else replace(root, vector=vector) for vector in vectors]

    def _parents(self, state: State, rng: np.random.Generator) -> list[Candidate]:
        """Known implementations that a walk by needs begins between; none where it begins anywhere."""
        if state.climb.valid < FIRST_NEEDED or not self.partitions:
            return []
        if not self.walks(state) and float(rng.random()) >= CROSSED:
            return []
        root = state.tree.candidate(state.tree.root)
        known = [replay(self.descent.instance, root, steps) for steps in self._known(state)]
        return known if len(known) > 1 else []

    def _least_needed(
        self, near: Neighbourhood, cut: Cut, rng: np.random.Generator, is_over: Callable[[], bool]
    ) -> Candidate | None:
        """Where a walk by estimates may begin: at the end of one by what all resources need."""
        needed_ns = self.descent.needed_ns
        start = _least([near.planned((), cut, rng) for _ in range(UNPLANNED)], needed_ns)
        if start is None:
            return None
        return walked(near, start, needed_ns, UNESTIMATED, cut, rng, is_over=is_over)

    def _neighbourhood(self, state: State) -> Neighbourhood:
        return Neighbourhood(self.descent, state.tree.candidate(state.tree.root), self.partitions)

    def _known(self, state: State) -> list[Sequence[Step]]:
        """The fastest that are unlike each other."""
        return list(islice(unlike(contender.steps for contender in state.fastest()), KNOWN))

    def _at_or_beside(self, best: Candidate, state: State, rng: np.random.Generator) -> Visit | None:
        """An implementation, or one beside it where it was met before."""
        found = self._to(best, state)
        if found is not None:
            return found
        neighbourhood = self._neighbourhood(state)
        for _ in range(TRIES):
            other = neighbourhood.beside(best, None, state.cut, rng)
            if other is not None and (found := self._to(other, state)) is not None:
                return found
        return None

    def _length(self, rng: np.random.Generator) -> int:
        """Of a walk by the cost model."""
        count = max(1, len(self.descent.instance.variables))
        decided = MOST_DECIDED if self.estimate_ns is None else MOST_DECIDED_UNMEASURED
        return _drawn_length(max(LEAST_WALK, min(4 * count, MOST_WALK, decided // count)), rng)

    def _to(self, target: Candidate, state: State) -> Visit | None:
        """The node that an implementation lies below, where it was not yet met."""
        node = state.tree.holder(target)
        if node.closed is not None:
            return None
        expanded = self.descent.expand(Bounded(state.tree.candidate(node), node.bound_ns))
        end = self.descent.towards(expanded, target)
        is_met = state.steps(node, (*expanded.expansion.forced, *end.steps)) in state.met
        return None if is_met else Visit(node, expanded, end)

    def _elsewhere(self, state: State, rng: np.random.Generator, processes: int) -> Visit:
        """From anywhere, where a model says what is worth it; else down the tree."""
        end: Candidate | None = None
        if self._is_by_needs:
            (end,) = self._needed(state, [int(rng.integers(2**63))], processes, never)
        return (None if end is None else self._to(end, state)) or self._down(state, rng)

    def _down(self, state: State, rng: np.random.Generator) -> Visit:
        """The node that the policy comes to, its expansion, and how rollouts from there ended.

        Of several implementations, the one whose resources together need least. What the first rollout
        refutes is learnt; others follow only where it found an implementation.
        """
        node = self._select(state, rng)
        expanded = self.descent.expand(Bounded(state.tree.candidate(node), node.bound_ns))
        end = self.descent.rollout(expanded, state.cut, rng)
        if not isinstance(end, Implementation):
            return Visit(node, expanded, end)
        found = [end]
        for _ in range(self.policy.draws - 1):
            other = self.descent.rollout(expanded, state.cut, rng)
            if isinstance(other, Implementation):
                found.append(other)
        if len(found) > 1:
            end = min(found, key=lambda each: self.descent.needed_ns(each.end.candidate))
        return Visit(node, expanded, self.descent.in_order(expanded, end))

    def _near(self, state: State, rng: np.random.Generator) -> Visit | None:
        """An implementation near the best ones that was not yet met, the node that it lies below, and the
        expansion of that; None: the policy shall choose.
        """
        climb, share = state.climb, self.policy.share_near
        if not share or (not self._is_by_needs and climb.valid < FIRST_ROLLOUTS):
            return None
        # A climb that gets on is not interrupted: what lies elsewhere is hardly ever better.
        if not climb.gets_on and float(rng.random()) >= share:
            return None
        neighbourhood, known = self._neighbourhood(state), self._known(state)
        for target in self._neighbours(neighbourhood, known, state, rng):
            if target is not None and (visit := self._to(target, state)) is not None:
                return visit
        return None

    def _neighbours(
        self,
        neighbourhood: Neighbourhood,
        known: Sequence[Sequence[Step]],
        state: State,
        rng: np.random.Generator,
    ) -> Iterator[Candidate | None]:
        """In the order in which they are to be visited, drawn as they are asked for; None: a draw failed."""
        if float(rng.random()) < GUIDED:
            drawn = [neighbourhood.draw(known, state.cut, rng) for _ in range(COMPARED)]
            yield from self._fastest_first(drawn, state, rng)
        for _ in range(TRIES):
            yield neighbourhood.draw(known, state.cut, rng)

    def _fastest_first(
        self, drawn: Sequence[Candidate | None], state: State, rng: np.random.Generator
    ) -> list[Candidate]:
        """Those that are implementations, as the surrogate draws their times."""
        root, needs_ns = state.tree.candidate(state.tree.root), self.descent.needs_ns
        for timed in state.timed[self.surrogate.learnt :]:
            known = replay(self.descent.instance, root, timed.steps)
            self.surrogate.learn(needs_ns(known), timed.time_ns)
        found = [candidate for candidate in drawn if candidate is not None]
        if not found:
            return []
        times = self.surrogate.drawn([needs_ns(candidate) for candidate in found], rng)
        return [found[place] for place in np.argsort(times, kind="stable")]

    def _select(self, state: State, rng: np.random.Generator) -> Node:
        """What a policy has learnt leads to where the climbs before have been: a new one begins anywhere."""
        is_new = state.climb.first > 1 and state.climb.valid < FIRST_ROLLOUTS
        policy = Uniform() if is_new and self.policy.share_near else self.policy
        node = state.tree.root
        # One that a rising cut opened again may be expanded and have no children.
        while node.children:
            node = policy.choose(state.tree, node, rng)
        return node


def _neighbour(
    near: Neighbourhood, known: Sequence[Sequence[Step]], cut: Cut, rng: np.random.Generator
) -> Candidate | None:
    """One of several that are drawn: a draw fails where decisions that were kept refute each other. Where a
    walk does not begin, a rollout takes its place, which may be any implementation.
    """
    drawn = (near.draw(known, cut, rng) for _ in range(TRIES))
    return next((candidate for candidate in drawn if candidate is not None), None)


def _least(drawn: Sequence[Candidate | None], cost_ns: Callable[[Candidate], float]) -> Candidate | None:
    """The one that costs least, of those draws that did not fail; None where all did."""
    return min((each for each in drawn if each is not None), key=cost_ns, default=None)


def _drawn_length(longest: int, rng: np.random.Generator) -> int:
    """Of half of the walks as long as it may be, of others its order of magnitude is drawn."""
    return int(longest ** min(1.0, 2 * float(rng.random())))
