"""Sums of products of what is read at sums of variables: for NumPy, products of matrices.

In: the product, the arrays that it reads, where variables and ranges go. Out: the sums, added to an array.
Convolutions and products of large matrices take minutes otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.affine import linear
from spacedsl.kernels.pipeline.algorithm import Binary, Box, Expression, Extent, Read, Variable

Array = NDArray[Any]
Axes = Sequence[tuple[str, Extent]]
"""Variables, and where they go."""

MOST_COPIED = 1 << 25
"""Elements of a factor at once: one for each point of what it depends on."""


@dataclass(frozen=True, slots=True, eq=False)
class _Factor:
    """What a read finds: an axis for each of some variables."""

    names: tuple[str, ...]
    view: Array


def contract(
    product: Expression,
    arrays: Mapping[str, tuple[Array, ...]],
    boxes: Mapping[str, Box],
    axes: Axes,
    along: Axes,
    result: Array,
) -> bool:
    """Adds the sums along some ranges to `result`, which has these axes, the outermost first.

    False where nothing is added: what is summed up is no product of two reads of the same type of floats, or
    a position is no sum of variables.
    """
    if not isinstance(product, Binary) or product.operator != "*":
        return False
    if product.dtype not in (DType.F32, DType.F64):
        return False
    factors = [_factor(node, product.dtype, arrays, boxes, dict((*axes, *along))) for node in _sides(product)]
    largest = max((f.view.size for f in factors if f is not None), default=0)
    if None in factors or (not axes and largest > MOST_COPIED):
        return False
    for place, part in _parts(axes, -(-largest // MOST_COPIED)):
        extents = dict((*part, *along))
        left, right = (_factor(node, product.dtype, arrays, boxes, extents) for node in _sides(product))
        assert left is not None and right is not None
        result[place] += _sums(left, right, part, along).astype(result.dtype, copy=False)
    return True


def _sides(product: Binary) -> tuple[Expression, Expression]:
    return product.left, product.right


def _factor(
    node: Expression,
    dtype: DType,
    arrays: Mapping[str, tuple[Array, ...]],
    boxes: Mapping[str, Box],
    extents: Mapping[str, Extent],
) -> _Factor | None:
    if not isinstance(node, Read) or node.dtype is not dtype:
        return None
    array = arrays[node.source][node.element]
    starts: list[slice] = []
    strides: dict[str, int] = {}
    for at, extent, stride in zip(node.point, boxes[node.source], reversed(array.strides), strict=True):
        form = linear(at)
        start = form.constant - extent.low
        for atom, number in form.terms:
            if not isinstance(atom, Variable) or atom.name not in extents:
                return None
            start += number * extents[atom.name].low
            strides[atom.name] = strides.get(atom.name, 0) + number * stride
        starts.append(slice(start, None))
    shape = [extents[name].size for name in strides]
    view = as_strided(array[tuple(reversed(starts))], shape, [*strides.values()], writeable=False)
    return _Factor(tuple(strides), view)


def _parts(axes: Axes, count: int) -> Iterator[tuple[tuple[slice, ...], Axes]]:
    """Of the longest axis: where its elements are in the result, and the axes then."""
    if not axes:
        yield (), axes
        return
    at = max(range(len(axes)), key=lambda place: axes[place][1].size)
    name, whole = axes[at]
    size = -(-whole.size // max(1, min(count, whole.size)))
    for begin in range(0, whole.size, size):
        part = Extent(whole.low + begin, min(size, whole.size - begin))
        place = (*(slice(None) for _ in range(at)), slice(begin, begin + part.size))
        yield place, (*axes[:at], (name, part), *axes[at + 1 :])


def _sums(left: _Factor, right: _Factor, axes: Axes, along: Axes) -> Array:
    names = [name for name, _ in (*axes, *along)]
    present = {*left.names, *right.names}
    sums = np.einsum(
        left.view,
        [names.index(name) for name in left.names],
        right.view,
        [names.index(name) for name in right.names],
        [number for number, (name, _) in enumerate(axes) if name in present],
        optimize=True,
    )
    times = math.prod(extent.size for name, extent in along if name not in present)
    shape = [extent.size if name in present else 1 for name, extent in axes]
    return np.asarray(sums).reshape(shape) * times
