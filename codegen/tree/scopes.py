"""What is visible at a place of a program tree: loops, variables of positions, registers, memory.

In: the statements around the place, one by one. Out: a `Scope` for what is inside of each. Whether a
statement may stand there is for `verify.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from spacedsl.codegen.tree.expressions import WARP, Position, Type
from spacedsl.codegen.tree.program import Coordinate, Grid, Loop, ParallelLoop, PerThread, Span
from spacedsl.codegen.tree.ranges import Ranges
from spacedsl.codegen.tree.residues import Residue, Residues
from spacedsl.kernels.pipeline.affine import variable
from spacedsl.kernels.tensors import Tensor


@dataclass(frozen=True, slots=True)
class Scope:
    """Loops with their iterations, registers with their types."""

    loops: Mapping[str, range] = field(default_factory=dict)
    registers: dict[str, Type] = field(default_factory=dict)
    parallel: tuple[str, ...] = ()
    """The variables of parallel loops around it."""
    private: Mapping[str, Tensor] = field(default_factory=dict)
    """Arrays that each thread has of its own, or each block."""
    ranges: Ranges = field(default_factory=Ranges)
    """Of all loops, and of other variables of positions."""
    residues: Residues = field(default_factory=dict)
    """Of variables of positions, in a grid."""
    is_counted: bool = True
    """Whether it is known how often a statement is done: loops alone say so."""
    threads: Mapping[str, Coordinate] = field(default_factory=dict)
    """Coordinates of the threads of a grid, which are loops, too."""
    blocks: tuple[str, ...] = ()
    """Coordinates of the blocks of a grid, which are loops, too."""
    grid: Grid | None = None
    spans: tuple[Span, ...] = ()
    """Of the threads of a block, which ones come here."""
    part: PerThread | None = None
    """Where each of some threads is by itself."""
    around: tuple[str, ...] = ()
    """The loops around that, which are at one iteration for all threads of a block."""
    moving: frozenset[str] = frozenset()
    """Variables that are not the same for all threads of a block."""
    is_together: bool = True
    """Whether all threads of a block come here, or none."""
    is_converged: bool = True
    """The same of those that are by themselves."""

    @property
    def has_whole_warps(self) -> bool:
        """Whether the threads of a block are multiples of a warp."""
        return self.grid is not None and self.grid.threads % WARP == 0

    def is_shared(self, tensor: str) -> bool:
        """Whether it lies in memory that the threads of a block share."""
        return self.grid is not None and any(t.name == tensor for t in self.grid.shared)

    def has_neighbours(self, count: int) -> bool:
        """Whether so many threads of a warp come here together, or none."""
        if self.part is None:
            return bool(self.threads) and not self.spans
        return self.is_converged and count & count - 1 == 0 and self.part.threads % count == 0

    def is_first(self, coordinate: Coordinate) -> bool:
        """Whether none but the first iteration comes here."""
        return self.ranges.greatest(variable(coordinate.variable)) == 0

    @classmethod
    def of_grid(cls, grid: Grid) -> Scope:
        loops = {c.variable: range(c.extent) for c in grid.coordinates}
        threads = {c.variable: c for c in grid.coordinates if not c.is_block}
        return cls(
            loops,
            private={t.name: t for t in (*grid.shared, *grid.private)},
            ranges=_iterations(loops),
            threads=threads,
            blocks=tuple(c.variable for c in grid.coordinates if c.is_block),
            grid=grid,
            moving=frozenset(threads),
        )

    def inside(self, loop: Loop | ParallelLoop) -> Scope:
        if isinstance(loop, ParallelLoop):
            loops = {**self.loops, loop.variable: range(loop.extent)}
            registers = {p.register.name: p.register.type for p in loop.combined}
            own = {**self.private, **{t.name: t for t in loop.own}}
            # Threads see no variables but those of loops that are shared out.
            return Scope(loops, registers, (*self.parallel, loop.variable), own, _iterations(loops))
        return self.where(loop.variable, range(loop.first, loop.extent))

    def by_itself(self, part: PerThread) -> Scope:
        """Each of these threads, with registers of its own."""
        ranges, around = self.ranges, tuple(name for name in self.ranges.loops if name not in self.moving)
        for c in part.coordinates:
            ranges = ranges.with_loop(c.variable, Position(0), Position(c.extent - 1))
        return replace(
            self, registers={}, ranges=ranges, part=part, around=around, is_together=False, is_counted=False,
            moving=self.moving.union(c.variable for c in part.coordinates),
        )  # fmt: skip

    def at_times(self, ranges: Ranges, *said: Position) -> Scope:
        """What is done as often as positions say."""
        is_same = not any(map(self.moves, said))
        return replace(
            self, registers=dict(self.registers), ranges=ranges, is_counted=False,
            is_together=self.is_together and is_same, is_converged=self.is_converged and is_same,
        )  # fmt: skip

    def up_to(self, first: Position, last: Position) -> Scope:
        """Where a sweep between them has an iteration: a coordinate that it begins at is before its end."""
        for c in () if self.part is None or last.terms else self.part.coordinates:
            if first == variable(c.variable):
                end = Position(min(last.constant, c.extent - 1))
                return replace(self, ranges=self.ranges.with_loop(c.variable, Position(0), end))
        return self

    def moves(self, position: Position) -> bool:
        """Whether it is not the same for all threads of a block."""
        return not self.moving.isdisjoint(position.names)

    def with_moving(self, variable: str, is_moving: bool) -> Scope:
        return replace(self, moving=self.moving | {variable}) if is_moving else self

    def with_residue(self, variable: str, residue: Residue) -> Scope:
        return replace(self, residues={**self.residues, variable: residue})

    def where(self, variable: str, iterations: range) -> Scope:
        """Iterations of a loop, or some of those of one around this place."""
        ends = Position(iterations.start), Position(iterations.stop - 1)
        ranges = self.ranges.with_loop(variable, *ends)
        loops = {**self.loops, variable: iterations}
        return replace(self, loops=loops, registers=dict(self.registers), ranges=ranges)

    def within(self, spans: Sequence[Span]) -> Scope:
        """Some of the threads of a block. What they assign is visible around them."""
        loops, ranges = dict(self.loops), self.ranges
        for low, high, period in spans:
            for name, coordinate in self.threads.items():
                if coordinate.stride * coordinate.extent == period:
                    numbers = range(low // coordinate.stride, -(-high // coordinate.stride))
                    loops[name] = numbers
                    ranges = ranges.with_loop(name, Position(numbers.start), Position(numbers.stop - 1))
        return replace(self, loops=loops, ranges=ranges, spans=(*self.spans, *spans))


def _iterations(loops: Mapping[str, range]) -> Ranges:
    ranges = Ranges()
    for name, values in loops.items():
        ranges = ranges.with_loop(name, Position(values.start), Position(values.stop - 1))
    return ranges
