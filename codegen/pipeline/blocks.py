"""What values of a pipeline are computed in: arrays, lanes, and what a block has found out already.

In: where boxes lie, and which loops there are. Out: places of elements. What is computed there is for
`values.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from spacedsl.codegen.pipeline.arithmetic import Value
from spacedsl.codegen.tree.expressions import Index
from spacedsl.codegen.tree.program import Let, Statement
from spacedsl.codegen.tree.ranges import Ranges
from spacedsl.kernels.pipeline.affine import Linear, remainder
from spacedsl.kernels.pipeline.algorithm import Variable

Point = Mapping[str, Linear]
"""By variable of a definition."""

LANE = "number of a lane"
"""A variable of positions; no name of a program."""


@dataclass(frozen=True, slots=True)
class Array:
    """Where the values of a stage, or of an input, lie."""

    tensors: tuple[str, ...]
    """One for each value."""
    origin: tuple[Linear, ...]
    """The point of the first element, the innermost dimension first."""
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    inner: int = 0
    """The dimension along which neighbours lie beside each other."""
    folded: int | None = None
    """The dimension of which a point lies where the one so many before it lay as there are."""
    begin: Linear = field(default=Linear(0))
    """Where the first element lies in each of its tensors."""
    room: int = 0
    """Elements of each of its tensors, where these are more than its own."""

    @property
    def span(self) -> int:
        """Elements of each of its tensors."""
        return self.room or math.prod(self.extents)

    def index(self, positions: Sequence[Linear]) -> Linear:
        """Of the element at a point."""
        offsets = (self.offset(dimension, position) for dimension, position in enumerate(positions))
        return sum(offsets, start=self.begin)

    def offset(self, dimension: int, position: Linear) -> Linear:
        """What a dimension adds to that. Along one with one point there is no other."""
        extent = self.extents[dimension]
        if extent == 1:
            return Linear(0)
        inside = position + self.origin[dimension] * -1
        return (remainder(inside, extent) if dimension == self.folded else inside) * self.strides[dimension]


@dataclass(frozen=True, slots=True)
class Lanes:
    variable: str
    """Along which each lane is one position further."""
    count: int


@dataclass(slots=True)
class Block:
    """Statements that are being made, and what they have found out already."""

    ranges: Ranges
    statements: list[Statement] = field(default_factory=list)
    found: dict[object, Value] = field(default_factory=dict)
    """Registers, by what they hold."""
    taken: dict[tuple[Value, int, int], tuple[Linear, ...]] = field(default_factory=dict)
    """Positions that integers are, held between two ends: one for each lane."""
    forms: dict[Linear, Linear] = field(default_factory=dict)
    """Positions, as simple as they can be said."""
    _in_lanes: dict[int, Ranges] = field(default_factory=dict)

    def in_lanes(self, lanes: Lanes) -> Ranges:
        """With the number of a lane as a variable."""
        if lanes.count not in self._in_lanes:
            self._in_lanes[lanes.count] = self.ranges.with_loop(LANE, Linear(0), Linear(lanes.count - 1))
        return self._in_lanes[lanes.count]

    def inner(self, ranges: Ranges) -> Block:
        """For statements inside of these."""
        return Block(ranges, [], dict(self.found), dict(self.taken))


def with_lets(lets: Iterable[Let], ranges: Ranges) -> Ranges:
    """What is known of variables, with these."""
    return reduce(lambda found, let: found.with_position(let.variable, let.position), lets, ranges)


def leading_to(lets: Iterable[Let], positions: Iterable[Linear]) -> tuple[Let, ...]:
    """Of these, each behind those that it is made of, the ones that positions are made of."""
    names = {name for position in positions for name in position.names}
    kept: list[Let] = []
    for let in reversed([*lets]):
        if let.variable in names:
            kept.append(let)
            names |= let.position.names
    return tuple(reversed(kept))


def index(form: Linear) -> Index:
    variables = tuple((atom.name, number) for atom, number in form.terms if isinstance(atom, Variable))
    others = tuple((atom, number) for atom, number in form.terms if not isinstance(atom, Variable))
    return Index(form.constant, variables, atoms=others)
