"""Predicted times against the textbook's formula, written with loops and a matrix inverse."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr

from spacedsl.search.descent import Bounded
from spacedsl.search.prediction import CURIOSITY, DECAY, LEAST, MOST, NOISE, Prediction, Predictor
from spacedsl.search.state import Contender
from spacedsl.search.tree import Step
from tests.search.toy import ToyCandidate, ToyInstance, cost, timing

Values = tuple[int, ...]


def two_choices() -> ToyInstance:
    """Four instances of the choice `x` and one of `y`."""
    instance = ToyInstance([4, 4, 4, 4, 4])
    *same, last = instance.variables
    instance.variables = (*same, replace(last, choice="y"))
    return instance


def measured(values: Sequence[Values], first: int = 0) -> list[Contender]:
    """Their times are ten times their bounds, and more where they are further from the optimum."""
    made = [
        Contender(n, str(v), timing(cost(v)), 90.0 + sum(v), tuple(Step(i, 1 << x) for i, x in enumerate(v)))
        for n, v in enumerate(values, start=first)
    ]
    return sorted(made, key=lambda contender: contender.timing.time_ns)


def bounded(instance: ToyInstance, values: Values) -> Bounded:
    return Bounded(ToyCandidate(instance, tuple(1 << v for v in values)), 90.0 + sum(values))


def drawn(seed: int, count: int) -> list[Values]:
    rng = np.random.default_rng(seed)
    return list({tuple(int(x) for x in rng.integers(4, size=5)): None for _ in range(count)})


def predictor(instance: ToyInstance) -> Predictor:
    root = instance.root()
    assert root is not None
    return Predictor(instance, root)


def fitted(of: Predictor, values: Sequence[Contender]) -> Prediction:
    prediction = of.fit(values)
    assert prediction is not None
    return prediction


def test_hopes_are_those_of_a_gaussian_process_in_which_choices_weigh_the_same() -> None:
    instance, known, asked = two_choices(), drawn(1, 25), drawn(2, 10)

    def likeness(a: Values, b: Values) -> float:
        share = sum(x != y for x, y in zip(a[:4], b[:4], strict=True)) / 4 / 2 + (a[4] != b[4]) / 2
        return math.exp(-DECAY * share)

    logs = np.array([math.log(cost(v) / (90.0 + sum(v))) for v in known])
    scaled = (logs - logs.mean()) / logs.std()
    inverse = np.linalg.inv([[likeness(a, b) + NOISE * (a == b) for a in known] for b in known])
    expected = []
    for v in asked:
        row = np.array([likeness(v, a) for a in known])
        deviation = math.sqrt(1 - row @ inverse @ row)
        score = row @ inverse @ scaled - CURIOSITY * deviation
        expected.append(math.log(90.0 + sum(v)) + logs.mean() + logs.std() * score)
    prediction = fitted(predictor(instance), measured(known))
    assert prediction.hopes([bounded(instance, v) for v in asked]) == pytest.approx(expected, rel=1e-6)


def test_what_is_learnt_in_parts_is_what_is_learnt_at_once() -> None:
    """To the last bit: a run that is resumed learns at once what it had learnt in parts."""
    instance, values = two_choices(), drawn(3, 60)
    in_parts, at_once = predictor(instance), predictor(instance)
    for count in (10, 11, 40):
        in_parts.fit(measured(values[:count]))
    asked = [bounded(instance, v) for v in drawn(4, 20)]
    found = [fitted(of, measured(values)).hopes(asked) for of in (in_parts, at_once)]
    assert found[0] == found[1]


def test_times_that_follow_from_decisions_are_told_apart() -> None:
    instance = two_choices()
    known = drawn(5, 80)
    asked = [v for v in itertools.product(range(4), repeat=5) if v not in known]
    hopes = fitted(predictor(instance), measured(known)).hopes([bounded(instance, v) for v in asked])
    assert spearmanr(hopes, [cost(v) for v in asked]).statistic > 0.8


def test_only_the_fastest_count_and_few_say_nothing() -> None:
    instance = two_choices()
    everything = measured(list(itertools.product(range(4), repeat=5)))
    assert len(everything) > MOST
    asked = [bounded(instance, v) for v in drawn(6, 10)]
    all_of_them, fastest = (
        fitted(predictor(instance), everything),
        fitted(predictor(instance), everything[:MOST]),
    )
    assert all_of_them.hopes(asked) == fastest.hopes(asked)
    assert all_of_them.hopes([]) == []
    assert predictor(instance).fit(everything[: LEAST - 1]) is None
