"""What is said of probes: means, intervals, proportions; `tests/engine/test_sizes.py` judges the probes."""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import pytest

from spacedsl.api.solving import pose_unmeasured
from spacedsl.api.space_size import SpaceSize, _counted, _Prober, estimate, measure_size
from spacedsl.cli.stats import estimated, number
from spacedsl.engine.instance import Engine
from spacedsl.engine.native.sizes import Probes
from spacedsl.search.orderings import select_ordering
from tests.engine.native import needs_compiler

LIBRARY = Path(__file__).parents[1] / "kernels" / "library"


def probes(values: list[float], scales: list[int] | None = None) -> Probes:
    return Probes(np.array(values), np.array(scales or [0] * len(values), np.int32))


def test_the_interval_of_a_mean_without_skewness_is_students() -> None:
    found = estimate("knuth", probes([10, 20, 30, 40]))
    assert found.log10 == pytest.approx(math.log10(25))
    assert found.skewness == pytest.approx(0, abs=1e-9)
    # 3.182 from a table of Student's distribution with three degrees of freedom.
    half = 3.182 * 12.910 / 2 / 25
    assert found.relative_ci == pytest.approx((1 - half, 1 + half), rel=1e-3)
    assert (found.largest_share, found.is_doubtful) == (0.4, True)
    assert not estimate("knuth", probes([1] * 30)).is_doubtful


def test_intervals_of_skewed_means_hold_the_mean_about_as_often_as_they_say() -> None:
    """Means of 30 numbers whose skewness is about that of Chen's estimates; Student's hold 85 % of them."""
    rng = np.random.default_rng(0)
    spread = 1.2
    mean = math.exp(spread**2 / 2)
    held = 0
    for _ in range(1000):
        found = estimate("chen", probes(list(rng.lognormal(0, spread, 30))))
        assert found.log10 is not None and found.relative_ci is not None
        low_end, high_end = (10**found.log10 * end for end in found.relative_ci)
        held += low_end <= mean <= high_end
    # Five standard deviations of the count above Student's.
    assert 0.895 <= held / 1000 <= 0.98


def test_numbers_beyond_a_float_have_a_mean() -> None:
    small, large = [1.0, 3.0], [1.0, 3.0, 2.0]
    scaled = estimate("chen", probes(large, [4, 4, 0]))
    plain = estimate("chen", probes([*small, 0.0]))
    assert scaled.log10 == pytest.approx(math.log10(4 / 3) + 2048 * math.log10(2))
    assert scaled.relative_ci == pytest.approx(plain.relative_ci)


def test_of_a_few_probes_nobody_knows_how_skewed_they_are() -> None:
    """Two are as far below their mean as above it, whatever they are samples of."""
    rng = np.random.default_rng(0)
    many, few = (estimate("knuth", probes(list(rng.lognormal(0, 2, n)))) for n in (2000, 2))
    assert abs(few.skewness) < abs(many.skewness)
    for estimates in ((many, few), (few, many)):
        assert SpaceSize(None, estimates, 0, 0.0, (0.0, 1.0)).best is many
    nothing = estimate("knuth", probes([0.0] * 2000))
    assert SpaceSize(None, (nothing, many), 0, 0.0, (0.0, 1.0)).best is many
    assert SpaceSize(None, (nothing, few), 0, 0.0, (0.0, 1.0)).best is few
    alike = estimate("chen", probes(list(rng.lognormal(0, 0.1, 200))))
    assert SpaceSize(None, (many, alike), 0, 0.0, (0.0, 1.0)).best is alike


def test_probes_that_came_to_nothing_give_no_mean() -> None:
    found = estimate("knuth", probes([0, 0]))
    assert (found.log10, found.relative_ci) == (None, None)
    assert estimated(found) == "none met by 2 probes"
    assert estimated(estimate("knuth", probes([5]))) == "5 (interval unknown), 1 probe, 100 % of it from one"


@pytest.mark.parametrize(
    ("log10", "text"),
    [
        (math.log10(7), "7"),
        (math.log10(3024), "3,024"),
        (math.log10(1.83e21), "1.83e21"),
        (999.9999, "1.0e1000"),
        (1234.5, "3.16e1234"),
    ],
)
def test_a_number_is_written_from_its_logarithm(log10: float, text: str) -> None:
    assert number(log10) == text


@needs_compiler
@pytest.mark.parametrize("engine", Engine)
def test_a_small_space_is_counted_and_estimated(engine: Engine) -> None:
    problem = pose_unmeasured(LIBRARY / "plain" / "colouring.yaml", engine=engine)
    assert problem.root is not None
    rule = select_ordering(problem.instance, problem.space)
    found = measure_size(problem.root, rule, seed=0, seconds=0.1)
    assert found.exact == 744
    assert measure_size(problem.root, rule, seed=0, seconds=1e-4).exact is None
    assert [e.method for e in found.estimates] == ["knuth", "chen"]
    assert all(abs(10 ** (e.log10 or 0) - 744) < 744 for e in found.estimates)
    assert found.dead_end_rate == found.dead_end_ci[0] == 0 < found.dead_end_ci[1] < 1
    assert found.best is min(found.estimates, key=lambda e: abs(e.skewness))


@pytest.mark.parametrize(
    ("node_s", "leaves", "counted"),
    [
        (1e-6, 500_000, 500_000),
        (1e-6, 5_000_000, None),
        (1e-3, 900, 900),
        (1e-3, 500_000, None),
        (0.1, 3, 3),
    ],
)
def test_a_tree_is_counted_in_about_as_much_time_as_there_is(
    node_s: float, leaves: int, counted: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of nodes that take long there are only a few to be looked at."""
    now = 0.0

    def count(most: int) -> int | None:
        nonlocal now
        now += node_s * min(most, leaves)
        return leaves if leaves <= most else None

    monkeypatch.setattr(time, "thread_time", lambda: now)
    prober = _Prober(lambda *_: Probes(), lambda *_: Probes(), count)
    assert _counted(prober, 4_000_000, 1.0) == counted
    assert now <= max(3.0, 1_000 * node_s)
