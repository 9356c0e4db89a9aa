"""How the iterations of an index can still be shared out: among blocks, threads and copies of a body.

In: an index of an instruction's nest, then the vectors of candidates. Out: its *ways*, all combinations of
sizes and kinds of its levels that the domains leave. Domains only shrink, so ways only become fewer. How the
levels of different indices are ordered is not looked at.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spacedsl.engine.instance import Instance
from spacedsl.engine.layout import WORD_BITS
from spacedsl.kernels.linalg.backbone import LogicalDim
from spacedsl.search.bounds.domains import Place

Numbers = npt.NDArray[np.float64]

SEQUENTIAL, BLOCK, THREAD, COPY = range(4)
"""What becomes of iterations: one after the other, blocks, threads, copies (or lanes)."""

_ROLES = {"LOOP": SEQUENTIAL, "BLOCK": BLOCK, "THREAD": THREAD}


class Way(NamedTuple):
    """Iterations of an index by what becomes of them; the rest are run one after the other."""

    blocks: int
    threads: int
    copies: int
    step: int
    """Values of the index between neighbouring threads, at least."""


@dataclass(frozen=True, slots=True)
class Ways:
    """Those of one index, as columns; `is_known` unless a level may be something that is not known here."""

    blocks: Numbers
    threads: Numbers
    copies: Numbers
    steps: Numbers
    is_known: bool = True

    def __len__(self) -> int:
        return len(self.blocks)

    def along(self, axis: int, axes: int) -> Ways:
        """The same columns along one of several axes."""
        shape = [1] * axes
        shape[axis] = len(self)
        columns = (self.blocks, self.threads, self.copies, self.steps)
        blocks, threads, copies, steps = (column.reshape(shape) for column in columns)
        return Ways(blocks, threads, copies, steps)


_ONE: Numbers = np.ones(1)
UNKNOWN = Ways(_ONE, _ONE, _ONE, _ONE, is_known=False)


@dataclass(frozen=True, slots=True, eq=False)
class IndexPlaces:
    """Where the domains of an index's levels lie, outermost first.

    `copied`: the kinds by which iterations are copies; whatever else is neither LOOP, THREAD nor BLOCK is
    not known. `only_most`: of ways that differ in copies alone, the one with most of them counts.
    """

    logical: LogicalDim
    levels: tuple[Place, ...]
    roles: tuple[int | None, ...]
    """By position in the domain of `dim_kind`."""
    only_most: bool
    known: dict[tuple[int, ...], Ways] = field(default_factory=dict)

    @classmethod
    def of(
        cls, instance: Instance, logical: LogicalDim, copied: Sequence[str], *, only_most: bool
    ) -> IndexPlaces:
        kinds = [str(kind) for kind in instance.universe("dim_kind", logical.dims[0])]
        roles = tuple(COPY if kind in copied else _ROLES.get(kind) for kind in kinds)
        return cls(logical, tuple(Place.of(instance, d) for d in logical.dims), roles, only_most)

    @property
    def cells(self) -> tuple[int, ...]:
        return tuple(c for level in self.levels for c in (level.kind_offset, *level.size_offsets))

    def ways(self, vector: Sequence[int]) -> Ways:
        key = itemgetter(*self.cells)(vector)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._ways(vector)
        return found

    def _ways(self, vector: Sequence[int]) -> Ways:
        roles, sizes = [], []
        for level in self.levels:
            kinds = vector[level.kind_offset]
            roles.append(tuple({role for bit, role in enumerate(self.roles) if kinds >> bit & 1}))
            mask = sum(vector[cell] << WORD_BITS * word for word, cell in enumerate(level.size_offsets))
            sizes.append([size for bit, size in enumerate(level.universe) if mask >> bit & 1])
        if any(None in each for each in roles):
            return UNKNOWN
        found: dict[tuple[int, int, int], int] = {}
        for tiles in itertools.product(*sizes):
            if not self._covers(tiles):
                continue
            for each in itertools.product(
                *(r if n > 1 else (SEQUENTIAL,) for r, n in zip(roles, tiles, strict=True))
            ):
                way = _way(tiles, each)
                key = way[:3]
                found[key] = min(way.step, found.get(key, way.step))
        ways: list[Way] = [Way(*key, step) for key, step in found.items()]
        if self.only_most:
            ways = list(_with_most_copies(ways))
        blocks, threads, copies, steps = np.array(ways, dtype=float).reshape(-1, 4).T
        return Ways(blocks, threads, copies, steps)

    def _covers(self, tiles: Sequence[int]) -> bool:
        """Whether the levels have the values of the index, and no tile lies beyond its end."""
        covered, extent = math.prod(tiles), self.logical.extent
        if self.logical.is_ragged:
            return extent <= covered < extent + math.prod(tiles[1:])
        return covered == extent


def _way(tiles: Sequence[int], roles: Sequence[int | None]) -> Way:
    numbers = [1, 1, 1, 1]
    step, is_between = 1, True
    for size, role in zip(reversed(tiles), reversed(roles), strict=True):
        assert role is not None
        is_between = is_between and (role != THREAD or size == 1)
        step *= size if is_between else 1
        numbers[role] *= size
    return Way(numbers[BLOCK], numbers[THREAD], numbers[COPY], step)


def _with_most_copies(ways: Sequence[Way]) -> Iterator[Way]:
    for _, group in itertools.groupby(sorted(ways), key=lambda way: way[:2]):
        same = list(group)
        yield Way(*same[-1][:3], min(way.step for way in same))
