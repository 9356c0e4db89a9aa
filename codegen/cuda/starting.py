"""What blocks combine their parts with starts from what changes nothing of them: the grids that store that.

In: arrays, and how parts are combined with them. Out: grids with a thread for each element, one for all
arrays of a few. Where they stand is for `lower.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from spacedsl.codegen.tree.expressions import Index, Number, Type
from spacedsl.codegen.tree.program import Branch, Coordinate, Grid, Statement, Store, Where
from spacedsl.kernels.linalg.operations import Combine, neutral
from spacedsl.kernels.tensors import Tensor

THREADS = 256
"""Of a block, at most."""


def starting(ways: Mapping[Tensor, Combine], fresh: Callable[[str], str]) -> Iterator[Grid]:
    """Puts that into all elements and leaves what lies between them alone; `fresh` makes a name unique."""
    few = {t: way for t, way in ways.items() if len(_rows(t)) == 1 and t.elements <= THREADS}
    together = few if len(few) > 1 else {}
    if together:
        yield _together(together, fresh)
    yield from (_alone(t, way, fresh) for t, way in ways.items() if t not in together)


def _together(few: Mapping[Tensor, Combine], fresh: Callable[[str], str]) -> Grid:
    """In one block."""
    threads = max(tensor.elements for tensor in few)
    thread = Coordinate(fresh("t"), False, 1, threads)
    body: list[Statement] = []
    for tensor, combine in few.items():
        ((count, step),) = _rows(tensor)
        index = Index(0, ((thread.variable, step),) if count > 1 else ())
        store = Store(tensor.name, index, _start(tensor, combine))
        body.append(store if count == threads else Where(((0, count, threads),), (store,)))
    used = (thread,) if threads > 1 else ()
    return Grid(fresh("start"), 1, threads, used, (), tuple(body))


def _start(tensor: Tensor, combine: Combine) -> Number:
    return Number(neutral(combine, tensor.dtype), Type(tensor.dtype))


def _alone(tensor: Tensor, combine: Combine, fresh: Callable[[str], str]) -> Grid:
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
    body: tuple[Statement, ...] = (Store(tensor.name, index, _start(tensor, combine)),)
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
