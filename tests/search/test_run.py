"""The whole search on small problems whose every solution is known."""

from __future__ import annotations

import itertools
import math
import mmap
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.decision import Decision
from spacedsl.kernels.evaluation import Failure, Lowered, Outcome
from spacedsl.search.descent import Descent
from spacedsl.search.events import Evaluated, Event, Failed, Finished, NewBest, Progress, Violation
from spacedsl.search.orderings import Branching
from spacedsl.search.policies import POLICIES
from spacedsl.search.results import Stop
from spacedsl.search.rollouts import Bounded, Cut, Implementation
from spacedsl.search.run import Options, Search
from spacedsl.search.tree import replay
from tests.search.toy import (
    Constraint,
    ExactBound,
    InOrder,
    NoBound,
    ToyCandidate,
    ToyEvaluator,
    ToyInstance,
    cost,
    search,
    values_of,
)


def different() -> ToyInstance:
    """Three variables that all differ, in 4 values: 24 solutions."""
    pairs = itertools.combinations(range(3), 2)
    return ToyInstance([4, 4, 4], [Constraint(pair, lambda a, b: a != b) for pair in pairs])


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_without_a_bound_every_solution_is_evaluated_once_and_the_space_is_exhausted(policy: str) -> None:
    instance, evaluator = different(), ToyEvaluator(cost)
    result = search(instance, evaluator, policy=policy)
    assert result.stop is Stop.EXHAUSTED
    assert set(evaluator.runs) == set(instance.solutions())
    assert result.progress.evaluations == 24
    assert result.best is not None
    assert values_of(result.best.candidate) == min(instance.solutions(), key=cost)
    assert result.progress.gap == 0


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_an_exact_bound_finds_the_optimum_with_fewer_evaluations(policy: str) -> None:
    instance, evaluator = different(), ToyEvaluator(cost)
    result = search(instance, evaluator, ExactBound(instance, cost), policy)
    assert result.best is not None
    assert values_of(result.best.candidate) == min(instance.solutions(), key=cost)
    assert result.progress.evaluations < 24
    assert result.progress.bound_violations == 0
    assert result.progress.share_cut > 0


def test_best_first_with_an_exact_bound_needs_one_evaluation() -> None:
    instance, evaluator = ToyInstance([4, 4, 4]), ToyEvaluator(cost)
    result = search(instance, evaluator, ExactBound(instance, cost), "bound")
    # The first rollout is drawn; from then on everything else is cut or led straight to the optimum.
    assert result.best is not None
    assert values_of(result.best.candidate) == (2, 2, 2)
    assert result.progress.evaluations <= 4


problems = st.integers(2, 4).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(1, 4), min_size=n, max_size=n),
        st.lists(
            st.tuples(
                st.permutations(range(n)).map(lambda p: tuple(p[:2])),
                st.integers(0, 2**16 - 1),
            ),
            max_size=4,
        ),
        st.lists(st.integers(1, 50), min_size=256, max_size=256),
        st.integers(0, 2**32),
        st.sampled_from(sorted(POLICIES)),
        st.floats(0.1, 1.0),
    )
)


@settings(max_examples=60, deadline=None)
@given(problems)
def test_an_admissible_bound_never_cuts_the_optimum(
    problem: tuple[list[int], list[tuple[tuple[int, ...], int]], list[int], int, str, float],
) -> None:
    sizes, tables, costs, seed, policy, slack = problem
    constraints = [
        Constraint(scope, lambda a, b, table=table: bool(table >> (4 * a + b) & 1)) for scope, table in tables
    ]
    instance = ToyInstance(sizes, constraints)

    def drawn(values: tuple[int, ...]) -> float:
        return float(costs[sum(v * 4**i for i, v in enumerate(values))])

    evaluator = ToyEvaluator(drawn)
    bound = ExactBound(instance, drawn, slack)
    result = search(instance, evaluator, bound, policy, Options(seed=seed))
    solutions = list(instance.solutions())
    if not solutions:
        assert result.stop in (Stop.EMPTY, Stop.EXHAUSTED)
        assert result.best is None
        return
    assert result.stop is Stop.EXHAUSTED
    assert result.best is not None
    assert result.best.timing.time_ns == min(map(drawn, solutions))
    assert result.progress.bound_violations == 0


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    def run(seed: int) -> list[tuple[int, ...]]:
        evaluator = ToyEvaluator(cost)
        search(ToyInstance([5] * 5), evaluator, options=Options(seed=seed, evaluations=50))
        return evaluator.runs

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_equal_code_is_measured_once_and_counted_once() -> None:
    instance = ToyInstance([4, 4, 4])

    def by_sum(values: tuple[int, ...]) -> float:
        return 100.0 + sum(values)

    evaluator = ToyEvaluator(by_sum, digest=lambda values: str(sum(values)))
    events: list[Event] = []
    result = search(instance, evaluator, listener=events.append)
    assert result.progress.evaluations == 10  # the sums 0 to 9
    assert result.progress.duplicates > 0
    known = {e.digest: e.outcome for e in events if isinstance(e, Evaluated) and not e.is_duplicate}
    repeated = [e for e in events if isinstance(e, Evaluated) and e.is_duplicate]
    assert len(repeated) == result.progress.duplicates
    assert all(e.outcome == known[e.digest] for e in repeated)


def test_the_number_of_evaluations_is_respected() -> None:
    evaluator = ToyEvaluator(cost)
    result = search(ToyInstance([5] * 5), evaluator, options=Options(evaluations=7))
    assert result.stop is Stop.BUDGET
    assert result.progress.evaluations == 7
    assert len(set(evaluator.runs)) == 7
    assert evaluator.built == evaluator.runs


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_batch_is_built_before_any_of_it_is_measured(policy: str) -> None:
    class Ordered(ToyEvaluator):
        def build(self, programs: Sequence[Lowered]) -> None:
            super().build(programs)
            batches.append(len(programs))
            assert len(self.built) == len(self.runs) + len(programs)

    batches: list[int] = []
    evaluator = Ordered(cost)
    options = Options(batch=3, evaluations=20, seed=3)
    result = search(ToyInstance([5] * 5), evaluator, policy=policy, options=options)
    assert batches == [3] * 6 + [2]
    # Each is begun as soon as it is drawn, of which the last one has no turn.
    evaluated = [trial.digest for trial in result.trials if not trial.is_duplicate]
    assert [digest for digest in dict.fromkeys(evaluator.begun) if digest in evaluated] == evaluated
    assert len(evaluator.begun) <= len(evaluated) + 1


class Estimating(ToyEvaluator):
    """Which knows what programs take before they run."""

    def lower(self, candidate: Candidate) -> Lowered | Outcome:
        lowered = super().lower(candidate)
        assert isinstance(lowered, Lowered)
        return replace(lowered, estimate_ns=cost(values_of(candidate)))


def test_of_a_batch_what_promises_most_is_measured_first() -> None:
    evaluator = Estimating(cost)
    search(ToyInstance([5] * 5), evaluator, options=Options(batch=5, evaluations=20, seed=3))
    for at in range(0, 20, 5):
        batch = evaluator.runs[at : at + 5]
        assert batch == sorted(batch, key=cost)


@pytest.mark.parametrize("seed", range(4))
def test_what_was_drawn_last_is_measured_where_it_is_estimated_to_be_the_best(seed: int) -> None:
    """Time is over before the second batch is drawn."""
    evaluator = Estimating(cost)
    options = Options(seconds=42, batch=8, seed=seed)
    search(ToyInstance([5] * 5), evaluator, options=options, clock=itertools.count().__next__)
    drawn = [tuple(map(int, digest[1:-1].split(","))) for digest in evaluator.begun]
    first, late = drawn[:8], drawn[8:]
    behind = evaluator.runs[8:]
    assert len(first) == 8
    assert 0 < len(late) < 8
    assert behind == ([min(late, key=cost)] if min(map(cost, late)) < min(map(cost, first)) else [])


def test_what_waits_for_its_evaluation_keeps_a_space_from_being_exhausted() -> None:
    """Several implementations are drawn at once, and an interrupt comes after the first."""

    class Interrupted(ToyEvaluator):
        def run(self, lowered: Lowered, best_ns: float | None, limit_s: float | None = None) -> Outcome:
            if self.runs:
                raise KeyboardInterrupt
            return super().run(lowered, best_ns)

    instance = ToyInstance([4])
    evaluator = Interrupted(cost)
    result = search(instance, evaluator, ExactBound(instance, cost, 0.5))
    assert result.stop is Stop.INTERRUPTED
    assert result.progress.iterations > result.progress.evaluations == 1
    assert len(evaluator.built) > 1
    left = set(instance.solutions()) - set(evaluator.runs)
    assert result.progress.least_bound_ns == 0.5 * min(map(cost, left))


def test_the_time_is_respected() -> None:
    ticks = itertools.count()
    result = search(
        ToyInstance([5] * 5),
        ToyEvaluator(cost),
        options=Options(seconds=100),
        clock=lambda: float(next(ticks)),
    )
    assert result.stop is Stop.BUDGET
    assert 95 <= result.progress.seconds <= 100
    # What was drawn last may have been left: it waits for the run to be gone on with.
    assert 0 <= result.progress.iterations - result.progress.evaluations < Options().batch


def test_what_takes_all_the_time_to_draw_is_measured_until_one_is_right() -> None:
    """One at a time, and no more than may be."""

    def failing(values: tuple[int, ...]) -> Failure | None:
        return Failure.BUILD_ERROR if len(evaluator.runs) < 3 else None

    for evaluations, expected in ((None, 3), (2, 2)):
        evaluator = ToyEvaluator(cost, failing=failing)
        result = search(
            ToyInstance([5] * 5),
            evaluator,
            options=Options(seconds=10, evaluations=evaluations, batch=8),
            # Each look at it is a second: eight are drawn when ten have gone by.
            clock=itertools.count().__next__,
        )
        assert result.stop is Stop.BUDGET
        assert result.progress.evaluations == expected
        assert result.progress.valid == (1 if expected == 3 else 0)


def test_remarks_on_valid_implementations_are_counted() -> None:
    class Remarking(ToyEvaluator):
        def run(self, lowered: Lowered, best_ns: float | None, limit_s: float | None = None) -> Outcome:
            outcome = super().run(lowered, best_ns)
            seen.append(outcome.is_valid)
            return replace(outcome, message="large" if len(seen) % 2 else "")

    seen: list[bool] = []
    result = search(ToyInstance([4, 4]), Remarking(cost))
    assert all(seen) and len(seen) == 16
    assert result.progress.remarks == {"large": 8}


def test_failures_are_counted_by_class_with_the_first_message_of_each() -> None:
    instance = ToyInstance([4, 4])

    def failing(values: tuple[int, ...]) -> Failure | None:
        return {0: Failure.BUILD_ERROR, 1: Failure.LOWERING, 2: Failure.WRONG_RESULT}.get(values[0])

    evaluator = ToyEvaluator(cost, failing=failing)
    events: list[Event] = []
    result = search(instance, evaluator, listener=events.append)
    counts = {failure: entry.count for failure, entry in result.progress.failures.items()}
    assert counts == {Failure.BUILD_ERROR: 4, Failure.LOWERING: 4, Failure.WRONG_RESULT: 4}
    assert result.progress.evaluations == 16
    assert result.progress.valid == 4
    failed = [e for e in events if isinstance(e, Failed)]
    for failure in counts:
        first = next(e for e in events if isinstance(e, Evaluated) and e.outcome.failure is failure)
        assert result.progress.failures[failure].first_message == first.outcome.message
    # Each class is announced once, and the first defects of a class with the way to them.
    announced = Counter(e.failure for e in failed)
    assert announced == {Failure.BUILD_ERROR: 1, Failure.LOWERING: 3, Failure.WRONG_RESULT: 3}
    assert result.defects == tuple(e for e in failed if e.failure is not Failure.BUILD_ERROR)
    for e in failed:
        root = instance.root()
        assert root is not None
        reached = values_of(replay(instance, root, e.steps))
        assert str(reached) in e.message


def test_where_nothing_is_valid_there_is_no_best_and_the_space_is_exhausted() -> None:
    evaluator = ToyEvaluator(cost, failing=lambda values: Failure.BUILD_ERROR)
    result = search(ToyInstance([3, 3]), evaluator)
    assert result.best is None
    assert result.stop is Stop.EXHAUSTED
    assert result.progress.gap is None
    assert evaluator.compared == []


def test_an_empty_space_is_said_to_be_empty() -> None:
    instance = ToyInstance([2, 2], [Constraint((0, 1), lambda a, b: False)])
    events: list[Event] = []
    result = search(instance, ToyEvaluator(cost), listener=events.append)
    assert result.stop is Stop.EMPTY
    assert result.message
    assert [type(e) for e in events] == [Finished]


class Impossible(NoBound):
    """No implementation whose first value is one of these."""

    def __init__(self, *values: int) -> None:
        self.mask = sum(1 << value for value in values)

    def __call__(self, candidate: Candidate) -> float:
        assert isinstance(candidate, ToyCandidate)
        return 0.0 if candidate.masks[0] & ~self.mask else math.inf


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_what_the_bound_says_is_impossible_is_never_drawn(policy: str) -> None:
    evaluator = ToyEvaluator(cost)
    result = search(ToyInstance([4, 4, 4]), evaluator, Impossible(1, 2), policy)
    assert result.stop is Stop.EXHAUSTED
    assert len(evaluator.runs) == 2 * 16
    assert {values[0] for values in evaluator.runs} == {0, 3}
    assert result.progress.bound_violations == 0


def test_a_space_of_which_the_bound_leaves_nothing_is_empty() -> None:
    evaluator = ToyEvaluator(cost)
    result = search(ToyInstance([2, 2]), evaluator, Impossible(0, 1))
    assert result.stop is Stop.EMPTY
    assert "the bound leaves no implementation" in result.message
    assert not evaluator.runs


def test_decisions_fixed_by_the_expert_hold_in_everything_that_is_evaluated() -> None:
    evaluator = ToyEvaluator(cost)
    result = search(ToyInstance([4, 4]), evaluator, decisions=[Decision("x", ("o1",), (0, 3))])
    assert result.stop is Stop.EXHAUSTED
    assert {values[1] for values in evaluator.runs} == {0, 3}
    assert len(evaluator.runs) >= 8


def test_contradictory_decisions_are_named() -> None:
    decisions = [Decision("x", ("o0",), (1,)), Decision("x", ("o1",), (1,))]
    result = search(different(), ToyEvaluator(cost), decisions=decisions)
    assert result.stop is Stop.CONTRADICTION
    assert "x(o1) is 1" in result.message


def test_a_violated_bound_is_reported_and_what_it_had_cut_is_found_after_all() -> None:
    instance = ToyInstance([4, 4, 4])

    def steep(values: tuple[int, ...]) -> float:
        return 100.0 + 40 * sum(values)

    # Twice too high: once anything has been measured, better implementations seem impossible.
    bound = ExactBound(instance, steep, slack=2.0)
    events: list[Event] = []
    evaluator = ToyEvaluator(steep)
    result = search(instance, evaluator, bound, listener=events.append)
    violations = [e for e in events if isinstance(e, Violation)]
    assert result.progress.bound_violations == len(violations) > 0
    assert all(v.timing.high_ns < 0.99 * v.bound_ns for v in violations)
    assert violations[0].scale == pytest.approx(0.5, rel=0.01)
    assert result.best is not None
    assert values_of(result.best.candidate) == (0, 0, 0)


def test_every_program_is_sent_to_be_measured_once_with_the_best_time_of_then() -> None:
    class Attentive(ToyEvaluator):
        def run(self, lowered: Lowered, best_ns: float | None, limit_s: float | None = None) -> Outcome:
            told.append(best_ns)
            return super().run(lowered, best_ns)

    told: list[float | None] = []
    events: list[Event] = []
    evaluator = Attentive(cost)
    search(ToyInstance([4, 4, 4]), evaluator, listener=events.append)
    assert len(evaluator.runs) == len(set(evaluator.runs)) == 64
    assert sorted(evaluator.built) == sorted(evaluator.runs)
    times = [cost(values) for values in evaluator.runs]
    assert told == [None, *itertools.accumulate(times[:-1], min)]
    bests = [best_ns for best_ns in (*told, min(times)) if best_ns is not None]
    assert [e.timing.time_ns for e in events if isinstance(e, NewBest)] == list(dict.fromkeys(bests))


def test_an_interrupt_ends_the_run_with_what_is_known() -> None:
    class Interrupted(ToyEvaluator):
        def run(self, lowered: Lowered, best_ns: float | None, limit_s: float | None = None) -> Outcome:
            if len(self.runs) == 5:
                raise KeyboardInterrupt
            return super().run(lowered, best_ns)

    evaluator = Interrupted(cost)
    result = search(ToyInstance([4, 4, 4]), evaluator)
    assert result.stop is Stop.INTERRUPTED
    assert result.best is not None
    assert not evaluator.is_open


def test_an_interrupt_ends_walks_in_all_processes() -> None:
    """Of a search that nothing else ends for long."""
    instance = ToyInstance([5] * 8)
    estimated = mmap.mmap(-1, 1)

    def endless_ns(candidate: Candidate) -> float:
        estimated[0] = min(255, estimated[0] + 1)
        if estimated[0] == 40:
            running.interrupt()
        return float(sum(values_of(candidate)))

    running = Search(
        instance,
        bound=NoBound(),
        evaluator=ToyEvaluator(cost),
        ordering=InOrder(instance),
        policy=POLICIES["near"](),
        options=Options(seed=1, processes=2, batch=4, seconds=60),
        estimate_ns=endless_ns,
    )
    assert running.run().stop is Stop.INTERRUPTED
    assert 40 <= estimated[0] < 60


def test_progress_tells_the_truth_at_every_step() -> None:
    instance = ToyInstance([4, 4, 4])
    events: list[Event] = []
    search(instance, ToyEvaluator(cost), ExactBound(instance, cost), listener=events.append)
    optimum = min(map(cost, instance.solutions()))
    steps = [e for e in events if isinstance(e, Progress)]
    for step in steps:
        assert (step.best_ns is None) == (step.gap is None) == (step.evaluations == 0)
        # What is still to be found or has been found holds the optimum.
        assert min(step.best_ns or math.inf, step.least_bound_ns) <= optimum * (1 + 1e-9)
        assert 0 <= step.share_cut <= 1 + 1e-9
        assert 0 <= (step.gap or 0) < 1
    shares = [step.share_cut for step in steps]
    assert shares == sorted(shares)
    assert math.isinf(steps[-1].least_bound_ns)


def test_rollouts_go_on_from_a_node_in_an_order_of_their_own() -> None:
    instance = ToyInstance([2, 2, 2, 2])
    in_order = InOrder(instance)

    class Backwards:
        def next(self, candidate: Candidate) -> Branching | None:
            masks = [candidate.mask(variable) for variable in instance.variables]
            last = max((i for i, mask in enumerate(masks) if mask.bit_count() > 1), default=None)
            return None if last is None else Branching(instance.variables[last], (1, 2))

    root = instance.root()
    assert root is not None
    for rollouts, wanted in ((None, [0, 1, 2, 3]), (Backwards(), [0, 3, 2, 1])):
        descent = Descent(instance, in_order, NoBound(), rollouts=rollouts)
        end = descent.rollout(descent.expand(Bounded(root, 0.0)), Cut(None, 1.0), np.random.default_rng(1))
        assert isinstance(end, Implementation)
        assert [step.variable for step in end.steps] == wanted


def test_rollouts_repair_dead_ends_by_trying_another_value() -> None:
    """Arc consistency does not see that three variables cannot differ pairwise in two values."""
    pairs = [(1, 2), (2, 3), (1, 3)]
    constraints = [Constraint((0, *pair), lambda free, a, b: free == 1 or a != b) for pair in pairs]
    instance = ToyInstance([2, 2, 2, 2], constraints)
    descent = Descent(instance, InOrder(instance), NoBound())
    root = instance.root()
    assert root is not None
    expanded = descent.expand(Bounded(root, 0.0))
    assert expanded.expansion.masks == (1, 2)  # both values of the first variable look possible
    for seed in range(20):
        end = descent.rollout(expanded, Cut(None, 1.0), np.random.default_rng(seed))
        assert isinstance(end, Implementation)
        assert values_of(end.end.candidate)[0] == 1


def test_what_can_become_nothing_is_not_drawn_however_rarely_a_bound_is_asked_for() -> None:
    instance = ToyInstance([2] * 4)

    class Impossible(NoBound):
        def __call__(self, candidate: Candidate) -> float:
            return math.inf if all(candidate.mask(v) == 1 for v in instance.variables[2:]) else 0.0

    root = instance.root()
    assert root is not None
    for every in (1, 3):
        descent = Descent(instance, InOrder(instance), Impossible(), bounded_every=every)
        expanded = descent.expand(Bounded(root, 0.0))
        for seed in range(40):
            end = descent.rollout(expanded, Cut(None, 1.0), np.random.default_rng(seed))
            assert isinstance(end, Implementation)
            assert values_of(end.end.candidate)[2:] != (0, 0)


def test_a_bound_that_is_asked_for_less_often_still_cuts() -> None:
    """Of what it excludes, nothing is drawn, and what is drawn has a bound of its own."""
    instance = ToyInstance([3] * 7)
    asked: list[Candidate] = []

    class Counted(ExactBound):
        def __call__(self, candidate: Candidate) -> float:
            asked.append(candidate)
            return super().__call__(candidate)

    root = instance.root()
    assert root is not None
    counts = {}
    for every in (1, 3):
        bound = Counted(instance, cost)
        descent = Descent(instance, InOrder(instance), bound, bounded_every=every)
        expanded = descent.expand(Bounded(root, bound(root)))
        for time_ns in (1.5 * bound(root), None):
            asked.clear()
            for seed in range(40):
                end = descent.rollout(expanded, Cut(time_ns, 1.0), np.random.default_rng(seed))
                assert isinstance(end, Implementation)
                assert end.end.bound_ns == cost(values_of(end.end.candidate)) < (time_ns or math.inf)
            counts[every] = len(asked)
    assert counts[3] < 0.8 * counts[1]
