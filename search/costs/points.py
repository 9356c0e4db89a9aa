"""What a point of a step takes to compute, with all that is inlined in it.

In: a step, what is inlined, and which points are computed together. Out: a `Total`: instructions, and reads
of what is stored. What two of these points need is computed once, and loaded once, as code generation does it
(`codegen/pipeline/values.py`): inlined stages are followed to where they read, and equal positions merged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from types import MappingProxyType

from spacedsl.kernels.pipeline.affine import Linear, fixed, substituted, variable
from spacedsl.kernels.pipeline.backbone import Step
from spacedsl.kernels.pipeline.lanes import Layouts, is_read_twice, is_woven
from spacedsl.kernels.pipeline.reductions import turns
from spacedsl.search.costs.work import Moving, Pattern, Work, pattern_of, work_of

REMEMBERED = 20_000
"""Totals that are not found out again."""

MOST_POINTS = 2000
"""Of inlined stages together, beyond which no more are looked for: others count as those that were found."""

Rows = tuple[tuple[str, int], ...]
"""Dimensions, and so many neighbours along each that are computed together."""

BY_VALUES = variable("what values say")
"""A position that no loop leads to."""

Point = Mapping[str, Linear]


@dataclass(frozen=True, slots=True)
class Access:
    """Reads of one array that move alike: along which dimensions of the step, and how for neighbours."""

    source: str
    dims: frozenset[str]
    pattern: Pattern
    nbytes: int
    is_read_twice: bool = False
    """By two neighbours along a row."""


@dataclass(slots=True)
class Total:
    """Of one point, with all that is inlined."""

    vector: float = 0.0
    products: float = 0.0
    scalar: float = 0.0
    widest: int = 1
    accesses: Counter[Access] = field(default_factory=Counter)
    """How many of each, on average."""

    def add(self, work: Work, times: float) -> None:
        self.vector += work.vector * times
        self.products += work.products * times
        self.scalar += work.scalar * times
        self.widest = max(self.widest, work.widest)


class Points:
    """Of the steps of a pipeline."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.work = {step: work_of(step) for step in steps}
        self.place = {step: place for place, step in enumerate(steps)}
        self.final = {step.stage.name: step for step in steps}
        self._known: dict[object, Total] = {}
        self._reads: dict[tuple[Step, frozenset[Step]], frozenset[str]] = {}

    def total(
        self,
        step: Step,
        inlined: frozenset[Step],
        along: str | None,
        rows: Rows = (),
        layouts: Layouts = MappingProxyType({}),
    ) -> Total:
        """`inlined`: all that is computed where the step reads it. `along`: the dimension of the step along
        which neighbours are computed together. `rows`: points that share what they need.
        """
        read = frozenset(layouts.items())
        if read:
            names = self.read(step, inlined)
            read = frozenset(each for each in read if each[0] in names)
        key = step, inlined, along, rows, read
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            known = self._known[key] = _Finding(self, step, inlined, along, layouts).total(rows)
        return known

    def read(self, step: Step, inlined: frozenset[Step]) -> frozenset[str]:
        """The stages and inputs that it reads, or what is inlined in it."""
        known = self._reads.get((step, inlined))
        if known is None:
            parts = (step, *(part for last in inlined for part in steps_of(last)))
            found = (read.source for part in parts for read in self.work[part].reads)
            known = self._reads[step, inlined] = frozenset(found)
        return known


@dataclass(frozen=True, slots=True)
class _Finding:
    points: Points
    step: Step
    inlined: frozenset[Step]
    along: str | None
    layouts: Layouts

    def total(self, rows: Rows) -> Total:
        starts: list[Point] = [
            {dim: variable(dim) + Linear(n) for (dim, _), n in zip(rows, at, strict=True)}
            for at in product(*(range(count) for _, count in rows))
        ]
        found, are_woven = self.found(starts)
        if self.step.update is None and are_woven and self.along is not None:
            even = variable(self.along) * 2
            found, _ = self.found([{**s, self.along: even + Linear(n)} for s in starts for n in (0, 1)])
            found.vector += 1
        return found

    def found(self, starts: Sequence[Point]) -> tuple[Total, bool]:
        """For a point of these, on average; and whether even and odd ones are better computed apart."""
        share, step = 1 / len(starts), self.step
        total, needed, loaded = Total(), dict[Step, dict[object, Point]](), dict[object, Access]()
        is_range = self.along in step.dims and self.along not in step.variables
        own = work_of(step, self.along) if is_range else self.points.work[step]
        for start in starts:
            total.add(own, share)
            self.read(step, start, needed, loaded)
        count = 0
        # What reads comes behind what it reads.
        while needed:
            source = max(needed, key=self.points.place.__getitem__)
            for point in needed.pop(source).values():
                count += 1
                for part in steps_of(source):
                    work = self.points.work[part]
                    total.add(work, work.turns * share)
                    for turn in turns(part.definition) if count <= MOST_POINTS else ():
                        self.read(part, {**point, **fixed(turn)}, needed, loaded)
        for access in loaded.values():
            total.accesses[access] += share  # type: ignore[assignment]
        moving = Counter(access.is_read_twice for access in loaded.values() if self.along in access.dims)
        return total, is_woven(moving[True], moving[False])

    def read(
        self,
        part: Step,
        point: Point,
        needed: dict[Step, dict[object, Point]],
        loaded: dict[object, Access],
    ) -> None:
        """What a part of the step reads at a point: of stages that are inlined, more points; else, loads."""
        for number, read in enumerate(self.points.work[part].reads):
            if part is not self.step and read.source == part.stage.name:
                # What an inlined accumulation goes on with is in a register.
                continue
            positions = tuple(None if form is None else substituted(form, point) for form in read.forms)
            key: object = (read.source, positions)
            if None in positions:
                key = (part, number, tuple(sorted(point.items(), key=repr)))
            source = self.points.final.get(read.source)
            if source in self.inlined and source is not None and read.source != self.step.stage.name:
                there = dict(zip(source.stage.variables, positions, strict=True))
                needed.setdefault(source, {}).setdefault(
                    key, {v: BY_VALUES if p is None else p for v, p in there.items()}
                )
            elif key not in loaded:
                loaded[key] = self.access(read, positions, point)

    def access(self, read: Moving, positions: Sequence[Linear | None], point: Point) -> Access:
        moved, known = [], []
        for own, form in zip(read.moved, positions, strict=True):
            is_known = form is not None and BY_VALUES.names.isdisjoint(form.names)
            known.append(form if is_known else None)
            # Where values say it, whatever these move along.
            names = (
                form.names if form is not None else frozenset[str]().union(*(_names(v, point) for v in own))
            )
            moved.append(names & frozenset(self.step.dims))
        inner, along = self.layouts.get(read.source, 0), self.along
        others = (*moved[:inner], *moved[inner + 1 :])
        twice = along is not None and bool(known) and is_read_twice(known[inner], others, along)
        dims, pattern = frozenset[str]().union(*moved), pattern_of(known, moved, inner, along)
        return Access(read.source, dims, pattern, read.nbytes, twice)


def _names(name: str, point: Point) -> frozenset[str]:
    return point[name].names if name in point else frozenset((name,))


def steps_of(last: Step) -> Iterator[Step]:
    """All steps of a stage, of which this is the last one."""
    step: Step | None = last
    while step is not None:
        yield step
        step = step.before
