"""Rollouts in compiled code, under a bound that is compiled, too: the interpreter is not asked in between.

In: a vector with its bound, an order of decisions, what candidates are worth, a seed. Out: where one rollout
ended. What a rollout is, `search/rollouts.py` says, which takes the same decisions in Python.
"""

from __future__ import annotations

import ctypes
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from spacedsl.engine.layout import INTEGER_WORDS, WORD_BITS
from spacedsl.engine.native.descents import NativeOrdering
from spacedsl.engine.native.library import FAULT, FoundTable, PartRow, StepRow, WorthTable
from spacedsl.engine.native.propagation import WORD, NativePropagation

_GIVEN_UP, _COMPLETE = 1, 3


@dataclass(frozen=True, slots=True)
class CompiledBound:
    """A bound in compiled code: addresses of a function, `Bounds` in `compiler/c/rollouts.h`, and its model.

    Without a function, a candidate has the bound of the one that it came from. Whoever made it keeps both.
    """

    function: int | None = None
    model: int | None = None


@dataclass(frozen=True, slots=True)
class Worth:
    """What candidates are worth, and how long a rollout goes on."""

    bound: CompiledBound
    cut_ns: float
    """The best time; infinite while there is none."""
    scale: float
    """Of bounds."""
    floor_ns: float
    """Added to bounds that are divided by."""
    every: int
    """Decisions from one bound to the next."""
    repairs: int
    """Dead ends before a rollout gives up."""


@dataclass(frozen=True, slots=True)
class FirstDecision:
    """By which a rollout begins: a cell, and what its values are parted into."""

    cell: int
    masks: Sequence[int]
    bounds_ns: Sequence[float | None]
    """Of each child that is known to be consistent."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """What one came to."""

    leaf: array[int] | None
    """The complete vector, if it came to one."""
    steps: tuple[tuple[int, int], ...]
    """Of it: each a cell and the values that it keeps."""
    bound_ns: float
    """Of it; infinite without one."""
    is_given_up: bool
    refused: int
    """Values that constraints refused."""
    least_excluded_ns: float
    """The least bound that the cut excluded; infinite: none."""


def rollout(
    propagation: NativePropagation,
    vector: array[int],
    bound_ns: float,
    first: FirstDecision,
    ordering: NativeOrdering,
    worth: Worth,
    seed: int,
) -> Rollout:
    """One rollout from a vector that is not complete."""
    state = propagation.state()
    leaf = array("Q", bytes(8 * len(vector)))
    steps = (StepRow * (ordering.tables.splits + 1))()
    found = FoundTable()
    parts = (PartRow * len(first.masks))()
    for part, mask, known_ns in zip(parts, first.masks, first.bounds_ns, strict=True):
        part.mask[:] = [mask >> WORD_BITS * word & WORD for word in range(INTEGER_WORDS)]
        part.bound_ns, part.is_known = known_ns or 0.0, known_ns is not None
    table = WorthTable(
        worth.bound.function,
        worth.bound.model,
        worth.cut_ns,
        worth.scale,
        worth.floor_ns,
        worth.every,
        worth.repairs,
    )
    end = propagation.instance.library.functions.rollout(
        state.address,
        vector.buffer_info()[0],
        ctypes.byref(ordering.tables),
        ctypes.byref(table),
        bound_ns,
        first.cell,
        len(first.masks),
        parts,
        seed,
        ctypes.byref(found),
        steps,
        leaf.buffer_info()[0],
    )
    if end == FAULT:
        state.refuse()
    is_complete = end == _COMPLETE
    return Rollout(
        leaf if is_complete else None,
        tuple((step.cell, _mask(step)) for step in steps[: found.steps]),
        found.bound_ns if is_complete else math.inf,
        end == _GIVEN_UP,
        found.refused,
        found.least_excluded_ns,
    )


def _mask(step: StepRow) -> int:
    return sum(word << WORD_BITS * place for place, word in enumerate(step.mask))
