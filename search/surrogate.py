"""What a search has learnt of how long implementations take: from what each of them needs of each resource.

In: needs, and measured times, in the order of the evaluations; then needs of other implementations. Out:
logarithms of times, as a Gaussian process has them (Rasmussen and Williams, 2006) or drawn from it (Thompson,
Biometrika 1933). Before anything else is known, times go with all needs together. Implementations are as like
each other as their needs are, not as their decisions are: decisions say best of all that what is near a fast
one is fast, and of what is near it, nothing is better than it. Nothing is excluded by what is said here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

MOST = 500
"""Times that a process is made of: the least, and the last ones, half each."""

SLOW = 4.0
"""Whatever takes as many times the least time, or more, is equally slow."""

LEAST_SHARE = 1e-3
"""Of the sum of all needs: what is less is nothing."""

LEAST_DEVIATION = 1e-3
"""Of the logarithms of a need: what has always been the same says nothing."""

NOISE = 0.02
"""Variance of the logarithm of one time."""

LINE = 0.01
"""Variance of what a need adds to the logarithm of a time, in its deviation, beside the sum of all needs."""

AMPLITUDE = 0.05
"""Variance of what a straight line does not say."""

LENGTH = 0.5
"""Mean squared distance of needs, in their deviations, over which times resemble each other."""

Needs = Sequence[float]
"""Of one implementation: nanoseconds, always of the same resources in the same order."""

Array = NDArray[np.float64]


@dataclass(slots=True)
class Surrogate:
    """Of one search."""

    needs_ns: list[Needs] = field(default_factory=list)
    times_ns: list[float] = field(default_factory=list)
    _process: _Process | None = None
    """Of all that was learnt; None where it has to be made."""

    @property
    def learnt(self) -> int:
        """Implementations."""
        return len(self.times_ns)

    def learn(self, needs_ns: Needs, time_ns: float) -> None:
        self.needs_ns.append(needs_ns)
        self.times_ns.append(time_ns)
        self._process = None

    def expected(self, needs_ns: Sequence[Needs]) -> tuple[Array, Array]:
        """Means and standard deviations of logarithms of times, once something was learnt."""
        if self._process is None:
            self._process = _Process.of(self.needs_ns, self.times_ns)
        return self._process.expected(needs_ns)

    def drawn(self, needs_ns: Sequence[Needs], rng: np.random.Generator) -> Array:
        """Logarithms of times, each as likely as it is."""
        mean, deviation = self.expected(needs_ns)
        return np.asarray(mean + deviation * rng.standard_normal(len(mean)))


@dataclass(frozen=True, slots=True)
class _Process:
    """Points are logarithms of needs, less their mean, over their deviation."""

    mean: Array
    deviation: Array
    points: Array
    level: float
    """Of the logarithms of times, less those of all needs together."""
    factor: Array
    """Cholesky's, lower, of the covariance of the times."""
    weights: Array

    @classmethod
    def of(cls, needs_ns: Sequence[Needs], times_ns: Sequence[float]) -> _Process:
        from scipy.linalg import cho_solve, cholesky

        times = np.log(times_ns)
        least = np.argsort(times, kind="stable")[: MOST // 2]
        used = np.union1d(least, np.arange(len(times))[-(MOST // 2) :])
        points = _logarithms([needs_ns[place] for place in used])
        mean, deviation = points.mean(axis=0), points.std(axis=0)
        deviation[deviation < LEAST_DEVIATION] = np.inf
        points = (points - mean) / deviation
        together = _together([needs_ns[place] for place in used])
        values = np.minimum(times[used], times.min() + np.log(SLOW)) - together
        level = float(values.mean())
        factor = cholesky(_covariance(points, points) + NOISE * np.eye(len(points)), lower=True)
        return cls(mean, deviation, points, level, factor, cho_solve((factor, True), values - level))

    def expected(self, needs_ns: Sequence[Needs]) -> tuple[Array, Array]:
        from scipy.linalg import solve_triangular

        points = (_logarithms(needs_ns) - self.mean) / self.deviation
        between = _covariance(points, self.points)
        known = np.square(solve_triangular(self.factor, between.T, lower=True)).sum(axis=0)
        alone = AMPLITUDE + LINE * np.square(points).sum(axis=1)
        mean = self.level + _together(needs_ns) + between @ self.weights
        return mean, np.sqrt(np.maximum(alone - known, 0.0))


def _together(needs_ns: Sequence[Needs]) -> Array:
    """Logarithms of all needs, one after the other."""
    total = np.asarray(needs_ns, dtype=np.float64).sum(axis=1)
    return np.asarray(np.log(np.maximum(total, np.finfo(np.float64).tiny)))


def _logarithms(needs_ns: Sequence[Needs]) -> Array:
    """Of each need, and of all together."""
    needs, together = np.asarray(needs_ns, dtype=np.float64), _together(needs_ns)[:, None]
    least = LEAST_SHARE * np.exp(together)
    return np.hstack([np.log(np.maximum(needs, least)), together])


def _covariance(ones: Array, others: Array) -> Array:
    from scipy.spatial.distance import cdist

    apart = cdist(ones, others, "sqeuclidean") / ones.shape[1]
    return np.asarray(AMPLITUDE * np.exp(-apart / LENGTH) + LINE * (ones @ others.T))
