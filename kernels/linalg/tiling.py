"""Which tile sizes are on offer for an index: from the kernel file's factors, or inferred from the extent.

In: extents and factors, one list for each level inside the outermost. Out: the possible sizes of every level,
outermost first. Only sizes that occur in some exact tiling are kept; that the product is exact is left to a
constraint of the space.
"""

from __future__ import annotations

from collections.abc import Sequence

LARGEST_INNER = 16
"""Of an innermost level that is inferred: the elements of a wide vector, or copies of an unrolled body."""

LARGEST_MIDDLE = 64
"""Of a level between outermost and innermost that is inferred."""

LEAST_EXTENT_TILED = 5
LEAST_EXTENT_TILED_TWICE = 64

Levels = tuple[tuple[int, ...], ...]


def possible_sizes(extent: int, factors: Sequence[Sequence[int]]) -> Levels | None:
    """Sizes of each level, outermost first, that occur in an exact tiling; None where there is none."""
    reachable = [{extent}]
    for level in factors:
        reachable.append({rest // f for rest in reachable[-1] for f in level if rest % f == 0})
    if not reachable[-1]:
        return None
    # A factor is of use only where the levels inside it can still be completed.
    live = reachable[-1]
    kept: list[tuple[int, ...]] = []
    for level, before in zip(reversed(factors), reversed(reachable[:-1]), strict=True):
        uses = {(rest, f) for rest in before for f in level if rest % f == 0 and rest // f in live}
        kept.append(tuple(sorted({f for _, f in uses})))
        live = {rest for rest, _ in uses}
    return (tuple(sorted(reachable[-1])), *reversed(kept))


def inferred_factors(extent: int, is_only_reduced: bool) -> Levels:
    """A split in two for an index that is only summed over, in three for others; fewer for small extents."""
    if extent < LEAST_EXTENT_TILED:
        return ()
    inner = _divisors(extent, LARGEST_INNER)
    if not inner:
        return ()
    middle = _divisors(extent, LARGEST_MIDDLE)
    if is_only_reduced or extent < LEAST_EXTENT_TILED_TWICE:
        return (inner,)
    levels = (middle, inner)
    return levels if possible_sizes(extent, levels) is not None else (inner,)


def _divisors(extent: int, largest: int) -> tuple[int, ...]:
    """Proper divisors from 2 to `largest`."""
    return tuple(d for d in range(2, min(largest, extent - 1) + 1) if extent % d == 0)
