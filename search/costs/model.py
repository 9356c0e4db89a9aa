"""What a search without a telling bound asks of a cost model: times of implementations, and where to begin.

In: complete candidates, a generator. Out: nanoseconds, roughly, of each phase of an implementation, and which
phases are alike; and plans, which are decisions that somebody who knows such spaces would begin with. Nothing
is excluded by them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Variable

Needs = Callable[[Candidate], Sequence[float]]
"""Of an implementation: nanoseconds that each resource is used for, always in the same order."""

Plan = Sequence[tuple[Variable, int]]
"""Variables and masks of what they are to keep, as far as constraints allow it: the first ones come first."""

Decisions = tuple[tuple[int, int], ...]
"""Variables, by their index, and masks."""


@dataclass(frozen=True, slots=True)
class Form:
    """What phases have in common that are alike but for names and numbers."""

    kind: int
    """What is computed: a number."""
    steps: int
    """Of the same kind, which other steps are computed with it, and so what there is to decide: a hash."""
    values: int
    """Of the same steps, what is decided: a hash."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Of an implementation, what runs between two moments at which all of its threads meet."""

    name: str
    """As measurements have it. No two phases of an implementation share one."""
    decisions: Decisions
    """All that its time depends on: where they are the same, so is the phase."""
    time_ns: float
    form: Form
    points: float = 1.0
    """That its own step goes through: phases that are alike take as long for each of them, about."""


class CostModel(Protocol):
    def phases(self, candidate: Candidate) -> Sequence[Phase]:
        """What an implementation does, one after the other; times are added up."""

    def plan(self, rng: np.random.Generator) -> Plan:
        """Where an implementation may lie that is not bad; it decides nothing where none is known."""

    def alike(self, name: str) -> Sequence[str]:
        """The names of all phases of which some might have the form of one of that name, with its own."""

    def translated(self, decisions: Decisions, name: str, other: str) -> Decisions | None:
        """What gives a phase of another name the form of one of that name, as far as there are such values;
        None: what it reads is not alike.
        """


def time_ns(costs: CostModel, candidate: Candidate) -> float:
    """Of all phases."""
    return sum(phase.time_ns for phase in costs.phases(candidate))
