"""What is decided: a choice instance and the values that it may still have, by names that stay.

In: made by kernel files, searches, records. Out: what is stored, printed and replayed. Nothing else of the
engine is needed to say it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Decision:
    """A choice instance := a set of values, by stable names: what is stored, printed and replayed."""

    choice: str
    objects: tuple[str, ...]
    values: tuple[str | int, ...]

    @property
    def spelled(self) -> str:
        """For people: `size(m.i) is 4 | 8`."""
        about = f"{self.choice}({', '.join(self.objects)})"
        return f"{about} is {' | '.join(map(str, self.values))}" if self.values else about


class UnknownDecisionError(Exception):
    """A decision about a choice, objects or values that an instance of a space does not have."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        super().__init__(f"this space does not offer {decision.spelled}")
