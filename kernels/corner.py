"""A kernel on a corner of its arrays: indices end early, and every stride stays as it is.

In: a kernel file, and which extents are on offer for its indices. Out: extents for all of them, and the same
computation on the elements that it then touches. Its arrays begin where those of the kernel do, an element
lies where it lay, and what is left out are gaps between rows. A constant of the computation that stands for
an extent keeps its value. No file could say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from spacedsl.kernels.computation import Computation, Padding
from spacedsl.kernels.expression import Read, walk
from spacedsl.kernels.kernel_file import KernelFile
from spacedsl.kernels.linalg.build import build
from spacedsl.kernels.linalg.tiling import Tiling
from spacedsl.kernels.tensors import Tensor

Extents = Mapping[str, int]
"""Of indices."""


def enclosing(computation: Computation, least: Callable[[str, int], int]) -> dict[str, int]:
    """The smallest extent on offer for every index such that what is read has been written.

    `least(index, n)` is the smallest on offer that is at least n, of which there is one up to the extent that
    the computation has.
    """
    extents = {index: least(index, 1) for index in computation.extents}
    while True:
        ends = _ends(computation, extents)
        grown = dict(extents)
        for tensor, indices in _writers(computation):
            for index, end in zip(indices, ends.get(tensor, ()), strict=False):
                grown[index] = max(grown[index], least(index, end))
        if grown == extents:
            return extents
        extents = grown


def corner(kernel: KernelFile, extents: Extents) -> KernelFile:
    """The kernel with these extents, each at most its own. Indices have the levels that they have."""
    whole = kernel.backbone
    shapes = _ends(kernel.built, extents)
    shapes |= {tensor: tuple(extents[i] for i in indices) for tensor, indices in _writers(kernel.built)}

    def cut(tensor: Tensor) -> Tensor:
        return replace(tensor, shape=shapes[tensor.name])

    def smaller(computation: Computation) -> Computation:
        return replace(
            computation,
            extents=dict(extents),
            intermediates=tuple(map(cut, computation.intermediates)),
            paddings=tuple(_padding(p, cut(p.tensor)) for p in computation.paddings),
        )

    built = smaller(kernel.built)
    tilings = {
        logical.index: Tiling(tuple(d.possible_sizes for d in logical.dims), logical.is_ragged)
        for logical in whole.logical_dims
    }
    tensors = tuple(map(cut, whole.tensors))
    backbone = build(whole.name, built, tensors, whole.parameters, tilings)
    return replace(kernel, backbone=backbone, computation=smaller(kernel.computation), built=built)


def _padding(padding: Padding, tensor: Tensor) -> Padding:
    shape = tuple(n + 2 * zeros for n, zeros in zip(tensor.shape, tensor.pad, strict=True))
    return replace(padding, tensor=tensor, padded=replace(padding.padded, shape=shape))


def _writers(computation: Computation) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What is written or copied, and the index that runs over each of its dimensions."""
    yield from ((line.target.tensor, line.target.indices) for line in computation.assignments)
    yield from ((padding.tensor.name, padding.indices) for padding in computation.paddings)


def _ends(computation: Computation, extents: Extents) -> dict[str, tuple[int, ...]]:
    """Of each tensor that is read, how many elements there are in each dimension, without zeros around."""
    pads = {padding.tensor.name: padding.tensor.pad for padding in computation.paddings}
    reads = (node for line in computation.assignments for node in walk(line.value) if isinstance(node, Read))
    found: dict[str, tuple[int, ...]] = {}
    for read in reads:
        pad = () if read.is_bare else pads.get(read.tensor, ())
        lasts = (
            p.constant + sum(max(0, n * (extents[index] - 1)) for index, n in p.terms) for p in read.positions
        )
        ends = tuple(1 + last - (pad[n] if pad else 0) for n, last in enumerate(lasts))
        found[read.tensor] = tuple(map(max, found.get(read.tensor, ends), ends))
    return found
