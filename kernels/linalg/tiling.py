"""Which tile sizes are on offer for an index: from the kernel file's factors, or inferred from the extent.

In: extents and factors, one list for each level inside the outermost. Out: the possible sizes of every level,
outermost first. Where all factors divide the extent, only sizes that occur in some exact tiling are kept;
otherwise the index is ragged, and its outermost level ends with the tile in which the index ends. Which
combinations are tilings is left to constraints of the space.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from spacedsl.kernels.computation import Computation
from spacedsl.kernels.expression import Read, Reduction, indices_of, walk
from spacedsl.kernels.tensors import Tensor

LARGEST_INNER = 16
"""Of an innermost level that is inferred: the elements of a wide vector, or copies of an unrolled body."""

LARGEST_MIDDLE = 64
"""Of a level between outermost and innermost that is inferred."""

LEAST_EXTENT_TILED = 5
LEAST_EXTENT_TILED_TWICE = 64

LEAST_EXTENT_IN_PANELS = 768
"""Of an index that may have a further level: of fewer columns, a thread copies all that it uses at once."""

LONG_SUM = 4096
"""Terms of a sum of products: of more, what is copied of an operand for two vectors of results fills half of
a core's own cache."""

BLOCKS = (1, 32, 64, 128, 256)
"""Of a further level of an index with more terms: with the one inside, those that are summed up at a time."""

PARTIALS = (1, 2, 4, 8)
"""Of a further level of an index that alone is reduced, to a single number, beside vectors: partial results
of a thread."""

LEAST_EXTENT_ALONE = 1024
"""Of such an index: a thread has some rounds of it."""

WELL_DIVIDED = 2 * LARGEST_INNER
"""Multiples of this have exact tilings with wide vectors, and with more than one of them side by side."""

UNEVEN_ROWS = (6,)
"""Of a long index of rows: registers hold six of them with four vectors each, which takes fewer loads than
eight or four rows. A last tile that is not whole costs little there."""

Levels = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Tiling:
    """What is on offer for one index."""

    levels: Levels
    """The possible sizes of each level, outermost first."""
    is_ragged: bool
    """Whether the last tile may end before its full size."""


def tiling(extent: int, factors: Sequence[Sequence[int]], *, may_divide: bool = True) -> Tiling:
    """Exact where every factor divides the extent and some combination of them does, ragged otherwise, and
    where it may not be exact.
    """
    if may_divide and all(extent % f == 0 for level in factors for f in level):
        exact = exact_sizes(extent, factors)
        if exact is not None:
            return Tiling(exact, is_ragged=False)
    outermost = {extent}
    for level in factors:
        outermost = {-(-rest // f) for rest in outermost for f in level}
    return Tiling(tuple(tuple(sorted(set(level))) for level in (outermost, *factors)), is_ragged=True)


def exact_sizes(extent: int, factors: Sequence[Sequence[int]]) -> Levels | None:
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


def inferred_factors(
    extent: int,
    is_only_reduced: bool,
    is_in_panels: bool = False,
    is_of_rows: bool = False,
    is_in_blocks: bool = False,
    is_alone: bool = False,
) -> Levels:
    """A split in two for an index that is only summed over, in three for others; fewer for small extents.

    Divisors, or powers of two where these divide the extent badly: whole vectors and a rest are better than
    single elements. A short index has both. One whose values are copied in panels may have a level more, as
    have long sums of products and what is reduced to a single number, and one of rows beside panels has
    further sizes, where both are long.
    """
    if extent < LEAST_EXTENT_TILED:
        return ()
    is_short = extent < LEAST_EXTENT_TILED_TWICE
    is_well_divided = extent % WELL_DIVIDED == 0 or extent & (extent - 1) == 0
    inner, middle = _divisors(extent, LARGEST_INNER), _divisors(extent, LARGEST_MIDDLE)
    if not is_well_divided:
        powers = _powers_of_two(extent, LARGEST_INNER)
        inner = tuple(sorted({*inner, *powers})) if is_short else powers
        middle = _powers_of_two(-(-extent // LARGEST_INNER), LARGEST_MIDDLE)
    if is_only_reduced and (is_in_blocks or (is_alone and extent >= LEAST_EXTENT_ALONE)):
        further = BLOCKS if is_in_blocks else PARTIALS
        return (tuple(f for f in further if not is_well_divided or extent % f == 0), inner)
    if is_only_reduced or is_short:
        return (inner,)
    if extent < LEAST_EXTENT_IN_PANELS:
        return (middle, inner)
    if is_of_rows:
        return (middle, tuple(sorted({*inner, *UNEVEN_ROWS})))
    return ((1, *inner), middle, inner) if is_in_panels else (middle, inner)


THREADS = (2, 4, 8, 16, 32, 64)
COPIES = (1, 2, 4, 8, 16, 32, 64)
NEIGHBOURS = (2, 4)
"""Of the levels of a free index on a GPU: for threads of a block and copies of a body, or the other way
round; for vectors."""

STAGED = (1, 2, 4, 8, 16, 32, 64, 128, 256)
TERMS = (2, 4, 8)
"""Of those of an index that is only summed over: for what a block copies at a time or its threads share, and
copies of a body."""

LEAST_EXTENT_IN_TURNS = 1 << 20
"""Of an index that is only summed over, and may have a further level: blocks whose threads take many turns
have little to add to what others have."""


FRAGMENTS = (2, 4, 8)
"""In place of neighbours where there may be fragments, which have rows and columns of eight."""


PROBLEMS = (1, 2, 4, 8, 16, 32)
"""Of an index that numbers problems of their own: those of a block, in threads or one after the other."""

LEAST_EVEN, MOST_ODD = 1024, 64
"""Of an extent, the power of two that divides it, and what is left: with less of the first and more of the
second, tiles that divide it are small, and blocks are many."""


def grid_tiling(
    extent: int, is_only_reduced: bool, *, has_fragments: bool = False, is_of_problems: bool = False
) -> Tiling:
    """What is inferred for a GPU; ragged where only small tiles divide the extent."""
    factors = inferred_grid_factors(
        extent, is_only_reduced, has_fragments=has_fragments, is_of_problems=is_of_problems
    )
    return tiling(extent, factors, may_divide=are_tiles_large(extent))


def are_tiles_large(extent: int) -> bool:
    """Whether powers of two that divide it are large, or nearly all of it."""
    even = extent & -extent
    return even == extent or even >= LEAST_EVEN or (even >= WELL_DIVIDED and extent // even <= MOST_ODD)


def inferred_grid_factors(
    extent: int, is_only_reduced: bool, *, has_fragments: bool = False, is_of_problems: bool = False
) -> Levels:
    """For a GPU: a level for blocks, then for threads, copies and vectors; one less where it is summed over,
    and two where it numbers problems.

    Powers of two, those that divide an extent if these are enough. `has_fragments`: whether tensor cores
    may multiply.
    """
    if extent < LEAST_EXTENT_TILED:
        return ()
    lanes = FRAGMENTS if has_fragments else NEIGHBOURS
    levels: Levels = (STAGED, TERMS) if is_only_reduced else (THREADS, COPIES, lanes)
    if is_only_reduced and extent >= LEAST_EXTENT_IN_TURNS:
        levels = (COPIES, *levels)
    if is_of_problems:
        levels = (PROBLEMS,)
    elif extent < LEAST_EXTENT_TILED_TWICE:
        levels = (TERMS,)
    if not are_tiles_large(extent):
        return levels
    return tuple(tuple(f for f in level if extent % f == 0) for level in levels)


def in_panels(computation: Computation, tensors: Mapping[str, Tensor]) -> frozenset[str]:
    """The indices along which neighbours lie of an operand that a sum reads again for other indices.

    A thread copies some columns of it before it uses them; their number is best a size of its own.
    """
    return frozenset(index for index, _ in _panels(computation, tensors))


def of_rows(computation: Computation, tensors: Mapping[str, Tensor]) -> frozenset[str]:
    """The indices for which columns in panels are read again: of the rows of a register tile."""
    free, panels = computation.free_indices, in_panels(computation, tensors)
    rows = (others for index, others in _panels(computation, tensors) if index in free)
    return frozenset(index for others in rows for index in others if index in free and index not in panels)


def long_products(computation: Computation) -> frozenset[str]:
    """The indices of long sums in which each operand is read again for other results, as in products of
    matrices: copies of operands are for parts of a sum then.
    """
    found: set[str] = set()
    for line in computation.assignments:
        for node in walk(line.value):
            if isinstance(node, Reduction):
                reads = [set(read.indices) for read in walk(node.body) if isinstance(read, Read)]
                free = set[str]().union(*reads) - set(node.indices)
                if len(reads) > 1 and all(free - own for own in reads):
                    found.update(index for index in node.indices if computation.extents[index] > LONG_SUM)
    return frozenset(found)


def alone(computation: Computation) -> frozenset[str]:
    """The indices that reductions to single numbers go over, one each."""
    found: set[str] = set()
    extents = computation.extents
    for line in computation.assignments:
        for node in walk(line.value):
            if isinstance(node, Reduction) and not any(extents[i] > 1 for i in indices_of(node)):
                wide = [index for index in node.indices if extents[index] > 1]
                found.update(wide if len(wide) == 1 else ())
    return frozenset(found)


def of_problems(computation: Computation, tensors: Mapping[str, Tensor]) -> frozenset[str]:
    """Free indices that number problems of their own, as of a batch, or the rows of a softmax: all that is
    read and written has them, and nothing with as many indices as there are has them along its neighbours.
    """
    found = set(computation.free_indices)
    places: list[Read] = []
    for line in computation.assignments:
        places += [line.target, *(node for node in walk(line.value) if isinstance(node, Read))]
    most = max(len(place.indices) for place in places)
    for place in places:
        found &= set(place.indices)
        for position, stride in zip(place.positions, tensors[place.tensor].strides, strict=True):
            if len(place.indices) == most:
                found -= {index for index, number in position.terms if abs(number * stride) == 1}
    return frozenset(found)


def _panels(computation: Computation, tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, frozenset[str]]]:
    """An index along which neighbours of an operand lie, and the indices of its sum that it lacks."""
    sums = (n for line in computation.assignments for n in walk(line.value) if isinstance(n, Reduction))
    for node in sums:
        reads = [read for read in walk(node.body) if isinstance(read, Read)]
        indices = frozenset(index for read in reads for index in read.indices)
        for read in reads:
            others = indices - set(read.indices)
            if len(read.indices) == 1 or not others:
                continue
            for position, stride in zip(read.positions, tensors[read.tensor].strides, strict=True):
                yield from ((index, others) for index, number in position.terms if number * stride == 1)


def _divisors(extent: int, largest: int) -> tuple[int, ...]:
    """Proper divisors from 2 to `largest`."""
    return tuple(d for d in range(2, min(largest, extent - 1) + 1) if extent % d == 0)


def _powers_of_two(extent: int, largest: int) -> tuple[int, ...]:
    """From 2 to `largest`, none of which is twice the extent or more."""
    return tuple(
        p for p in (1 << n for n in range(1, largest.bit_length())) if p < 2 * extent and p <= largest
    )
