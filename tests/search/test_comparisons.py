"""The comparison of the contenders side by side, and how a run goes on from what it finds."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.evaluation import Failure, Lowered, Outcome, Timing
from spacedsl.search.climbs import DOUBT
from spacedsl.search.comparison import Comparison, Finalist, ranked
from spacedsl.search.events import Comparing, Event, Failed, NewBest
from spacedsl.search.policies import POLICIES
from spacedsl.search.results import Stop
from spacedsl.search.run import DOUBTED, Options, Search
from spacedsl.search.state import Drawn, Evaluation, Iteration, State
from spacedsl.search.tree import Expansion, Step, Tree, replay
from tests.search.toy import (
    ExactBound,
    InOrder,
    NoBound,
    ToyEvaluator,
    ToyInstance,
    cost,
    search,
    timing,
    values_of,
)


def test_the_last_contenders_are_compared_and_ties_are_called_ties() -> None:
    class Drifting(ToyEvaluator):
        """Side by side, the second contender is the fastest and the third cannot be told from it."""

        def compare(self, contenders: Sequence[Lowered], processes: int = 1) -> Sequence[Outcome]:
            self.compared.append(tuple(c.digest for c in contenders))
            times = [(110, 109, 111), (100, 98, 102), (103, 101, 105), (120, 119, 121)]
            return [Outcome(Timing(t, low, high, 50)) for t, low, high in times[: len(contenders)]]

    evaluator = Drifting(cost)
    events: list[Event] = []
    result = search(ToyInstance([4, 4]), evaluator, options=Options(contenders=4), listener=events.append)
    fastest = sorted(ToyInstance([4, 4]).solutions(), key=cost)[:4]
    assert evaluator.compared == [tuple(map(str, fastest))]
    assert [f.digest for f in result.finalists] == [str(fastest[i]) for i in (1, 2, 0, 3)]
    assert [f.is_tied for f in result.finalists] == [True, True, False, False]
    assert result.best is not None
    assert result.best.timing.time_ns == 100
    assert any(isinstance(e, Comparing) and e.contenders == 4 for e in events)


def test_a_contender_that_turns_out_wrong_in_the_last_comparison_does_not_win() -> None:
    class Turncoat(ToyEvaluator):
        def compare(self, contenders: Sequence[Lowered], processes: int = 1) -> Sequence[Outcome]:
            wrong = Outcome(None, Failure.WRONG_RESULT, "C differs")
            return [wrong, *super().compare(contenders[1:])]

    events: list[Event] = []
    result = search(ToyInstance([4, 4]), Turncoat(cost), listener=events.append)
    first, second, *_ = sorted(ToyInstance([4, 4]).solutions(), key=cost)
    assert [e.message for e in events if isinstance(e, Failed)] == ["C differs"]
    assert result.best is not None
    assert values_of(result.best.candidate) == second
    # It is one evaluation with one outcome: a failure, and no longer valid.
    assert result.progress.failures[Failure.WRONG_RESULT].count == 1
    assert result.progress.evaluations == 16
    assert result.progress.valid == 15
    assert result.progress.best_ns == result.best.timing.time_ns
    assert {t.digest for t in result.trials if t.outcome.failure is Failure.WRONG_RESULT} == {str(first)}


@pytest.mark.parametrize(("failed", "compared"), [(1, (1, 3)), (3, (3, 6)), (4, (4, 7)), (16, (16, 16))])
def test_what_failed_elsewhere_is_no_finalist_and_the_next_ones_are_compared(
    failed: int, compared: tuple[int, int]
) -> None:
    """Of three contenders some failed on another machine, or all of them and some of the others."""
    evaluator, solutions = ToyEvaluator(cost), sorted(ToyInstance([4, 4]).solutions(), key=cost)
    digests = [*map(str, solutions)]
    options = Options(contenders=3)
    result = search(ToyInstance([4, 4]), evaluator, options=options, failed=digests[:failed])
    expected = digests[slice(*compared)]
    assert [f.digest for f in result.finalists] == expected
    assert [digest for each in evaluator.compared for digest in each] == expected
    assert result.progress.valid == 16


def test_a_worker_that_is_lost_with_all_contenders_makes_none_of_them_invalid() -> None:
    class Lost(ToyEvaluator):
        def compare(self, contenders: Sequence[Lowered], processes: int = 1) -> Sequence[Outcome]:
            return [Outcome(None, Failure.WORKER_LOST, "gone") for _ in contenders]

    result = search(ToyInstance([4, 4]), Lost(cost))
    assert result.best is not None
    assert values_of(result.best.candidate) == (2, 2)
    assert (result.progress.evaluations, result.progress.valid) == (16, 16)
    assert not result.progress.failures


def test_what_was_lucky_once_is_found_out_where_nothing_seems_better_for_long() -> None:
    lucky = (0, 0, 0, 0)

    class Lucky(ToyEvaluator):
        def run(self, lowered: Lowered, best_ns: float | None, limit_s: float | None = None) -> Outcome:
            outcome = super().run(lowered, best_ns)
            return Outcome(timing(900.0)) if lowered.digest == str(lucky) else outcome

    evaluator, bests = Lucky(cost), list[tuple[int, str]]()

    def listen(event: Event) -> None:
        if isinstance(event, NewBest):
            bests.append((len(evaluator.runs), event.digest))

    search(ToyInstance([4] * 4), evaluator, options=Options(seed=2), listener=listen)
    met = evaluator.runs.index(lucky) + 1
    again, *_ = (contenders for contenders in evaluator.compared if str(lucky) in contenders)
    assert len(again) == DOUBTED
    after, found_out = next((at, digest) for at, digest in bests if at > met)
    assert DOUBT <= after - met < DOUBT + Options().batch
    assert found_out == min(again, key=lambda digest: cost(ast.literal_eval(digest)))


class Turning(ToyEvaluator):
    """Code whose values are `wrong` is found out when it is measured side by side."""

    wrong: Callable[[tuple[int, ...]], bool]

    def compare(self, contenders: Sequence[Lowered], processes: int = 1) -> Sequence[Outcome]:
        outcomes = super().compare(contenders)
        return [
            Outcome(None, Failure.WRONG_RESULT, f"{c.code} differs")
            if self.wrong(tuple(map(int, c.code.split())))
            else outcome
            for c, outcome in zip(contenders, outcomes, strict=True)
        ]


def test_what_is_handed_out_has_been_compared_where_a_run_ends_as_the_fastest_turn_out_wrong() -> None:
    """What was slower than they are may have been no more than predicted."""
    first: list[tuple[str, ...]] = []

    class Interrupting(Turning):
        def compare(self, contenders: Sequence[Lowered], processes: int = 1) -> Sequence[Outcome]:
            if not first:
                first.append(tuple(c.digest for c in contenders))
                running.interrupt()
            return super().compare(contenders, processes)

    instance, evaluator = ToyInstance([4] * 4), Interrupting(cost)
    evaluator.wrong = lambda values: str(values) in first[0]
    running = Search(
        instance,
        bound=NoBound(),
        evaluator=evaluator,
        ordering=InOrder(instance),
        policy=POLICIES["near"](),
        options=Options(seed=2),
    )
    result = running.run()
    assert result.stop is Stop.INTERRUPTED
    assert result.progress.failures[Failure.WRONG_RESULT].count == DOUBTED
    assert result.best is not None
    assert result.best.digest in evaluator.compared[1]


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("slack", [0.0, 0.9, 1.0])
def test_a_run_whose_best_is_lost_goes_on_until_the_best_of_the_right_ones_is_known(
    policy: str, slack: float
) -> None:
    instance, evaluator = ToyInstance([4, 4, 4]), Turning(cost)
    evaluator.wrong = lambda values: values[0] == 2 or values[1] == 2
    result = search(instance, evaluator, ExactBound(instance, cost, slack), policy, Options(contenders=5))
    right = [values for values in instance.solutions() if not evaluator.wrong(values)]
    assert result.stop is Stop.EXHAUSTED
    assert result.best is not None
    assert values_of(result.best.candidate) == min(right, key=cost)
    # Nothing that is faster is left.
    assert math.isinf(result.progress.least_bound_ns)
    assert len(evaluator.compared) > 1


def test_where_all_contenders_turn_out_wrong_those_that_were_slower_are_promoted() -> None:
    instance, evaluator = ToyInstance([4, 4]), Turning(cost)
    evaluator.wrong = lambda values: cost(values) < 1012
    events: list[Event] = []
    result = search(instance, evaluator, options=Options(contenders=2), listener=events.append)
    by_cost = sorted(instance.solutions(), key=cost)
    wrong = [values for values in by_cost if evaluator.wrong(values)]
    assert len(wrong) > 4
    assert result.best is not None
    assert values_of(result.best.candidate) == by_cost[len(wrong)]
    # Whatever is the best now has been compared, and is said to be it.
    assert str(by_cost[len(wrong)]) in evaluator.compared[-1]
    (*_, last) = [e for e in events if isinstance(e, NewBest)]
    assert last.digest == result.best.digest
    root = instance.root()
    assert root is not None
    assert str(values_of(replay(instance, root, last.steps))) == last.digest
    assert result.progress.valid == 16 - len(wrong)
    assert len(evaluator.runs) == 16


def test_where_all_are_wrong_there_is_no_best() -> None:
    evaluator = Turning(cost)
    evaluator.wrong = lambda values: True
    result = search(ToyInstance([3, 3]), evaluator)
    assert result.best is None
    assert result.stop is Stop.EXHAUSTED
    assert (result.progress.valid, result.progress.best_ns) == (0, None)
    assert result.progress.failures[Failure.WRONG_RESULT].count == 9


def test_a_run_is_not_exhausted_before_what_the_reported_time_leaves_open_is_known() -> None:
    class Slower(ToyEvaluator):
        """Side by side, everything takes twice the time that it took before."""

        def compare(self, contenders: Sequence[Lowered], processes: int = 1) -> Sequence[Outcome]:
            self.compared.append(tuple(lowered.digest for lowered in contenders))
            return [Outcome(timing(2 * self.cost(tuple(map(int, c.code.split()))))) for c in contenders]

    def line(values: tuple[int, ...]) -> float:
        return 1000.0 + 100 * values[0] + values[1]

    instance = ToyInstance([4, 4])
    evaluator = Slower(line)
    result = search(instance, evaluator, ExactBound(instance, line))
    assert result.stop is Stop.EXHAUSTED
    assert result.best is not None
    assert result.best.timing.time_ns == result.progress.best_ns
    measured = {t.digest for t in result.trials}
    unknown = [line(v) for v in instance.solutions() if str(v) not in measured]
    assert all(time_ns >= result.best.timing.time_ns for time_ns in unknown)
    assert len(evaluator.compared) > 1


def test_a_violation_in_the_last_comparison_lowers_the_bounds_that_are_reported() -> None:
    class Faster(ToyEvaluator):
        def compare(self, contenders: Sequence[Lowered], processes: int = 1) -> Sequence[Outcome]:
            return [Outcome(timing(0.5 * self.cost(tuple(map(int, c.code.split()))))) for c in contenders]

    instance = ToyInstance([4, 4])
    result = search(instance, Faster(cost), ExactBound(instance, cost, slack=0.9))
    assert result.progress.evaluations > 1
    assert result.progress.bound_violations > 0
    assert result.best is not None
    assert result.best.bound_ns <= result.best.timing.high_ns / 0.99


def test_a_comparison_that_cuts_all_that_was_left_exhausts_the_space() -> None:
    class Warm(ToyEvaluator):
        """Side by side, everything is faster, and as fast as its bound."""

        def run(self, lowered: Lowered, best_ns: float | None, limit_s: float | None = None) -> Outcome:
            super().run(lowered, best_ns)
            return Outcome(timing(1.5 * self.cost(self.runs[-1])))

    instance = ToyInstance([4, 4])
    options = Options(evaluations=3)
    result = search(instance, Warm(cost), ExactBound(instance, cost), "bound", options)
    assert result.progress.evaluations == 3
    assert result.best is not None
    assert values_of(result.best.candidate) == min(instance.solutions(), key=cost)
    assert math.isinf(result.progress.least_bound_ns)
    assert result.stop is Stop.EXHAUSTED


def test_an_interrupt_in_the_last_comparison_ends_the_run_as_interrupted() -> None:
    class Interrupted(ToyEvaluator):
        def compare(self, contenders: Sequence[Lowered], processes: int = 1) -> Sequence[Outcome]:
            raise KeyboardInterrupt

    evaluator = Interrupted(cost)
    result = search(ToyInstance([4, 4, 4]), evaluator)
    assert result.stop is Stop.INTERRUPTED
    assert result.best is not None
    assert not evaluator.is_open


@pytest.mark.parametrize("policy", POLICIES)
def test_a_leaf_that_was_cut_and_is_opened_again_is_measured(policy: str) -> None:
    """What was left of it was forced, with a bound above the best time, which a comparison then raised."""

    class Cut(ExactBound):
        """Says nothing of what is open, and that the second decision has no choice."""

        def __call__(self, candidate: Candidate) -> float:
            first, second = candidate.instance.variables
            if candidate.mask(second) == 0b10:
                return math.inf
            return (
                1.0 if candidate.is_open(first) or candidate.is_open(second) else super().__call__(candidate)
            )

    def cost_of(values: tuple[int, ...]) -> float:
        return 100.0 + values[0]

    def compared(contenders: Sequence[Lowered], processes: int = 1) -> Sequence[Outcome]:
        return [Outcome(timing(1.1 * cost_of(tuple(map(int, c.code.split()))))) for c in contenders]

    instance = ToyInstance([4, 2])
    for seed in range(4):
        evaluator = ToyEvaluator(cost_of)
        evaluator.compare = compared  # type: ignore[method-assign]
        result = search(instance, evaluator, Cut(instance, cost_of), policy, Options(seed=seed, batch=1))
        assert result.stop is Stop.EXHAUSTED
        assert result.progress.evaluations == 4


def test_of_times_of_different_moments_the_best_is_that_of_the_fastest_implementation() -> None:
    """An interrupted run has had no last comparison: what was timed in a fast moment is not the best."""

    def finalist(digest: str, time_ns: float, slowdown: float) -> Finalist:
        instance = ToyInstance([2])
        root = instance.root()
        assert root is not None
        return Finalist(root, digest, "", timing(time_ns), 1.0, slowdown)

    lucky, fast = finalist("lucky", 511.0, 0.5), finalist("fast", 1017.0, 1.0)
    found = ranked([lucky, fast])
    assert [f.digest for f in found] == ["fast", "lucky"]
    assert [f.is_tied for f in found] == [False, False]
    assert [f.is_tied for f in ranked([fast, replace(lucky, timing=timing(508.6))])] == [True, True]


def test_others_take_the_places_that_contenders_have_left_before_new_code_does() -> None:
    """A comparison had no time for slower contenders: what is new competes with all of them."""
    state = State(Tree(ToyInstance([9, 9]), root_of(ToyInstance([9, 9])), 1.0, 4), kept_contenders=3)
    for number, time_ns in enumerate((10.0, 20.0, 30.0, 40.0, 50.0)):
        add(state, number, time_ns)
    state.compare(Comparison({"0": Outcome(timing(11.0)), "1": Outcome(None), "2": Outcome(None)}))
    assert [c.digest for c in state.contenders] == ["0"]
    assert not state.is_contender(60.0) and not state.is_contender(35.0) and state.is_contender(25.0)
    add(state, 5, 60.0)
    assert [c.digest for c in state.contenders] == ["0", "1", "2"]
    assert [c.digest for c in state.fastest()] == ["0", "1", "2", "3", "4", "5"]


def test_the_new_best_may_be_one_that_had_given_way() -> None:
    """A comparison finds the best slower, while what was second gave way to it."""
    instance = ToyInstance([9, 2])
    state = State(Tree(instance, root_of(instance), 1.0, 10), kept_contenders=2)
    add(state, 0, 10.0)
    add(state, 1, 11.0)
    state.compare(Comparison({"0": Outcome(timing(13.0)), "1": Outcome(None)}))
    (event,) = [event for event in add(state, 2, 12.0) if isinstance(event, NewBest)]
    assert event.digest == "1" and state.best is not None and state.best.digest == "1"
    assert state.tree.cut_ns == state.best_ns == 11.0
    assert [c.digest for c in state.contenders] == ["1", "2"]


def root_of(instance: ToyInstance) -> Candidate:
    root = instance.root()
    assert root is not None
    return root


def add(state: State, number: int, time_ns: float) -> Sequence[Event]:
    """One more evaluation, of an implementation below the root."""
    drawn = Drawn((Step(0, 1 << number), Step(1, 1)), 1.0, str(number))
    expansion = Expansion((), 1.0, 0, tuple(1 << bit for bit in range(9)), (1.0,) * 9, 0)
    path = (number,) if number else ()
    below = Expansion((), 1.0, 1, (1, 2), (1.0, 1.0), 0)
    evaluations = state.evaluations
    state.absorb(Iteration(path, below if path else expansion, drawn, None, 0, 0.0, evaluations, "{}"))
    return state.evaluate(Evaluation(str(number), Outcome(timing(time_ns)), 0.0))
