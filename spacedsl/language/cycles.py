"""Names in the order in which they need each other, and the cycles among them.

In: for each name, those that it needs. Out: an order and all cycles that stand in its way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter


def by_need(edges: Mapping[str, Iterable[str]]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """(order, cycles): each name after those that it needs, once each cycle has been cut at one of its edges.

    A cycle is the names on it from the one that is declared first, which is repeated at its end.
    """
    left = {name: list(dict.fromkeys(needed)) for name, needed in edges.items()}
    cycles: list[tuple[str, ...]] = []
    while True:
        try:
            return tuple(TopologicalSorter(left).static_order()), tuple(cycles)
        except CycleError as error:
            # Each name of `graphlib`'s path is needed by the one after it.
            path: list[str] = error.args[1][::-1]
            left[path[0]].remove(path[1])
            names = path[:-1]
            first = min(range(len(names)), key=lambda i: list(edges).index(names[i]))
            rotated = names[first:] + names[:first]
            cycles.append((*rotated, rotated[0]))
