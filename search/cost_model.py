"""What a search without a telling bound asks of a cost model: times of implementations, and where to begin.

In: complete candidates, a generator. Out: nanoseconds, roughly; and plans, which are decisions that somebody
who knows such spaces would begin with. Nothing is excluded by either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Variable

Plan = Sequence[tuple[Variable, int]]
"""Variables and masks of what they are to keep, as far as constraints allow it: the first ones come first."""


class CostModel(Protocol):
    def __call__(self, candidate: Candidate) -> float:
        """The time of an implementation, in nanoseconds."""

    def plan(self, rng: np.random.Generator) -> Plan:
        """Where an implementation may lie that is not bad; it decides nothing where none is known."""
