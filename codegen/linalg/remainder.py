"""Where a tiling does not divide its index: loops over whole tiles, and the last tile up to the extent.

In: the loop structure of an implementation, in which all iterations of a level are alike. Out: the same
structure, in which no level goes beyond the extent of its index, unless it is padded. With an index of 23 in
tiles of 8:

    for i0 < 3: tile of 8    becomes    for i0 < 2: tile of 8; then, at i0 = 2, a tile of 7      (peeled)
                                   or    for i0 < 3: where i0 < 2 a tile of 8, else one of 7     (guarded)
                                   or    stays as it is                                          (padded)

What a padded tile has beyond the extent is for `padding.py`. The tile of 7 is divided in the same way: fewer
iterations of its loops, fewer unrolled copies, fewer lanes of a vector. All of these numbers are constants. A
parallel loop is guarded or padded, so that threads share the last tile, too, and so are blocks and threads of
a GPU; another level inside a tile that is not whole is always peeled. What a vector of fewer lanes is in
registers and in memory is for `instructions.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from spacedsl.codegen.linalg.implementation import Implementation
from spacedsl.codegen.linalg.nest import Fused, Node, present
from spacedsl.codegen.tree.errors import LoweringError
from spacedsl.kernels.linalg.backbone import Dimension, Instruction, Kernel

Limits = Mapping[Dimension, int]
"""How many values of its index a level has to go through, with the levels inside it."""


def divide(tree: tuple[Node, ...], kernel: Kernel, implementation: Implementation) -> tuple[Node, ...]:
    """The structure without iterations beyond extents; raises `LoweringError` for tilings that cover none."""
    limits: dict[Dimension, int] = {}
    for logical in (g for i in present(kernel, implementation) for g in i.logical_dims):
        sizes = [implementation.size(dim) for dim in logical.dims]
        covered, tile = math.prod(sizes), math.prod(sizes[1:])
        is_exact = covered == logical.extent
        if not is_exact and not (logical.is_ragged and covered - tile < logical.extent <= covered):
            raise LoweringError(f"the sizes {sizes} of {logical!r} do not end at {logical.extent}")
        if is_exact or implementation.is_padded(_deciding(logical.dims[0])):
            limits |= {dim: math.prod(sizes[level:]) for level, dim in enumerate(logical.dims)}
        else:
            limits[logical.dims[0]] = logical.extent
    return _Division(implementation).block(tree, limits)


def _deciding(dim: Dimension) -> Dimension:
    """About the last tile of a reload, its user decides."""
    return dim if dim.instruction.maker is None else dim.mapped_to[0]


_AT_ONCE = ("PARALLEL", "BLOCK", "THREAD")
"""Kinds of dimensions whose iterations run at the same time: the last one has no place behind the others."""


@dataclass(frozen=True, slots=True)
class _Division:
    implementation: Implementation

    def block(self, nodes: tuple[Node, ...], limits: Limits) -> tuple[Node, ...]:
        divided: list[Node] = []
        for node in nodes:
            if isinstance(node, Instruction):
                divided.append(node)
            else:
                divided += self.fused(node, limits)
        return tuple(divided)

    def fused(self, node: Fused, limits: Limits) -> tuple[Fused, ...]:
        tile = self.tile(node)
        whole, rest = divmod(self.limit(node, limits), tile)
        if node.kind == "VECTOR":
            return (replace(node, size=whole),)
        body = self.inside(node, limits, tile) if whole else ()
        if not rest:
            return (replace(node, size=whole, body=body),)
        last = self.inside(node, limits, rest)
        if node.kind in _AT_ONCE and not whole:
            return (replace(node, size=1, body=last),)
        is_guarded = node.kind in _AT_ONCE or (
            node.kind == "LOOP" and node.dims[0].level == 0 and self.implementation.is_guarded(node.dims[0])
        )
        if is_guarded and whole:
            return (replace(node, size=whole + 1, body=body, last=last),)
        peeled = replace(node, kind="UNROLL", first=whole, size=1, body=last)
        return (replace(node, size=whole, body=body), peeled) if whole else (peeled,)

    def inside(self, node: Fused, limits: Limits, limit: int) -> tuple[Node, ...]:
        """The body, in which the levels further inside have to go through so many values."""
        inner = {dim.inner_levels[0]: limit for dim in node.dims if dim.inner_levels}
        return self.block(node.body, {**limits, **inner})

    def limit(self, node: Fused, limits: Limits) -> int:
        found = {limits.get(dim) for dim in node.dims}
        limit = found.pop()
        if limit is None or found:
            raise LoweringError(
                f"{node.dims!r} are not nested in the levels outside them, or not fused there"
            )
        return limit

    def tile(self, node: Fused) -> int:
        """The values of the index that one iteration goes through."""
        tiles = {math.prod(map(self.implementation.size, dim.inner_levels)) for dim in node.dims}
        if len(tiles) > 1:
            raise LoweringError(f"the fused dimensions {node.dims!r} have tiles of different sizes")
        return tiles.pop()
