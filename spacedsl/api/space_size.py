"""How many implementations a space has, and how often a random walk comes to a dead end.

In: the root of an instance, an ordering, a seed, processor time. Out: a `SpaceSize`: an exact number where
the space is small, else estimates with 95 % intervals. Estimates of large spaces are skewed: a few probes
carry most of the sum, and an interval from too few of them is too narrow. `largest_share` shows that.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spacedsl.engine import sizes
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Engine
from spacedsl.engine.native import sizes as native
from spacedsl.engine.native.sizes import SCALE_BITS, Probes
from spacedsl.engine.streams import Stream
from spacedsl.search.orderings import Ordering, branches_of, native_ordering

CONFIDENCE = 0.95
COUNTED_PER_S = {Engine.NATIVE: 1_000_000, Engine.PYTHON: 10_000}
"""Implementations: a space that the first estimate gives more of, for the time there is, is not counted."""

NODES_OF_ONE = 4
"""Of a tree that is counted there may be so many for each of these: the estimate may have been too low."""

FIRST_COUNTED, COUNTING_MORE = 1_000, 8
"""Nodes of a tree that are tried to be enough at first, and how many times as many the next ones are."""

DOMINANT_SHARE = 0.1
"""Of the sum of an estimate: a single probe that has more makes its interval doubtful."""

FEWEST_PROBES = 30
"""Of an estimate whose skewness says something."""

_TICK_S = 1e-6

_BATCH = 4096
_FIRST_NODES = 2_000
_NO_SKEWNESS = 1e-6
_FLOAT_BITS = 2_000
"""What is so many times halved is 0 in a float."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Of the number of implementations, by one method: a logarithm, since no float holds the largest."""

    method: str
    probes: int
    log10: float | None
    """Of the mean; None where no probe came to an implementation."""
    relative_ci: tuple[float, float] | None
    """The 95 % interval over the mean; None where that is not known."""
    skewness: float
    """That is left in the mean. An interval errs by about as much: it is too low."""
    largest_share: float
    """Of the sum over all probes, that of the largest one."""

    @property
    def is_doubtful(self) -> bool:
        return self.largest_share > DOMINANT_SHARE


@dataclass(frozen=True, slots=True)
class SpaceSize:
    """How many implementations there are, and how often a random walk meets none."""

    exact: int | None
    """None: the space is too large to be counted."""
    estimates: tuple[Estimate, ...]
    walks: int
    """From the root, each child that propagation allows with the same probability."""
    dead_end_rate: float
    """Walks that came to a decision without any valid value, of all."""
    dead_end_ci: tuple[float, float]
    """95 % interval (Clopper and Pearson)."""

    @property
    def best(self) -> Estimate:
        """The estimate whose interval is trusted most: of the mean with the least skewness that is one.

        A few probes say nothing of skewness: of two, it is always 0.
        """
        known = [e for e in self.estimates if e.relative_ci is not None]
        many = [e for e in known if e.probes >= FEWEST_PROBES]
        if not many:
            return max(known or self.estimates, key=lambda e: e.probes)
        return min(many, key=lambda e: abs(e.skewness))


def measure_size(root: Candidate, rule: Ordering, seed: int, seconds: float) -> SpaceSize:
    """Probes by Knuth's method for half of the time, by Chen's for the rest; a small space is then counted.

    Counting a million implementations takes a second or so in compiled code.
    """
    prober = _prober(root, rule, seed)
    walks, strata, allowed = Probes(), Probes(), _FIRST_NODES
    counted = math.ceil(COUNTED_PER_S[root.instance.engine] * seconds)

    def walk() -> None:
        nonlocal walks
        # Batches that grow with what there is: the last one takes no more than a part of the time.
        walks += prober.knuth(len(walks), min(_BATCH, 1 + len(walks) // 4))

    def sample() -> None:
        nonlocal strata, allowed
        found = prober.chen(len(strata), _BATCH, allowed)
        strata += found
        allowed *= 1 if len(found) else 2

    _spend(seconds / 2, walk)
    _spend(seconds / 2, sample)
    estimates = [estimate("knuth", walks), *([estimate("chen", strata)] if len(strata) else [])]
    dead_ends = int((walks.m == 0).sum())
    return SpaceSize(
        exact=_counted(prober, NODES_OF_ONE * counted, seconds)
        if _is_at_most(estimates[0], counted)
        else None,
        estimates=tuple(estimates),
        walks=len(walks),
        dead_end_rate=dead_ends / len(walks),
        dead_end_ci=_proportion(dead_ends, len(walks)),
    )


def _spend(seconds: float, work: Callable[[], None]) -> None:
    """At least once."""
    deadline = time.thread_time() + seconds
    while True:
        work()
        if time.thread_time() >= deadline:
            return


def _counted(prober: _Prober, most: int, seconds: float) -> int | None:
    """In a tree of at most so many nodes; None where it has more, or takes more than about twice that time.

    Nodes of one space take a hundred times as long as those of another: a few say how many there is time for.
    """
    nodes, deadline = min(FIRST_COUNTED, most), time.thread_time() + 2 * seconds
    while True:
        began = time.thread_time()
        found = prober.count(nodes)
        ended = time.thread_time()
        if found is not None or nodes == most or ended >= deadline:
            return found
        affordable = nodes * (deadline - ended) / max(ended - began, _TICK_S)
        if affordable <= nodes:
            return None
        nodes = min(most, math.ceil(min(COUNTING_MORE * nodes, affordable)))


def _is_at_most(estimate: Estimate, count: int) -> bool:
    return estimate.log10 is None or estimate.log10 <= math.log10(count)


def _proportion(hits: int, of: int) -> tuple[float, float]:
    from scipy.special import betaincinv

    tail = (1 - CONFIDENCE) / 2
    low = float(betaincinv(hits, of - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, of - hits, 1 - tail)) if hits < of else 1.0
    return low, high


def estimate(method: str, probes: Probes) -> Estimate:
    """The mean and its interval, computed in a unit in which the largest estimate is about 1."""
    count = len(probes)
    if not probes.m.any():
        return Estimate(method, count, None, None, 0.0, 0.0)
    exponents = SCALE_BITS * probes.scale.astype(np.int64)
    unit = int((np.frexp(probes.m)[1] + exponents)[probes.m > 0].max())
    values = np.ldexp(probes.m, np.maximum(exponents - unit, -_FLOAT_BITS))
    mean, deviation = float(values.mean()), float(values.std())
    skewness = float(((values - mean) ** 3).mean()) / deviation**3 if deviation else 0.0
    return Estimate(
        method=method,
        probes=count,
        log10=math.log10(mean) + unit * math.log10(2),
        relative_ci=None if count == 1 else _interval(deviation / mean, skewness, count),
        skewness=skewness / math.sqrt(count),
        largest_share=float(values.max() / values.sum()),
    )


def _interval(variation: float, skewness: float, count: int) -> tuple[float, float]:
    """Of a mean, over it: Hall, "On the removal of skewness by transformation" (1992), with Student's t.

    `variation`: the standard deviation over the mean.
    """
    from scipy.special import stdtrit

    root, quantile = math.sqrt(count), float(stdtrit(count - 1, (1 + CONFIDENCE) / 2))
    error, left = variation / math.sqrt(count - 1), skewness / root

    def corrected(t: float) -> float:
        if abs(left) < _NO_SKEWNESS:
            return t
        return 3 / left * (math.cbrt(1 + left * (t - left / 6)) - 1)

    return max(0.0, 1 - error * corrected(quantile)), 1 - error * corrected(-quantile)


@dataclass(frozen=True, slots=True)
class _Prober:
    """An engine's probes, by number of the first and how many; Chen's: of no more nodes than the third.

    A count is of trees with at most so many nodes.
    """

    knuth: Callable[[int, int], Probes]
    chen: Callable[[int, int, int], Probes]
    count: Callable[[int], int | None]


def _prober(root: Candidate, rule: Ordering, seed: int) -> _Prober:
    propagation = root.instance.native
    ordering = native_ordering(root.instance, rule) if propagation is not None else None
    if propagation is None or ordering is None:
        return _interpreted(root, rule, seed)
    engine, order, vector = propagation, ordering, root.vector
    return _Prober(
        lambda first, count: native.knuth_probes(engine, vector, order, seed=seed, first=first, count=count),
        lambda first, count, most: native.chen_probes(
            engine, vector, order, seed=seed, first=first, count=count, most=most
        ),
        lambda most: native.count_leaves(engine, vector, order, most),
    )


def _interpreted(root: Candidate, rule: Ordering, seed: int) -> _Prober:
    """The reference, one probe at a time and as long as it takes."""
    branches = branches_of(rule)

    def open_decisions(candidate: Candidate) -> int:
        return sum(candidate.is_open(v) for v in root.instance.variables)

    return _Prober(
        lambda first, count: _single(sizes.knuth_probe(root, branches, Stream(seed, first))),
        lambda first, count, most: _single(
            sizes.chen_probe(root, branches, open_decisions, Stream(seed, first))
        ),
        lambda most: sizes.count_leaves(root, branches, most),
    )


def _single(estimate: int) -> Probes:
    scale = max(0, (estimate.bit_length() - 53) // SCALE_BITS)
    return Probes(np.array([float(estimate >> SCALE_BITS * scale)]), np.array([scale], np.int32))
