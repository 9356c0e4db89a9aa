"""The same implementation of a smaller kernel: what a CPU can check of code for a large one.

In: a kernel file, and an implementation of it for a GPU. Out: a corner of the kernel, and the implementation
of that corner whose outermost loops and blocks are a few, and which is the same otherwise: order, nesting and
kinds of dimensions, tiles, threads, where values go, which last tile ends early and after how many elements.
Its text is that of the implementation, but for how often loops run, how many blocks there are, what a
block's number says, and the sizes of temporaries that held more. What depends on large numbers alone is for
`verify.py`, which goes through the indices of the whole program.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from spacedsl.codegen.implementation import CandidateImplementation, GridImplementation, Statement
from spacedsl.codegen.nest import present
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.corner import corner, enclosing
from spacedsl.kernels.kernel_file import KernelFile
from spacedsl.kernels.linalg.backbone import Dimension, Kernel, LogicalDim

Kept = Mapping[str, int]
"""Whole iterations that outermost dimensions keep, by their kind; all of them where it is not named."""

SAME_THREADS: Kept = MappingProxyType({"BLOCK": 2, "LOOP": 3})
"""A loop has a first, a last, and one between them."""

FEWER_THREADS: Kept = MappingProxyType({**SAME_THREADS, "THREAD": 4})
"""For what goes through a whole index in threads: a block is then smaller, and some threads may idle that did
not."""


def corner_extents(kernel: KernelFile, made: GridImplementation, kept: Kept) -> dict[str, int]:
    """How far indices go in the smallest corner in which each tiling has its first and last tiles."""
    nests: dict[str, list[_Nest]] = defaultdict(list)
    for instruction in present(kernel.backbone, made):
        for logical in instruction.logical_dims:
            nests[logical.index].append(_nest(logical, made, kept))

    def least(index: str, wanted: int) -> int:
        extent, own = kernel.computation.extents[index], nests[index]
        if not own or not all(nest.may_shrink for nest in own):
            return extent
        # Of extents that are apart by it, all tilings end alike.
        step = math.lcm(*(nest.tile for nest in own))
        wanted = max(wanted, *(nest.kept for nest in own))
        return extent - max(0, extent - wanted) // step * step

    return enclosing(kernel.computation, least)


@dataclass(frozen=True, slots=True)
class _Nest:
    """An index in the nest of an instruction."""

    tile: int
    """Values of the index that an iteration of the outermost level goes through."""
    kept: int
    """The least extent with all kinds of tiles."""
    may_shrink: bool


def _nest(logical: LogicalDim, made: GridImplementation, kept: Kept) -> _Nest:
    outermost, *inner = logical.dims
    tile, kind = math.prod(map(made.size, inner)), made.kind(outermost)
    whole, rest = divmod(logical.extent, tile)
    # Threads that combine what they have do so in numbers that a rule gives.
    may_shrink = kind in kept and not (kind == "THREAD" and outermost.is_reduction)
    return _Nest(tile, min(whole, kept.get(kind, whole)) * tile + rest, may_shrink)


@dataclass(frozen=True, slots=True, kw_only=True)
class CornerImplementation(CandidateImplementation):
    """The decisions of a complete candidate, for a corner of its kernel."""

    whole: Mapping[Statement, Statement]
    """The statements of the kernel for those of the corner."""
    _counts: dict[Dimension, int] = field(default_factory=dict, init=False, repr=False)

    def order(self, lhs: Statement, rhs: Statement) -> str:
        return CandidateImplementation.order(self, self.whole[lhs], self.whole[rhs])

    def kind(self, dim: Dimension) -> str:
        return CandidateImplementation.kind(self, self._dim(dim))

    def thread_stride(self, dim: Dimension) -> int:
        return CandidateImplementation.thread_stride(self, self._dim(dim))

    def size(self, dim: Dimension) -> int:
        """As it was, but for an outermost level: as many tiles as the corner has."""
        if dim.level:
            return CandidateImplementation.size(self, self._dim(dim))
        if dim not in self._counts:
            self._counts[dim] = -(-dim.logical.extent // math.prod(map(self.size, dim.inner_levels)))
        return self._counts[dim]

    def _decided(self, choice: str, about: Statement, otherwise: str) -> str:
        return CandidateImplementation._decided(self, choice, self.whole[about], otherwise)

    def _dim(self, dim: Dimension) -> Dimension:
        found = self.whole[dim]
        assert isinstance(found, Dimension)
        return found


def on_corner(
    kernel: KernelFile, candidate: Candidate, kept: Kept = SAME_THREADS
) -> tuple[KernelFile, CornerImplementation]:
    """The corner, and a complete candidate's implementation of it."""
    extents = corner_extents(kernel, CandidateImplementation(candidate), kept)
    cut = corner(kernel, extents)
    return cut, CornerImplementation(candidate, whole=_whole(cut.backbone, kernel.backbone))


def _whole(cut: Kernel, kernel: Kernel) -> dict[Statement, Statement]:
    """The statements of a kernel for those of a corner of it."""
    found: dict[Statement, Statement] = {}
    pairs = zip((*cut.instructions, *cut.reloads), (*kernel.instructions, *kernel.reloads), strict=True)
    for ours, its in pairs:
        assert ours.name == its.name
        found[ours] = its
        found |= zip(ours.dims, its.dims, strict=True)
    return found
