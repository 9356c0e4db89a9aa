"""What makes reductions slow: accumulations that wait for each other, and operands that fit no registers.

In: a reduction, then views of candidates. Out: nanoseconds. Both arguments look at one *sweep*: all terms
of the sums that are accumulated in registers at the same time. The free dimensions that are not unrolled
or vectors lie outside the reduced ones, because an accumulator is initialised before its first term and used
after its last; so sweeps follow each other, and each takes all terms of all its accumulators.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from spacedsl.kernels.device import CpuDevice
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.linalg.backbone import Accumulator, Dimension, Instruction, Value
from spacedsl.kernels.linalg.operations import Op
from spacedsl.search.bounds.certain import (
    LONGEST_UNROLLED,
    Alternatives,
    Footprint,
    Operation,
    distinct_indices,
    extent_of,
    reduced_loads,
    varying_indices,
)
from spacedsl.search.bounds.domains import Bits, View
from spacedsl.search.bounds.rates import Rates

WINDOW = 1024
"""More instructions than any processor looks ahead; and where sums are not tabled any more."""

Detours = Callable[[Instruction, Instruction], Bits]
"""By which something may come between a load and its user."""

Splits = Callable[[Instruction], Bits]
"""By which the copies of a reduction along reduced dimensions may have accumulators of their own."""

Additions = Callable[[Instruction], Bits]
"""By which memory may add up the parts of a reduction: then there are no sweeps."""

OTHER_REGISTERS = 32
"""Besides vector registers: general and mask registers could keep a value, too."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One way in which a reduction can be vectorised: lanes of sums side by side, or of terms."""

    sums: float
    """Vectors of sums."""
    terms: float
    """Vectors of terms, in each sum; 0 for sums that are too short to count."""
    accumulators: float
    """Most unrolled copies."""
    copies: tuple[int, ...]
    """For each load, most unrolled copies that share it."""
    widths: tuple[float, ...]
    """For each load, most vectors of the operand that one instruction loads: more than 1 through a copy."""
    split: float
    """Most registers in which terms of one sum are accumulated without waiting for each other."""
    speedup: float
    """By threads that share the sums out; 1 where they share the terms of each."""


@dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """A floating-point reduction that must be executed: `sums` sums of `terms` terms each."""

    instruction: Instruction
    sums: int
    terms: int
    loads: tuple[Instruction, ...]
    """Direct operands that differ in every term and come from memory."""
    is_fused: bool
    """It adds products that change with every term: built as a fused multiply-add, or split, as measured."""
    foreign_dims: tuple[tuple[Dimension, ...], ...]
    """For each load, the free dimensions of indices that it does not depend on: its value is used again."""
    detours: tuple[Bits, ...]
    """For each load, by which its elements may go through a copy, whose vectors are those of the load."""
    split: Bits
    """By which copies along reduced dimensions may have accumulators of their own."""
    added: Bits
    """By which memory may add up its parts."""

    @classmethod
    def of(
        cls,
        operation: Operation,
        footprints: Sequence[Footprint],
        detours: Detours,
        splits: Splits,
        additions: Additions,
    ) -> Reduction:
        instruction = operation.instruction
        terms = math.prod(
            logical.extent for logical in instruction.logical_dims if logical.dims[0].is_reduction
        )
        reduced = {dim.index for dim in instruction.reduced_dims}
        loads = reduced_loads(instruction, footprints)
        return cls(
            instruction,
            extent_of(instruction, varying_indices(instruction) - reduced),
            terms,
            loads,
            _adds_products(instruction),
            tuple(
                tuple(d for d in instruction.free_dims if d.index not in {g.index for g in load.logical_dims})
                for load in loads
            ),
            tuple(detours(load, instruction) for load in loads),
            splits(instruction),
            additions(instruction),
        )

    @property
    def are_disjoint(self) -> bool:
        """Whether no dimension shares the loads of two operands."""
        return len(set().union(*self.foreign_dims)) == sum(map(len, self.foreign_dims))

    def chain_ns(self, view: View) -> float:
        """Accumulations of one sum follow each other; only so many sums are under way at a time."""
        if view.may_be(self.added):
            return 0.0
        window = view.rates.device.window or WINDOW
        steps = (
            shape.sums * sum_steps(shape.terms, shape.accumulators, window) / shape.split / shape.speedup
            for shape in self.shapes(view)
        )
        return self.latency_ns(view.rates) * min(steps)

    def parts(self, view: View, vector: Dimension | None = None) -> int:
        """Most registers that take terms of one sum; none of the copies are along `vector`."""
        reduced = (d for d in self.instruction.reduced_dims if d is not vector)
        return view.copies(reduced) if view.may_be(self.split) else 1

    def latency_ns(self, rates: Rates) -> float:
        """From one term to the next."""
        return rates.latency_ns(self.instruction.dtype, is_fused=self.is_fused)

    def load_ns(self, view: View) -> float:
        """Every sweep loads its operands: registers keep few of them until the next."""
        if not self.loads or view.may_be(self.added):
            return 0.0
        kept = kept_values(view.rates.device)
        loads = min(
            shape.sums
            * max(0.0, shape.terms - kept * max(shape.widths))
            * loads_per_term(shape.copies, shape.widths, shape.accumulators, are_disjoint=self.are_disjoint)
            / shape.speedup
            for shape in self.shapes(view)
        )
        return loads / view.rates.most_loads(self.loads)

    def shapes(self, view: View) -> Iterator[Shape]:
        """One for each dimension that can be the vector: none of its iterations are copies then.

        Two where threads can share the terms of one sum: that is instead of sharing the sums out.
        """
        speedup, share = view.speedup(self.instruction.free_dims), view.speedup(self.instruction.reduced_dims)
        for vector in view.vectors(self.instruction.dims):
            lanes = 1 if vector is None else view.freedoms[vector].lanes
            is_reduced = vector is not None and vector.is_reduction
            sums = self.sums if is_reduced else self.sums / lanes
            terms = self.terms / lanes if is_reduced else self.terms
            accumulators = view.accumulators(self.instruction, vector)
            copies = tuple(view.copies(d for d in dims if d is not vector) for dims in self.foreign_dims)
            widths = tuple(self._widths(view, vector, lanes))
            split = self.parts(view, vector)
            for own, faster in {(float(terms), speedup), (terms / share, 1.0 if share > 1 else speedup)}:
                counted = own if own > LONGEST_UNROLLED else 0.0
                yield Shape(sums, counted, accumulators, copies, widths, split, faster)

    def _widths(self, view: View, vector: Dimension | None, lanes: int) -> Iterator[float]:
        """Of what lies side by side along a free dimension, a sweep uses as much as it has copies."""
        for load, foreign, bits in zip(self.loads, self.foreign_dims, self.detours, strict=True):
            along = 1 if vector in foreign else lanes
            most = 1
            for made, used in followers(load, self.instruction) if view.may_be(bits) else ():
                lanes_made = view.freedoms[made].lanes
                most = max(most, lanes_made if used.is_reduction else min(lanes_made, view.copies((used,))))
            yield max(1.0, most / along)


def reductions(
    alternatives: Sequence[Alternatives],
    footprints: Sequence[Footprint],
    detours: Detours,
    splits: Splits,
    additions: Additions,
) -> tuple[Reduction, ...]:
    """Those whose terms no compiler regroups, largest first. Of alternatives, none is certain by itself."""
    found = [
        Reduction.of(members[0], footprints, detours, splits, additions)
        for members in alternatives
        if len(members) == 1 and _is_ordered(members[0].instruction)
    ]
    return tuple(sorted(found, key=lambda r: -r.sums * r.terms))


def _adds_products(instruction: Instruction) -> bool:
    """Whether no product stays the same along a reduced index: hoisted, it would leave a plain addition."""
    if instruction.op is not Op.FMA:
        return False
    factors = [o.instruction for o in instruction.operands[:2] if isinstance(o, Value)]
    indices = {i for f in factors if f.access is not None for i in distinct_indices(f.access)}
    are_loads = len(factors) == 2 and all(f.op is Op.LOAD for f in factors)
    return are_loads and indices.issuperset(d.index for d in instruction.reduced_dims)


def _is_ordered(instruction: Instruction) -> bool:
    accumulates = instruction.op in (Op.ADD, Op.FMA) and isinstance(instruction.operands[-1], Accumulator)
    return accumulates and instruction.dtype is not DType.I32


def followers(made: Instruction, user: Instruction) -> tuple[tuple[Dimension, Dimension], ...]:
    """Pairs of a dimension of what makes a value and the one that follows it in the nest of a user."""
    values = (o for o in user.operands if isinstance(o, Value))
    return next((value.mapping for value in values if value.instruction is made), ())


def kept_values(device: CpuDevice) -> int:
    """That survive in registers from one sweep to the next."""
    return device.vector_registers + OTHER_REGISTERS


@functools.lru_cache(maxsize=4096)
def sum_steps(terms: float, most_accumulators: float, window: int) -> float:
    """Latencies that one sum costs at least, shared with the others of its sweep, at any number of them.

    With `a` accumulators, a sweep is `terms` steps of `a` accumulations. The next one starts when the
    processor, which looks `window` accumulations ahead, sees its first: all but the last window / a steps are
    then done. Or: the window reaches into so many sweeps, which are all that advance at the same time, and
    each is under way for `terms` latencies.
    """
    if not terms:
        return 0.0
    least = least_steps(terms, window)[int(min(most_accumulators, WINDOW)) - 1]
    # Both fall with more than 2 * WINDOW / LONGEST_UNROLLED accumulators.
    return min(least, steps(terms, most_accumulators, window))


@functools.lru_cache(maxsize=256)
def least_steps(terms: float, window: int) -> tuple[float, ...]:
    """The least cost of up to 1, 2, .. WINDOW accumulators."""
    return tuple(itertools.accumulate((steps(terms, a, window) for a in range(1, WINDOW + 1)), min))


def steps(terms: float, accumulators: float, window: int) -> float:
    """Of this number of accumulators. `window` neighbours lie in at most this many sweeps."""
    sweeps = math.ceil((window - 1) / (accumulators * terms)) + 1
    return max((terms - window / accumulators) / accumulators, terms / sweeps / accumulators)


@functools.lru_cache(maxsize=4096)
def loads_per_term(
    copies: tuple[int, ...], widths: tuple[float, ...], accumulators: float, *, are_disjoint: bool
) -> float:
    """Load instructions for one accumulation: an operand is shared by the copies that do not depend on it.

    `widths`: most operands that one instruction loads.

    Two operands that are shared along different dimensions divide the accumulators among them.
    """
    limited = [min(c, accumulators) for c in copies]
    if len(limited) == 2 and are_disjoint:
        (most, other), (wide, wider) = limited, widths
        return min(
            1 / (a * wide) + 1 / (min(other, accumulators // a) * wider) for a in range(1, int(most) + 1)
        )
    return sum(1 / (c * width) for c, width in zip(limited, widths, strict=True))
