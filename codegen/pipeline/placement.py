"""Where the boxes of a schedule begin and end: loops and variables around each body.

In: the nests of a schedule, and what is needed of each stage. Out: the same nests with, at each level, the
first and the last point of each box along each dimension, as positions over loops around it. What is computed
is just what is needed, once for each box: the last tile of a row is as long as what is left, and a box has at
most as many points as the space says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Literal

from spacedsl.codegen.pipeline.schedule import Decisions, Level, Nest
from spacedsl.codegen.program import Let
from spacedsl.codegen.ranges import Ranges, simplified
from spacedsl.kernels.pipeline.affine import (
    Atom,
    Extreme,
    Linear,
    Opaque,
    Quotient,
    Remainder,
    extreme,
    linear,
    quotient,
    variable,
)
from spacedsl.kernels.pipeline.algorithm import Variable, reads
from spacedsl.kernels.pipeline.backbone import Box, SlotName, Step
from spacedsl.kernels.pipeline.sites import Sites


@dataclass(frozen=True, slots=True)
class Span:
    """The points from `first` to `last`, both of which belong to it."""

    first: Linear
    last: Linear
    most: int
    """Points that there are at most."""
    is_full: bool
    """Whether there are always so many."""


Spans = Mapping[str, Span]
"""By dimension."""


Needed = Mapping[Step, Spans]
"""Of steps, in an iteration of loops."""


@dataclass(frozen=True, slots=True)
class PlacedLoop:
    """`variable` goes from `first` by the size of a tile, as long as it is at most `last`."""

    variable: str
    first: Linear
    last: Linear
    step: int
    trips: int
    """At most."""


@dataclass(frozen=True, slots=True)
class PlacedLevel:
    """Loops, outermost first; then, in each iteration, variables; then guests."""

    slot: SlotName
    loops: tuple[PlacedLoop, ...]
    lets: tuple[Let, ...]
    needed: Needed
    """In an iteration: of the step itself, and of all that are computed inside of it."""
    guests: tuple[PlacedNest, ...]


@dataclass(frozen=True, slots=True)
class PlacedNest:
    step: Step
    spans: Spans
    """Of all that it computes at its site."""
    levels: tuple[PlacedLevel, ...]

    @property
    def body(self) -> Spans:
        """What is computed without loops of a level."""
        return self.levels[-1].needed[self.step] if self.levels else self.spans

    @property
    def variables(self) -> Iterator[str]:
        """Of its loops and levels, and of those inside of it."""
        for level in self.levels:
            yield from (loop.variable for loop in level.loops)
            yield from (let.variable for let in level.lets)
            for guest in level.guests:
                yield from guest.variables


@dataclass(frozen=True, slots=True)
class Placement:
    needed: Needed
    """Of all steps, by the whole program."""
    nests: tuple[PlacedNest, ...]


def place(
    nests: Sequence[Nest],
    steps: Sequence[Step],
    decisions: Decisions,
    fresh: Callable[[str], str],
    is_shifted: Callable[[Step, SlotName], bool] = lambda step, slot: False,
) -> Placement:
    """`nests` are the schedule of the steps by these decisions; `fresh` gives names to variables.

    `is_shifted` says of which loops the last tile begins earlier, where it would be shorter than others.
    """
    placer = _Placer(Sites(steps, decisions.site), decisions, fresh, is_shifted)
    whole = {step: {box.dim: placer.whole(box) for box in step.slots[0].boxes} for step in placer.sites.steps}
    return Placement(whole, tuple(placer.nest(nest, whole, Ranges()) for nest in nests))


@dataclass(slots=True)
class _Names:
    """The variables of a level, and what is known of them."""

    ranges: Ranges
    lets: list[Let] = field(default_factory=list)

    def named(self, wanted: str, position: Linear, fresh: Callable[[str], str]) -> Linear:
        """The position, by a name where it is more than a variable and a number."""
        if not position.terms or (
            [*position.terms] == [(position.terms[0][0], 1)] and isinstance(position.terms[0][0], Variable)
        ):
            return position
        let = Let(fresh(wanted), position)
        self.lets.append(let)
        self.ranges = self.ranges.with_position(let.variable, position)
        return variable(let.variable)


@dataclass(frozen=True, slots=True)
class _Placer:
    sites: Sites
    decisions: Decisions
    fresh: Callable[[str], str]
    is_shifted: Callable[[Step, SlotName], bool]

    # ---- Loops -------------------------------------------------------------------------------------------

    def nest(self, nest: Nest, around: Needed, ranges: Ranges) -> PlacedNest:
        """`around`: what is needed of all steps in an iteration of the loops around it."""
        spans = around[nest.step]
        levels: list[PlacedLevel] = []
        for level in nest.levels:
            placed, ranges = self.level(nest.step, level, around, ranges)
            levels.append(placed)
            around = placed.needed
        return PlacedNest(nest.step, spans, tuple(levels))

    def level(self, step: Step, level: Level, around: Needed, ranges: Ranges) -> tuple[PlacedLevel, Ranges]:
        """The level, and what is known of the variables in an iteration of it."""
        loops = []
        inner = dict(around[step])
        for loop in level.loops:
            outer, name = inner[loop.dim], self.fresh(f"{_spelled(step)}_{loop.dim}")
            is_full = outer.is_full and (outer.most % loop.size == 0 or self.is_shifted(step, level.slot))
            final = outer.last + Linear(1 - loop.size) if is_full else outer.last
            loops.append(PlacedLoop(name, outer.first, final, loop.size, -(-outer.most // loop.size)))
            ranges = ranges.with_loop(name, outer.first, final)
            last = variable(name) + Linear(loop.size - 1)
            if not is_full:
                last = extreme("min", last, outer.last)
            inner[loop.dim] = Span(variable(name), last, loop.size, is_full)
        names = _Names(ranges)
        needed = self.needed(step, level.slot, inner, names)
        guests = tuple(self.nest(guest, needed, names.ranges) for guest in level.guests)
        return PlacedLevel(level.slot, tuple(loops), tuple(names.lets), needed, guests), names.ranges

    # ---- What is needed ----------------------------------------------------------------------------------

    def needed(self, owner: Step, slot: SlotName, spans: Spans, names: _Names) -> Needed:
        """Of all steps that share a slot, in an iteration of the loops that its owner has there.

        Their ends become variables, so that each is computed once.
        """
        found: dict[Step, Spans] = {owner: self.named(owner, spans, names)}
        for step in reversed(self.sites.steps):
            if not self.sites.shares(step, slot) or self.sites.owner(step, slot) is not owner:
                continue
            readers = {reader: found[reader] for reader in step.readers if reader in found}
            # What is inlined elsewhere alone is not needed here.
            if readers:
                spans = {dim: self.span(step, dim, slot, readers, names.ranges) for dim in step.dims}
                found[step] = self.named(step, spans, names)
        return found

    def named(self, step: Step, spans: Spans, names: _Names) -> Spans:
        found = {}
        for dim, span in spans.items():
            name = f"{_spelled(step)}_{dim}"
            first = names.named(f"{name}_first", span.first, self.fresh)
            last = first + Linear(span.most - 1)
            if not span.is_full:
                last = names.named(f"{name}_last", span.last, self.fresh)
            found[dim] = Span(first, last, span.most, span.is_full)
        return found

    def span(self, step: Step, dim: str, slot: SlotName, readers: Needed, ranges: Ranges) -> Span:
        """The hull of what all take that read it."""
        box = step.box(dim, slot)
        if not any(read.terms for read in box.reads):
            return self.whole(box)
        stage = step.stage
        firsts: list[Linear] = []
        lasts: list[Linear] = []
        for reader, spans in readers.items():
            if reader.before is step:
                firsts.append(spans[dim].first)
                lasts.append(spans[dim].last)
                continue
            at = stage.variables.index(dim)
            forms = [linear(r.point[at]) for r in reads(reader.definition) if r.source == stage.name]
            firsts += [_end(form, spans, is_last=False) for form in forms]
            lasts += [_end(form, spans, is_last=True) for form in forms]
        whole = self.whole(step.box(dim, "ROOT"))
        first = _outermost("min", [simplified(first, ranges.is_natural) for first in firsts])
        last = _outermost("max", [simplified(last, ranges.is_natural) for last in lasts])
        if not ranges.is_natural(first + whole.first * -1):
            first = extreme("max", first, whole.first)
        if not ranges.is_natural(whole.last + last * -1):
            last = extreme("min", last, whole.last)
        most = self.decisions.extent(box)
        is_full = ranges.is_natural(last + first * -1 + Linear(1 - most))
        return Span(first, last, most, is_full)

    def whole(self, box: Box) -> Span:
        """Of a box that covers the same wherever it is."""
        first = min(read.least for read in box.reads)
        last = max(read.least + read.more for read in box.reads)
        most = self.decisions.extent(box)
        return Span(Linear(first), Linear(last), most, last - first + 1 == most)


def _spelled(step: Step) -> str:
    """As names of variables begin: those of other steps begin otherwise."""
    return step.stage.name if step.update is None else f"{step.stage.name}_{step.update + 1}"


def _outermost(operator: Literal["min", "max"], positions: Iterable[Linear]) -> Linear:
    """The least or the greatest of them; of those that differ by a number, one is left."""
    constants: dict[tuple[tuple[Atom, int], ...], int] = {}
    for position in positions:
        known = constants.get(position.terms, position.constant)
        constants[position.terms] = (min if operator == "min" else max)(known, position.constant)
    forms = [Linear(constant, terms) for terms, constant in constants.items()]
    return reduce(lambda a, b: extreme(operator, a, b), forms)


def _end(form: Linear, spans: Spans, *, is_last: bool) -> Linear:
    """The greatest value of a position in these spans, or the least one."""
    total = Linear(form.constant)
    for atom, number in form.terms:
        total += _atom(atom, spans, is_last is (number > 0)) * number
    return total


def _atom(atom: Atom, spans: Spans, is_last: bool) -> Linear:
    """The same of one part. All of them rise with what they are made of."""
    match atom:
        case Variable(name):
            return spans[name].last if is_last else spans[name].first
        case Quotient(dividend, divisor):
            return quotient(_end(dividend, spans, is_last=is_last), divisor)
        case Remainder(_, divisor):
            return Linear(divisor - 1 if is_last else 0)
        case Extreme(operator, left, right):
            return extreme(operator, _end(left, spans, is_last=is_last), _end(right, spans, is_last=is_last))
        case Opaque():
            raise AssertionError("of what no box is smaller than all of it")
