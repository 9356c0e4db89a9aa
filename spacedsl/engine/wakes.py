"""What a change of one domain runs.

In: functions of the compiled module. Out: records that propagation goes through. Nothing is run here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Call = tuple[Callable[..., None], tuple[Any, ...]]
"""A function and its arguments."""


@dataclass(frozen=True, slots=True)
class Wakes:
    """Calls at every change, calls when a mask has just become impossible, and counters to compute later."""

    always: tuple[Call, ...] = ()
    gated: tuple[tuple[int, tuple[Call, ...]], ...] = ()
    counters: tuple[tuple[Any, ...], ...] = ()
    """As keys of the waiting counters: the function and its arguments."""
    itself: tuple[tuple[Any, ...], ...] = ()
    """The counter whose interval this is: to compute where anything but its contributions limited it."""
