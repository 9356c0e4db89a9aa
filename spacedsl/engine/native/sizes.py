"""Numbers of leaves in compiled code: what `engine/sizes.py` defines, many probes at once.

In: an instance, a vector, an order of decisions, a seed. Out: a count, or an estimate for each probe. Probe
number n of a seed is the same in any batch.
"""

from __future__ import annotations

import ctypes
from array import array
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from spacedsl.engine.native.descents import NativeOrdering
from spacedsl.engine.native.library import FAULT, UNCHANGED
from spacedsl.engine.native.propagation import NativePropagation

SCALE_BITS = 512


@dataclass(frozen=True, slots=True, eq=False)
class Probes:
    """Estimates, each `m * 2**(SCALE_BITS * scale)`: the numbers of large spaces are beyond a float."""

    m: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    scale: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))

    def __add__(self, more: Probes) -> Probes:
        return Probes(np.concatenate((self.m, more.m)), np.concatenate((self.scale, more.scale)))

    def __len__(self) -> int:
        return len(self.m)

    def exactly(self) -> list[int]:
        """As integers, exact below 2**53."""
        pairs = zip(self.m.tolist(), self.scale.tolist(), strict=True)
        return [int(m) << SCALE_BITS * scale for m, scale in pairs]


def count_leaves(
    propagation: NativePropagation, vector: array[int], ordering: NativeOrdering, most: int
) -> int | None:
    """All complete vectors; None where the tree has more than `most` nodes."""
    state, leaves = propagation.state(), ctypes.c_uint64()
    end = propagation.instance.library.functions.count_leaves(
        state.address,
        vector.buffer_info()[0],
        ctypes.byref(ordering.tables),
        most,
        ctypes.byref(leaves),
    )
    if end == FAULT:
        state.refuse()
    return None if end == UNCHANGED else leaves.value


def knuth_probes(
    propagation: NativePropagation,
    vector: array[int],
    ordering: NativeOrdering,
    *,
    seed: int,
    count: int,
    first: int = 0,
) -> Probes:
    """Probes `first` .. `first + count - 1`; 0 for a dead end."""
    state, found = propagation.state(), _room(count)
    end = propagation.instance.library.functions.knuth_probes(
        state.address,
        vector.buffer_info()[0],
        ctypes.byref(ordering.tables),
        seed,
        first,
        count,
        found.m.ctypes.data,
        found.scale.ctypes.data,
    )
    if end == FAULT:
        state.refuse()
    return found


def chen_probes(
    propagation: NativePropagation,
    vector: array[int],
    ordering: NativeOrdering,
    *,
    seed: int,
    count: int,
    most: int,
    first: int = 0,
) -> Probes:
    """The same; as many of them as expand no more than `most` nodes together."""
    state, found, done = propagation.state(), _room(count), ctypes.c_uint64()
    end = propagation.instance.library.functions.chen_probes(
        state.address,
        vector.buffer_info()[0],
        ctypes.byref(ordering.tables),
        seed,
        first,
        count,
        most,
        found.m.ctypes.data,
        found.scale.ctypes.data,
        ctypes.byref(done),
    )
    if end == FAULT:
        state.refuse()
    return Probes(found.m[: done.value], found.scale[: done.value])


def _room(count: int) -> Probes:
    return Probes(np.zeros(count), np.zeros(count, np.int32))
