"""The search itself: select, expand, roll out, lower, evaluate, record; until the budget or the space ends.

In: an instance, a bound, an evaluator, an ordering, a policy and options. Out: a `Result`, and on the way
events for a listener and iterations for a store. A store that already holds iterations is gone on with: they
are folded into the state as they happened, and the generator continues from where it stood. It never prints.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from spacedsl.engine.candidate import Candidate, Decision
from spacedsl.engine.instance import Instance
from spacedsl.kernels.evaluation import Evaluator, Lowered, Outcome
from spacedsl.search.bounds.protocol import Bound
from spacedsl.search.comparison import Comparison, Finalist, judged, ranked
from spacedsl.search.descent import Bounded, Descent, Exhausted, Implementation
from spacedsl.search.events import Comparing, Finished, Listener, Progress, Started
from spacedsl.search.neighbours import Neighbourhood
from spacedsl.search.orderings import Ordering
from spacedsl.search.policies import Policy
from spacedsl.search.results import Result, Stop
from spacedsl.search.state import Contender, Iteration, Measured, State
from spacedsl.search.store import DamagedError, Store
from spacedsl.search.tree import Node, Tree, replay

FIRST_ROLLOUTS = 40
"""Valid implementations from all over the space before any is looked for near another."""

KNOWN = 16
"""Of the fastest implementations have neighbours."""

TRIES = 8
"""Neighbours that are drawn, where bounds exclude them or they are known, before the policy chooses."""


@dataclass(frozen=True, slots=True)
class Options:
    """`seconds` and `evaluations` bound the whole run, over all its resumptions; None: no limit."""

    seed: int = 0
    seconds: float | None = None
    evaluations: int | None = None
    contenders: int = 5
    """How many of the fastest are measured side by side at the end."""
    repairs: int = 64
    """Dead ends that a rollout repairs before it gives up."""


class ContradictionError(Exception):
    """A decision fixed by the expert that the constraints refuse, after those before it."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        super().__init__(
            f"the constraints refuse {_spelled(decision)}, together with the decisions fixed before it"
        )


class UnknownDecisionError(Exception):
    """A decision about a choice, objects or values that this instance of the space does not have."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        super().__init__(f"this space does not offer {_spelled(decision)}")


def _spelled(decision: Decision) -> str:
    values = " | ".join(str(value) for value in decision.values)
    return f"{decision.choice}({', '.join(decision.objects)}) is {values}"


def decided(instance: Instance, root: Candidate, decisions: Sequence[Decision]) -> Candidate:
    """The candidate after the decisions; raises `ContradictionError` or `UnknownDecisionError`."""
    candidate = root
    for decision in decisions:
        try:
            restricted = instance.decide(candidate, decision)
        except KeyError:
            raise UnknownDecisionError(decision) from None
        if restricted is None:
            raise ContradictionError(decision)
        candidate = restricted
    return candidate


class Search:
    """One exploration; `run` once. `interrupt` may be called from a signal handler or another thread."""

    def __init__(
        self,
        instance: Instance,
        *,
        bound: Bound,
        evaluator: Evaluator,
        ordering: Ordering,
        policy: Policy,
        options: Options,
        decisions: Sequence[Decision] = (),
        store: Store | None = None,
        listener: Listener = lambda event: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._instance = instance
        self._bound = bound
        self._evaluator = evaluator
        self._policy = policy
        self._options = options
        self._decisions = tuple(decisions)
        self._store = store
        self._emit = listener
        self._clock = clock
        self._descent = Descent(instance, ordering, bound, options.repairs)
        self._rng = np.random.default_rng(options.seed)
        self._is_interrupted = False

    def interrupt(self) -> None:
        """Ends the search after the iteration in progress."""
        self._is_interrupted = True

    def run(self) -> Result:
        root = self._instance.root()
        if root is None:
            return self._nothing(Stop.EMPTY, "the constraints leave no implementation of this kernel")
        try:
            root = decided(self._instance, root, self._decisions)
        except ContradictionError as error:
            return self._nothing(Stop.CONTRADICTION, str(error))
        tree = Tree(self._instance, root, self._bound(root), self._policy.kept_times)
        state = State(tree, self._options.contenders)
        if self._store is not None:
            self._restore(state, self._store)
        self._emit(Started(tree.root.bound_ns, self._options.seed, state.iterations))
        self._evaluator.open()
        try:
            stop = self._search(state, root)
        finally:
            self._evaluator.close()
        progress = state.progress()
        self._emit(Finished(stop, "", progress))
        return Result(
            stop=stop,
            message="",
            seed=self._options.seed,
            root_bound_ns=tree.root.bound_ns * tree.scale,
            progress=progress,
            finalists=ranked([self._finalist(state, root, contender) for contender in state.contenders]),
            trials=tuple(state.trials),
            defects=tuple(state.defects),
        )

    def _restore(self, state: State, store: Store) -> None:
        random_state: str | None = None
        for happened in store.history():
            if isinstance(happened, Comparison):
                state.compare(happened)
                continue
            random_state = happened.random_state
            try:
                state.absorb(happened)
            except IndexError:
                message = (
                    f"the record in {store.folder} is damaged: iteration {state.iterations + 1} has no place"
                )
                raise DamagedError(message) from None
        if random_state is not None:
            self._rng.bit_generator.state = json.loads(random_state)

    def _search(self, state: State, root: Candidate) -> Stop:
        """Explores, and compares the fastest; goes on where that has opened again what they had cut.

        It may as well have cut all that was left when the budget ended.
        """
        while True:
            stop = self._explore(state)
            if stop is Stop.INTERRUPTED:
                return stop
            self._compare(state, root)
            if self._is_interrupted:
                return Stop.INTERRUPTED
            if state.tree.is_exhausted:
                return Stop.EXHAUSTED
            if stop is not Stop.EXHAUSTED:
                return stop

    def _explore(self, state: State) -> Stop:
        started = self._clock() - state.seconds
        while True:
            if state.tree.is_exhausted:
                return Stop.EXHAUSTED
            if self._is_interrupted:
                return Stop.INTERRUPTED
            if self._is_spent(state, self._clock() - started):
                return Stop.BUDGET
            try:
                iteration, children, code = self._iterate(state, started)
            except KeyboardInterrupt:
                return Stop.INTERRUPTED
            # Committed first: what is in the state is then always in the store, too.
            if self._store is not None:
                self._store.append(iteration, code)
            for event in state.absorb(iteration, children):
                self._emit(event)

    def _is_spent(self, state: State, seconds: float) -> bool:
        limit = self._options
        return (limit.evaluations is not None and state.evaluations >= limit.evaluations) or (
            limit.seconds is not None and seconds >= limit.seconds
        )

    def _iterate(self, state: State, started: float) -> tuple[Iteration, tuple[Candidate, ...], str | None]:
        """One iteration, the candidates of its expansion, and its code where that is worth keeping."""
        target = self._near(state)
        node = self._select(state.tree) if target is None else state.tree.holder(target)
        start = Bounded(state.tree.candidate(node), node.bound_ns)
        expanded = self._descent.expand(start)
        if target is None:
            end = self._descent.rollout(expanded, state.cut, self._rng)
        else:
            end = self._descent.towards(expanded, target)
        measured, code = None, None
        if isinstance(end, Implementation):
            measured, code = self._measure(state, end)
        iteration = Iteration(
            path=node.path(),
            expansion=expanded.expansion,
            measured=measured,
            proven_ns=end.bound_ns if isinstance(end, Exhausted) else None,
            refused=expanded.expansion.refused + end.refused,
            seconds=self._clock() - started,
            random_state=json.dumps(self._rng.bit_generator.state),
        )
        return iteration, tuple(child.candidate for child in expanded.children), code

    def _near(self, state: State) -> Candidate | None:
        """An implementation near the best ones that is worth a visit; None: the policy shall choose."""
        if state.valid < FIRST_ROLLOUTS or float(self._rng.random()) >= self._policy.share_near:
            return None
        neighbourhood = Neighbourhood(self._descent, state.tree.candidate(state.tree.root))
        known = [contender.steps for contender in state.fastest(KNOWN)]
        for _ in range(TRIES):
            target = neighbourhood.draw(known, state.cut, self._rng)
            if target is not None and state.tree.holder(target).closed is None:
                return target
        return None

    def _select(self, tree: Tree) -> Node:
        node = tree.root
        while node.is_expanded:
            node = self._policy.choose(tree, node, self._rng)
        return node

    def _measure(self, state: State, end: Implementation) -> tuple[Measured, str | None]:
        """The outcome of an implementation, and its code if it becomes a contender."""
        bound_ns = end.end.bound_ns
        lowered = self._evaluator.lower(end.end.candidate)
        # What cannot be lowered has no code to be known by.
        vector = end.end.candidate.vector.tobytes()
        digest = hashlib.sha256(vector).hexdigest() if isinstance(lowered, Outcome) else lowered.digest
        known = state.known.get(digest)
        if known is not None:
            return Measured(end.steps, bound_ns, digest, known, is_duplicate=True), None
        if isinstance(lowered, Outcome):
            return Measured(end.steps, bound_ns, digest, lowered, is_duplicate=False), None
        outcome = self._evaluator.run(lowered, state.best_ns)
        measured = Measured(end.steps, bound_ns, lowered.digest, outcome, is_duplicate=False)
        return measured, lowered.code if state.is_contender(measured) else None

    def _compare(self, state: State, root: Candidate) -> None:
        """Measures the contenders side by side; where all of them fail, those that were slower."""
        compared: set[str] = set()
        while len(state.contenders) > 1 or (compared and state.contenders):
            if not compared.isdisjoint(contender.digest for contender in state.contenders):
                return
            finalists = [self._finalist(state, root, contender) for contender in state.contenders]
            digests = [finalist.digest for finalist in finalists]
            self._emit(Comparing(len(finalists)))
            try:
                outcomes = self._evaluator.compare([Lowered(f.digest, f.code) for f in finalists])
            except KeyboardInterrupt:
                self._is_interrupted = True
                return
            comparison = judged(digests, outcomes)
            if self._store is not None:
                self._store.append_comparison(comparison)
            for event in state.compare(comparison):
                self._emit(event)
            compared.update(digests)

    def _finalist(self, state: State, root: Candidate, contender: Contender) -> Finalist:
        candidate = replay(self._instance, root, contender.steps)
        lowered = self._evaluator.lower(candidate)
        if isinstance(lowered, Outcome):
            raise RuntimeError(f"code that had been measured can no longer be made: {lowered.message}")
        bound_ns = contender.bound_ns * state.tree.scale
        return Finalist(candidate, lowered.digest, lowered.code, contender.timing, bound_ns)

    def _nothing(self, stop: Stop, message: str) -> Result:
        progress = Progress(0, 0, 0, 0, 0, {}, None, float("inf"), None, 0.0, 0, 0.0)
        self._emit(Finished(stop, message, progress))
        return Result(stop, message, self._options.seed, None, progress, (), ())
