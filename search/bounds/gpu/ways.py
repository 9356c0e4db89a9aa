"""How the iterations of an index can still be shared out: among blocks, threads and copies of a body.

In: an index of an instruction's nest, then the vectors of candidates. Out: its *ways*, all combinations of
sizes and kinds of its levels that the domains leave. Domains only shrink, so ways only become fewer. How the
levels of different indices are ordered is not looked at.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spacedsl.engine.instance import Instance
from spacedsl.kernels.linalg.backbone import Axis, LogicalDim
from spacedsl.kernels.linalg.fragments import COLUMNS_OF_THREAD
from spacedsl.search.bounds.domains import Integers, Place

Numbers = npt.NDArray[np.float64]

SEQUENTIAL, BLOCK, THREAD, COPY, FRAGMENT = range(5)
"""What becomes of iterations: one after the other, blocks, threads, copies or lanes, a side of a fragment."""

_ROLES = {
    "LOOP": SEQUENTIAL, "UNROLL": SEQUENTIAL, "BLOCK": BLOCK, "THREAD": THREAD, "FRAGMENT": FRAGMENT
}  # fmt: skip
"""By kind, where it is none by which iterations count as copies."""


class Way(NamedTuple):
    """Iterations of an index by what becomes of them; the rest are run one after the other."""

    blocks: int
    threads: int
    copies: int
    fragments: int
    """1 where the innermost level is a side of one, else 0."""
    step: int
    """Values of the index between neighbouring threads, at least."""
    lanes: int
    """Of these threads, those that a warp tells apart, at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Ways:
    """Those of one index, as columns. The same ways of an index are the same object."""

    blocks: Numbers
    threads: Numbers
    copies: Numbers
    fragments: Numbers
    steps: Numbers
    lanes: Numbers

    def __len__(self) -> int:
        return len(self.blocks)

    def at(self, places: npt.NDArray[np.intp]) -> Ways:
        """Some of them, in any order, also repeatedly."""
        return Ways(
            self.blocks[places],
            self.threads[places],
            self.copies[places],
            self.fragments[places],
            self.steps[places],
            self.lanes[places],
        )


@dataclass(frozen=True, slots=True, eq=False)
class IndexPlaces:
    """Where the domains of an index's levels lie, outermost first.

    `copied`: the kinds by which iterations are copies (or lanes). `only_most`: of ways that differ in copies
    alone, the one with most of them counts.
    """

    logical: LogicalDim
    levels: tuple[Place, ...]
    strides: tuple[Integers, ...]
    """By level, where the domain of its `thread_stride` lies."""
    warp: int
    """Threads of one."""
    roles: tuple[int | None, ...]
    """By position in the domain of `dim_kind`."""
    only_most: bool
    cells: tuple[int, ...]
    """All of these domains."""
    read: Callable[[Sequence[int]], tuple[int, ...]]
    """What is in them, of a vector."""
    known: dict[tuple[int, ...], Ways | None] = field(default_factory=dict)
    """By domains."""
    distinct: dict[bytes, Ways] = field(default_factory=dict)

    @classmethod
    def of(
        cls, instance: Instance, logical: LogicalDim, copied: Sequence[str], warp: int, *, only_most: bool
    ) -> IndexPlaces:
        kinds = [str(kind) for kind in instance.universe("dim_kind", logical.dims[0])]
        roles = tuple(COPY if kind in copied else _ROLES.get(kind) for kind in kinds)
        levels = tuple(Place.of(instance, d) for d in logical.dims)
        strides = tuple(Integers.of(instance, "thread_stride", d) for d in logical.dims)
        cells = (
            *(c for level in levels for c in (level.kind_offset, *level.size.cells)),
            *(cell for each in strides for cell in each.cells),
        )
        return cls(logical, levels, strides, warp, roles, only_most, cells, itemgetter(*cells))

    def ways(self, vector: Sequence[int]) -> Ways | None:
        """None where a level may be something that is not known here."""
        key = self.read(vector)
        if key not in self.known:
            self.known[key] = self._ways(vector)
        return self.known[key]

    def _ways(self, vector: Sequence[int]) -> Ways | None:
        roles, sizes = [], []
        for level in self.levels:
            kinds = vector[level.kind_offset]
            roles.append(tuple({role for bit, role in enumerate(self.roles) if kinds >> bit & 1}))
            sizes.append(level.size.left(vector))
        if any(None in each for each in roles):
            return None
        most_lanes = [
            max((_told_apart(stride, self.warp) for stride in strides.left(vector)), default=1)
            for strides in self.strides
        ]
        fragment = self.logical.dims[-1].fragment
        axis = None if fragment is None else fragment.axis
        found: dict[tuple[int, int, int, int], Way] = {}
        for tiles in itertools.product(*sizes):
            if not self._covers(tiles):
                continue
            for each in itertools.product(
                *(r if n > 1 else (SEQUENTIAL,) for r, n in zip(roles, tiles, strict=True))
            ):
                way = _way(tiles, each, axis, most_lanes)
                found[way[:4]] = _nearest((way, found.get(way[:4], way)))
        ways = list(found.values())
        if self.only_most:
            ways = list(_with_most_copies(ways))
        table = np.array(sorted(ways), dtype=float).reshape(-1, len(Way._fields))
        return self.distinct.setdefault(table.tobytes(), Ways(*np.ascontiguousarray(table.T)))

    def _covers(self, tiles: Sequence[int]) -> bool:
        """Whether the levels have the values of the index, and no tile lies beyond its end."""
        covered, extent = math.prod(tiles), self.logical.extent
        if self.logical.is_ragged:
            return extent <= covered < extent + math.prod(tiles[1:])
        return covered == extent


def _told_apart(stride: int, warp: int) -> int:
    """Threads of a warp that a dimension tells apart at most, by how far neighbours are from each other."""
    if stride % warp == 0:
        return 1
    return warp // stride + (2 if warp % stride else 0)


def _way(
    tiles: Sequence[int], roles: Sequence[int | None], axis: Axis | None, most_lanes: Sequence[int]
) -> Way:
    """`axis`: of the innermost level, should it be a side of a fragment. `most_lanes`: by level."""
    numbers = [1, 1, 1, 1]
    step, in_warp, is_between = 1, 1, True
    for size, role, most in zip(reversed(tiles), reversed(roles), reversed(most_lanes), strict=True):
        assert role is not None
        is_between = is_between and (role not in (THREAD, FRAGMENT) or size == 1)
        step *= size if is_between else 1
        if role == FRAGMENT:
            copies = COLUMNS_OF_THREAD if axis is Axis.COLUMNS else 1
            numbers[COPY] *= copies
            numbers[SEQUENTIAL if axis is Axis.TERMS else THREAD] *= size // copies
            in_warp *= size
        else:
            numbers[role] *= size
            in_warp *= min(size, most) if role == THREAD else 1
    return Way(numbers[BLOCK], numbers[THREAD], numbers[COPY], int(FRAGMENT in roles), step, in_warp)


def _nearest(ways: Sequence[Way]) -> Way:
    """One that is at least as good as each of these, which differ in nothing else: steps, lanes."""
    return ways[0]._replace(step=min(way.step for way in ways), lanes=max(way.lanes for way in ways))


def _with_most_copies(ways: Sequence[Way]) -> Iterator[Way]:
    def same_but_copies(way: Way) -> tuple[int, int, int]:
        return way.blocks, way.threads, way.fragments

    for _, group in itertools.groupby(sorted(ways, key=same_but_copies), key=same_but_copies):
        same = list(group)
        yield _nearest(same)._replace(copies=max(way.copies for way in same))
