"""Names of which no two things of a kernel, or of a program, bear the same.

In: names that are wanted, one after the other. Out: each as it is, or with a number where it is taken. How a
name is spelled in C is for code generation.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class UniqueNames:
    taken: set[str] = field(default_factory=set)
    _last: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    """The number that a name was given last."""

    def fresh(self, wanted: str) -> str:
        """`wanted`, numbered from its second use on."""
        name, number = wanted, self._last.get(wanted, 1)
        while name in self.taken:
            number += 1
            name = f"{wanted}_{number}"
        self._last[wanted] = number
        self.taken.add(name)
        return name
