"""What a bound is: a function of a candidate. Data and a protocol; no implementation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.native.rollouts import CompiledBound


@dataclass(frozen=True, slots=True)
class BoundTerm:
    """One resource and the least time that it alone needs."""

    resource: str
    bound_ns: float
    detail: str = ""


class Bound(Protocol):
    """Never above the time of anything that the candidate can become; never falling as decisions are made."""

    @property
    def compiled(self) -> CompiledBound | None:
        """The same in compiled code, for rollouts that do not leave it; None: there is only this."""
        ...

    def __call__(self, candidate: Candidate) -> float:
        """The bound in nanoseconds; infinite where the candidate can become nothing at all."""
        ...

    def of_all(self, candidates: Sequence[Candidate]) -> list[float]:
        """The bounds of several candidates, in order: the children of a node at once."""
        ...

    def terms_ns(self, candidate: Candidate) -> list[float]:
        """What each resource alone needs, in nanoseconds, always in the same order; the bound is the most."""
        ...

    def explain(self, candidate: Candidate) -> tuple[BoundTerm, ...]:
        """What the bound consists of, the largest term first."""
        ...
