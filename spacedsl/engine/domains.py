"""The store of domains during propagation, and the operations on it that generated code calls.

In: the working vector and what is known of its words. Out: narrowed domains and a queue of those that have
changed, each with its value when it was queued. An operation that would leave nothing raises `Contradiction`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from spacedsl.compiler.ir import FOLLOWED_BITS, WIDEST

Inverses = Sequence[int] | Mapping[int, int]
"""The mask of the other orientation, by mask."""


def bits(mask: int) -> Iterator[int]:
    """Each value of a domain as a domain of its own, the lowest bit first."""
    while mask:
        yield mask & -mask
        mask &= mask - 1


def rounded_down(bound: int) -> int:
    """The greatest number of `FOLLOWED_BITS` significant bits that is not above."""
    shift = max(bound.bit_length() - FOLLOWED_BITS, 0)
    return bound >> shift << shift


def without(product: int, factor: int) -> int:
    """What is left of a product without a factor; of one beyond `WIDEST`, `WIDEST` may be.

    At least 1: a factor that has grown since the product was made may exceed it.
    """
    return WIDEST if product > WIDEST else max(product // factor, 1)


def rounded_up(bound: int) -> int:
    """The least number of `FOLLOWED_BITS` significant bits that is not below."""
    shift = max(bound.bit_length() - FOLLOWED_BITS, 0)
    return -(-bound >> shift << shift)


class Contradiction(Exception):  # noqa: N818 (a result inside the engine, not an error)
    """A domain has become empty."""


@dataclass(slots=True, eq=False)
class Domains:
    """`v` holds one word for each domain, the whole mask for an integer, and two for a counter."""

    v: list[int]
    universes: Mapping[int, tuple[int, ...]]
    """Of integer domains, by cell."""
    twins: list[tuple[int, Inverses] | None]
    """By cell of a symmetric or antisymmetric choice: the other orientation."""
    queue: deque[int] = field(default_factory=deque)
    before: dict[int, int] = field(default_factory=dict)
    """The value of each waiting domain when it was queued; of a counter, whether something has limited it."""

    def narrow(self, cell: int, mask: int) -> None:
        """The domain becomes `mask`, which is smaller, and that of the other orientation follows."""
        if not mask:
            raise Contradiction
        v = self.v
        before = v[cell]
        v[cell] = mask
        twin = self.twins[cell]
        if twin is not None:
            other, inverse = twin
            v[other] = inverse[mask]
            # A pair waits once, in the orientation that comes first.
            if other < cell:
                cell, before = other, inverse[before]
        if cell not in self.before:
            self.before[cell] = before
            self.queue.append(cell)

    # ---- Enums --------------------------------------------------------------------------------------------

    def translate(self, mask: int, numbers: Sequence[int]) -> int:
        """The mask in another enum's values; value b there has number `numbers[b]`."""
        return sum(1 << number for bit, number in enumerate(numbers) if mask >> bit & 1)

    def make_same(self, left: int, right: int, numbers: Sequence[int] | None) -> None:
        v = self.v
        shared = (v[left] if numbers is None else self.translate(v[left], numbers)) & v[right]
        if shared != v[right]:
            self.narrow(right, shared)
        if numbers is not None:
            shared = sum(1 << b for b, number in enumerate(numbers) if shared >> number & 1) & v[left]
        if shared != v[left]:
            self.narrow(left, shared)

    def make_other(self, left: int, right: int, numbers: Sequence[int] | None) -> None:
        v = self.v
        value = v[left] if numbers is None else self.translate(v[left], numbers)
        if not value & (value - 1) and value & v[right]:
            self.narrow(right, v[right] & ~value)
        value = v[right]
        if not value & (value - 1):
            if numbers is not None:
                value = sum(1 << b for b, number in enumerate(numbers) if value >> number & 1)
            if value & v[left]:
                self.narrow(left, v[left] & ~value)

    def make_ordered(self, left: int, right: int, strict: bool) -> None:
        """The position of the left value is at most, or if `strict` below, that of the right one."""
        v = self.v
        kept = v[left] & ((1 << v[right].bit_length() - strict) - 1)
        if kept != v[left]:
            self.narrow(left, kept)
        kept = v[right] & -((v[left] & -v[left]) << strict)
        if kept != v[right]:
            self.narrow(right, kept)

    # ---- Integers -----------------------------------------------------------------------------------------

    def least(self, cell: int) -> int:
        mask = self.v[cell]
        return self.universes[cell][(mask & -mask).bit_length() - 1]

    def greatest(self, cell: int) -> int:
        return self.universes[cell][self.v[cell].bit_length() - 1]

    def keep(self, cell: int, mask: int) -> None:
        if mask != self.v[cell]:
            self.narrow(cell, mask)

    def drop_below(self, cell: int, bound: int) -> None:
        first = bisect_left(self.universes[cell], bound)
        self.keep(cell, self.v[cell] >> first << first)

    def drop_above(self, cell: int, bound: int) -> None:
        self.keep(cell, self.v[cell] & ((1 << bisect_right(self.universes[cell], bound)) - 1))

    def cap_integer(self, cell: int, factor: int, bound: int) -> None:
        """factor * value <= bound."""
        if factor > 0:
            self.drop_above(cell, bound // factor)
        elif factor < 0:
            self.drop_below(cell, -(bound // -factor))
        elif bound < 0:
            raise Contradiction

    # ---- Counters -----------------------------------------------------------------------------------------

    def settle(self, cell: int, low: int, high: int) -> None:
        """What the contributions give: it does not wake the counter itself."""
        v = self.v
        if low > v[cell] or high < v[cell + 1]:
            self._interval(cell, max(low, v[cell]), min(high, v[cell + 1]), limited=0)

    def raise_low(self, cell: int, bound: int) -> None:
        """value >= bound, which follows from other counters."""
        self.keep_above(cell, rounded_down(bound))

    def lower_high(self, cell: int, bound: int) -> None:
        """value <= bound, which follows from other counters."""
        self.keep_below(cell, rounded_up(bound))

    def follow(self, cell: int, factor: int, bound: int) -> None:
        """factor * value <= bound, which follows from other counters."""
        if factor > 0:
            self.lower_high(cell, bound // factor)
        elif factor < 0:
            self.raise_low(cell, -(bound // -factor))
        elif bound < 0:
            raise Contradiction

    def cap_counter(self, cell: int, factor: int, bound: int) -> None:
        """factor * value <= bound."""
        if factor > 0:
            self.keep_below(cell, bound // factor)
        elif factor < 0:
            self.keep_above(cell, -(bound // -factor))
        elif bound < 0:
            raise Contradiction

    def keep_above(self, cell: int, bound: int) -> None:
        if bound > self.v[cell]:
            self._interval(cell, bound, self.v[cell + 1], limited=1)

    def keep_below(self, cell: int, bound: int) -> None:
        if bound < self.v[cell + 1]:
            self._interval(cell, self.v[cell], bound, limited=1)

    def _interval(self, cell: int, low: int, high: int, limited: int) -> None:
        if low > high:
            raise Contradiction
        self.v[cell], self.v[cell + 1] = low, high
        if cell not in self.before:
            self.queue.append(cell)
            self.before[cell] = limited
        elif limited:
            self.before[cell] = limited
