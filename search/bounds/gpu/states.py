"""What the domains of a candidate leave of a nest: all that its cost depends on.

In: a nest, then the vectors of candidates. Out: a `State`, equal for all vectors of which the same is left;
None where nothing is known. What it costs is for `pressure.py`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.search.bounds.domains import Bits, Place
from spacedsl.search.bounds.gpu.nests import Nest, Operand
from spacedsl.search.bounds.gpu.ways import Ways


class Source(enum.Enum):
    """Where a thread finds an operand."""

    OPEN = enum.auto()
    DIRECT = enum.auto()
    """The tensor itself."""
    SHARED = enum.auto()
    """Memory that its block shares."""
    COPIED = enum.auto()
    """Memory of the device, laid out in another way."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How an operand is read."""

    source: Source
    lanes: int
    """Elements of one load, at most."""
    passes: float = 0.0
    """Of shared memory, for an element of each thread of a warp, at least."""


@dataclass(frozen=True, slots=True)
class State:
    ways: tuple[Ways, ...]
    """By index."""
    readings: tuple[Reading, ...]
    """By operand."""
    most_copies: int | None
    """Of free indices; None: there is no limit."""
    may_split: bool
    """Whether the copies of a sum may accumulate apart."""
    shared_bytes: int
    """That a block shares, at least."""
    repeated: int
    """Blocks that do the same, beside those of the nest's own indices."""
    threads: int
    """Of a block, because of other nests in it."""


def cells(nest: Nest) -> tuple[int, ...]:
    """All that a state depends on, in the vectors of candidates."""

    def found() -> Iterator[int]:
        places: list[Place] = []
        for index in nest.indices:
            yield from index.cells
        for operand in nest.operands:
            places += operand.copying
            yield from (cell for cell, _ in (*operand.registers, *operand.shared, *operand.copied))
            yield from operand.bytes_cells
            if operand.banks is not None:
                yield from operand.banks.cells
        if nest.copy is not None:
            places += nest.copy.around
            yield from (cell for cell, _ in nest.copy.temporary)
        for place in places:
            yield from (place.kind_offset, *place.size.cells)
        yield from nest.most_copies
        yield from (cell for cell, _ in nest.splits)

    return tuple(dict.fromkeys(found()))


def state(nest: Nest, vector: Sequence[int], device: GpuDevice) -> State | None:
    """None: a dimension may be of a kind that is not known here, or the nest of a copy need not exist."""
    ways = [index.ways(vector) for index in nest.indices]
    known = tuple(each for each in ways if each is not None)
    if len(known) < len(ways) or (nest.copy is not None and not is_only(nest.copy.temporary, vector)):
        return None
    readings = tuple(_reading(nest, operand, vector, device) for operand in nest.operands)
    shared = [o for o, r in zip(nest.operands, readings, strict=True) if r.source is Source.SHARED]
    return State(
        ways=known,
        readings=readings,
        most_copies=min((vector[cell] for cell in nest.most_copies), default=None),
        may_split=any(vector[cell] & mask for cell, mask in nest.splits),
        shared_bytes=sum(max((vector[c] for c in o.bytes_cells), default=0) for o in shared),
        repeated=_repeated(nest, vector),
        threads=max((_certain(nest, o.copying, "THREAD", vector) for o in shared), default=1),
    )


def _reading(nest: Nest, operand: Operand, vector: Sequence[int], device: GpuDevice) -> Reading:
    """A compiler may make vectors of loads of what it has aligned itself."""
    most = max(1, device.vector_bytes // operand.item_bytes)
    if is_only(operand.registers, vector):
        bit = nest.kind_bits.get("VECTOR", 0)
        sizes = (max(p.size.left(vector), default=1) for p in operand.vectors if vector[p.kind_offset] & bit)
        return Reading(Source.DIRECT, min(most, max(sizes, default=1)))
    if is_only(operand.shared, vector):
        passes = 0.0 if operand.banks is None else operand.banks.passes(vector)
        return Reading(Source.SHARED, most, passes)
    return Reading(Source.COPIED if is_only(operand.copied, vector) else Source.OPEN, most)


def _repeated(nest: Nest, vector: Sequence[int]) -> int:
    """Of a copy that blocks share, the blocks that certainly make one of their own."""
    if nest.copy is None or not is_only(nest.copy.shared, vector):
        return 1
    return _certain(nest, nest.copy.around, "BLOCK", vector)


def _certain(nest: Nest, places: Iterable[Place], kind: str, vector: Sequence[int]) -> int:
    """Least iterations of those that are of a kind, whatever is decided."""
    bit = nest.kind_bits.get(kind, 0)
    return math.prod(min(p.size.left(vector), default=1) for p in places if vector[p.kind_offset] == bit)


def is_only(bits: Bits, vector: Sequence[int]) -> bool:
    """Whether a domain has these values alone."""
    return any(vector[cell] and not vector[cell] & ~mask for cell, mask in bits)
