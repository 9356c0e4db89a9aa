"""Where the boxes of a schedule begin and end: loops and variables around each body.

In: a nest of a schedule, and what is needed of each stage. Out: the same nest with, at each level, the
first and the last point of each box along each dimension, as positions over loops around it. What is computed
is just what is needed, once for each box: the last tile of a row is as long as what is left, unless it may
begin earlier, and a box has at most as many points as the space says. Of a sliding step, a box is only what
the iteration before has not computed; what that would have computed is so before the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Literal

from spacedsl.codegen.pipeline.schedule import Decisions, Level, Loop, Nest
from spacedsl.codegen.tree.program import Let
from spacedsl.codegen.tree.ranges import Ranges, simplified
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
    may_be_empty: bool = False
    """As where the iterations before have computed all of it: then the last point is before the first one."""


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
class Window:
    """What is kept of a sliding step along a dimension: so many points, in place of those needed no more."""

    dim: str
    first: Linear
    """Of all points that there are, which is the same for all boxes."""
    size: int


@dataclass(frozen=True, slots=True)
class Start:
    """What is done before the innermost loop of a level: variables, then guests."""

    lets: tuple[Let, ...]
    needed: Needed
    guests: tuple[PlacedNest, ...]


@dataclass(frozen=True, slots=True)
class PlacedLevel:
    """Loops, outermost first; then, in each iteration, variables; then guests."""

    slot: SlotName
    loops: tuple[PlacedLoop, ...]
    lets: tuple[Let, ...]
    needed: Needed
    """In an iteration: of the step itself, and of all that are computed inside of it."""
    guests: tuple[PlacedNest, ...]
    windows: Mapping[Step, Window] = field(default_factory=dict)
    """Of the guests that slide."""
    start: Start | None = None
    """Where there are any."""


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
    def around(self) -> Spans:
        """What the loops of the innermost level go through."""
        return self.levels[-2].needed[self.step] if len(self.levels) > 1 else self.spans


IsShifted = Callable[[Nest, Level, Loop, Span], bool]
"""Whether the last tile of a loop begins earlier, in place of being shorter than others. The span is what the
loop goes through; where that may be shorter than a tile, so is the tile.
"""


def never(nest: Nest, level: Level, loop: Loop, outer: Span) -> bool:
    """Every point is computed once."""
    return False


@dataclass(frozen=True)
class Placement:
    sites: Sites
    decisions: Decisions
    is_shifted: IsShifted = never

    @cached_property
    def needed(self) -> Needed:
        """Of all steps, by the whole program."""
        return {
            step: {box.dim: _everywhere(box, self.decisions) for box in step.slots[0].boxes}
            for step in self.sites.steps
        }

    def nest(self, nest: Nest, fresh: Callable[[str], str]) -> PlacedNest:
        """One that is outside of all others; `fresh` gives names to variables."""
        placer = _Placer(self.sites, self.decisions, fresh, self.is_shifted)
        return placer.nest(nest, self.needed, Ranges())


def _everywhere(box: Box, decisions: Decisions) -> Span:
    """Of a box that covers the same wherever it is."""
    first = min(read.least for read in box.reads)
    last = max(read.least + read.more for read in box.reads)
    most = decisions.extent(box)
    return Span(Linear(first), Linear(last), most, last - first + 1 == most)


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

    def take(self, other: _Names, used: Iterable[Linear]) -> None:
        """The variables of another one that positions are made of."""
        wanted = frozenset[str]().union(*(position.names for position in used))
        taken: list[Let] = []
        for let in reversed(other.lets):
            if let.variable in wanted:
                taken.append(let)
                wanted |= let.position.names
        for let in reversed(taken):
            self.lets.append(let)
            self.ranges = self.ranges.with_position(let.variable, let.position)


@dataclass(frozen=True, slots=True)
class _Spot:
    """Where steps slide: the innermost loop of a level."""

    step: Step
    level: Level
    dim: str
    loop: PlacedLoop

    def before(self, at: Linear) -> Span:
        """Of the iteration before the one at a place."""
        return Span(at + Linear(-self.loop.step), at + Linear(-1), self.loop.step, True)


@dataclass(frozen=True, slots=True)
class _Done:
    """Of a sliding step: along a dimension, all up to a point."""

    dim: str
    last: Linear
    is_all: bool
    """Whether that is all that there ever will be, since nothing moves."""


@dataclass(frozen=True, slots=True)
class _Placer:
    sites: Sites
    decisions: Decisions
    fresh: Callable[[str], str]
    is_shifted: IsShifted

    # ---- Loops -------------------------------------------------------------------------------------------

    def nest(self, nest: Nest, around: Needed, ranges: Ranges) -> PlacedNest:
        """`around`: what is needed of all steps in an iteration of the loops around it."""
        spans = around[nest.step]
        levels: list[PlacedLevel] = []
        for level in nest.levels:
            placed, ranges = self.level(nest, level, around, ranges)
            levels.append(placed)
            around = placed.needed
        return PlacedNest(nest.step, spans, tuple(levels))

    def level(self, nest: Nest, level: Level, around: Needed, ranges: Ranges) -> tuple[PlacedLevel, Ranges]:
        """The level, and what is known of the variables in an iteration of it."""
        step, loops = nest.step, list[PlacedLoop]()
        inner = dict(around[step])
        outside, within = ranges, dict(inner)
        names = _Names(ranges)
        for loop in level.loops:
            outside, within = names.ranges, dict(inner)
            outer, name = inner[loop.dim], self.fresh(f"{spelled(step)}_{loop.dim}")
            is_even = (outer.is_full and outer.most % loop.size == 0) or _is_multiple(
                names.ranges.plain(outer.last + outer.first * -1 + Linear(1)), loop.size
            )
            latest = outer.last + Linear(1 - loop.size)
            is_full = is_even or (
                self.is_shifted(nest, level, loop, outer)
                and names.ranges.is_natural(latest + outer.first * -1)
            )
            final = latest if is_even else outer.last
            loops.append(PlacedLoop(name, outer.first, final, loop.size, -(-outer.most // loop.size)))
            names.ranges = names.ranges.with_loop(name, outer.first, final)
            first = variable(name)
            if is_full and not is_even:
                first = names.named(name, extreme("min", first, latest), self.fresh)
            last = first + Linear(loop.size - 1)
            if not is_full:
                last = extreme("min", last, outer.last)
            # In an iteration there is a point.
            inner[loop.dim] = Span(first, last, loop.size, is_full)
        spot = _Spot(step, level, level.loops[-1].dim, loops[-1]) if loops else None
        done = {} if spot is None else self.done(spot, inner, names)
        needed = self.needed(step, level.slot, inner, names, done)
        # What does not move with the loop is there before it, and so is what it alone needs.
        moving = (g for g in level.guests if g.step not in done or not done[g.step].is_all)
        here = [guest for guest in moving if guest.step in needed]
        guests = tuple(self.nest(guest, needed, names.ranges) for guest in here)
        # What none but such steps read is needed there alone.
        windows = {e: self.window(e, of.dim, level.slot) for e, of in done.items() if e in needed}
        start = self.start(spot, within, windows, _Names(outside)) if spot is not None and windows else None
        lets = tuple(names.lets)
        return PlacedLevel(level.slot, tuple(loops), lets, needed, guests, windows, start), names.ranges

    # ---- What slides -------------------------------------------------------------------------------------

    def done(self, spot: _Spot, spans: Spans, names: _Names) -> Mapping[Step, _Done]:
        """What the iteration before has computed of each sliding step; along rows, nothing is kept."""
        at = variable(spot.loop.variable)
        there, done = _Names(names.ranges), dict[Step, _Done]()
        # A loop of one iteration is no loop to `Ranges`.
        is_loop = spot.loop.variable in names.ranges.loops
        sliding = [guest.step for guest in spot.level.guests if guest.is_sliding and is_loop]
        if sliding:
            found = self.needed(spot.step, spot.level.slot, {**spans, spot.dim: spot.before(at)}, there)
        for step in sliding:
            moved = [dim for dim, span in found[step].items() if self.moves(span, at, there)]
            assert len(moved) <= 1, f"{step} moves along {moved}"
            dim = moved[0] if moved else step.dims[-1]
            if dim != step.dims[0]:
                done[step] = _Done(dim, found[step][dim].last, not moved)
        names.take(there, [each.last for each in done.values()])
        return done

    def window(self, step: Step, dim: str, slot: SlotName) -> Window:
        first = _everywhere(step.box(dim, "ROOT"), self.decisions).first
        return Window(dim, first, self.decisions.extent(step.box(dim, slot)))

    def moves(self, span: Span, at: Linear, names: _Names) -> bool:
        """Whether it is not the same in all iterations."""
        ends = names.ranges.plain(span.first).names | names.ranges.plain(span.last).names
        return not at.names.isdisjoint(ends)

    def start(self, spot: _Spot, spans: Spans, windows: Mapping[Step, Window], names: _Names) -> Start:
        """What the iteration before the first one would have left to it, and what that needs."""
        step, slot, first = spot.step, spot.level.slot, spot.loop.first
        outer = spans[spot.dim]
        last = extreme("min", first + Linear(spot.loop.step - 1), outer.last)
        there = _Names(names.ranges)
        here = self.needed(step, slot, {**spans, spot.dim: Span(first, last, spot.loop.step, False)}, there)
        gone = self.needed(step, slot, {**spans, spot.dim: spot.before(first)}, there)
        kept: dict[Step, Spans] = {}
        for each, window in windows.items():
            ahead, behind = here[each][window.dim], gone[each][window.dim]
            span = Span(ahead.first, behind.last, ahead.most, False, may_be_empty=True)
            if not there.ranges.is_natural(span.first + span.last * -1 + Linear(-1)):
                kept[each] = {**here[each], window.dim: _held(span, there.ranges)}
        names.take(
            there, [end for s in kept.values() for span in s.values() for end in (span.first, span.last)]
        )
        # Of what there never is, nothing is needed.
        needed = self.needed(step, slot, None, names, kept=kept)
        guests = tuple(self.nest(g, needed, names.ranges) for g in spot.level.guests if g.step in needed)
        return Start(tuple(names.lets), needed, guests)

    # ---- What is needed ----------------------------------------------------------------------------------

    def needed(
        self,
        owner: Step,
        slot: SlotName,
        spans: Spans | None,
        names: _Names,
        done: Mapping[Step, _Done] | None = None,
        kept: Needed | None = None,
    ) -> Needed:
        """Of all steps that share a slot, in an iteration of the loops that its owner has there.

        Their ends become variables, so that each is computed once. `done`: what there is of steps already.
        `kept`: what is known of others, where the owner itself needs nothing.
        """
        found: dict[Step, Spans] = {} if spans is None else {owner: self.named(owner, spans, names)}
        known, whole = kept or {}, dict[Step, Spans]()
        for step in reversed(self.sites.steps):
            if not self.sites.shares(step, slot) or self.sites.owner(step, slot) is not owner:
                continue
            if step in known:
                found[step] = known[step]
                continue
            readers = {reader: found[reader] for reader in step.readers if reader in found}
            # What is inlined elsewhere alone is not needed here.
            if readers:
                spans = {dim: self.span(step, dim, slot, readers, names.ranges) for dim in step.dims}
                before = None if done is None else done.get(step)
                if before is not None and before.is_all:
                    # Nothing more is computed, nor needed for it.
                    whole[step] = self.named(step, spans, names)
                    continue
                if before is not None:
                    spans[before.dim] = _behind(spans[before.dim], before.last, names.ranges)
                found[step] = self.named(step, spans, names)
        return {**found, **whole}

    def named(self, step: Step, spans: Spans, names: _Names) -> Spans:
        found = {}
        for dim, span in spans.items():
            name = f"{spelled(step)}_{dim}"
            first = names.named(f"{name}_first", span.first, self.fresh)
            last = first + Linear(span.most - 1)
            if not span.is_full:
                last = names.named(f"{name}_last", span.last, self.fresh)
            found[dim] = replace(span, first=first, last=last)
        return found

    def span(self, step: Step, dim: str, slot: SlotName, readers: Needed, ranges: Ranges) -> Span:
        """The hull of what all take that read it."""
        box = step.box(dim, slot)
        if not any(read.terms for read in box.reads):
            return _everywhere(box, self.decisions)
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
        whole = _everywhere(step.box(dim, "ROOT"), self.decisions)
        first = _outermost("min", [simplified(first, ranges.is_natural) for first in firsts])
        last = _outermost("max", [simplified(last, ranges.is_natural) for last in lasts])
        if not ranges.is_natural(first + whole.first * -1):
            first = extreme("max", first, whole.first)
        if not ranges.is_natural(whole.last + last * -1):
            last = extreme("min", last, whole.last)
        most = self.decisions.extent(box)
        is_full = ranges.is_natural(last + first * -1 + Linear(1 - most))
        may_be_empty = any(span.may_be_empty for spans in readers.values() for span in spans.values())
        return _held(Span(first, last, most, is_full, may_be_empty and not is_full), ranges)


def _behind(span: Span, last: Linear, ranges: Ranges) -> Span:
    """What is left of a span behind what has been computed up to a point."""
    first = simplified(extreme("max", span.first, last + Linear(1)), ranges.is_natural)
    most = ranges.greatest(span.last + first * -1 + Linear(1))
    most = span.most if most is None else max(1, min(most, span.most))
    is_full = ranges.is_natural(span.last + first * -1 + Linear(1 - most))
    is_there = ranges.is_natural(span.last + first * -1)
    return _held(Span(first, span.last, most, is_full, not is_there), ranges)


def _held(span: Span, ranges: Ranges) -> Span:
    """The same, said so that it is seen that there are no more points than there can be.

    Of what the iterations before have left, that follows from more than `Ranges` can tell.
    """
    most = span.first + Linear(span.most - 1)
    if not span.may_be_empty or ranges.is_natural(most + span.last * -1):
        return span
    return replace(span, last=extreme("min", span.last, most))


def _is_multiple(form: Linear, number: int) -> bool:
    """Whether it plainly is one of a number: as rows are, of which each point of others needs a pair."""
    return form.constant % number == 0 and all(n % number == 0 for _, n in form.terms)


def spelled(step: Step) -> str:
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
