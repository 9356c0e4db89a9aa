"""What is measured of phases decides what implementations seem to cost, and where a search goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.evaluation import Lowered, Outcome
from spacedsl.search.comparison import Comparison
from spacedsl.search.costs.model import Decisions, Form, Phase
from spacedsl.search.phases import Guess, Known
from spacedsl.search.run import Options
from spacedsl.search.store import Store
from tests.search.long_run import ABOUT
from tests.search.toy import ToyCosts, ToyEvaluator, ToyInstance, search, toy_phase, values_of

NAMES = "abcd"
SIZE = 6


def truth(values: tuple[int, ...]) -> tuple[tuple[str, float], ...]:
    """A phase for each pair of neighbouring values, which no single value makes faster."""
    pairs = pairwise(values)
    return tuple(
        (name, 1000.0 + 100 * ((3 * a + 5 * b + place) % 11))
        for place, (name, (a, b)) in enumerate(zip(NAMES, pairs, strict=False))
    )


@dataclass
class Model(ToyCosts):
    """Says the opposite of the truth, at a hundredth of its size."""

    asked: int = 0

    def phases(self, candidate: Candidate) -> Sequence[Phase]:
        self.asked += 1
        values = values_of(candidate)
        pairs = enumerate(pairwise(values))
        decisions: list[Decisions] = [((place, 1 << a), (place + 1, 1 << b)) for place, (a, b) in pairs]
        return [
            toy_phase(name, decided, (3000 - time_ns) / 100)
            for decided, (name, time_ns) in zip(decisions, truth(values), strict=True)
        ]


@dataclass
class PhasedEvaluator(ToyEvaluator):
    phases: Callable[[tuple[int, ...]], tuple[tuple[str, float], ...]] = truth
    measured: list[tuple[tuple[str, float], ...]] = field(default_factory=list)

    def run(self, lowered: Lowered, best_ns: float | None, limit_s: float | None = None) -> Outcome:
        phases_ns = self.phases(tuple(map(int, lowered.code.split())))
        self.measured.append(phases_ns)
        return replace(super().run(lowered, best_ns), phases_ns=phases_ns)


def total(values: tuple[int, ...]) -> float:
    return sum(time_ns for _, time_ns in truth(values))


def candidate(*values: int) -> Candidate:
    found: Candidate | None = ToyInstance([SIZE] * len(values)).root()
    for variable, value in enumerate(values):
        assert found is not None
        found = found.instance.restrict(found, found.instance.variables[variable], 1 << value)
    assert found is not None
    return found


def guess(known: Known, of: Candidate, spread: float = 0.0) -> list[float]:
    costs = Guess(known, spread, np.random.default_rng(0))
    return [costs.phase_ns(phase) for phase in known.costs.phases(of)]


def test_what_was_measured_counts() -> None:
    known = Known(Model())
    known.learn(candidate(0, 1, 2), (("a", 7.0), ("b", 9.0)))
    assert guess(known, candidate(0, 1, 2)) == [7.0, 9.0]
    predicted = [phase.time_ns for phase in Model().phases(candidate(0, 1, 3))]
    assert guess(known, candidate(0, 1, 3)) == [7.0, predicted[1]]


def test_of_several_measurements_the_median_counts() -> None:
    known = Known(Model())
    for time_ns in (5.0, 50.0, 6.0):
        known.learn(candidate(0, 1, 2), (("a", time_ns),))
    assert guess(known, candidate(0, 1, 2))[0] == 6.0


def test_phases_without_a_time_are_not_known() -> None:
    known = Known(Model())
    known.learn(candidate(0, 1, 2), (("a", 7.0), ("z", 3.0)))
    assert guess(known, candidate(0, 1, 2)) == [7.0, Model().phases(candidate(0, 1, 2))[1].time_ns]


def test_of_others_the_model_is_as_far_off_as_it_was() -> None:
    """For those of the same name, if enough are known, or else for all."""
    known = Known(Model())
    for value in range(4):
        of = candidate(value, 0, value)
        off = {"a": 100.0, "b": 2.0}
        known.learn(of, [(p.name, off[p.name] * p.time_ns) for p in known.costs.phases(of)])
    predicted = [phase.time_ns for phase in known.costs.phases(candidate(5, 1, 5, 2))]
    found = guess(known, candidate(5, 1, 5, 2))
    assert found[:2] == pytest.approx([100 * predicted[0], 2 * predicted[1]])
    assert found[2] == pytest.approx(np.sqrt(200) * predicted[2])


def test_a_guess_scatters_as_the_model_does_and_is_one_guess_for_a_walk() -> None:
    known = Known(Model())
    for value in range(5):
        of = candidate(value, 0, value)
        known.learn(of, [(p.name, (1 + value) * p.time_ns) for p in known.costs.phases(of)])
    costs = Guess(known, 1.0, np.random.default_rng(1))
    others = [candidate(a, b, c) for a in range(SIZE) for b in range(1, SIZE) for c in range(SIZE)]
    first = [costs(each) for each in others]
    assert [costs(each) for each in others] == first
    likely = Guess(known, 0.0, np.random.default_rng(1))
    off = [np.log(found / likely(each)) for found, each in zip(first, others, strict=True)]
    assert 0.1 < np.std(off) < 0.7
    assert abs(np.mean(off)) < 0.2


def test_the_fastest_of_those_alike_are_drawn_most() -> None:
    known = Known(Model())
    assert known.drawn(np.random.default_rng(0)) is None
    for value in range(SIZE):
        known.learn(candidate(value, 0), (("a", 10.0 + value),))
    rng = np.random.default_rng(0)
    found = [known.drawn(rng) for _ in range(200)]
    fastest = known.costs.phases(candidate(0, 0))[0].decisions
    assert 70 < found.count(fastest) < 130
    assert len(set(found)) > 3


class Chain(ToyCosts):
    """Of phases which all take the same; the model knows nothing. `is_known`: that they are alike."""

    def __init__(self, *, is_known: bool) -> None:
        self.is_known = is_known

    def phases(self, candidate: Candidate) -> Sequence[Phase]:
        pairs = list(enumerate(pairwise(values_of(candidate))))
        phases = [
            toy_phase(str(place), ((place, 1 << a), (place + 1, 1 << b)), 7.0) for place, (a, b) in pairs
        ]
        if not self.is_known:
            return phases
        return [replace(p, form=Form(0, 0, hash(ab))) for p, (_, ab) in zip(phases, pairs, strict=True)]

    def alike(self, name: str) -> Sequence[str]:
        return [str(place) for place in range(LONG - 1)] if self.is_known else [name]

    def translated(self, decisions: Decisions, name: str, other: str) -> Decisions | None:
        return tuple((variable + int(other) - int(name), mask) for variable, mask in decisions)


LONG = 13


def of_chain(values: tuple[int, ...]) -> tuple[tuple[str, float], ...]:
    return tuple(
        (str(place), 1000.0 + 100 * ((3 * a + 5 * b) % 11)) for place, (a, b) in enumerate(pairwise(values))
    )


def test_what_was_measured_is_known_of_all_that_is_alike() -> None:
    known, rng = Known(Chain(is_known=True)), np.random.default_rng(0)
    known.learn(candidate(0, 1, 2, 3), (("1", 70.0), ("2", 14.0)))
    assert guess(known, candidate(1, 2, 3, 1, 2)) == pytest.approx([70.0, 14.0, 7.0, 70.0])
    # Which of them are drawn, and for which of all phases that are alike, is luck.
    drawn = {known.drawn(rng) for _ in range(500)}
    assert drawn == {((v, 1 << a), (v + 1, 2 << a)) for v in range(LONG - 1) for a in (1, 2)}


def test_a_search_goes_faster_where_phases_are_known_to_be_alike() -> None:
    def found(*, is_known: bool) -> float:
        times = []
        for seed in range(5):
            evaluator = PhasedEvaluator(lambda values: sum(ns for _, ns in of_chain(values)), phases=of_chain)
            instance, options = ToyInstance([SIZE] * LONG), Options(seed=seed, evaluations=8)
            costs = Chain(is_known=is_known)
            result = search(instance, evaluator, policy="near", options=options, costs=costs)
            times.append(result.finalists[0].timing.time_ns)
        return sorted(times)[2]

    assert found(is_known=True) < 0.95 * found(is_known=False)


def best_ns(evaluator: ToyEvaluator, seed: int) -> float:
    options = Options(seed=seed, evaluations=60)
    result = search(ToyInstance([SIZE] * 5), evaluator, policy="near", options=options, costs=Model())
    return result.finalists[0].timing.time_ns


def test_a_search_finds_what_its_model_would_keep_it_from() -> None:
    """Of 7,776 implementations, from what 60 of them say of their phases, each of which has 36 forms."""
    found = [best_ns(PhasedEvaluator(total), seed) for seed in range(5)]
    misled = [best_ns(ToyEvaluator(total), seed) for seed in range(5)]
    assert sorted(found)[2] < 0.85 * sorted(misled)[2]


def test_a_run_in_parts_knows_what_the_run_in_one_knows(tmp_path: Path) -> None:
    def run(folder: Path, evaluations: int) -> None:
        store = Store.open(folder) if folder.exists() else Store.create(folder, ABOUT)
        options = Options(seed=3, evaluations=evaluations)
        with store:
            search(
                ToyInstance([SIZE] * 5), PhasedEvaluator(total), policy="near", options=options,
                costs=Model(), store=store,
            )  # fmt: skip

    def happened(folder: Path) -> list[object]:
        with Store.open(folder, read_only=True) as store:
            return [replace(each, seconds=0) for each in store.history() if not isinstance(each, Comparison)]

    run(tmp_path / "whole", 40)
    for evaluations in (11, 12, 40):
        run(tmp_path / "parts", evaluations)
    assert happened(tmp_path / "parts") == happened(tmp_path / "whole")
