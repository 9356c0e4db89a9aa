"""How long an implementation may take, told from those that were measured: a Gaussian process on decisions.

In: measured implementations, then others with their bounds. Out: which of these may be fastest. Two
implementations are as far apart as the share of the words of their vectors in which they differ, of those in
which any two do. What is predicted is the logarithm of time over bound, so that the bound tells what it knows
(Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, algorithm 2.1). Nothing is drawn,
measured or cut here: a prediction orders what was drawn, and proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.search.descent import Bounded
from spacedsl.search.policies import FLOOR_NS
from spacedsl.search.state import Contender
from spacedsl.search.tree import replay

Reals = NDArray[np.float64]
Words = NDArray[np.uint64]
"""A row for each implementation: its vector."""

REACH = 0.1
"""Times of implementations that differ in a share s of their words correlate by exp(-s / REACH)."""

NOISE = 0.1
"""The part of the variance of times that decisions do not explain, over the part that they do."""

CURIOSITY = 1.0
"""Standard deviations by which a time may be shorter than it is predicted."""

SLOWEST = 0.9
"""Quantile of time over bound above which there is no more to be learnt: some are a hundred times slower."""

LEAST = 8
"""Implementations that a prediction needs."""

MOST = 512
"""Implementations that it makes use of, the fastest: near them it is asked for."""


def by_bound(implementations: Sequence[Bounded]) -> list[int]:
    """Their places, the least bound first: all that there is to tell them by before any was measured."""
    return sorted(range(len(implementations)), key=lambda place: implementations[place].bound_ns)


@dataclass(frozen=True, slots=True, eq=False)
class CostModel:
    """A Gaussian process, conditioned on what was measured."""

    known: Words
    reach: float
    """In words."""
    mean: float
    deviation: float
    inverse: Reals
    """Of the matrix of correlations."""
    weights: Reals

    def by_promise(self, implementations: Sequence[Bounded]) -> list[int]:
        """Their places, the least time to be hoped for first; equal ones in order."""
        rows = np.array([_words(each.candidate) for each in implementations])
        likeness = np.exp(-_apart(rows, self.known) / self.reach)
        variances = 1.0 - np.einsum("ij,jk,ik->i", likeness, self.inverse, likeness)
        scores = likeness @ self.weights - CURIOSITY * np.sqrt(np.maximum(variances, 0.0))
        bounds = np.log([max(each.bound_ns, FLOOR_NS) for each in implementations])
        hopes = bounds + self.deviation * scores
        return [int(place) for place in np.argsort(hopes, kind="stable")]


class Measured:
    """The vectors of measured implementations, and in how many words any two differ.

    The same implementations give the same model, whenever they were added: a resumed search decides as an
    uninterrupted one.
    """

    def __init__(self, instance: Instance, root: Candidate) -> None:
        self._instance = instance
        self._root = root
        self._places: dict[str, int] = {}
        """By digest, where an implementation is in `_rows` and `_differing`."""
        self._rows: Words = np.array([_words(root)])[:0]
        self._differing: Reals = np.zeros((0, 0))

    def model(self, fastest: Sequence[Contender]) -> CostModel | None:
        """What the implementations say, given fastest first; None where they are too few."""
        if len(fastest) < LEAST:
            return None
        chosen = sorted(fastest[:MOST], key=lambda contender: contender.iteration)
        self._add([contender for contender in chosen if contender.digest not in self._places])
        places = [self._places[contender.digest] for contender in chosen]
        rows = self._rows[places]
        reach = REACH * max(1, int((rows != rows[0]).any(axis=0).sum()))
        likeness = np.exp(-self._differing[np.ix_(places, places)] / reach)
        ratios = np.log([c.timing.time_ns / max(c.bound_ns, FLOOR_NS) for c in chosen])
        ratios = np.minimum(ratios, np.quantile(ratios, SLOWEST))
        mean, deviation = float(ratios.mean()), float(ratios.std()) or 1.0
        inverse = np.linalg.inv(likeness + NOISE * np.eye(len(chosen))).astype(np.float64)
        return CostModel(rows, reach, mean, deviation, inverse, inverse @ ((ratios - mean) / deviation))

    def _add(self, new: Sequence[Contender]) -> None:
        if not new:
            return
        rows = np.array([_words(replay(self._instance, self._root, c.steps)) for c in new])
        before = len(self._rows)
        self._places |= {contender.digest: before + i for i, contender in enumerate(new)}
        self._rows = np.concatenate([self._rows, rows])
        across = _apart(rows, self._rows)
        self._differing = np.block([[self._differing, across[:, :before].T], [across]])


def _words(candidate: Candidate) -> Words:
    return np.frombuffer(candidate.vector, dtype=np.uint64)


def _apart(some: Words, others: Words) -> Reals:
    """In how many words they differ, a row for each of `some`."""
    return np.array([(others != row).sum(axis=1) for row in some], dtype=np.float64)
