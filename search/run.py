"""The search itself: draw some implementations, build them, measure them; until the budget or the space ends.

In: an instance, a bound, an evaluator, an ordering, a policy and options. Out: a `Result`, and on the way
events for a listener and records for a store. A store that already holds some is gone on with: they are
folded into the state as they happened, and the generator continues from where it stood. It never prints.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.decision import Decision, UnknownDecisionError
from spacedsl.engine.instance import Instance
from spacedsl.kernels.evaluation import Evaluator, Failure, Lowered, Outcome
from spacedsl.search.bounds.protocol import Bound
from spacedsl.search.comparison import Comparison, Finalist, judged, ranked
from spacedsl.search.costs.model import CostModel, Needs
from spacedsl.search.descent import Descent
from spacedsl.search.drawing import FIRST_WALKS, Drawing
from spacedsl.search.events import Comparing, Event, Finished, Listener, Progress, Started
from spacedsl.search.orderings import Ordering
from spacedsl.search.partitions import partitions
from spacedsl.search.patience import affordable, call_limit_s
from spacedsl.search.phases import Known
from spacedsl.search.policies import Policy
from spacedsl.search.restoring import restore, take_up
from spacedsl.search.results import Result, Stop
from spacedsl.search.rollouts import Exhausted, Implementation
from spacedsl.search.state import Contender, Drawn, Evaluation, Iteration, Pending, State
from spacedsl.search.store import Store
from spacedsl.search.tree import Tree, replay
from spacedsl.search.witnesses import Witnesses, credible

MOST_ITERATIONS = 16
"""Of each program of a batch: where most code is known, what is pending is measured first."""

WALKED = 4
"""Walks side by side, which take seconds each: the next ones know where these have ended."""

OVERTIME = 0.1
"""The share of its time by which a run may be late and still measure what promises to be the best."""

COMPARED_IN = 3
"""Processes in which the contenders are measured at the end: an implementation whose data nearly fill a cache
may take twice as long in one as in another, and which of several is the fastest differs.
"""

DOUBTED = 4
"""Of a climb that does not get on, so many of the fastest are measured again."""


@dataclass(frozen=True, slots=True)
class Options:
    """`seconds` and `evaluations` bound the whole run, over all its resumptions; None: no limit."""

    seed: int = 0
    seconds: float | None = None
    evaluations: int | None = None
    contenders: int = 12
    """How many of the fastest are measured side by side at the end.

    Times of a search scatter by 4 to 6 %: of hundreds, those that seem to be the fastest are not. Of sixty
    programs that were measured side by side after each of three searches, the fastest were the 7th, the 5th
    and the 3rd in the times of the search.
    """
    repairs: int = 64
    """Dead ends that a rollout repairs before it gives up."""
    bounded_every: int = 1
    """Decisions of a rollout from one bound to the next."""
    batch: int = 4
    """Programs that are drawn before any of them is measured: they are built side by side."""
    processes: int = 1
    """In which walks go side by side; nothing else depends on their number."""


class ContradictionError(Exception):
    """A decision fixed by the expert that the constraints refuse, after those before it."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        super().__init__(
            f"the constraints refuse {decision.spelled}, together with the decisions fixed before it"
        )


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
        rollouts: Ordering | None = None,
        policy: Policy,
        options: Options,
        decisions: Sequence[Decision] = (),
        costs: CostModel | None = None,
        needs: Needs | None = None,
        estimate_ns: Callable[[Candidate], float] | None = None,
        store: Store | None = None,
        failed: Collection[str] = (),
        listener: Listener = lambda event: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`failed`: digests of programs that another machine found wrong, none of which is a finalist."""
        self._instance = instance
        self._bound = bound
        self._evaluator = evaluator
        self._policy = policy
        self._options = options
        self._decisions = tuple(decisions)
        self._store = store
        self._failed = frozenset(failed)
        self._emit = listener
        self._clock = clock
        descent = Descent(instance, ordering, bound, options.repairs, rollouts, options.bounded_every, needs)
        phases = None if costs is None else Known(costs)
        self._drawing = Drawing(descent, policy, partitions(instance), phases, estimate_ns)
        self._rng = np.random.default_rng(options.seed)
        self._lowered: dict[str, Lowered | Outcome] = {}
        """What is pending, by digest, where it was lowered in this part of the run."""
        self._witnesses = Witnesses(evaluator, clock)
        self._interrupted = mmap.mmap(-1, 1)
        """A byte that processes share which are forked from this one."""

    @property
    def _is_interrupted(self) -> bool:
        return self._interrupted[0] != 0

    def interrupt(self) -> None:
        """Ends the search after the iteration in progress, and walks where they are."""
        self._interrupted[0] = 1

    def run(self) -> Result:
        root = self._instance.root()
        if root is None:
            return self._nothing(Stop.EMPTY, "the constraints leave no implementation of this kernel")
        try:
            root = decided(self._instance, root, self._decisions)
        except ContradictionError as error:
            return self._nothing(Stop.CONTRADICTION, str(error))
        bound_ns = self._bound(root)
        if math.isinf(bound_ns):
            return self._nothing(Stop.EMPTY, "the bound leaves no implementation of this kernel")
        tree = Tree(self._instance, root, bound_ns, self._policy.kept_times)
        state = State(tree, self._options.contenders)
        if self._store is not None:
            random_state = restore(state, self._store)
            if random_state is not None:
                take_up(self._rng, random_state, self._store)
        self._evaluator.open()
        try:
            self._emit(Started(tree.root.bound_ns, self._options.seed, state.iterations))
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
            finalists=ranked([self._finalist(state, root, each) for each in state.rivals(self._failed)]),
            trials=tuple(state.trials),
            defects=tuple(state.defects),
        )

    def _search(self, state: State, root: Candidate) -> Stop:
        """Explores, and compares the fastest; goes on where that has opened again what they had cut.

        It may as well have cut all that was left when the budget ended.
        """
        while True:
            stop = self._explore(state, root)
            if stop is Stop.INTERRUPTED:
                return stop
            self._compare(state, root)
            if self._is_interrupted:
                return Stop.INTERRUPTED
            if state.is_exhausted:
                return Stop.EXHAUSTED
            if stop is not Stop.EXHAUSTED:
                return stop

    def _explore(self, state: State, root: Candidate) -> Stop:
        started = self._clock() - state.seconds
        while True:
            is_spent = self._is_spent(state, started)
            is_hopeless = state.best is None and bool(state.given_up) and not is_spent
            if state.is_exhausted and not is_hopeless:
                return Stop.EXHAUSTED
            if self._is_interrupted:
                return Stop.INTERRUPTED
            if is_spent and not self._owes_a_measurement(state, started):
                return Stop.BUDGET
            try:
                if state.is_exhausted:
                    self._try_again(state, root)
                elif state.waiting:
                    self._evaluate(state, root, started, only_one=is_spent)
                elif state.is_doubtful:
                    self._doubt(state, root)
                else:
                    self._draw(state, started)
            except KeyboardInterrupt:
                return Stop.INTERRUPTED

    def _doubt(self, state: State, root: Candidate) -> None:
        """Measures the fastest again; where the first one is wrong, those that then are the fastest: the run
        may end here, and what had been slower may have been no more than predicted.
        """
        while doubted := state.doubted(DOUBTED):
            fastest = doubted[0].digest
            self._judge(state, root, doubted)
            if state.known[fastest].is_valid:
                return

    def _try_again(self, state: State, root: Candidate) -> None:
        """Where nothing else is left and no time is known: one program that was given up, for as long as any
        may take.
        """
        digest, pending = next(iter(state.given_up.items()))
        program, slowdown = self._code(state, root, pending), self._slowdown(state, root)
        outcome = program if isinstance(program, Outcome) else self._evaluator.run(program, None, None)
        comparison = Comparison({digest: replace(outcome, slowdown=slowdown)})
        if self._store is not None:
            self._store.append_comparison(comparison)
        self._tell(state.compare(comparison))

    def _is_spent(self, state: State, started: float) -> bool:
        return not self._may_evaluate(state) or self._is_late(started)

    def _may_evaluate(self, state: State) -> bool:
        limit = self._options.evaluations
        return limit is None or state.evaluations < limit

    def _is_late(self, started: float, share: float = 0.0) -> bool:
        """By a share of the time that there is, at least."""
        limit_s = self._options.seconds
        return limit_s is not None and self._clock() - started >= (1 + share) * limit_s

    def _owes_a_measurement(self, state: State, started: float) -> bool:
        """Whether programs wait that took all the time to draw, while nothing is known to be right or, soon
        enough, what is known is slower than one of them is estimated to be.
        """
        if not state.waiting or not self._may_evaluate(state):
            return False
        if state.best_ns is None:
            return True
        return not self._is_late(started, OVERTIME) and self._least_estimate_ns(state) < state.best_ns

    def _least_estimate_ns(self, state: State) -> float:
        """Of what waits; infinite where there is none."""
        waiting = (self._lowered.get(pending.drawn.digest) for pending in state.waiting)
        estimates = (made.estimate_ns for made in waiting if isinstance(made, Lowered) and made.estimate_ns)
        return min(estimates, default=math.inf)

    def _draw(self, state: State, started: float) -> None:
        """Iterations until a batch of programs is pending; what is known by its code costs no evaluation."""
        for _ in range(MOST_ITERATIONS * self._options.batch):
            is_walking = self._drawing.walks(state)
            self._iterate(state, started)
            is_enough = len(state.waiting) >= (1 if is_walking else self._options.batch)
            if is_enough or state.tree.is_exhausted or self._is_interrupted or self._is_spent(state, started):
                return

    def _walks(self, state: State) -> int:
        """Where drawing takes long, the first program is measured alone, or one of the first two: there is
        something to show.
        """
        if not self._drawing.walks(state):
            return 1
        if not state.evaluations:
            return 1 if self._drawing.phases is not None else min(self._options.batch, FIRST_WALKS)
        return min(self._options.batch, WALKED)

    def _evaluate(self, state: State, root: Candidate, started: float, *, only_one: bool) -> None:
        """Builds the programs that wait, then measures those that are not cut meanwhile, one by one: first
        what promises most, in the order in which they were drawn.
        """
        waiting = [(self._code(state, root, pending), pending) for pending in state.waiting]
        waiting.sort(key=lambda each: each[0].estimate_ns if isinstance(each[0], Lowered) else 0.0)
        if self._options.evaluations is not None:
            waiting = waiting[: self._options.evaluations - state.evaluations]
        if only_one:
            waiting = waiting[:1]
        self._evaluator.build([program for program, _ in waiting if isinstance(program, Lowered)])
        for program, pending in waiting:
            digest = pending.drawn.digest
            if state.cut.excludes(pending.drawn.bound_ns):
                continue
            code = None
            if isinstance(program, Outcome):
                outcome = program
            else:
                outcome = self._measured(program, pending.drawn.bound_ns, state, root)
                code = program.code if state.is_contender(outcome.comparable_ns) else None
            evaluation = Evaluation(digest, outcome, self._clock() - started)
            if self._store is not None:
                self._store.append_evaluation(evaluation, code)
            self._tell(state.evaluate(evaluation))
            if self._is_interrupted or self._is_spent(state, started):
                break
        # What is cut now and opened again is lowered again: evaluators do not remember programs for long.
        wanted = {pending.drawn.digest for pending in state.waiting}
        self._lowered = {digest: made for digest, made in self._lowered.items() if digest in wanted}

    def _slowdown(self, state: State, root: Candidate) -> float:
        """Of the machine at this moment."""
        return self._witnesses.slowdown(
            state.contenders, lambda contender: self._made(replay(self._instance, root, contender.steps))
        )

    def _measured(self, program: Lowered, bound_ns: float, state: State, root: Candidate) -> Outcome:
        """The outcome of a program, with the slowdown before it was measured; of what would be the best, with
        the lesser of that and the one behind it.
        """
        slowdown = self._slowdown(state, root)
        best_ns = None if state.best is None else slowdown * state.best.comparable_ns
        limit_s = self._call_limit_s(state) if best_ns is None else None
        outcome = self._evaluator.run(program, best_ns, limit_s)
        if best_ns is not None and outcome.timing is not None and outcome.timing.time_ns < best_ns:
            slowdown = self._witnesses.behind(slowdown)
        return replace(outcome, slowdown=credible(slowdown, [(outcome, bound_ns * state.tree.scale)]))

    def _call_limit_s(self, state: State) -> float | None:
        """Of a program, while no time is known."""
        given_up, options = state.failures.get(Failure.RUN_TIMEOUT), self._options
        left_s = math.inf if options.seconds is None else options.seconds - state.seconds
        left = math.inf if options.evaluations is None else options.evaluations - state.evaluations
        if state.tree.is_exhausted:
            left = min(left, 1)
        return call_limit_s(state.least_live_bound_ns, given_up.count if given_up else 0, left_s, left)

    def _tell(self, events: Sequence[Event]) -> None:
        for event in events:
            self._emit(event)

    def _iterate(self, state: State, started: float) -> None:
        """One iteration, or all those whose walks went side by side: a run that is killed has all of them or
        none, and goes on with the same ones. They are told of once they are stored.
        """
        iterations: list[Iteration] = []
        events: list[Event] = []
        count, processes = self._walks(state), self._options.processes

        def is_over() -> bool:
            return self._is_interrupted or self._is_spent(state, started)

        for node, expanded, end in self._drawing.visits(state, self._rng, count, processes, is_over):
            drawn = self._drawn(state, end) if isinstance(end, Implementation) else None
            iteration = Iteration(
                path=node.path(),
                expansion=expanded.expansion,
                drawn=drawn,
                proven_ns=end.bound_ns if isinstance(end, Exhausted) else None,
                refused=expanded.expansion.refused + end.refused,
                seconds=self._clock() - started,
                evaluations=state.evaluations,
                random_state=json.dumps(self._rng.bit_generator.state),
            )
            iterations.append(iteration)
            events += state.absorb(iteration, tuple(child.candidate for child in expanded.children))
        if self._store is not None:
            self._store.append(iterations)
        self._tell(events)

    def _drawn(self, state: State, end: Implementation) -> Drawn:
        """The implementation with the digest of its code, which is kept until it is measured."""
        lowered = self._evaluator.lower(end.end.candidate)
        # What cannot be lowered has no code to be known by.
        vector = end.end.candidate.vector.tobytes()
        digest = hashlib.sha256(vector).hexdigest() if isinstance(lowered, Outcome) else lowered.digest
        if digest not in state.known:
            self._lowered[digest] = lowered
            if isinstance(lowered, Lowered):
                self._evaluator.begin(lowered)
        return Drawn(end.steps, end.end.bound_ns, digest)

    def _code(self, state: State, root: Candidate, pending: Pending) -> Lowered | Outcome:
        """The code of what is pending, made again where an earlier part of the run drew it."""
        lowered = self._lowered.get(pending.drawn.digest)
        if lowered is not None:
            return lowered
        steps = state.steps(pending.node, pending.drawn.steps)
        return self._evaluator.lower(replay(self._instance, root, steps))

    def _compare(self, state: State, root: Candidate) -> None:
        """Measures the contenders side by side, as many as there is time for; where all of them fail, those
        that were slower.
        """
        compared: set[str] = set()
        while rivals := state.rivals(self._failed):
            if not compared.isdisjoint(contender.digest for contender in rivals):
                return
            # What was predicted takes no calls.
            times_ns = [c.timing.time_ns if c.timing.samples else 0.0 for c in rivals]
            count, processes = affordable(times_ns, state.seconds, COMPARED_IN)
            if not count:
                return
            contenders, passed_over = rivals[:count], rivals[count:]
            self._emit(Comparing(count, is_timed=any(contender.timing.samples for contender in rivals)))
            try:
                self._judge(state, root, contenders, processes, passed_over)
            except KeyboardInterrupt:
                self.interrupt()
                return
            compared.update(contender.digest for contender in contenders)

    def _judge(
        self,
        state: State,
        root: Candidate,
        contenders: Sequence[Contender],
        processes: int = 1,
        passed_over: Sequence[Contender] = (),
    ) -> None:
        """Measures some implementations side by side; others give way to them."""
        finalists = [self._finalist(state, root, contender) for contender in contenders]
        slowdown = self._slowdown(state, root)
        outcomes = self._evaluator.compare([Lowered(f.digest, f.code) for f in finalists], processes)
        slowdown = self._witnesses.behind(slowdown)
        slowdown = credible(slowdown, zip(outcomes, (f.bound_ns for f in finalists), strict=True))
        outcomes = [replace(outcome, slowdown=slowdown) for outcome in outcomes]
        comparison = judged([c.digest for c in contenders], outcomes, [c.digest for c in passed_over])
        if self._store is not None:
            self._store.append_comparison(comparison)
        self._tell(state.compare(comparison))

    def _finalist(self, state: State, root: Candidate, contender: Contender) -> Finalist:
        candidate = replay(self._instance, root, contender.steps)
        lowered = self._made(candidate)
        bound_ns = contender.bound_ns * state.tree.scale
        return Finalist(
            candidate, lowered.digest, lowered.code, contender.timing, bound_ns, contender.slowdown
        )

    def _made(self, candidate: Candidate) -> Lowered:
        """The program of what had been measured."""
        lowered = self._evaluator.lower(candidate)
        if isinstance(lowered, Outcome):
            raise RuntimeError(f"code that had been measured can no longer be made: {lowered.message}")
        return lowered

    def _nothing(self, stop: Stop, message: str) -> Result:
        progress = Progress(0, 0, 0, 0, 0, {}, None, float("inf"), None, 0.0, 0, 0.0)
        self._emit(Finished(stop, message, progress))
        return Result(stop, message, self._options.seed, None, progress, (), ())
