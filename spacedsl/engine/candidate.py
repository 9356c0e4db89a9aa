"""A candidate: the decision vector of a partially specified implementation. (INTERFACE STUB: to be implemented.)"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spacedsl.engine.instance import Instance, Variable


@dataclass(frozen=True, slots=True)
class Decision:
    """A choice instance := a set of values, by stable names: what is stored, printed and replayed."""

    choice: str
    objects: tuple[str, ...]
    values: tuple[str | int, ...]


@dataclass(slots=True, eq=False)
class Candidate:
    """One flat buffer of unsigned 64-bit words; never changed once it is handed out.

    An enum domain is one word, a mask over the values in order of declaration. An integer domain is
    `INTEGER_WORDS` words, a mask over the instance's sorted universe, lowest word first. Both orientations of
    a symmetric or antisymmetric pair are stored, so reading needs no inversion. A counter is two words, its
    least and its greatest value, saturating.
    """

    instance: Instance
    vector: array[int]

    def mask(self, variable: Variable) -> int:
        """The domain of a decision variable as a mask over `variable.universe`."""
        raise NotImplementedError

    def possible(self, choice: str, *objects: object) -> tuple[str, ...] | tuple[int, ...]:
        """The values still possible for a choice on backbone objects, in order."""
        raise NotImplementedError

    def value(self, choice: str, *objects: object) -> str | int:
        """The decided value; raises `ValueError` while more than one is possible."""
        raise NotImplementedError

    def interval(self, counter: str, *objects: object) -> tuple[int, int]:
        """Least and greatest value of a counter."""
        raise NotImplementedError

    def is_open(self, variable: Variable) -> bool:
        """Whether the variable's objects are present and it has more than one value left."""
        raise NotImplementedError

    @property
    def is_complete(self) -> bool:
        """Whether every decision of present objects has been made."""
        raise NotImplementedError

    def decisions(self) -> tuple[Decision, ...]:
        """One for each present decision variable, with all values that are left, in order of position."""
        raise NotImplementedError
