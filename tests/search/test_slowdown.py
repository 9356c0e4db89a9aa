"""Times of different moments are compared without the slowdown that the fastest show at each of them."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from spacedsl.kernels.evaluation import Lowered, Outcome
from spacedsl.search.results import Result
from spacedsl.search.run import Options
from spacedsl.search.state import Contender, Evaluation
from spacedsl.search.store import Store
from spacedsl.search.witnesses import LEAST, LOOKS, OUTDONE, SHARE, Witnesses, credible, ratio
from tests.search.long_run import ABOUT
from tests.search.toy import ToyEvaluator, ToyInstance, cost, search, timing


@pytest.mark.parametrize(
    ("now_ns", "expected"),
    [
        ((200.0, 420.0), 2.0),
        ((50.0, 80.0), 0.5),
        ((200.0, 190.0), 1.0),
        ((104.0, 400.0), 1.0),
        ((60.0, 300.0), 1.0),
    ],
)
def test_the_slowdown_is_what_all_programs_say(now_ns: Sequence[float], expected: float) -> None:
    assert ratio((100.0, 200.0), now_ns) == pytest.approx(expected)


@dataclass
class Watched(ToyEvaluator):
    """Whose programs take what their code says, on a machine that has a clock of its own."""

    now: float = 1.0
    glance_s: float = 0.0
    time_s: float = 0.0
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def clock(self) -> float:
        return self.time_s

    def glance(self, programs: Sequence[Lowered]) -> Sequence[float] | None:
        self.time_s += self.glance_s
        self.asked.append(tuple(program.digest for program in programs))
        return [] if math.isnan(self.now) else [self.now * float(program.code) for program in programs]


def contenders(*times_ns: float) -> list[Contender]:
    """And slower ones."""
    slower = range(1000, 1000 + LEAST - len(times_ns))
    return [Contender(1, f"{time_ns:g}", timing(time_ns), 0.0, ()) for time_ns in (*times_ns, *slower)]


def made(contender: Contender) -> Lowered:
    return Lowered(contender.digest, contender.digest)


def never_made(contender: Contender) -> Lowered:
    raise AssertionError(contender)


def test_witnesses_stay_until_they_are_clearly_outdone() -> None:
    watched = Watched(cost)
    witnesses = Witnesses(watched, watched.clock)
    assert witnesses.slowdown(contenders(100, 110), made) == 1
    watched.now = 3
    for _ in range(2 * LOOKS):
        assert witnesses.slowdown(contenders(101 / OUTDONE, 100), made) == 3
        assert watched.asked[-1:] == [("100", "110")]
    outdoing = f"{99 / OUTDONE:g}"
    assert witnesses.slowdown(contenders(99 / OUTDONE, 100), made) == 3
    for _ in range(LOOKS):
        assert witnesses.slowdown(contenders(99 / OUTDONE, 100), made) == 3
        assert watched.asked[-1:] == [("100", "110", outdoing, "100")]
    # From here on, others say how much slower the machine is than it was when the first ones were measured.
    watched.now = 6
    assert witnesses.slowdown(contenders(99 / OUTDONE, 100), made) == 6
    assert watched.asked[-1:] == [(outdoing, "100")]


def test_what_single_looks_are_off_by_does_not_stay() -> None:
    """Of nine looks at those to come, four are at a machine that has just become faster, or slower."""

    class Jumping(Watched):
        def glance(self, programs: Sequence[Lowered]) -> Sequence[float] | None:
            found = super().glance(programs)
            off = {4: 0.5, 6: 0.3, 7: 2.0, 9: 0.5}.get(len(self.asked), 1.0)
            return None if found is None else [*found[:2], *(off * ns for ns in found[2:])]

    watched = Jumping(cost)
    witnesses = Witnesses(watched, watched.clock)
    for _ in range(LOOKS + 2):
        witnesses.slowdown(contenders(100, 110), made)
    watched.asked.clear()
    for _ in range(LOOKS + 1):
        assert witnesses.slowdown(contenders(50, 60), made) == 1
    assert len(watched.asked[-1]) == 4
    assert witnesses.slowdown(contenders(50, 60), made) == 1
    assert watched.asked[-1:] == [("50", "60")]


def test_what_was_measured_at_a_good_moment_is_no_witness() -> None:
    lucky = [Contender(1, f"{digest}", timing(time_ns), 0.0, ()) for digest, time_ns in ((90, 40), (95, 45))]
    watched = Watched(cost)
    witnesses = Witnesses(watched, watched.clock)
    witnesses.slowdown(contenders(100, 110), made)
    for _ in range(LOOKS + 1):
        assert witnesses.slowdown([*lucky, *contenders(100, 110)], made) == 1
    assert watched.asked[-1:] == [("100", "110", "90", "95")]
    for _ in range(LOOKS):
        assert witnesses.slowdown([*lucky, *contenders(100, 110)], made) == 1
        assert watched.asked[-1:] == [("100", "110")]


def test_those_to_come_that_fail_are_not_asked_again() -> None:
    watched = Watched(cost)
    witnesses = Witnesses(watched, watched.clock)
    witnesses.slowdown(contenders(100, 110), made)
    witnesses.slowdown(contenders(50, 60), made)
    watched.now = math.nan
    assert witnesses.slowdown(contenders(50, 60), made) == 1
    assert watched.asked[-1:] == [("100", "110", "50", "60")]
    watched.now = 2
    assert witnesses.slowdown(contenders(50, 60), made) == 2
    assert watched.asked[-1:] == [("100", "110")]


def test_those_to_come_stay_loaded_where_it_is_looked_behind_a_measurement() -> None:
    watched = Watched(cost)
    witnesses = Witnesses(watched, watched.clock)
    for _ in range(2):
        witnesses.slowdown(contenders(50, 60), made)
    witnesses.slowdown(contenders(20, 30), made)
    watched.now = 2
    assert witnesses.behind(3) == 2
    assert watched.asked[-1:] == [("50", "60", "20", "30")]


@pytest.mark.parametrize(
    ("slowdown", "bound_ns", "expected"),
    [(3.0, 50.0, 2.0), (1.5, 50.0, 1.5), (3.0, 0.0, 3.0), (3.0, 150.0, 1.0), (0.5, 150.0, 0.5)],
)
def test_no_slowdown_says_of_a_program_what_its_bound_excludes(
    slowdown: float, bound_ns: float, expected: float
) -> None:
    measured = [(Outcome(timing(100.0)), bound_ns), (Outcome(timing(1000.0)), 10.0), (Outcome(None), 100.0)]
    assert credible(slowdown, measured) == expected


def test_few_implementations_say_nothing() -> None:
    watched = Watched(cost, now=3)
    assert Witnesses(watched, watched.clock).slowdown(contenders(100, 110)[1:], made) == 1
    assert not watched.asked


def test_looking_takes_a_small_share_of_the_time() -> None:
    watched = Watched(cost, glance_s=1.0)
    witnesses = Witnesses(watched, watched.clock)
    while watched.time_s < 1000:
        witnesses.slowdown(contenders(100, 110), made)
        watched.time_s += 0.1
    assert SHARE / 2 < len(watched.asked) / watched.time_s < 1.1 * SHARE


def test_where_all_moments_are_the_same_it_is_asked_once_and_nothing_is_made() -> None:
    class Predicting(Watched):
        def glance(self, programs: Sequence[Lowered]) -> None:
            super().glance(programs)

    watched = Predicting(cost)
    witnesses = Witnesses(watched, watched.clock)
    for _ in range(3):
        assert witnesses.slowdown(contenders(100, 110), never_made) == 1
        watched.time_s += 1000
    assert len(watched.asked) == 1


def test_where_nothing_is_said_it_is_asked_again_later_and_the_last_word_counts() -> None:
    watched = Watched(cost, glance_s=1.0)
    witnesses = Witnesses(watched, watched.clock)
    witnesses.slowdown(contenders(100, 110), made)
    watched.now, watched.time_s = 2, 100
    assert witnesses.slowdown(contenders(100, 110), made) == 2
    watched.now, watched.time_s = math.nan, 200
    assert witnesses.slowdown(contenders(100, 110), made) == 2
    asked = len(watched.asked)
    assert witnesses.slowdown(contenders(100, 110), made) == 2
    assert len(watched.asked) == asked
    watched.now, watched.time_s = 3, 300
    assert witnesses.slowdown(contenders(100, 110), made) == 3


def test_behind_a_measurement_no_more_is_said_than_before() -> None:
    watched = Watched(cost)
    witnesses = Witnesses(watched, watched.clock)
    assert witnesses.behind(1.5) == 1
    assert witnesses.slowdown(contenders(100, 110), made) == 1
    watched.now = 3
    assert witnesses.slowdown(contenders(100, 110), made) == 3
    assert witnesses.behind(3) == 3
    watched.now = 2
    assert witnesses.behind(3) == 2
    watched.now = 6
    assert witnesses.behind(3) == 3
    watched.now = math.nan
    assert witnesses.behind(3) == 3


@dataclass
class Moody(ToyEvaluator):
    """On a machine that takes half of the time again and again, for some evaluations."""

    is_looked_at: bool = True

    @property
    def now(self) -> float:
        return 0.5 if len(self.runs) // 10 % 3 == 1 else 1.0

    def run(self, lowered: Lowered, best_ns: float | None, limit_s: float | None = None) -> Outcome:
        now, outcome = self.now, super().run(lowered, best_ns)
        assert outcome.timing is not None
        return Outcome(timing(now * outcome.timing.time_ns))

    def glance(self, programs: Sequence[Lowered]) -> Sequence[float]:
        if not self.is_looked_at:
            return ()
        return [self.now * self.cost(ast.literal_eval(program.digest)) for program in programs]

    def compare(self, contenders: Sequence[Lowered], processes: int = 1) -> Sequence[Outcome]:
        timings = [outcome.timing for outcome in super().compare(contenders)]
        return [Outcome(timing(self.now * t.time_ns)) for t in timings if t is not None]


def explored(evaluator: Moody, evaluations: int, store: Store | None = None) -> Result:
    options, instance = Options(evaluations=evaluations), ToyInstance([6] * 4)
    return search(instance, evaluator, policy="near", options=options, store=store, clock=lambda: 0.0)


def are_told_apart(result: Result) -> bool:
    """Whether all that was measured counts as what it costs."""
    return all(
        math.isclose(trial.outcome.comparable_ns or 0, cost(ast.literal_eval(trial.digest)), rel_tol=1e-6)
        for trial in result.trials
    )


def test_what_was_measured_at_a_good_moment_does_not_count_as_fast() -> None:
    assert are_told_apart(explored(Moody(cost), 85))
    assert not are_told_apart(explored(Moody(cost, is_looked_at=False), 85))


@dataclass
class Deceiving(Moody):
    """On a machine that is slow every other time that it is looked at, and never else."""

    done: list[str] = field(default_factory=list)

    @property
    def now(self) -> float:
        return 1.0

    def glance(self, programs: Sequence[Lowered]) -> Sequence[float]:
        self.done.append("glance")
        return [(1 + self.done.count("glance") % 2) * time_ns for time_ns in super().glance(programs)]

    def compare(self, contenders: Sequence[Lowered], processes: int = 1) -> Sequence[Outcome]:
        self.done.append("compare")
        return super().compare(contenders, processes)


def test_a_machine_that_was_slow_before_does_not_make_what_comes_behind_it_fast() -> None:
    def alike(values: tuple[int, ...]) -> float:
        """None of them is so much faster that it becomes a witness."""
        return 1000 + sum((v + 1) * 2.0 ** (n + 1) for n, v in enumerate(values)) / 2

    evaluator = Deceiving(alike)
    result = explored(evaluator, 85)
    compared = [n for n, what in enumerate(evaluator.done) if what == "compare"]
    assert compared and all(evaluator.done[n + 1 : n + 2] == ["glance"] for n in compared)
    for trial in result.trials:
        assert (trial.outcome.comparable_ns or 0) > 0.99 * alike(ast.literal_eval(trial.digest))


def test_a_run_that_is_taken_up_knows_how_slow_the_machine_was(tmp_path: Path) -> None:
    evaluator = Moody(cost)
    with Store.create(tmp_path, ABOUT) as store:
        explored(evaluator, 45, store)
        slowdowns = [each.outcome.slowdown for each in store.history() if isinstance(each, Evaluation)]
        assert set(slowdowns) == {0.5, 1.0}
        resumed = explored(evaluator, 85, store)
    assert resumed.progress.evaluations == 85
    assert are_told_apart(resumed)
