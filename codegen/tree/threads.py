"""The threads of a block: which of them come to a place, and where their numbers lead them.

In: spans of numbers, coordinates that are found from a number. Out: answers for all threads of a block. What
they do there is not known here.
"""

from __future__ import annotations

from functools import lru_cache

from spacedsl.codegen.tree.program import Coordinate, Span


@lru_cache(maxsize=4096)
def are_apart(threads: int, spans: tuple[Span, ...], moved: tuple[tuple[Coordinate, int], ...]) -> bool:
    """Whether those of so many threads that lie in all spans come to elements of their own.

    `moved`: coordinates of theirs, and how far one step of each leads.
    """
    active = [t for t in range(threads) if all(low <= t % period < high for low, high, period in spans)]
    elements = {sum(t // c.stride % c.extent * stride for c, stride in moved) for t in active}
    return len(elements) == len(active)
