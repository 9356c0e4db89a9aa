"""The same implementation of a smaller kernel: what a CPU can check of code for a large one.

In: a kernel file, and an implementation of it for a GPU. Out: a corner of the kernel, and the implementation
of that corner whose outermost loops and blocks are a few, and which is the same otherwise: order, nesting and
kinds of dimensions, tiles, threads, where values go, which last tile ends early and after how many elements.
Its text is that of the implementation, but for how often loops run, how many blocks there are, what a
block's number says, and the sizes of temporaries that held more. Where that is not small enough, loops and
threads inside of tiles become fewer, too, and with them the distances from tile to tile. What depends on
large numbers alone is for `verify.py`, which goes through the indices of the whole program.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.linalg.implementation import CandidateImplementation, GridImplementation, Statement
from spacedsl.codegen.linalg.nest import present
from spacedsl.codegen.tree.program import Program
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.corner import corner, enclosing
from spacedsl.kernels.kernel_file import KernelFile
from spacedsl.kernels.linalg.backbone import Dimension, Kernel, LogicalDim


@dataclass(frozen=True, slots=True)
class Kept:
    """How many iterations dimensions keep."""

    counts: Mapping[str, int]
    """By their kind; all of them where it is not named."""
    has_whole_tiles: bool
    """Whether only outermost dimensions lose iterations."""


WHOLE_TILES = Kept(MappingProxyType({"BLOCK": 2, "LOOP": 3}), has_whole_tiles=True)
"""A loop has a first, a last, and one between them."""

PARTS_OF_TILES = Kept(MappingProxyType({"BLOCK": 2, "LOOP": 2, "THREAD": 4}), has_whole_tiles=False)


_CONSIDERED = 1 << 14
"""Extents: more are not looked at."""

_Counts = NDArray[np.int64]
_N = TypeVar("_N", int, _Counts)

_WIDENED = 4
"""Times that threads are doubled, at most, where tilings do not end alike with as few as shall be kept."""

Level = tuple[str, int, int]
"""Dimensions that have the same size and go on having the same: of an index, a level of it, their size."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How much of a kernel is left."""

    extents: Mapping[str, int]
    """Of its indices."""
    inner: Mapping[Level, int]
    """Sizes of levels inside the outermost, where these are others than they were."""


@dataclass(frozen=True, slots=True)
class _Offer:
    """Extents of an index for which its tilings are alike, in ascending order."""

    extents: Sequence[int]
    inner: Mapping[Level, int]

    def at_least(self, wanted: int) -> int:
        return self.extents[bisect_left(self.extents, wanted)]


def cut_down(kernel: KernelFile, made: GridImplementation, kept: Kept) -> Cut:
    """As much as it takes to have first and last tiles of each kind."""
    kept = _for_pipelines(kept, kernel.backbone, made)
    nests: dict[str, list[LogicalDim]] = defaultdict(list)
    for instruction in present(kernel.backbone, made):
        for logical in instruction.logical_dims:
            nests[logical.index].append(logical)
    offers = {index: tuple(_offers(own, made, kept)) for index, own in nests.items()}

    def offer(index: str, wanted: int) -> _Offer:
        whole = _Offer((kernel.computation.extents[index],), {})
        return next(o for o in (*offers.get(index, ()), whole) if wanted <= o.extents[-1])

    extents = enclosing(kernel.computation, lambda index, n: offer(index, n).at_least(n))
    inner = (offer(index, extent).inner for index, extent in extents.items())
    return Cut(extents, {level: size for sizes in inner for level, size in sizes.items()})


def _for_pipelines(kept: Kept, kernel: Kernel, made: GridImplementation) -> Kept:
    """Loops whose tiles are copied ahead come to a tile that takes the room of one before it."""
    ahead = max((made.buffers(m) - 1 for m in kernel.storable if made.is_stored(m)), default=0)
    return replace(kept, counts={**kept.counts, "LOOP": kept.counts["LOOP"] + ahead})


def _offers(nests: Sequence[LogicalDim], made: GridImplementation, kept: Kept) -> Iterator[_Offer]:
    """Of an index, in the nests of instructions that depend on it; smaller ones first."""
    if not kept.has_whole_tiles:
        for threads in (kept.counts["THREAD"] << more for more in range(_WIDENED)):
            yield from _with_parts(nests, made, replace(kept, counts={**kept.counts, "THREAD": threads}))
    outermost = [nest.dims[0] for nest in nests]
    if all(_may_shrink(dim, made, kept) for dim in outermost):
        extent = nests[0].extent
        tiles = [math.prod(map(made.size, nest.dims[1:])) for nest in nests]
        least = max(
            min(extent // tile, kept.counts[made.kind(dim)]) * tile + extent % tile
            for dim, tile in zip(outermost, tiles, strict=True)
        )
        # Of extents that are apart by it, all tilings end alike.
        step = math.lcm(*tiles)
        yield _Offer(range(extent - (extent - least) // step * step, extent + 1, step), {})


def _with_parts(nests: Sequence[LogicalDim], made: GridImplementation, kept: Kept) -> Iterator[_Offer]:
    """Where tiles lose iterations, too, for extents at which the tilings of all nests end as they do now."""
    levels: dict[Level, list[Dimension]] = defaultdict(list)
    for dim in (dim for nest in nests for dim in nest.dims[1:]):
        levels[dim.index, dim.level, made.size(dim)].append(dim)
    inner = {level: _left_of_level(dims, made, kept) for level, dims in levels.items()}
    extent = nests[0].extent
    ends = {_End.of(nest, made, kept, inner) for nest in nests}
    step = math.lcm(*(end.tile for end in ends if end.is_exact))
    extents = np.arange(step, min(extent, _CONSIDERED * step) + 1, step)
    counts: dict[int, _Counts] = {}
    alike = np.ones(len(extents), dtype=bool)
    for end in ends:
        tiles = -(-extents // end.tile)
        # Where two nests had as many tiles, they have.
        alike &= end.is_alike(extents) & (tiles == counts.setdefault(end.size, tiles))
    if alike.any():
        sizes = {level: size for level, size in inner.items() if size != level[2]}
        yield _Offer(extents[alike].tolist(), sizes)


@dataclass(frozen=True, slots=True)
class _End:
    """How the tiling of a nest ends, and what it is to have of it on a corner."""

    size: int
    """Of its outermost level."""
    least: int
    """Whole tiles that are kept."""
    are_powers: bool
    """Whether tiles are threads that remain a power of two: what others count does not depend on them."""
    inner: tuple[int, ...]
    """What is left of the other levels."""
    rest: tuple[int, ...]
    """Whole iterations of these in the last tile, where that ends early; else zeros."""
    copies: frozenset[int]
    """Which of these are lanes of a vector, or copies of what they go around."""

    @staticmethod
    def of(nest: LogicalDim, made: GridImplementation, kept: Kept, inner: Mapping[Level, int]) -> _End:
        outermost, *others = nest.dims
        sizes = [made.size(dim) for dim in others]
        whole, rest = divmod(nest.extent, math.prod(sizes))
        shrinks = _may_shrink(outermost, made, kept)
        size = made.size(outermost)
        return _End(
            size=size,
            # One that ends early is one of those that are kept.
            least=min(whole, kept.counts[made.kind(outermost)] - (rest > 0)) if shrinks else whole,
            are_powers=made.kind(outermost) == "THREAD" and size & (size - 1) == 0,
            inner=tuple(inner[dim.index, dim.level, made.size(dim)] for dim in others),
            rest=tuple(_digits(rest, sizes)),
            copies=frozenset(n for n, dim in enumerate(others) if made.kind(dim) in ("VECTOR", "UNROLL")),
        )

    @property
    def tile(self) -> int:
        return math.prod(self.inner)

    @property
    def is_exact(self) -> bool:
        return not any(self.rest)

    def is_alike(self, extents: _Counts) -> NDArray[np.bool_]:
        """Of each extent: what goes around in a last tile still does, and what is there once, or so many
        times in the text, still is.
        """
        whole, rest = np.divmod(extents, self.tile)
        tiles = whole + (rest > 0)
        alike = (self.least <= whole) & (tiles <= self.size)
        if self.are_powers:
            alike &= tiles & (tiles - 1) == 0
        for place, (now, before) in enumerate(zip(_digits(rest, self.inner), self.rest, strict=True)):
            alike &= now == before if place in self.copies else np.minimum(now, 2) == min(before, 2)
        return alike


def _digits(rest: _N, sizes: Sequence[int]) -> Iterator[_N]:
    """Iterations of each level, outermost first, in a tile of so many values."""
    for place in range(len(sizes)):
        tile = math.prod(sizes[place + 1 :])
        yield rest // tile
        rest = rest % tile


def _left_of_level(dims: Sequence[Dimension], made: GridImplementation, kept: Kept) -> int:
    """Threads remain a power of two."""
    most = max(_left(dim, made, kept) for dim in dims)
    return 1 << (most - 1).bit_length() if any(made.kind(dim) == "THREAD" for dim in dims) else most


def _left(dim: Dimension, made: GridImplementation, kept: Kept) -> int:
    size = made.size(dim)
    return min(size, kept.counts[made.kind(dim)]) if _may_shrink(dim, made, kept) else size


def _may_shrink(dim: Dimension, made: GridImplementation, kept: Kept) -> bool:
    """Threads that combine what they have do so in numbers that a rule gives."""
    kind = made.kind(dim)
    return kind in kept.counts and not (kind == "THREAD" and dim.is_reduction)


@dataclass(frozen=True, slots=True, kw_only=True)
class CornerImplementation(CandidateImplementation):
    """The decisions of a complete candidate, for a corner of its kernel."""

    whole: Mapping[Statement, Statement]
    """The statements of the kernel for those of the corner."""
    cut: Cut
    _counts: dict[Dimension, int] = field(default_factory=dict, init=False, repr=False)

    def order(self, lhs: Statement, rhs: Statement) -> str:
        return CandidateImplementation.order(self, self.whole[lhs], self.whole[rhs])

    def thread_stride(self, dim: Dimension) -> int:
        return CandidateImplementation.thread_stride(self, self._dim(dim))

    def size(self, dim: Dimension) -> int:
        """Of an outermost level: as many tiles as the corner has."""
        found = self._counts.get(dim)
        if found is None:
            if dim.level:
                size = CandidateImplementation.size(self, self._dim(dim))
                found = self.cut.inner.get((dim.index, dim.level, size), size)
            else:
                found = -(-dim.logical.extent // math.prod(map(self.size, dim.inner_levels)))
            self._counts[dim] = found
        return found

    def _decided(self, choice: str, about: Statement, otherwise: str) -> str:
        return CandidateImplementation._decided(self, choice, self.whole[about], otherwise)

    def _dim(self, dim: Dimension) -> Dimension:
        found = self.whole[dim]
        assert isinstance(found, Dimension)
        return found


def on_corner(
    kernel: KernelFile, candidate: Candidate, kept: Kept = WHOLE_TILES
) -> tuple[KernelFile, CornerImplementation]:
    """The corner, and a complete candidate's implementation of it."""
    cut = cut_down(kernel, CandidateImplementation(candidate), kept)
    smaller = corner(kernel, cut.extents)
    return smaller, CornerImplementation(candidate, whole=_whole(smaller.backbone, kernel.backbone), cut=cut)


def _whole(smaller: Kernel, kernel: Kernel) -> dict[Statement, Statement]:
    """The statements of a kernel for those of a corner of it."""
    found: dict[Statement, Statement] = {}
    ours = (*smaller.instructions, *smaller.reloads)
    for own, its in zip(ours, (*kernel.instructions, *kernel.reloads), strict=True):
        assert own.name == its.name
        found[own] = its
        found |= zip(own.dims, its.dims, strict=True)
    return found


def corner_program(kernel: KernelFile, candidate: Candidate, kept: Kept) -> tuple[KernelFile, Program]:
    """A corner of the kernel, and the program of a complete candidate there; raises `LoweringError`."""
    cut, made = on_corner(kernel, candidate, kept)
    return cut, lower_grids(cut.backbone, made)
