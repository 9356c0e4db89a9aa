"""The state of a search as a fold over what happened: the same records give the same state.

In: `Iteration`, `Evaluation` and `Comparison` records, made by the search or read back from its store. Out:
the tree with its statistics, the best implementation and its contenders, what waits for its evaluation,
counts by cause, and the events that each record causes. Nothing is propagated, drawn or measured here.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import islice

from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.evaluation import Failure, Outcome, Timing
from spacedsl.search.climbs import DOUBT, Climb
from spacedsl.search.comparison import Comparison
from spacedsl.search.events import Evaluated, Event, Failed, FailureCount, NewBest, Progress, Violation
from spacedsl.search.rollouts import Cut
from spacedsl.search.tree import Closed, Expansion, Node, Step, Tree

KEPT_DEFECTS = 3
"""Of each class of failure: enough to find a cause, and few enough to be read."""

TOLERATED = 0.99
"""A time is a violation of a bound when the upper end of its interval is below this share of the bound."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """The implementation that an iteration came to."""

    steps: tuple[Step, ...]
    """From the candidate of the iteration's node, its forced decisions included."""
    bound_ns: float
    """The greatest bound of the implementation and all its ancestors, not scaled."""
    digest: str
    """Of the code, or of the decisions where lowering failed."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """All that one iteration adds to the state of the search, but for the outcome of what it came to."""

    path: tuple[int, ...]
    """The node that was selected."""
    expansion: Expansion
    drawn: Drawn | None
    """None where the rollout came to no implementation."""
    proven_ns: float | None
    """Where the rollout refuted all that lies below the node: its least bound, infinite for nothing."""
    refused: int
    """Groups of values that the constraints refused after a decision."""
    seconds: float
    """Search time up to the end of this iteration."""
    evaluations: int
    """Those before it: of the outcomes that others wait for it knows nothing."""
    random_state: str
    """Of the generator, after this iteration; JSON."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The outcome of one distinct program."""

    digest: str
    outcome: Outcome
    seconds: float
    """Search time up to its end."""


@dataclass(frozen=True, slots=True)
class Pending:
    """An implementation that waits for the evaluation of its code."""

    iteration: int
    node: Node
    drawn: Drawn


@dataclass(frozen=True, slots=True)
class Trial:
    """One implementation that was met, as reports show it."""

    iteration: int
    digest: str
    outcome: Outcome
    bound_ns: float
    is_duplicate: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Contender:
    """One of the fastest implementations, by the steps that lead to it from the root."""

    iteration: int
    digest: str
    timing: Timing
    bound_ns: float
    """Not scaled."""
    steps: tuple[Step, ...]
    slowdown: float = 1.0
    """Of the machine, when it was timed."""

    @property
    def comparable_ns(self) -> float:
        """What is compared with times of other moments."""
        return self.timing.time_ns / self.slowdown


@dataclass(frozen=True, slots=True)
class Timed:
    """An implementation that was measured, and what was of its phases: times without slowdown."""

    steps: tuple[Step, ...]
    time_ns: float
    phases_ns: tuple[tuple[str, float], ...]


@dataclass(slots=True)
class State:
    tree: Tree
    kept_contenders: int
    iterations: int = 0
    evaluations: int = 0
    valid: int = 0
    duplicates: int = 0
    dead_ends: int = 0
    refused: int = 0
    bound_violations: int = 0
    seconds: float = 0.0
    failures: dict[Failure, FailureCount] = field(default_factory=dict)
    remarks: dict[str, int] = field(default_factory=dict)
    """How many evaluations had which."""
    timed: list[Timed] = field(default_factory=list)
    """In the order of evaluations."""
    known: dict[str, Outcome] = field(default_factory=dict)
    """Outcomes by the digest of the code."""
    contenders: list[Contender] = field(default_factory=list)
    """Fastest first, with distinct code."""
    reserve: list[Contender] = field(default_factory=list)
    """All others, fastest first: slower ones, and what a comparison had no time for. They are promoted where
    all contenders turn out to be wrong, and before new code competes with contenders.
    """
    defects: list[Failed] = field(default_factory=list)
    """The first `KEPT_DEFECTS` of each class of failure that is a defect."""
    trials: list[Trial] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)
    """In the order of their iterations; some may have equal code, and some may be cut by now."""
    given_up: dict[str, Pending] = field(default_factory=dict)
    """By digest, programs that took longer than they may while no time is known."""
    climb: Climb = field(default_factory=Climb)
    """What the search improves on at present."""
    compared: int = 0
    """Evaluations before the last comparison."""
    met: set[tuple[Step, ...]] = field(default_factory=set)
    """All implementations that iterations came to, by the steps from the root: there is one way to each."""
    _steps: dict[Step, Step] = field(default_factory=dict)
    """Equal steps of different contenders are one object: many contenders have few distinct steps."""

    @property
    def best(self) -> Contender | None:
        return self.contenders[0] if self.contenders else None

    @property
    def best_ns(self) -> float | None:
        """As it was measured, with the slowdown of that moment."""
        return self.contenders[0].timing.time_ns if self.contenders else None

    def _all(self) -> Iterator[Contender]:
        return merge(self.contenders, self.reserve, key=_comparable_ns)

    def fastest(self) -> Iterator[Contender]:
        """The implementations of this climb, fastest first, with distinct code."""
        return (c for c in self._all() if c.iteration >= self.climb.first)

    def rivals(self, failed: Collection[str]) -> list[Contender]:
        """The contenders without those that failed elsewhere; where all of them did, the next ones."""
        left = [contender for contender in self.contenders if contender.digest not in failed]
        others = (contender for contender in self.reserve if contender.digest not in failed)
        return left or list(islice(others, self.kept_contenders))

    def doubted(self, count: int) -> list[Contender]:
        """The fastest of this climb, and the one that was when they were last measured again."""
        champion = [c for c in self.fastest() if c.digest == self.climb.champion]
        fastest = list(islice(self.fastest(), count))
        return [*fastest, *(c for c in champion if c not in fastest)]

    @property
    def is_doubtful(self) -> bool:
        """Whether nothing was better for so long that what seems to be the fastest may have been lucky."""
        return not self.climb.gets_on and self.evaluations - self.compared >= DOUBT

    @property
    def cut(self) -> Cut:
        return Cut(self.tree.cut_ns, self.tree.scale)

    @property
    def waiting(self) -> list[Pending]:
        """What is pending and not cut: of each distinct program, the first implementation."""
        programs: dict[str, Pending] = {}
        for each in self.pending:
            if not self.cut.excludes(each.drawn.bound_ns):
                programs.setdefault(each.drawn.digest, each)
        return list(programs.values())

    @property
    def is_exhausted(self) -> bool:
        return self.tree.is_exhausted and not self.waiting

    @property
    def least_live_bound_ns(self) -> float:
        """No implementation whose time is not yet known is faster; infinite once there is none."""
        waiting_ns = min((each.drawn.bound_ns for each in self.waiting), default=math.inf)
        return min(self.tree.least_live_bound_ns, waiting_ns * self.tree.scale)

    def is_contender(self, comparable_ns: float | None) -> bool:
        """Whether new code that takes so long is among the fastest so far; None: it failed."""
        if comparable_ns is None:
            return False
        fastest = list(islice(self._all(), self.kept_contenders))
        return len(fastest) < self.kept_contenders or comparable_ns < fastest[-1].comparable_ns

    def progress(self) -> Progress:
        return Progress(
            iterations=self.iterations,
            evaluations=self.evaluations,
            valid=self.valid,
            duplicates=self.duplicates,
            dead_ends=self.dead_ends,
            failures=dict(self.failures),
            best_ns=self.best_ns,
            least_bound_ns=self.least_live_bound_ns,
            gap=gap(self.best_ns, self.least_live_bound_ns),
            share_cut=self.tree.share_cut,
            bound_violations=self.bound_violations,
            seconds=self.seconds,
            remarks=dict(self.remarks),
        )

    def absorb(self, iteration: Iteration, children: Sequence[Candidate] = ()) -> list[Event]:
        """Adds an iteration; `children` are the candidates of its expansion where the caller has them."""
        node = self.tree.follow(iteration.path)
        self.tree.expand(node, iteration.expansion, children)
        self.tree.visit(node)
        self.iterations += 1
        self.refused += iteration.refused
        self.seconds = iteration.seconds
        events: list[Event] = []
        if iteration.drawn is None:
            self.dead_ends += 1
        else:
            self.met.add(self.steps(node, iteration.drawn.steps))
            if iteration.expansion.variable is None:
                self.tree.close(node, Closed.MEASURED)
            pending = Pending(self.iterations, node, iteration.drawn)
            known = self.known.get(iteration.drawn.digest)
            if known is None:
                self.pending.append(pending)
            else:
                events = self._evaluated(pending, known, is_duplicate=True)
        if iteration.proven_ns is not None:
            self.tree.raise_bound(node, iteration.proven_ns)
        return [*events, self.progress()]

    def evaluate(self, evaluation: Evaluation) -> list[Event]:
        """Adds the outcome of a program; raises `IndexError` where none with this code waits for it."""
        met = [each for each in self.pending if each.drawn.digest == evaluation.digest]
        if not met:
            raise IndexError(evaluation.digest)
        self.pending = [each for each in self.pending if each.drawn.digest != evaluation.digest]
        self.seconds = evaluation.seconds
        self.known[evaluation.digest] = evaluation.outcome
        events: list[Event] = []
        for place, each in enumerate(met):
            events += self._evaluated(each, evaluation.outcome, is_duplicate=place > 0)
        return [*events, self.progress()]

    def _evaluated(self, pending: Pending, outcome: Outcome, *, is_duplicate: bool) -> list[Event]:
        iteration, node, drawn = pending.iteration, pending.node, pending.drawn
        bound_ns = drawn.bound_ns * self.tree.scale
        self.trials.append(Trial(iteration, drawn.digest, outcome, bound_ns, is_duplicate, self.seconds))
        events: list[Event] = [Evaluated(iteration, drawn.digest, bound_ns, outcome, is_duplicate)]
        if is_duplicate:
            self.duplicates += 1
        else:
            self.evaluations += 1
            self.valid += outcome.is_valid
            if outcome.is_valid and outcome.message:
                self.remarks[outcome.message] = self.remarks.get(outcome.message, 0) + 1
            self.climb = self.climb.after(iteration, outcome.comparable_ns, self.iterations)
            if outcome.comparable_ns is not None:
                steps = self.steps(node, drawn.steps)
                phases_ns = tuple((name, time_ns / outcome.slowdown) for name, time_ns in outcome.phases_ns)
                self.timed.append(Timed(steps, outcome.comparable_ns, phases_ns))
        if outcome.timing is not None and outcome.comparable_ns is not None:
            self.tree.record(node, outcome.comparable_ns, drawn.digest)
            events += self._violated(drawn.digest, drawn.bound_ns, outcome.timing)
            if not is_duplicate:
                events += self._contends(pending, outcome.timing, outcome.slowdown)
        elif not is_duplicate:
            if outcome.failure is Failure.RUN_TIMEOUT and self.best is None:
                self.given_up[drawn.digest] = pending
            events += self._failed(iteration, drawn.digest, outcome, self.steps(node, drawn.steps))
        return events

    def steps(self, node: Node, below: Sequence[Step]) -> tuple[Step, ...]:
        """All decisions from the root to an implementation below a node, in the order of the ordering."""
        return tuple(self._steps.setdefault(step, step) for step in (*self.tree.steps(node), *below))

    def compare(self, comparison: Comparison) -> list[Event]:
        """Takes over what a comparison said.

        It replaces what was known, so that every evaluation has one outcome, and what is cut is cut by the
        time that is reported. Contenders stay what they are, however slow the machine was: of others, those
        that are as fast are promoted, and where no contender is left, the next ones. What had been given up
        and has a time now is one, too.
        """
        said, best = comparison.outcomes, self.best
        new = {digest: outcome for digest, outcome in said.items() if outcome.timing or outcome.failure}
        is_of_climb = any(contender.digest in new for contender in self.fastest())
        self.compared = self.evaluations
        self.known.update(new)
        self.trials = [replace(t, outcome=new.get(t.digest, t.outcome)) for t in self.trials]
        self.tree.revise({digest: outcome.comparable_ns for digest, outcome in new.items()})
        passed_over = said.keys() - new.keys()
        contenders, self.contenders = self.contenders, []
        others = [contender for contender in self.reserve if contender.digest in new]
        self.reserve = [contender for contender in self.reserve if contender.digest not in new]
        events: list[Event] = []
        for contender in (*contenders, *others):
            if contender.digest in passed_over:
                insort(self.reserve, contender, key=_comparable_ns)
                continue
            outcome = new.get(contender.digest, Outcome(contender.timing, slowdown=contender.slowdown))
            if outcome.timing is None:
                self.valid -= 1
                events += self._failed(contender.iteration, contender.digest, outcome, contender.steps)
            else:
                self._keep(replace(contender, timing=outcome.timing, slowdown=outcome.slowdown))
                events += self._violated(contender.digest, contender.bound_ns, outcome.timing)
        for digest in sorted(new.keys() & self.given_up.keys()):
            events += self._recovered(self.given_up.pop(digest), new[digest])
        if not self.contenders:
            self._promote()
        self.tree.recut(self.best_ns, self.tree.scale)
        if is_of_climb:
            again = [c for c in self.fastest() if c.digest in new] or list(islice(self.fastest(), 1))
            times_ns = {c.digest: c.comparable_ns for c in again}
            self.climb = self.climb.remeasured(times_ns, self.iterations)
        if self.best is None or (best is not None and best.digest == self.best.digest):
            return events
        return [*events, replace(self._new_best(self.best), is_compared=True)]

    def _recovered(self, pending: Pending, outcome: Outcome) -> list[Event]:
        """Of a program that had been given up: what became of it with more time."""
        if outcome.failure is Failure.RUN_TIMEOUT:
            return []
        before = self.failures.pop(Failure.RUN_TIMEOUT)
        if before.count > 1:
            self.failures[Failure.RUN_TIMEOUT] = replace(before, count=before.count - 1)
        drawn, steps = pending.drawn, self.steps(pending.node, pending.drawn.steps)
        if outcome.timing is None or outcome.comparable_ns is None:
            return self._failed(pending.iteration, drawn.digest, outcome, steps)
        self.valid += 1
        self.timed.append(Timed(steps, outcome.comparable_ns, ()))
        self.tree.record(pending.node, outcome.comparable_ns, drawn.digest)
        self._keep(
            Contender(
                pending.iteration, drawn.digest, outcome.timing, drawn.bound_ns, steps, outcome.slowdown
            )
        )
        return self._violated(drawn.digest, drawn.bound_ns, outcome.timing)

    def _failed(self, iteration: int, digest: str, outcome: Outcome, steps: tuple[Step, ...]) -> list[Event]:
        failure = outcome.failure
        if failure is None:
            raise ValueError("an outcome without timing names its failure")
        before = self.failures.get(failure, FailureCount(0, outcome.message))
        self.failures[failure] = FailureCount(before.count + 1, before.first_message)
        failed = Failed(iteration, digest, failure, outcome.message, steps)
        if failure.is_defect and before.count < KEPT_DEFECTS:
            self.defects.append(failed)
            return [failed]
        return [] if before.count else [failed]

    def _violated(self, digest: str, unscaled_ns: float, timing: Timing) -> list[Event]:
        """Counts a time that the bound forbids, lowers all bounds to it, and opens what they had cut."""
        bound_ns = unscaled_ns * self.tree.scale
        if not is_violation(timing, bound_ns):
            return []
        self.bound_violations += 1
        scale = timing.high_ns / unscaled_ns
        self.tree.recut(self.tree.cut_ns, scale)
        return [Violation(self.iterations, digest, bound_ns, timing, scale)]

    def _contends(self, pending: Pending, timing: Timing, slowdown: float) -> list[Event]:
        before, drawn = self.best, pending.drawn
        steps = self.steps(pending.node, drawn.steps)
        self._promote()
        self._keep(Contender(pending.iteration, drawn.digest, timing, drawn.bound_ns, steps, slowdown))
        best = self.best
        if best is None or (before is not None and best.digest == before.digest):
            return []
        # Where the former best became slower, it may be one that had given way to it.
        self.tree.recut(self.best_ns, self.tree.scale)
        return [self._new_best(best)]

    def _promote(self) -> None:
        """The fastest of the others where contenders failed, or gave way."""
        room = self.kept_contenders - len(self.contenders)
        for contender in self.reserve[:room]:
            insort(self.contenders, contender, key=_comparable_ns)
        del self.reserve[:room]

    def _keep(self, contender: Contender) -> None:
        insort(self.contenders, contender, key=_comparable_ns)
        for slower in self.contenders[self.kept_contenders :]:
            insort(self.reserve, slower, key=_comparable_ns)
        del self.contenders[self.kept_contenders :]

    def _new_best(self, best: Contender) -> NewBest:
        bound_ns = best.bound_ns * self.tree.scale
        return NewBest(best.iteration, best.digest, bound_ns, best.timing, best.steps)


def _comparable_ns(contender: Contender) -> float:
    return contender.comparable_ns


def is_violation(timing: Timing, bound_ns: float) -> bool:
    return timing.high_ns < TOLERATED * bound_ns


def gap(best_ns: float | None, least_bound_ns: float) -> float | None:
    """(best - least live bound) / best: how much faster, at most, anything still to be found can be."""
    if best_ns is None:
        return None
    return max(0.0, (best_ns - least_bound_ns) / best_ns) if math.isfinite(least_bound_ns) else 0.0
