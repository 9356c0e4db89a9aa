"""What it costs to move bytes between a level of memory and the cores: loads and stores in any mixture.

In: a measured `MemoryLevel`. Out: `Cost`s; moving so many bytes takes at least what each of them says. How
many bytes move is for `memory.py`.

Rates that were measured are points: bytes loaded and bytes stored per ns. What a machine does in turns it
does at any rate between, and it may always do less; so what it can do is a polygon that is spanned by these
points, their feet on both axes, and the origin. Its outer edges are the costs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from spacedsl.kernels.device import MemoryLevel
from spacedsl.search.bounds.rates import byte_rate

_ON_AXIS = 1e-9
"""An edge whose distance from the origin is less than this share of the rates lies on an axis."""


@dataclass(frozen=True, slots=True)
class Cost:
    """An edge of the polygon: ns for each byte that is loaded, and for each that is stored."""

    loaded_ns: float
    stored_ns: float

    def time_ns(self, loaded: float, stored: float) -> float:
        return self.loaded_ns * loaded + self.stored_ns * stored


def least_ns(edges: Sequence[Cost], loaded: float, stored: float, kept: float, again: float = 0.0) -> float:
    """To move so many bytes, of which caches save `kept`, loads or stores, whichever is best.

    `again`: bytes that are loaded besides, whatever is kept.
    """
    kept = min(kept, loaded + stored)

    def time_ns(kept_stores: float) -> float:
        left = loaded - (kept - kept_stores) + again, stored - kept_stores
        return max(edge.time_ns(*left) for edge in edges)

    # The greatest of several straight lines is least at an end, or where two of them cross.
    ends = least, most = max(0.0, kept - loaded), min(kept, stored)
    crossings = (_crossing(a, b, loaded - kept + again, stored) for a, b in combinations(edges, 2))
    return min(map(time_ns, (*ends, *(x for x in crossings if least < x < most))))


def _crossing(one: Cost, other: Cost, loaded: float, stored: float) -> float:
    """How many stores caches save where two edges cost the same, if each is one more byte that is loaded."""
    slope = (one.loaded_ns - one.stored_ns) - (other.loaded_ns - other.stored_ns)
    ahead = other.time_ns(loaded, stored) - one.time_ns(loaded, stored)
    return ahead / slope if slope else math.inf


@functools.lru_cache(maxsize=256)
def costs(level: MemoryLevel, threads: int, all_threads: int, *, is_plain: bool = False) -> tuple[Cost, ...]:
    """For so many threads. `is_plain`: no store goes around the caches.

    Where no mixture was measured, stores are as fast as loads, and beside them.
    """
    read = byte_rate(level, threads, all_threads)
    mixtures = [m for m in level.mixtures if not (is_plain and m.is_streamed)]
    points = [(read, 0.0)]
    for mixture in mixtures:
        rate = byte_rate(mixture, threads, all_threads)
        points.append(((1 - mixture.stored) * rate, mixture.stored * rate))
    return _edges(points if mixtures else [(read, read)])


def _edges(points: Iterable[tuple[float, float]]) -> tuple[Cost, ...]:
    """That bound what can be done from above; `points` are not all on one axis."""
    from scipy.spatial import ConvexHull

    spanning = [corner for loads, stores in points for corner in ((loads, stores), (loads, 0), (0, stores))]
    hull = ConvexHull(np.array([(0.0, 0.0), *spanning]))
    # Normals point outwards, and an edge through the origin lies on an axis.
    edges = ((*normal, -offset) for *normal, offset in hull.equations)
    return tuple(
        sorted(
            {
                Cost(max(0.0, float(x / distance)), max(0.0, float(y / distance)))
                for x, y, distance in edges
                if distance > _ON_AXIS * np.max(spanning)
            },
            key=lambda cost: cost.loaded_ns,
        )
    )
