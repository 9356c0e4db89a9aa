"""Equality of integers, by value, between choices of any universe, counters and constants.

In: two sides, each (kind, cell, factor, offset): factor * value + offset, where kind is "integer" for a
choice, "counter", or None for the offset alone. Out: whether the domains allow it, or domains that do. Two
choices are compared value by value, a counter by the ends of its interval.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from spacedsl.engine.domains import Contradiction, Domains

Side = tuple[str | None, int, int, int]


@dataclass(slots=True, eq=False)
class Equality:
    domains: Domains
    _images: dict[tuple[object, ...], dict[int, int]] = field(default_factory=dict)

    def may_be_equal(self, left: Side, right: Side) -> bool:
        if left[0] == "integer" == right[0]:
            return bool(self._image(left, right) & self.domains.v[right[1]])
        (a, b), (c, d) = self._ends(left), self._ends(right)
        return a <= d and c <= b

    def make_equal(self, left: Side, right: Side) -> None:
        domains = self.domains
        if left[0] == "integer" == right[0]:
            domains.keep(right[1], domains.v[right[1]] & self._image(left, right))
            domains.keep(left[1], domains.v[left[1]] & self._image(right, left))
            return
        if not self.may_be_equal(left, right):
            raise Contradiction
        for side, other in ((left, right), (right, left)):
            kind, cell, factor, offset = side
            low, high = self._ends(other)
            if kind is None:
                continue
            if kind == "integer":
                cap = domains.cap_integer
            else:
                cap = domains.cap_counter if other[0] is None else domains.follow
            cap(cell, factor, high - offset)
            cap(cell, -factor, offset - low)

    def may_differ(self, left: Side, right: Side) -> bool:
        (a, b), (c, d) = self._ends(left), self._ends(right)
        return not a == b == c == d

    def make_different(self, left: Side, right: Side) -> None:
        for side, other in ((left, right), (right, left)):
            low, high = self._ends(other)
            if low == high:
                self._remove(side, low)

    def _ends(self, side: Side) -> tuple[int, int]:
        kind, cell, factor, offset = side
        domains = self.domains
        if kind is None:
            return offset, offset
        if kind == "integer":
            ends = domains.least(cell), domains.greatest(cell)
        else:
            ends = domains.v[cell], domains.v[cell + 1]
        a, b = factor * ends[0] + offset, factor * ends[1] + offset
        return (a, b) if a <= b else (b, a)

    def _image(self, source: Side, target: Side) -> int:
        """The mask of the target's values that equal one that the source still has."""
        universes = self.domains.universes
        from_, to, mask = universes[source[1]], universes[target[1]], self.domains.v[source[1]]
        if source[2:] == target[2:] and from_ == to:
            return mask
        known = self._images.setdefault((from_, source[2:], to, target[2:]), {})
        if mask not in known:
            values = {source[2] * x + source[3] for bit, x in enumerate(from_) if mask >> bit & 1}
            known[mask] = sum(1 << bit for bit, x in enumerate(to) if target[2] * x + target[3] in values)
        return known[mask]

    def _remove(self, side: Side, value: int) -> None:
        kind, cell, factor, offset = side
        domains = self.domains
        if kind is None or factor == 0:
            if offset == value:
                raise Contradiction
            return
        taken, remainder = divmod(value - offset, factor)
        if remainder:
            return
        if kind == "integer":
            universe = domains.universes[cell]
            place = bisect_left(universe, taken)
            if place < len(universe) and universe[place] == taken:
                domains.keep(cell, domains.v[cell] & ~(1 << place))
            return
        # Of an interval only an end can go.
        if domains.v[cell] == taken:
            domains.keep_above(cell, taken + 1)
        if domains.v[cell + 1] == taken:
            domains.keep_below(cell, taken - 1)
