"""Views: a coarser look at candidates, by which a search may group those of one structure.

In: an instance and a view of its space. Out: for each candidate a hash, which covers, for each instance of
the choices that the view lists, in order of position, which groups of values are still possible, and nothing
else. It is the same in every process. The searches of `search/` do not go by it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance, Variable
from spacedsl.engine.layout import ABSENT
from spacedsl.language.space import View

_HASH_BYTES = 8


@dataclass(frozen=True, slots=True)
class _Place:
    variable: Variable
    groups: tuple[int, ...]
    presence: tuple[int, ...]
    """Words that say whether the variable's objects are present."""


class ViewHash:
    """What a view looks at, in an instance."""

    def __init__(self, instance: Instance, view: View) -> None:
        self._places = tuple(
            _Place(variable, item.groups, instance.presence.get(variable.offset, ()))
            for item in view.items
            for variable in instance.variables_of(item.choice)
        )

    def __call__(self, candidate: Candidate) -> int:
        """64 bits."""
        text = " ".join(f"{groups:x}" for groups in self.groups(candidate))
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=_HASH_BYTES).digest(), "little")

    def groups(self, candidate: Candidate) -> tuple[int, ...]:
        """A mask of groups for each instance, the values that no group names in a last one.

        Without groups, each value is one. Of objects that are absent for certain, no group is possible.
        """
        return tuple(
            0
            if any(candidate.vector[cell] == ABSENT for cell in place.presence)
            else _possible(candidate.mask(place.variable), place.groups)
            for place in self._places
        )


def _possible(domain: int, groups: tuple[int, ...]) -> int:
    if not groups:
        return domain
    found = sum(1 << place for place, group in enumerate(groups) if domain & group)
    rest = domain & ~sum(groups)
    return found | (1 << len(groups) if rest else 0)
