"""The order of promise against the textbook's formula, written with loops and a matrix inverse."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import spearmanr

from spacedsl.search.cost_model import (
    CURIOSITY,
    LEAST,
    MOST,
    NOISE,
    REACH,
    SLOWEST,
    CostModel,
    Measured,
    by_bound,
)
from spacedsl.search.descent import Bounded
from spacedsl.search.state import Contender
from spacedsl.search.tree import Step
from tests.search.toy import ToyCandidate, ToyInstance, cost, timing

Values = tuple[int, ...]


def instance() -> ToyInstance:
    return ToyInstance([4] * 5)


def bound(values: Values) -> float:
    return 90.0 + sum(values)


def contenders(values: Sequence[Values]) -> list[Contender]:
    made = [
        Contender(n, str(v), timing(cost(v)), bound(v), tuple(Step(i, 1 << x) for i, x in enumerate(v)))
        for n, v in enumerate(values)
    ]
    return sorted(made, key=lambda contender: contender.timing.time_ns)


def bounded(values: Values) -> Bounded:
    return Bounded(ToyCandidate(instance(), tuple(1 << v for v in values)), bound(values))


def drawn(seed: int, count: int) -> list[Values]:
    rng = np.random.default_rng(seed)
    return list({tuple(int(x) for x in rng.integers(4, size=5)): None for _ in range(count)})


def measured() -> Measured:
    of = instance()
    root = of.root()
    assert root is not None
    return Measured(of, root)


def model(values: Sequence[Values]) -> CostModel:
    made = measured().model(contenders(values))
    assert made is not None
    return made


def test_the_order_is_that_of_the_hopes_of_a_gaussian_process_on_time_over_bound() -> None:
    known, asked = drawn(1, 25), drawn(2, 30)

    def likeness(a: Values, b: Values) -> float:
        return math.exp(-sum(x != y for x, y in zip(a, b, strict=True)) / 5 / REACH)

    logs = np.array([math.log(cost(v) / bound(v)) for v in known])
    logs = np.minimum(logs, np.quantile(logs, SLOWEST))
    inverse = np.linalg.inv([[likeness(a, b) + NOISE * (a == b) for a in known] for b in known])
    hopes = []
    for v in asked:
        row = np.array([likeness(v, a) for a in known])
        deviation = math.sqrt(1 - row @ inverse @ row)
        score = row @ inverse @ ((logs - logs.mean()) / logs.std()) - CURIOSITY * deviation
        hopes.append(math.log(bound(v)) + logs.mean() + logs.std() * score)
    order = model(known).by_promise([bounded(v) for v in asked])
    assert [hopes[place] for place in order] == sorted(hopes)


def test_what_is_learnt_in_parts_is_what_is_learnt_at_once() -> None:
    """To the last bit: a run that is resumed learns at once what it had learnt in parts."""
    values, in_parts = drawn(3, 60), measured()
    for count in (10, 11, 40):
        in_parts.model(contenders(values[:count]))
    some, all_of_them = in_parts.model(contenders(values)), model(values)
    assert some is not None
    assert (some.weights == all_of_them.weights).all()
    asked = [bounded(v) for v in drawn(4, 20)]
    assert some.by_promise(asked) == all_of_them.by_promise(asked)


def test_times_that_follow_from_decisions_are_told_apart() -> None:
    known = drawn(5, 80)
    asked = [v for v in itertools.product(range(4), repeat=5) if v not in known]
    order = model(known).by_promise([bounded(v) for v in asked])
    places = np.argsort(order)
    assert spearmanr(places, [cost(v) for v in asked]).statistic > 0.8


def test_only_the_fastest_count_and_few_say_nothing() -> None:
    everything = contenders(list(itertools.product(range(4), repeat=5)))
    assert len(everything) > MOST
    asked = [bounded(v) for v in drawn(6, 10)]
    of_all, of_fastest = measured().model(everything), measured().model(everything[:MOST])
    assert of_all is not None
    assert of_fastest is not None
    assert of_all.by_promise(asked) == of_fastest.by_promise(asked)
    assert measured().model(everything[: LEAST - 1]) is None


def test_equal_times_say_no_more_than_the_bound() -> None:
    of_equal = measured().model(
        [Contender(n, str(v), timing(bound(v)), bound(v), tuple(Step(i, 1 << x) for i, x in enumerate(v)))
         for n, v in enumerate(itertools.islice(itertools.product(range(4), repeat=5), 600))]
    )  # fmt: skip
    assert of_equal is not None
    known = [bounded(v) for v in [(0, 0, 3, 0, 0), (0, 0, 0, 1, 0), (0, 0, 0, 0, 2)]]
    assert of_equal.by_promise(known) == by_bound(known) == [1, 2, 0]
