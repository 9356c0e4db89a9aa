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
