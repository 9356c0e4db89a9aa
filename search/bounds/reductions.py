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
from collections.abc import Sequence
from dataclasses import dataclass

from spacedsl.kernels.device import CpuDevice
from spacedsl.kernels.linalg.backbone import Accumulator, Dimension, DType, Instruction, Op
from spacedsl.search.bounds.certain import Alternatives, Footprint, Operation, reduced_loads
from spacedsl.search.bounds.domains import View

WINDOW = 1024
"""More instructions than any processor looks ahead."""

LONGEST_UNROLLED = 512
"""Terms of a sum that a compiler might turn into straight-line code, where its scheduler could mix sweeps."""

OTHER_REGISTERS = 32
"""Besides vector registers: general and mask registers could keep a value, too."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One way in which a reduction can be vectorised: lanes of sweeps side by side, or of terms."""

    sums_lanes: int
    terms: float
    """Vectors of terms, in each sum."""


@dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """A floating-point reduction that must be executed: `sums` sums of `terms` terms each."""

    instruction: Instruction
    sums: int
    terms: int
    loads: tuple[Instruction, ...]
    """Direct operands that differ in every term and come from memory."""
    foreign_dims: tuple[tuple[Dimension, ...], ...]
    """For each load, the free dimensions of indices that it does not depend on: its value is used again."""

    @classmethod
    def of(cls, operation: Operation, footprints: Sequence[Footprint]) -> Reduction:
        instruction = operation.instruction
        terms = math.prod(
            logical.extent for logical in instruction.logical_dims if logical.dims[0].is_reduction
        )
        loads = reduced_loads(instruction, footprints)
        return cls(
            instruction,
            operation.iterations // terms,
            terms,
            loads,
            tuple(
                tuple(d for d in instruction.free_dims if d.index not in {g.index for g in load.logical_dims})
                for load in loads
            ),
        )

    def chain_ns(self, view: View) -> float:
        """Accumulations of one sum follow each other; only so many sums are under way at a time."""
        latency_ns = view.rates.latency_ns(self.instruction.dtype)
        accumulators = view.accumulators[self.instruction]
        sweeps_ns = (
            self.sums / shape.sums_lanes * sum_steps(shape.terms, accumulators)
            for shape in self._shapes(view)
        )
        return latency_ns * min(sweeps_ns) / view.speedup(self.instruction)

    @property
    def are_disjoint(self) -> bool:
        """Whether no dimension shares the loads of two operands."""
        return len(set().union(*self.foreign_dims)) == sum(map(len, self.foreign_dims))

    def load_ns(self, view: View) -> float:
        """Every sweep loads its operands: registers keep few of them until the next."""
        if not self.loads:
            return 0.0
        kept = kept_values(view.rates.device)
        slots = min(
            self.sums / shape.sums_lanes * max(0.0, shape.terms - kept) for shape in self._shapes(view)
        )
        per_term = loads_per_term(
            tuple(view.copies(dims) for dims in self.foreign_dims),
            view.accumulators[self.instruction],
            are_disjoint=self.are_disjoint,
        )
        rate = max(view.rates.most_instructions("load", load.dtype) for load in self.loads)
        return slots * per_term / (rate * view.speedup(self.instruction))

    def _shapes(self, view: View) -> tuple[Shape, ...]:
        """One of these needs least: more lanes never need more."""
        sums_lanes = view.lanes(self.instruction.free_dims)
        terms_lanes = view.lanes(self.instruction.reduced_dims)
        return (
            Shape(sums_lanes, self._terms(self.terms)),
            Shape(1, self._terms(self.terms / terms_lanes)),
        )

    @staticmethod
    def _terms(terms: float) -> float:
        return terms if terms > LONGEST_UNROLLED else 0.0


def reductions(
    alternatives: Sequence[Alternatives], footprints: Sequence[Footprint]
) -> tuple[Reduction, ...]:
    """Those whose terms no compiler regroups, largest first. Of alternatives, none is certain by itself."""
    found = [
        Reduction.of(members[0], footprints)
        for members in alternatives
        if len(members) == 1 and _is_ordered(members[0].instruction)
    ]
    return tuple(sorted(found, key=lambda r: -r.sums * r.terms))


def _is_ordered(instruction: Instruction) -> bool:
    accumulates = instruction.op in (Op.ADD, Op.FMA) and isinstance(instruction.operands[-1], Accumulator)
    return accumulates and instruction.dtype is not DType.I32


def kept_values(device: CpuDevice) -> int:
    """That survive in registers from one sweep to the next."""
    return device.vector_registers + OTHER_REGISTERS


@functools.lru_cache(maxsize=4096)
def sum_steps(terms: float, most_accumulators: int) -> float:
    """Latencies that one sum costs at least, shared with the others of its sweep, at any number of them.

    With `a` accumulators, a sweep is `terms` steps of `a` accumulations. The next one starts when the
    processor, which looks WINDOW instructions ahead, sees its first: all but the last WINDOW / a steps are
    then done. Or: the window reaches over at most WINDOW / (a * terms) + 2 sweeps, which are all that
    advance at the same time, and each is under way for `terms` latencies.
    """
    if not terms:
        return 0.0
    least = least_steps(terms)[min(most_accumulators, WINDOW) - 1]
    # Both fall with more than 2 * WINDOW / LONGEST_UNROLLED accumulators.
    return min(least, _steps(terms, most_accumulators))


@functools.lru_cache(maxsize=256)
def least_steps(terms: float) -> tuple[float, ...]:
    """The least cost of up to 1, 2, .. WINDOW accumulators."""
    return tuple(itertools.accumulate((_steps(terms, a) for a in range(1, WINDOW + 1)), min))


def _steps(terms: float, a: int) -> float:
    return max((terms - WINDOW / a) / a, terms / (WINDOW / (a * terms) + 2) / a)


@functools.lru_cache(maxsize=4096)
def loads_per_term(copies: tuple[int, ...], accumulators: int, *, are_disjoint: bool) -> float:
    """Load instructions for one accumulation: an operand is shared by the copies that do not depend on it.

    Two operands that are shared along different dimensions divide the accumulators among them.
    """
    limited = [min(c, accumulators) for c in copies]
    if len(limited) == 2 and are_disjoint:
        most, other = limited
        return min(1 / a + 1 / min(other, accumulators // a) for a in range(1, most + 1))
    return sum(1 / c for c in limited)
