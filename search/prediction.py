"""How long an implementation may take, told from those that were measured: a Gaussian process on decisions.

In: measured implementations, then others with their bounds. Out: how short the times of these may be. Two
implementations are as far apart as the share of decisions in which they differ, where each choice of the
space weighs the same, however many instances it has. What is predicted is the logarithm of time over bound,
so that the bound tells what it knows (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006,
equations 2.25 and 2.26). Nothing is drawn, measured or cut here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance, Variable
from spacedsl.search.descent import Bounded
from spacedsl.search.policies import FLOOR_NS
from spacedsl.search.state import Contender
from spacedsl.search.tree import replay

Array = NDArray[np.float64]
Decisions = NDArray[np.int64]
"""A row for each implementation, a number for each of its decisions, equal for equal values."""

DECAY = 2.0
"""Times of implementations that differ in a share s of their decisions correlate by exp(-DECAY s)."""

CURIOSITY = 2.0
"""Standard deviations by which a time may be shorter than it is predicted."""

NOISE = 0.05
"""The part of the variance of times that decisions do not explain, over the part that they do."""

LEAST = 8
"""Implementations that a prediction needs."""

MOST = 512
"""Implementations that it makes use of, the fastest: near them it is asked for."""


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """The distance of decisions: whole numbers, so that sums do not depend on their order."""

    variables: tuple[Variable, ...]
    weights: Array

    @classmethod
    def of(cls, instance: Instance, root: Candidate) -> Metric:
        open_ones = tuple(v for v in instance.variables if root.mask(v).bit_count() != 1)
        instances = Counter(variable.choice for variable in open_ones)
        shares = [1 / (instances[v.choice] * len(instances)) for v in open_ones]
        return cls(open_ones, np.rint(np.array(shares) * 2.0**24))

    def decisions(self, candidates: Sequence[Candidate]) -> Decisions:
        rows = [[hash(candidate.mask(variable)) for variable in self.variables] for candidate in candidates]
        return np.array(rows, dtype=np.int64).reshape(len(rows), len(self.variables))

    def apart(self, some: Decisions, others: Decisions) -> Array:
        """Shares of decisions that differ: a row for each of `some`."""
        return np.array([(others != row) @ self.weights for row in some]) / 2.0**24


class Predictor:
    """The same implementations give the same predictions; what was computed for earlier ones is kept."""

    def __init__(self, instance: Instance, root: Candidate) -> None:
        self._instance = instance
        self._root = root
        self._metric = Metric.of(instance, root)
        self._places: dict[str, int] = {}
        """By digest, where an implementation is in `_decisions` and `_apart`."""
        self._decisions = self._metric.decisions([])
        self._apart: Array = np.zeros((0, 0))

    def fit(self, measured: Sequence[Contender]) -> Prediction | None:
        """What the implementations say, given fastest first; None where they are too few."""
        if len(measured) < LEAST:
            return None
        chosen = sorted(measured[:MOST], key=lambda contender: contender.iteration)
        self._add([contender for contender in chosen if contender.digest not in self._places])
        places = [self._places[contender.digest] for contender in chosen]
        likeness = np.exp(-DECAY * self._apart[np.ix_(places, places)]) + NOISE * np.eye(len(places))
        ratios = [c.timing.time_ns / max(c.bound_ns, FLOOR_NS) for c in chosen]
        logs = np.log(ratios)
        mean, deviation = float(logs.mean()), float(logs.std()) or 1.0
        inverse: Array = np.linalg.inv(likeness).astype(np.float64)
        weights = inverse @ ((logs - mean) / deviation)
        return Prediction(self._metric, self._decisions[places], mean, deviation, inverse, weights)

    def _add(self, new: Sequence[Contender]) -> None:
        if not new:
            return
        rows = self._metric.decisions([replay(self._instance, self._root, c.steps) for c in new])
        before = len(self._decisions)
        self._places |= {contender.digest: before + i for i, contender in enumerate(new)}
        self._decisions = np.concatenate([self._decisions, rows])
        across = self._metric.apart(rows, self._decisions)
        self._apart = np.block([[self._apart, across[:, :before].T], [across]])


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """A Gaussian process, conditioned on what was measured."""

    metric: Metric
    known: Decisions
    mean: float
    deviation: float
    inverse: Array
    weights: Array

    def hopes(self, implementations: Sequence[Bounded]) -> list[float]:
        """For each the logarithm of a time in ns: what is predicted, less some standard deviations."""
        if not implementations:
            return []
        rows = self.metric.decisions([each.candidate for each in implementations])
        likeness = np.exp(-DECAY * self.metric.apart(rows, self.known))
        variances = 1.0 - np.einsum("ij,ij->i", likeness @ self.inverse, likeness)
        scores = likeness @ self.weights - CURIOSITY * np.sqrt(np.maximum(variances, 0.0))
        bounds = np.log([max(each.bound_ns, FLOOR_NS) for each in implementations])
        hopes: list[float] = (bounds + self.mean + self.deviation * scores).tolist()
        return hopes
