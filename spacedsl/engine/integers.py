"""Operations on the domains of integer choices and on intervals of counters, for generated code.

A *side* of a comparison is (kind, cell, factor, offset): factor * value + offset, where kind is "integer" for a
choice, "counter", or None for the offset alone. Values are compared, never positions in a universe.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping

Side = tuple[str | None, int, int, int]


def integer_operations(
    v: list[int],
    universes: Mapping[int, tuple[int, ...]],
    narrow: Callable[[int, int], None],
    raise_low: Callable[[int, int], None],
    lower_high: Callable[[int, int], None],
    contradiction: type[Exception],
) -> dict[str, object]:
    """The functions, by the names that generated code calls them."""
    images: dict[tuple[object, ...], dict[int, int]] = {}

    def least(cell: int) -> int:
        mask = v[cell]
        return universes[cell][(mask & -mask).bit_length() - 1]

    def greatest(cell: int) -> int:
        return universes[cell][v[cell].bit_length() - 1]

    def keep(cell: int, mask: int) -> None:
        if mask != v[cell]:
            narrow(cell, mask)

    def keep_from(cell: int, bound: int) -> None:
        first = bisect_left(universes[cell], bound)
        keep(cell, v[cell] >> first << first)

    def keep_to(cell: int, bound: int) -> None:
        keep(cell, v[cell] & ((1 << bisect_right(universes[cell], bound)) - 1))

    def cap(
        from_: Callable[[int, int], None], to: Callable[[int, int], None], cell: int, factor: int, bound: int
    ) -> None:
        """factor * value <= bound."""
        if factor > 0:
            to(cell, bound // factor)
        elif factor < 0:
            from_(cell, -(bound // -factor))
        elif bound < 0:
            raise contradiction

    def cap_integer(cell: int, factor: int, bound: int) -> None:
        cap(keep_from, keep_to, cell, factor, bound)

    def cap_counter(cell: int, factor: int, bound: int) -> None:
        cap(raise_low, lower_high, cell, factor, bound)

    def ends(side: Side) -> tuple[int, int]:
        kind, cell, factor, offset = side
        if kind is None:
            return offset, offset
        low, high = (least(cell), greatest(cell)) if kind == "integer" else (v[cell], v[cell + 1])
        a, b = factor * low + offset, factor * high + offset
        return (a, b) if a <= b else (b, a)

    def image(mask: int, source: Side, target: Side) -> int:
        """The values of the target that equal one of the source's values in `mask`."""
        key = (universes[source[1]], source[2:], universes[target[1]], target[2:])
        known = images.get(key)
        if known is None:
            known = images[key] = {}
        found = known.get(mask)
        if found is None:
            values = {source[2] * x + source[3] for i, x in enumerate(universes[source[1]]) if mask >> i & 1}
            found = known[mask] = sum(
                1 << i for i, x in enumerate(universes[target[1]]) if target[2] * x + target[3] in values
            )
        return found

    def aligned(left: Side, right: Side) -> bool:
        """Whether equal values have equal positions."""
        return left[2:] == right[2:] and universes[left[1]] == universes[right[1]]

    def may_be_equal(left: Side, right: Side) -> bool:
        if left[0] == "integer" == right[0]:
            mask = v[left[1]]
            return bool((mask if aligned(left, right) else image(mask, left, right)) & v[right[1]])
        (a, b), (c, d) = ends(left), ends(right)
        return a <= d and c <= b

    def make_equal(left: Side, right: Side) -> None:
        if left[0] == "integer" == right[0]:
            if aligned(left, right):
                shared = v[left[1]] & v[right[1]]
                keep(right[1], shared)
                keep(left[1], shared)
            else:
                keep(right[1], v[right[1]] & image(v[left[1]], left, right))
                keep(left[1], v[left[1]] & image(v[right[1]], right, left))
            return
        for side, other in ((left, right), (right, left)):
            low, high = ends(other)
            if side[0] is None:
                if not low <= side[3] <= high:
                    raise contradiction
                continue
            limit = cap_integer if side[0] == "integer" else cap_counter
            limit(side[1], side[2], high - side[3])
            limit(side[1], -side[2], side[3] - low)

    def may_differ(left: Side, right: Side) -> bool:
        (a, b), (c, d) = ends(left), ends(right)
        return not a == b == c == d

    def make_different(left: Side, right: Side) -> None:
        for side, other in ((left, right), (right, left)):
            low, high = ends(other)
            if low == high:
                remove(side, low)

    def remove(side: Side, value: int) -> None:
        kind, cell, factor, offset = side
        if kind is None or factor == 0:
            if offset == value:
                raise contradiction
            return
        taken, remainder = divmod(value - offset, factor)
        if remainder:
            return
        if kind == "integer":
            place = bisect_left(universes[cell], taken)
            if place < len(universes[cell]) and universes[cell][place] == taken:
                keep(cell, v[cell] & ~(1 << place))
            return
        # Of an interval only an end can go.
        if v[cell] == taken:
            raise_low(cell, taken + 1)
        if v[cell + 1] == taken:
            lower_high(cell, taken - 1)

    return {
        "least": least,
        "greatest": greatest,
        "keep_from": keep_from,
        "keep_to": keep_to,
        "cap_integer": cap_integer,
        "cap_counter": cap_counter,
        "may_be_equal": may_be_equal,
        "make_equal": make_equal,
        "may_differ": may_differ,
        "make_different": make_different,
    }
