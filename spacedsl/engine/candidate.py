"""A candidate: the decision vector of a partially specified implementation.

In: made by an `Instance`, at the fixpoint of propagation. Out: read by searches, bounds and code generation;
never changed once it is handed out.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spacedsl.engine.decision import Decision
from spacedsl.engine.layout import INTEGER_WORDS, WORD_BITS

if TYPE_CHECKING:
    from spacedsl.engine.instance import Instance, Variable


@dataclass(slots=True, eq=False)
class Candidate:
    """One flat buffer of unsigned 64-bit words.

    An enum domain is one word, a mask over the values in order of declaration. An integer domain is
    `INTEGER_WORDS` words, a mask over the instance's sorted universe, lowest word first. Both orientations of
    a symmetric or antisymmetric pair are stored, so reading needs no inversion. A counter is two words, its
    least and its greatest value, saturating. Word 0 and those after all domains say what is present.
    """

    instance: Instance
    vector: array[int]

    def mask(self, variable: Variable) -> int:
        """The domain of a decision variable as a mask over `variable.universe`."""
        return self._mask(variable.offset, len(variable.universe))

    def masks_of(self, variables: Iterable[Variable]) -> list[int]:
        """The domains of many."""
        vector = self.vector
        return [vector[v.offset] if len(v.universe) <= WORD_BITS else self.mask(v) for v in variables]

    def possible(self, choice: str, *objects: object) -> tuple[str, ...] | tuple[int, ...]:
        """The values still possible for a choice on backbone objects, in order."""
        universe = self.instance.universe(choice, *objects)
        mask = self._mask(self.instance.offset(choice, *objects), len(universe))
        return tuple(u for i, u in enumerate(universe) if mask >> i & 1)  # type: ignore[return-value]

    def value(self, choice: str, *objects: object) -> str | int:
        """The decided value; raises `ValueError` while more than one is possible."""
        universe = self.instance.universe(choice, *objects)
        mask = self._mask(self.instance.offset(choice, *objects), len(universe))
        if mask.bit_count() != 1:
            raise ValueError(f"{choice} has {mask.bit_count()} possible values")
        return universe[mask.bit_length() - 1]

    def interval(self, counter: str, *objects: object) -> tuple[int, int]:
        """Least and greatest value of a counter, or of a quantity: of an ordered enum's type, positions."""
        if counter in self.instance.space.quantities:
            return self.instance.quantity(self.vector, counter, *objects)
        cell = self.instance.offset(counter, *objects)
        return self.vector[cell], self.vector[cell + 1]

    def is_present(self, variable: Variable) -> bool:
        """Whether the variable's objects are present for certain."""
        return self.instance.is_present(self.vector, variable)

    def is_absent(self, variable: Variable) -> bool:
        """Whether one of the variable's objects is absent for certain."""
        return self.instance.is_absent(self.vector, variable)

    def is_open(self, variable: Variable) -> bool:
        """Whether the variable's objects are present and it has more than one value left."""
        mask = self.mask(variable)
        return bool(mask & (mask - 1)) and self.is_present(variable)

    @property
    def is_complete(self) -> bool:
        """Whether every decision of present objects has been made."""
        return not any(self.is_open(variable) for variable in self.instance.variables)

    def decisions(self) -> tuple[Decision, ...]:
        """One for each present decision variable, with all values that are left, in order of position."""
        return tuple(
            Decision(x.choice, x.names, x.values(self.mask(x)))
            for x in self.instance.variables
            if self.is_present(x)
        )

    def _mask(self, offset: int, values: int) -> int:
        mask = self.vector[offset]
        if values > WORD_BITS:
            for word in range(1, INTEGER_WORDS):
                mask |= self.vector[offset + word] << WORD_BITS * word
        return mask
