"""What blocks combine their parts with starts from what changes nothing of them: the grids that store that.

In: an array, and how parts are combined with it. Out: a grid with a thread for each of its elements. Where it
stands is for `lower.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from spacedsl.codegen.tree.expressions import Index, Number, Type
from spacedsl.codegen.tree.program import Branch, Coordinate, Grid, Statement, Store, Where
from spacedsl.kernels.linalg.operations import Combine, neutral
from spacedsl.kernels.tensors import Tensor

THREADS = 256
"""Of a block, at most."""


def starting(tensor: Tensor, combine: Combine, fresh: Callable[[str], str]) -> Grid:
    """Puts that into all elements and leaves what lies between them alone; `fresh` makes a name unique."""
    name = fresh(f"start_{tensor.name}")
    *rows, (count, step) = _rows(tensor)
    threads = min(count, THREADS)
    whole, rest = divmod(count, threads)
    extents = [*(extent for extent, _ in rows), whole + bool(rest)]
    blocks = [
        Coordinate(fresh("row" if n < len(rows) else "piece"), True, math.prod(extents[n + 1 :]), extent)
        for n, extent in enumerate(extents)
    ]
    coordinates = (*blocks, Coordinate(fresh("t"), False, 1, threads))
    strides = (*(stride for _, stride in rows), step * threads, step)
    moved = zip(coordinates, strides, strict=True)
    index = Index(0, tuple((c.variable, stride) for c, stride in moved if c.extent > 1))
    start = Number(neutral(combine, tensor.dtype), Type(tensor.dtype))
    body: tuple[Statement, ...] = (Store(tensor.name, index, start),)
    if rest:
        body = (Branch(blocks[-1].variable, whole, body, (Where(((0, rest, threads),), body),)),)
    used = tuple(c for c in coordinates if c.extent > 1)
    return Grid(name, math.prod(extents), threads, used, (), body)


def _rows(tensor: Tensor) -> list[tuple[int, int]]:
    """(elements, stride) of its dimensions, outermost first: those that lie side by side are one."""
    found: list[tuple[int, int]] = []
    dims = zip(tensor.shape, tensor.strides, strict=True)
    for extent, stride in sorted((d for d in dims if d[0] > 1), key=lambda d: -d[1]):
        if found and found[-1][1] == extent * stride:
            found[-1] = (found[-1][0] * extent, stride)
        else:
            found.append((extent, stride))
    return found or [(1, 1)]
