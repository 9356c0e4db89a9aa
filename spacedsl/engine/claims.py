"""Claims about intervals: what may be said of a counter or a quantity, and what would refute it.

In: the ends that somebody names. Out: whether an interval bears the claim out, and which of its ends do so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

UNBOUNDED = 2**64
"""Beyond all counters and quantities."""


@dataclass(frozen=True, slots=True)
class Claim:
    """That all values lie from `low` to `high`, or, not `is_within`, that none of them does."""

    low: int
    high: int
    is_within: bool

    def opposite(self) -> Claim:
        """What refutes it: that no value is as claimed."""
        return replace(self, is_within=not self.is_within)

    def holds(self, interval: tuple[int, int]) -> bool:
        least, greatest = interval
        if self.is_within:
            return self.low <= least and greatest <= self.high
        return least > self.high or greatest < self.low

    def ends(self, interval: tuple[int, int]) -> frozenset[bool]:
        """Where it holds of the interval, the ends that it follows from; True: the greatest value."""
        if not self.is_within:
            return frozenset({interval[1] < self.low})
        return frozenset(
            is_greatest
            for is_greatest, is_bounded in ((False, self.low > -UNBOUNDED), (True, self.high < UNBOUNDED))
            if is_bounded
        )
