"""What moving bytes costs, against linear programs that share time out among all that was measured."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from spacedsl.kernels.device import MemoryLevel, Mixture
from spacedsl.search.bounds.rates import byte_rate
from spacedsl.search.bounds.traffic import costs, least_ns
from tests.search.linalg import mixtures

RATE = st.floats(1, 1000)
AMOUNT = st.integers(0, 10**9).map(float)
SHARES = (1 / 3, 1 / 2, 1)


@st.composite
def levels(draw: st.DrawFn) -> MemoryLevel:
    found = tuple(
        Mixture(stored=share, is_streamed=is_streamed, bytes_per_ns=one, bytes_per_ns_all=one * more)
        for share in SHARES
        for is_streamed in (False, True)
        for one, more in ((draw(RATE), draw(st.floats(1, 4))),)
    )
    read = draw(RATE)
    return MemoryLevel(
        name="DRAM", capacity_bytes=None, bytes_per_ns=read, bytes_per_ns_all=2 * read, mixtures=found
    )


def shared_out_ns(
    level: MemoryLevel, threads: int, loaded: float, stored: float, kept: float, *, is_plain: bool
) -> float:
    """The least time, in which each mixture has a part; caches keep some bytes of either kind."""
    ways = [(byte_rate(level, threads, 4), 0.0)]
    for mixture in level.mixtures:
        if not (is_plain and mixture.is_streamed):
            rate = byte_rate(mixture, threads, 4)
            ways.append(((1 - mixture.stored) * rate, mixture.stored * rate))
    moved = np.array([*ways, (1, 0), (0, 1)]).T
    found = linprog(
        [1.0] * len(ways) + [0.0, 0.0],
        A_ub=[*-moved, [0.0] * len(ways) + [1.0, 1.0]],
        b_ub=[-loaded, -stored, kept],
    )
    assert found.success
    return float(found.fun)


@given(levels(), st.integers(1, 4), AMOUNT, AMOUNT, st.booleans())
def test_the_time_is_that_of_the_best_mixture_of_all_that_was_measured(
    level: MemoryLevel, threads: int, loaded: float, stored: float, is_plain: bool
) -> None:
    least = shared_out_ns(level, threads, loaded, stored, 0, is_plain=is_plain)
    found = least_ns(costs(level, threads, 4, is_plain=is_plain), loaded, stored, 0)
    assert found == pytest.approx(least, rel=1e-6, abs=1e-6)


@given(levels(), AMOUNT, AMOUNT, AMOUNT)
def test_caches_keep_what_saves_most(level: MemoryLevel, loaded: float, stored: float, kept: float) -> None:
    least = shared_out_ns(level, 4, loaded, stored, kept, is_plain=False)
    assert least_ns(costs(level, 4, 4), loaded, stored, kept) == pytest.approx(least, rel=1e-6, abs=1e-6)


@given(levels(), AMOUNT, AMOUNT, AMOUNT, AMOUNT, st.booleans())
def test_more_bytes_fewer_threads_and_plain_stores_cost_no_less(
    level: MemoryLevel, loaded: float, stored: float, kept: float, more: float, is_plain: bool
) -> None:
    def time_ns(threads: int, loaded: float, stored: float, *, is_plain: bool) -> float:
        return least_ns(costs(level, threads, 4, is_plain=is_plain), loaded, stored, kept)

    times = [time_ns(threads, loaded, stored, is_plain=is_plain) for threads in (4, 3, 2, 1)]
    for fewer, others in zip(times[1:], times, strict=False):
        assert fewer >= others * (1 - 1e-9)
    assert time_ns(4, loaded, stored, is_plain=True) >= time_ns(4, loaded, stored, is_plain=False) * (
        1 - 1e-9
    )
    assert time_ns(4, loaded + more, stored, is_plain=is_plain) >= times[0] * (1 - 1e-9)
    assert time_ns(4, loaded, stored + more, is_plain=is_plain) >= times[0] * (1 - 1e-9)
    edges = costs(level, 4, 4, is_plain=is_plain)
    assert least_ns(edges, loaded, stored, kept, more) >= times[0] * (1 - 1e-9)


def test_loads_and_stores_that_share_a_bus_add_up_and_those_with_buses_of_their_own_do_not() -> None:
    def level(*found: Mixture) -> MemoryLevel:
        return MemoryLevel(
            name="DRAM", capacity_bytes=None, bytes_per_ns=10, bytes_per_ns_all=20, mixtures=found
        )

    shared = costs(level(*mixtures(10, 20, 1)), 2, 2)
    assert least_ns(shared, 600, 400, 0) == pytest.approx(50)
    assert least_ns(shared, 600, 400, 300) == pytest.approx(35)
    assert least_ns(shared, 600, 400, 300, 100) == pytest.approx(40)
    own = costs(level(*mixtures(15, 30, 1 / 3), *mixtures(10, 20, 1 / 2)), 2, 2)
    assert least_ns(own, 600, 300, 0) == pytest.approx(30)
    # Nothing is known: stores are as fast as loads, beside them.
    assert least_ns(costs(level(), 2, 2), 600, 400, 0) == pytest.approx(30)
