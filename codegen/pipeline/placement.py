"""Where the boxes of a schedule begin and end: loops and integer variables around each body.

In: the nests of a schedule, and what is needed of each stage. Out: the same nests with, at each level,
variables for the first and the last point of its box along each dimension, as expressions of loops around it.
What is computed is just what is needed, once for each box: the last tile of a row is as long as what is left,
and a box has at most as many points as the space says. Positions are expressions of i32 over variables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from spacedsl.codegen.pipeline.schedule import Decisions, Level, Nest, Sites
from spacedsl.kernels.pipeline.affine import Atom, Extreme, Linear, Opaque, Quotient, Remainder, linear
from spacedsl.kernels.pipeline.algorithm import (
    Constant,
    Expression,
    Variable,
    reads,
)
from spacedsl.kernels.pipeline.backbone import Box, SlotName, Step
from spacedsl.kernels.pipeline.typing import Operand, binary, typed


@dataclass(frozen=True, slots=True)
class Span:
    """The points from `first` to `last`, both of which belong to it."""

    first: Expression
    last: Expression
    most: int
    """Points that there are at most."""


Spans = Mapping[str, Span]
"""By dimension."""


Needed = Mapping[Step, Spans]
"""Of steps, in an iteration of loops."""


@dataclass(frozen=True, slots=True)
class Let:
    """A variable with a value."""

    name: str
    value: Expression


@dataclass(frozen=True, slots=True)
class PlacedLoop:
    """`variable` goes from the first point of a box to its last one, by the size of a tile."""

    variable: str
    first: Expression
    last: Expression
    step: int


@dataclass(frozen=True, slots=True)
class PlacedLevel:
    """Loops, outermost first; then, in each iteration, variables; then guests."""

    loops: tuple[PlacedLoop, ...]
    lets: tuple[Let, ...]
    spans: Spans
    """Of the box that an iteration computes."""
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
        return self.levels[-1].spans if self.levels else self.spans


def place(nests: Sequence[Nest], steps: Sequence[Step], decisions: Decisions) -> tuple[PlacedNest, ...]:
    """`nests` are the schedule of the steps by these decisions."""
    placer = _Placer(Sites(steps, decisions), decisions)
    whole = {step: {box.dim: placer.whole(box) for box in step.slots[0].boxes} for step in placer.sites.steps}
    return tuple(placer.nest(nest, whole) for nest in nests)


class _Placer:
    def __init__(self, sites: Sites, decisions: Decisions) -> None:
        self.sites = sites
        self.decisions = decisions

    # ---- Loops -------------------------------------------------------------------------------------------

    def nest(self, nest: Nest, around: Needed) -> PlacedNest:
        """`around`: what is needed of all steps in an iteration of the loops around it."""
        spans = around[nest.step]
        levels: list[PlacedLevel] = []
        for level in nest.levels:
            placed, around = self.level(nest.step, level, around)
            levels.append(placed)
        return PlacedNest(nest.step, spans, tuple(levels))

    def level(self, step: Step, level: Level, around: Needed) -> tuple[PlacedLevel, Needed]:
        """The level, and what is needed of all steps in an iteration of it."""
        loops = []
        inner = dict(around[step])
        for loop in level.loops:
            variable, outer = f"{step}.{loop.dim}.{level.slot}", inner[loop.dim]
            loops.append(PlacedLoop(variable, outer.first, outer.last, loop.size))
            last = binary("min", binary("+", Variable(variable), loop.size - 1), outer.last)
            inner[loop.dim] = Span(Variable(variable), typed(last), loop.size)
        lets, spans = _named(inner, step, level.slot)
        needed = self.needed(step, level.slot, spans, lets)
        guests = tuple(self.nest(guest, needed) for guest in level.guests)
        return PlacedLevel(tuple(loops), tuple(lets), spans, guests), needed

    # ---- What is needed ----------------------------------------------------------------------------------

    def needed(self, owner: Step, slot: SlotName, spans: Spans, lets: list[Let]) -> Needed:
        """Of all steps that share a slot, in an iteration of the loops that its owner has there.

        Their ends become variables, so that each is computed once.
        """
        found: dict[Step, Spans] = {owner: spans}
        for step in reversed(self.sites.steps):
            if not self.sites.shares(step, slot) or self.sites.owner(step, slot) is not owner:
                continue
            readers = {reader: found[reader] for reader in step.readers if reader in found}
            # What is inlined elsewhere alone is not needed here.
            if readers:
                spans = {dim: self.span(step, dim, slot, readers) for dim in step.dims}
                more, found[step] = _named(spans, step, slot)
                lets += more
        return found

    def span(self, step: Step, dim: str, slot: SlotName, readers: Needed) -> Span:
        """The hull of what all take that read it."""
        box = step.box(dim, slot)
        if not any(read.terms for read in box.reads):
            return self.whole(box)
        stage = step.stage
        firsts: list[Operand] = []
        lasts: list[Operand] = []
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
        first = binary("max", _extreme("min", firsts), whole.first)
        last = binary("min", _extreme("max", lasts), whole.last)
        return Span(typed(first), typed(last), self.decisions.extent(box))

    def whole(self, box: Box) -> Span:
        """Of a box that covers the same wherever it is."""
        first = min(read.least for read in box.reads)
        last = max(read.least + read.more for read in box.reads)
        return Span(typed(first), typed(last), self.decisions.extent(box))


def _named(spans: Spans, step: Step, slot: str) -> tuple[list[Let], Spans]:
    """The same with variables for their ends, where these are neither numbers nor variables already."""
    lets: list[Let] = []

    def name(end: Expression, which: str) -> Expression:
        if isinstance(end, Constant | Variable):
            return end
        lets.append(Let(f"{step}.{which}.{slot}", end))
        return Variable(lets[-1].name)

    named = {
        dim: Span(name(span.first, f"{dim}.first"), name(span.last, f"{dim}.last"), span.most)
        for dim, span in spans.items()
    }
    return lets, named


def _extreme(operator: str, operands: Sequence[Operand]) -> Operand:
    return reduce(lambda a, b: binary(operator, a, b), dict.fromkeys(operands))


def _end(form: Linear, spans: Spans, *, is_last: bool) -> Operand:
    """The greatest value of a position in these spans, or the least one."""
    total: Operand = form.constant
    for atom, number in form.terms:
        end = _atom(atom, spans, is_last is (number > 0))
        part = end if abs(number) == 1 else binary("*", abs(number), end)
        total = part if total == 0 and number > 0 else binary("+" if number > 0 else "-", total, part)
    return total


def _atom(atom: Atom, spans: Spans, is_last: bool) -> Operand:
    """The same of one part. All of them rise with what they are made of."""
    match atom:
        case Variable(name):
            return spans[name].last if is_last else spans[name].first
        case Quotient(dividend, divisor):
            return binary("/", _end(dividend, spans, is_last=is_last), divisor)
        case Remainder(_, divisor):
            return divisor - 1 if is_last else 0
        case Extreme(operator, left, right):
            ends = (_end(left, spans, is_last=is_last), _end(right, spans, is_last=is_last))
            return binary(operator, *ends)
        case Opaque():
            raise AssertionError("of what no box is smaller than all of it")
