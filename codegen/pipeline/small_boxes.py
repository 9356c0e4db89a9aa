"""Small boxes: all points of one are written out, and share what they read.

In: a box that is full, and away from edges. Out: statements, and what has to hold for them. Where each point
reads much, vectors of all rows are written out, and a loop goes along them. What is computed of other boxes
is for `bodies.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from spacedsl.codegen.pipeline.blocks import Lanes, Point
from spacedsl.codegen.pipeline.edges import count_reads
from spacedsl.codegen.pipeline.middles import between, conditions, strictest
from spacedsl.codegen.pipeline.points import Points
from spacedsl.codegen.tree.program import Let, Statement, Sweep
from spacedsl.codegen.tree.ranges import Ranges
from spacedsl.kernels.pipeline.affine import Linear, substituted, variable
from spacedsl.kernels.pipeline.backbone import MOST_UNROLLED

Ahead = tuple[Linear, ...]
"""Positions that are not negative where something holds."""

MOST_READ = 128
"""Vectors that are read by what is written out: of stencils of many points, few are enough."""


@dataclass(frozen=True, slots=True)
class SmallBoxes(Points):
    """Boxes of which all points may be written out."""

    @property
    def row_count(self) -> int:
        """At most."""
        return math.prod(self.spans[row].most for row in self.rows)

    def unrolled(self, dim: str, lanes: int, ranges: Ranges) -> tuple[Ahead, tuple[Statement, ...]] | None:
        """All points of a full box away from edges: what has to hold for it, and statements; None of a box
        that is not small.
        """
        length = self.spans[dim].most
        if length % lanes or not 1 < self.row_count * length // lanes <= MOST_UNROLLED:
            return None
        dims = (*self.rows, dim)
        names = {d: self.setting.fresh(f"{self.stage.name}_{d}") for d in dims}
        begins: dict[str, tuple[Linear, Linear]] = {}
        for d in dims:
            span = self.spans[d]
            end = span.first if span.is_full else span.last + Linear(1 - span.most)
            begins[d] = (span.first, end)
            ranges = ranges.with_loop(names[d], span.first, end)
        begins[dim] = between(*begins[dim], self.wanted(dim, names, ranges), names[dim])
        within = ranges.with_loop(names[dim], *begins[dim])
        statements = self.written_out(dim, lanes, names, within)
        for d in reversed(dims):
            first, last = begins[d]
            if first == last:
                statements = (Let(names[d], first), *statements)
            else:
                statements = (Sweep(names[d], first, last, self.spans[d].most, statements),)
        firsts = {names[d]: self.spans[d].first for d in dims}
        holds = [last + first * -1 for first, last in begins.values() if first != last]
        return tuple(substituted(position, firsts) for position in holds), statements

    def wanted(self, dim: str, names: Mapping[str, str], ranges: Ranges) -> list[Linear]:
        """What has to hold of where a box begins, lest an edge is in it, as far as that is not certain."""
        name, length = names[dim], self.spans[dim].most
        found = [e for row in self.beginnings(dim, names) for e in conditions(self, dim, row, ranges, name)]
        found += [substituted(e, {name: variable(name) + Linear(length - 1)}) for e in found]
        return [edge for edge in strictest(found) if not ranges.is_natural(edge)]

    def written_out(
        self, dim: str, lanes: int, names: Mapping[str, str], ranges: Ranges
    ) -> tuple[Statement, ...]:
        """All rows, as vectors: the whole length of them, or one part after the other."""
        length, begin = self.spans[dim].most, names[dim]
        part, name = self.together(length // lanes) * lanes if lanes > 1 else length, begin
        if part < length:
            name, last = self.setting.fresh(begin), variable(begin) + Linear(length - part)
            ranges = ranges.with_loop(name, variable(begin), last)
        rows = self.beginnings(dim, {**names, dim: name})
        points = [{**row, dim: row[dim] + Linear(n)} for row in rows for n in range(0, part, lanes)]
        statements = self.cells(points, Lanes(name, lanes) if lanes > 1 else None, ranges)
        return statements if part == length else (Sweep(name, variable(begin), last, part, statements),)

    def beginnings(self, dim: str, names: Mapping[str, str]) -> list[Point]:
        """The first points of all rows, by the variables of the first one of the box."""
        places = product(*(range(self.spans[d].most) for d in self.rows))
        first = {d: variable(name) for d, name in names.items()}
        return [
            {**first, **{d: first[d] + Linear(n) for d, n in zip(self.rows, at, strict=True)}}
            for at in places
        ]

    def together(self, vectors: int) -> int:
        """How many vectors of each row are written out: all, or a part, so that not too much is read. Unlike
        points, vectors that lie beside each other have nothing that they could share.
        """
        reads = self.row_count * max(1, count_reads(self.step.definition, self.setting.inlined))
        parts = (n for n in range(vectors, 0, -1) if vectors % n == 0)
        return next((n for n in parts if n * reads <= MOST_READ), 1)
