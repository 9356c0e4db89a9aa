"""What a change of one domain runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class Contradiction(Exception):  # noqa: N818 (a result inside the engine, not an error)
    """A domain has become empty."""


Call = tuple[Callable[..., None], tuple[Any, ...]]
"""A function and its arguments."""


@dataclass(frozen=True, slots=True)
class Wakes:
    """What a change of one domain runs: always; where a literal has just become impossible; counters."""

    always: tuple[Call, ...]
    gated: tuple[tuple[int, tuple[Call, ...]], ...]
    counters: tuple[tuple[Any, ...], ...]
    itself: tuple[tuple[Any, ...], ...]
    """The counter whose interval this is, where something other than its contributions has limited it."""
