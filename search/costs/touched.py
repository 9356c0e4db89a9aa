"""Which pieces of memory, lines or pages, the loops of an implementation come to again and again.

In: loops, and what is accessed in them, by strides. Out: how many pieces have to be fetched, about, where so
many are kept. Loops that come to no more than that find what the iteration before has left; in others, all is
gone. Boxes of the same array are the same memory, the smaller one inside of the larger. Also, whether stores
fill a piece before they begin others, and how small the loops leave an array of the program's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from spacedsl.kernels.linalg.backbone import Dimension


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """Dimensions that are one loop, or what takes the place of a loop."""

    head: Dimension
    kind: str
    size: int
    trips: float
    """Of one thread; 1 for a vector."""

    @property
    def is_counted(self) -> bool:
        return self.kind in ("LOOP", "PARALLEL")


def counted(path: Sequence[Loop]) -> tuple[Loop, ...]:
    """Of these loops, those that count: copies and lanes do not."""
    return tuple(loop for loop in path if loop.is_counted)


@dataclass(frozen=True, slots=True)
class Access:
    """What an instruction loads or stores in the loops around it."""

    array: str
    loops: tuple[Loop, ...]
    strides: tuple[int, ...]
    """Bytes, one for each loop."""
    nbytes: int
    """Of neighbours that are accessed at once."""
    is_store: bool
    is_streamed: bool

    @property
    def inside(self) -> tuple[Loop, ...]:
        """The loops around the straight code that it is part of."""
        return counted(self.loops)

    @property
    def moved(self) -> float:
        """Bytes, each as often as it is accessed."""
        return self.nbytes * math.prod(loop.trips for loop in self.loops)

    def units(self, unit: int) -> Iterator[float]:
        """How many pieces of memory of so many bytes the loops from each depth on touch, about; at last, none
        of them.
        """
        strided = self._strided()
        for depth in range(len(self.loops) + 1):
            run, rows = self._runs(strided, depth, unit)
            yield rows * math.ceil(run / unit)

    def runs(self, depth: int, unit: int) -> tuple[int, float]:
        """The bytes of a run of neighbours that all loops from a depth on come to, and how many runs."""
        return self._runs(self._strided(), depth, unit)

    def _strided(self) -> list[tuple[int, float, int]]:
        """Of the loops that lead elsewhere: stride, iterations and depth, the least stride first."""
        around = enumerate(zip(self.loops, self.strides, strict=True))
        return sorted(
            (stride, loop.trips, depth) for depth, (loop, stride) in around if stride and loop.trips > 1
        )

    def _runs(self, strided: Sequence[tuple[int, float, int]], depth: int, unit: int) -> tuple[int, float]:
        run, rows = self.nbytes, 1.0
        for stride, trips, place in strided:
            if place < depth:
                continue
            if stride <= max(run, unit - 1):
                run = int(stride * (trips - 1)) + run
            else:
                rows *= trips
        return run, rows

    def has_gaps(self, unit: int) -> bool:
        """Whether all loops together come to parts of pieces that have no neighbours."""
        run, rows = self.runs(0, unit)
        return run < unit and rows > 1

    def is_whole(self, unit: int, most: int) -> bool:
        """Whether a piece of so many bytes is written as a whole before others are begun, at most so many."""
        run, begun = self.nbytes, 1
        for loop, stride in zip(reversed(self.loops), reversed(self.strides), strict=True):
            if run >= unit or begun > most:
                break
            if loop.kind == "VECTOR":
                continue
            if stride == run:
                run *= loop.size
            elif stride:
                begun *= loop.size
        return run >= unit

    def span(self, without: Sequence[Loop]) -> int:
        """Bytes from the first to the last that one iteration of these loops comes to."""
        around = zip(self.loops, self.strides, strict=True)
        rest = ((loop, stride) for loop, stride in around if loop not in without and loop.kind != "VECTOR")
        return self.nbytes + sum(stride * (loop.size - 1) for loop, stride in rest)

    def without(self, loops: Sequence[Loop]) -> Access:
        """The same place in all iterations of these loops."""
        around = zip(self.loops, self.strides, strict=True)
        return replace(self, strides=tuple(0 if loop in loops else stride for loop, stride in around))


def contracted(accesses: Sequence[Access]) -> list[Access]:
    """All accesses to an array of the program's own, which shrinks to what is alive at a time: loops around
    all of them that move alike need no room for each iteration, as far as the rest lies within their strides.
    So `codegen/tree/contraction.py` does with programs.
    """
    common = [loop for loop in accesses[0].loops if all(loop in access.loops for access in accesses)]
    moves = sorted(((_moves(accesses, loop), loop) for loop in common), key=lambda each: -each[0])
    gone: list[Loop] = []
    for count, (stride, _) in enumerate(moves, 1):
        loops = [loop for _, loop in moves[:count]]
        if stride and max(access.span(loops) for access in accesses) <= stride:
            gone = loops
    return [access.without(gone) for access in accesses]


def _moves(accesses: Sequence[Access], loop: Loop) -> int:
    """The stride of a loop that is around all of them; 0 where they do not move alike."""
    strides = {access.strides[access.loops.index(loop)] for access in accesses}
    return strides.pop() if len(strides) == 1 else 0


class Piece(NamedTuple):
    """Lines or pages of an array that straight code comes to."""

    array: str
    inside: tuple[Loop, ...]
    """The loops around the code."""


class Touched:
    """Pieces of memory, lines or pages, that the loops of an implementation come to again and again."""

    def __init__(self, accesses: Sequence[Access], unit: int) -> None:
        self.root = _Node(1.0)
        """All loops, once."""
        self.stored = {access.array for access in accesses if access.is_store}
        nodes: dict[Loop, _Node] = {}
        for access in accesses:
            units = [*access.units(unit)]
            self.root.come_to(access.array, units[0])
            node = self.root
            for loop, count in zip(access.loops, units, strict=False):
                if loop not in nodes:
                    nodes[loop] = _Node(loop.trips)
                    node.inside.append(nodes[loop])
                node = nodes[loop]
                node.come_to(access.array, count)
            node.once[Piece(access.array, access.inside)] = 1.0
        for node in (self.root, *nodes.values()):
            node.settle()

    def fetched(self, room: float, *, is_cold: bool = False) -> dict[Piece, float]:
        """Pieces of each array that are not there any more, where so many are kept, by the straight code that
        comes to them. What all loops come to is there from the start where there is room for all of it,
        unless it `is_cold`.
        """
        is_kept = not is_cold and sum(self.root.whole.values()) <= room
        return {} if is_kept else self.root.fetched(room)


class _Node:
    """A loop, in the loops around it."""

    __slots__ = ("inside", "least", "once", "trips", "whole")

    def __init__(self, trips: float) -> None:
        self.trips = trips
        self.inside: list[_Node] = []
        self.once: dict[Piece, float] = {}
        """Arrays that are accessed in no loop inside: a piece of them, in each iteration."""
        self.whole: dict[str, float] = {}
        """What all iterations come to, of each array."""
        self.least = 0.0
        """Room with which what an iteration comes to is still there in the next one, or after all of them."""

    def come_to(self, array: str, units: float) -> None:
        self.whole[array] = max(self.whole.get(array, 0.0), units)

    def settle(self) -> None:
        """Once all accesses are known."""
        each = {piece.array: 1.0 for piece in self.once}
        for node in self.inside:
            for array, count in node.whole.items():
                each[array] = max(each.get(array, 0.0), count)
        self.least = min(sum(each.values()), sum(self.whole.values()))

    def fetched(self, room: float) -> dict[Piece, float]:
        each = {**self.once}
        for node in self.inside:
            for piece, count in node.fetched(room).items():
                each[piece] = each.get(piece, 0.0) + count
        trips = self.trips
        if self.least > room:
            return {piece: trips * count for piece, count in each.items()}
        once: dict[str, float] = {}
        for piece, count in each.items():
            once[piece.array] = once.get(piece.array, 0.0) + count
        times = {array: min(self.whole[array] / count, trips) for array, count in once.items()}
        return {piece: times[piece.array] * count for piece, count in each.items()}
