"""A space on a kernel and a device. (INTERFACE STUB: to be implemented.)"""

from __future__ import annotations

from dataclasses import dataclass

from spacedsl.engine.candidate import Candidate, Decision


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """One decision variable: a choice on objects. Of a symmetric pair only one orientation is a variable."""

    index: int
    """Position in `Instance.variables`."""
    choice: str
    objects: tuple[object, ...]
    names: tuple[str, ...]
    offset: int
    """First word in the candidate's vector."""
    universe: tuple[str, ...] | tuple[int, ...]
    """Bit b of its mask stands for universe[b]."""


class Instance:
    """Built by `instantiate(compiled, kernel, device)`: objects, layout of the vector, host tables."""

    variables: tuple[Variable, ...]
    """All decision variables (not counters, not representatives), in order of declaration, then of objects."""

    def root(self) -> Candidate | None:
        """The candidate before any decision, propagated; None where the space is empty."""
        raise NotImplementedError

    def variables_of(self, choice: str) -> tuple[Variable, ...]:
        raise NotImplementedError

    def variable(self, choice: str, *objects: object) -> Variable:
        """The variable of a choice on objects, in the orientation that is stored as a decision."""
        raise NotImplementedError

    def offset(self, choice: str, *objects: object) -> int:
        """First word of the domain (or counter) in the vector, in the orientation asked for. For fast readers."""
        raise NotImplementedError

    def universe(self, choice: str, *objects: object) -> tuple[str, ...] | tuple[int, ...]:
        raise NotImplementedError

    def restrict(self, candidate: Candidate, variable: Variable, mask: int) -> Candidate | None:
        """A new candidate in which the variable keeps only the values of `mask`, propagated; None: contradiction."""
        raise NotImplementedError

    def decide(self, candidate: Candidate, decision: Decision) -> Candidate | None:
        """The same by names; raises `KeyError` for a choice, object or value that does not exist here."""
        raise NotImplementedError
