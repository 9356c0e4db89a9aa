"""Positions in CUDA C++: how wide their integers are, and the functions that they call.

In: a verified `Program` of grids. Out: the type of its coordinates, loops and positions, so wide that no sum
on the way to one overflows; and text. Where they stand is for `printer.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spacedsl.codegen.c.positions import is_called
from spacedsl.codegen.cuda.functions import INLINE
from spacedsl.codegen.tree.expressions import Position
from spacedsl.codegen.tree.parts import blocks, index_bits, positions_of, statements
from spacedsl.codegen.tree.program import Grid, Let, PerThread, Program, Statement, Sweep, Take
from spacedsl.codegen.tree.ranges import Ranges
from spacedsl.kernels.pipeline.affine import Atom, Extreme, Opaque, Quotient, Remainder
from spacedsl.kernels.pipeline.algorithm import Variable


def index_type(program: Program) -> str:
    """Wide enough for any element, and for all that positions are made of.

    Without positions, indices are shown to be narrow enough by `verify.py`.
    """
    grids = (s for s in program.body if isinstance(s, Grid))
    moved = [g for g in grids if any(isinstance(s, PerThread) for s in statements(g.body))]
    # What ranges say takes long to find out; what the parts of a sum are at most is nearly always enough.
    is_narrow = index_bits(program) == 32 and any(
        all(most < 1 << 31 for grid in moved for most in _grid(grid, ranges)) for ranges in (None, Ranges())
    )
    return "int" if is_narrow else "long long"


def position_functions(body: Sequence[Statement], index: str) -> str:
    """What these statements call; empty for nothing."""
    return _FUNCTIONS.format(inline=INLINE, index=index) if is_called(body) else ""


_FUNCTIONS = """\
// Positions: quotients are rounded down, remainders are not negative.
{inline} {index} position_quotient({index} a, {index} b) {{ return a / b - (a % b < 0); }}
{inline} {index} position_remainder({index} a, {index} b) {{ return a % b + (a % b < 0 ? b : 0); }}
{inline} {index} position_min({index} a, {index} b) {{ return a < b ? a : b; }}
{inline} {index} position_max({index} a, {index} b) {{ return a > b ? a : b; }}
{inline} {index} position_held(long long a, long long low, long long high) {{
  return a < low ? low : a > high ? high : a;
}}"""


@dataclass(frozen=True, slots=True)
class _Sizes:
    """How far variables are from 0 at most, by their parts, and by ranges where these are wanted."""

    ranges: Ranges | None
    known: dict[str, int]

    def of(self, position: Position) -> int:
        return abs(position.constant) + sum(abs(n) * self.of_atom(atom) for atom, n in position.terms)

    def of_atom(self, atom: Atom) -> int:
        match atom:
            case Variable(name):
                return self.known[name]
            case Quotient(dividend, divisor) | Remainder(dividend, divisor):
                return max(self.of(dividend), divisor)
            case Extreme(_, left, right):
                return max(self.of(left), self.of(right))
            case Opaque():
                raise AssertionError(f"{atom} is no part of a verified program")

    def with_loop(self, name: str, first: Position, last: Position) -> _Sizes:
        ranges = self.ranges and self.ranges.with_loop(name, first, last)
        return _Sizes(ranges, {**self.known, name: max(self.end(first, ranges), self.end(last, ranges))})

    def with_position(self, name: str, position: Position) -> _Sizes:
        ranges = self.ranges and self.ranges.with_position(name, position)
        return _Sizes(ranges, {**self.known, name: self.end(position, ranges)})

    def end(self, position: Position, ranges: Ranges | None) -> int:
        """By what is known of a position, or of its parts."""
        ends = (ranges.least(position), ranges.greatest(position)) if ranges else ()
        known = [abs(end) for end in ends if end is not None]
        return min(self.of(position), max(known)) if len(known) == 2 else self.of(position)


def _grid(grid: Grid, ranges: Ranges | None) -> Iterator[int]:
    sizes = _Sizes(ranges, {})
    for c in grid.coordinates:
        sizes = sizes.with_loop(c.variable, Position(0), Position(c.extent - 1))
    return _sizes(grid.body, sizes)


def _sizes(body: Sequence[Statement], sizes: _Sizes) -> Iterator[int]:
    """Of all positions in these statements, and of what a loop ends at."""
    for statement in body:
        yield from map(sizes.of, positions_of(statement))
        inside = sizes
        match statement:
            case Let(variable, position):
                sizes = sizes.with_position(variable, position)
            case Take(variable, _, low, high):
                sizes = sizes.with_loop(variable, Position(low), Position(high))
            case Sweep(variable, first, last, step):
                inside = sizes.with_loop(variable, first, last)
                yield inside.known[variable] + step
            case PerThread(coordinates):
                for c in coordinates:
                    inside = inside.with_loop(c.variable, Position(0), Position(c.extent - 1))
        for block in blocks(statement):
            yield from _sizes(block, inside)
