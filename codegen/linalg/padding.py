"""Padded tiles: what goes on beyond the end of an index accesses tensors up to there.

In: an instance of an instruction that accesses a tensor, and what it does where loops, copies and lanes
around it stand. Out: statements that do so for what the index has, with as many lanes as are left in its last
vector, and nothing beyond. With an index of 23 in tiles of 8 copies, the last copy stores where i0 < 2, and
the others always. Nothing is known here of what is accessed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spacedsl.codegen.linalg.addresses import Lanes, Place, Position
from spacedsl.codegen.linalg.implementation import Implementation
from spacedsl.codegen.tree.errors import LoweringError
from spacedsl.codegen.tree.program import Branch, Statement
from spacedsl.kernels.linalg.backbone import Dimension, Instruction, LogicalDim

Accessing = Callable[[Place], tuple[Statement, ...]]
"""What is done by an instance that stands somewhere."""


@dataclass(frozen=True, slots=True)
class Padding:
    implementation: Implementation

    def padded(self, instruction: Instruction) -> tuple[LogicalDim, ...]:
        """The indices whose last tile goes on beyond their end."""
        return tuple(g for g in instruction.logical_dims if self.implementation.is_padded(g.dims[0]))

    def up_to_end(
        self,
        indices: Sequence[LogicalDim],
        vector: Dimension | None,
        place: Place,
        accessing: Accessing,
    ) -> tuple[Statement, ...]:
        """What accesses elements of these indices; `vector`: the dimension that lanes are of."""
        if not indices:
            return accessing(place)
        first, *others = indices

        def inside(there: Place) -> tuple[Statement, ...]:
            return self.up_to_end(others, vector, there, accessing)

        return self.levels(first.dims, first.extent, vector, place, inside)

    def levels(
        self,
        dims: Sequence[Dimension],
        left: int,
        vector: Dimension | None,
        place: Place,
        inside: Accessing,
    ) -> tuple[Statement, ...]:
        """Of levels that go through an index, of which so many values are left."""
        size = self.implementation.size
        if left >= math.prod(map(size, dims)):
            return inside(place)
        if left <= 0:
            return ()
        dim, *inner = dims
        if dim is vector:
            return inside({**place, dim: Lanes(left)})
        whole, rest = divmod(left, math.prod(map(size, inner)))
        last = self.levels(inner, rest, vector, place, inside)
        match place[dim]:
            case int(at) | Position(at, ()):
                return inside(place) if at < whole else last if at == whole else ()
            case str(variable):
                parts = [(whole, inside(place)), (1, last), (size(dim) - whole - 1, ())]
                return _chosen(variable, 0, [(count, part) for count, part in parts if count])
        raise LoweringError(f"{dim!r} goes on beyond its index, and stands at {place[dim]!r}")


def _chosen(
    variable: str, first: int, parts: Sequence[tuple[int, tuple[Statement, ...]]]
) -> tuple[Statement, ...]:
    """Of so many iterations each, one after the other."""
    (count, part), *others = parts
    if all(other == part for _, other in others):
        return part
    return (Branch(variable, first + count, part, _chosen(variable, first + count, others)),)
