"""A complete candidate as a schedule in Halide's words.

In: the steps of a pipeline, the decisions of a candidate, the names that definitions have. Out: statements of
`python.py` that say for each Func where it is computed and what loops it has. A loop is called after its
dimension and its slot (`y_task`, `x_lane`); what is left of a dimension within them keeps its name.

Halide computes all of a Func in one place. Where an update has its accumulators inside of its own loops,
those loops are of a Func that copies its values; where several updates have, the earlier ones are computed
with the last one. How large boxes are is for Halide's own bounds inference.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from spacedsl.codegen.halide.definitions import Names
from spacedsl.codegen.halide.python import Assign, Atom, Blank, Call, Comment, Do, Node, Statement, quoted
from spacedsl.codegen.pipeline.placement import Needed, PlacedLevel, PlacedNest, Placement, Span
from spacedsl.codegen.pipeline.schedule import Decisions, Level, Loop, Nest, schedule
from spacedsl.kernels.pipeline.algorithm import Stage
from spacedsl.kernels.pipeline.backbone import MOST_UNROLLED, SLOTS, Kernel, SlotName, Step
from spacedsl.kernels.pipeline.lanes import innermost, widths
from spacedsl.kernels.pipeline.sites import Sites
from spacedsl.kernels.unique_names import UniqueNames

Tail = Literal["ShiftInwards", "RoundUp", "GuardWithIf"]

_IN_A_LINE = 4
"""Names of loops."""


def hosting(nest: Nest) -> int | None:
    """The level of an update in which the step is computed that it goes on with; None where it is outside."""
    for number, level in enumerate(nest.levels):
        if any(guest.step is nest.step.before for guest in level.guests):
            return number
    return None


def copied(nests: Sequence[Nest]) -> Iterator[str]:
    """Stages of which the loops of the last update are of a Func that copies its values."""
    for nest in nests:
        at = hosting(nest)
        is_last = nest.step.update == len(nest.step.stage.updates) - 1
        if at is not None and is_last and any(level.loops for level in nest.levels[: at + 1]):
            yield nest.step.stage.name
        for level in nest.levels:
            yield from copied(level.guests)


def directives(
    kernel: Kernel, decisions: Decisions, names: Names, vector_bytes: int
) -> tuple[Statement, ...]:
    """`vector_bytes`: of the machine. Stages that `names` gives a Func for their result are outputs."""
    nests = schedule(kernel.steps, decisions)
    hosts = dict(_hosts(nests))

    def is_shifted(nest: Nest, level: Level, loop: Loop, outer: Span) -> bool:
        host = hosts.get(nest.step, "ROOT")
        return outer.is_full and (nest.step.update is None or SLOTS.index(level.slot) <= SLOTS.index(host))

    placement = Placement(Sites(kernel.steps, decisions.site), decisions, is_shifted)
    fresh = UniqueNames().fresh
    scheduler = _Scheduler(kernel, decisions, names, vector_bytes, frozenset(copied(nests)))
    for nest in nests:
        scheduler.nest(nest, placement.nest(_fresh(nest), fresh), placement.needed, None)
    return (*scheduler.declared(), *scheduler.statements)


def _fresh(nest: Nest) -> Nest:
    """The same with nothing that slides."""
    levels = [replace(level, guests=tuple(map(_fresh, level.guests))) for level in nest.levels]
    return replace(nest, levels=tuple(levels), is_sliding=False)


def _hosts(nests: Sequence[Nest]) -> Iterator[tuple[Step, SlotName]]:
    """Updates, and the slot within which the step is computed that they go on with."""
    for nest in nests:
        if (at := hosting(nest)) is not None:
            yield nest.step, nest.levels[at].slot
        for level in nest.levels:
            yield from _hosts(level.guests)


# ---- Loops ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """A loop that something is computed in. No two parts of a Func have loops of one name."""

    func: str
    loop: str


@dataclass(frozen=True, slots=True)
class Part:
    """What has loops of its own: a definition, an update, or a copy."""

    func: str
    update: int
    """Which one, from 1 on; 0 of a definition."""
    ranges: Mapping[str, str]
    """Their names in Python, the innermost first."""
    variables: Mapping[str, str]
    """The same of those that it is done for each value of."""
    along: str | None
    """The variable of which neighbours lie beside each other."""
    lanes: int
    """Of a vector, at most."""
    is_at_root: bool
    is_cut: bool
    """Whether ranges have tiles: several, only where Halide knows that points may come in any order."""
    parted: Mapping[str, str] = field(default_factory=dict)
    """By range: the loop of which each iteration has partial results of its own."""

    @property
    def handle(self) -> str:
        return f"{self.func}.update({self.update - 1})" if self.update else self.func

    def name(self, dim: str) -> str:
        return self.ranges.get(dim) or self.variables[dim]

    def tail(self, dim: str, outer: Span, size: int, *, is_inner: bool) -> Tail:
        """What becomes of the last tile: never more than there is, where that is not certain to be enough."""
        if dim in self.ranges or not outer.is_full:
            return "GuardWithIf"
        if self.update:
            # Within a tile, what is more than there is would be points of the next one, computed twice.
            # Within loops of others, Halide does not see how large a box is, and may ask inputs for more.
            is_whole = self.is_at_root and not is_inner and outer.most % size == 0
            return "RoundUp" if is_whole else "GuardWithIf"
        return "ShiftInwards"


@dataclass(slots=True)
class _Loops:
    """Of a part, while they are made."""

    spans: dict[str, Span]
    statements: list[Statement] = field(default_factory=list)
    outer: list[str] = field(default_factory=list)
    """The outermost first."""
    tasks: list[str] = field(default_factory=list)
    split: set[str] = field(default_factory=set)
    """Dimensions of which there is a tile of a size that is known."""


@dataclass(frozen=True, slots=True)
class Guest:
    nest: Nest
    placed: PlacedNest
    around: Needed
    place: Place | None


class _Scheduler:
    def __init__(
        self,
        kernel: Kernel,
        decisions: Decisions,
        names: Names,
        vector_bytes: int,
        copied: frozenset[str],
    ) -> None:
        self.kernel = kernel
        self.names = names
        self.vector_bytes = vector_bytes
        self.copied = copied
        sites = Sites(kernel.steps, decisions.site)
        self.inlined = {s.stage.name: s.stage for s in sites.steps if sites.of[s] == "INLINE"}
        self.layouts = {s.stage.name: layout for s in kernel.arrangeable if (layout := decisions.layout(s))}
        self.statements: list[Statement] = []
        self.placed: set[str] = set()
        self.moved: set[Step] = set()
        """Out of loops of which the last tile is shorter."""
        self.loops: dict[tuple[str, str], str] = {}
        """Names of loops, by what they are cut from and what they are."""
        self.ranges: set[str] = set()
        """Those that are cut from ranges."""

    def declared(self) -> Iterator[Statement]:
        """The names of loops."""
        variables = [name for name in self.loops.values() if name not in self.ranges]
        for start in range(0, len(variables), _IN_A_LINE):
            row = variables[start : start + _IN_A_LINE]
            names = f"{row[0]}," if len(row) == 1 else ", ".join(row)
            yield Assign(names, Call("hl.vars", (quoted(" ".join(row)),)))
        for name in self.loops.values():
            if name in self.ranges:
                yield Assign(name, Call("hl.RVar", (quoted(name),)))

    def loop(self, part: Part, dim: str, kind: str) -> str:
        """The name of a loop."""
        cut = part.name(dim)
        if part.update and dim not in part.ranges:
            kind = f"{kind}_{part.update}"
        if (cut, kind) not in self.loops:
            self.loops[cut, kind] = self.names.unique.fresh(f"{cut}_{kind}")
        if dim in part.ranges:
            self.ranges.add(self.loops[cut, kind])
        return self.loops[cut, kind]

    # ---- Nests -----------------------------------------------------------------------------------------

    def nest(self, nest: Nest, placed: PlacedNest, around: Needed, here: Place | None) -> None:
        """`around`: what is needed of all steps in an iteration of `here`, the loop around the nest."""
        step, at = nest.step, hosting(nest)
        stage = step.stage
        part = self.part(step, here)
        levels = list(zip(nest.levels, placed.levels, strict=True))
        if at is None or step.update != len(stage.updates) - 1:
            self.put(stage, part.func, here, nest)
            # What only an earlier update would hold is computed around all of them.
            outside = -1 if at is None else at
            self.finish(self.factored(nest, part), step, levels, around, here, outside)
            return
        outer, inner = levels[: at + 1], levels[at + 1 :]
        guests: list[Guest] = []
        if stage.name in self.copied:
            copy = self.copy(step, part)
            self.statements.append(Blank())
            self.comment(f"{copy.func}: what {part.func} is, with the outer loops of its last update")
            self.compute(copy.func, stage, here)
            definition = next(s for s in self.kernel.steps if s.stage.name == stage.name and s.update is None)
            loops = _Loops({**around[definition], **around[step]})
            here, guests = self.cut(copy, step, outer, loops, around, here, -1)
            if outer:
                around = outer[-1][1].needed
            loops.spans = {v: around[step].get(v, around[definition][v]) for v in stage.variables}
            self.body(copy, loops)
            self.put(stage, part.func, here, nest)
        else:
            self.put(stage, part.func, here, nest)
            for level, placed_level in outer:
                around = placed_level.needed
                guests += _guests(level, placed_level, here)
        for guest in guests:
            self.nest(guest.nest, guest.placed, guest.around, guest.place)
        part = replace(part, is_at_root=here is None)
        self.finish(part, step, inner, around, here, -1)

    def finish(
        self,
        part: Part,
        step: Step,
        levels: Sequence[tuple[Level, PlacedLevel]],
        around: Needed,
        here: Place | None,
        outside: int,
    ) -> None:
        """The loops of a part, what it computes in them, and its guests."""
        loops = _Loops(dict(around[step]))
        _, guests = self.cut(part, step, levels, loops, around, here, outside)
        if levels:
            loops.spans = dict(levels[-1][1].needed[step])
        self.body(part, loops)
        for guest in guests:
            self.nest(guest.nest, guest.placed, guest.around, guest.place)

    def part(self, step: Step, here: Place | None) -> Part:
        stage = step.stage
        widest = max(widths(step.stage, step.definition, self.inlined))
        update = 0 if step.update is None else step.update + 1
        ranges = [] if step.update is None else [r.name for r in stage.updates[step.update].ranges]
        first = innermost(stage, self.layouts)
        return Part(
            self.names.sources[stage.name],
            update,
            {r: self.names.ranges[stage.name, step.update or 0, r] for r in ranges},
            {v: self.names.variables[v] for v in stage.variables if v in step.variables},
            first if first in step.variables else None,
            max(1, self.vector_bytes // widest),
            here is None,
            len(ranges) < 2 or (stage.name, step.update) in self.names.combined,
        )

    def copy(self, step: Step, part: Part) -> Part:
        """The Func that copies the values of a stage: its result, where nothing else reads it."""
        stage = step.stage
        result = self.names.results.get(stage.name, part.func)
        name = result
        if result == part.func or any(not reader.is_exit for reader in step.readers):
            name = self.names.unique.fresh(f"{part.func}_copy")
            self.statements += [Blank(), Assign(name, Call(f"{part.func}.in_", ()))]
        variables = {v: self.names.variables[v] for v in stage.variables}
        widest = max(dtype.nbytes for dtype in stage.dtypes)
        return Part(
            name,
            0,
            {},
            variables,
            innermost(stage, self.layouts),
            max(1, self.vector_bytes // widest),
            part.is_at_root,
            True,
        )

    def factored(self, nest: Nest, part: Part) -> Part:
        """The Func with the partial results of an update, where it has any that Halide knows how to combine.

        Of others, the parts of a range are computed one after the other.
        """
        loop = nest.parted
        if loop is None or (nest.step.stage.name, nest.step.update) not in self.names.combined:
            return part
        tasks, name = self.loop(part, loop.dim, "task"), self.names.unique.fresh(f"{part.func}_parts")
        variable = self.loops[name, "part"] = self.names.unique.fresh(f"{part.name(loop.dim)}_part")
        cut = (part.name(loop.dim), tasks, part.name(loop.dim), str(loop.size), "hl.TailStrategy.GuardWithIf")
        self.do(Call(f"{part.handle}.split", tuple(map(Atom, cut))))
        self.statements.append(Assign(name, Call(f"{part.handle}.rfactor", (Atom(tasks), Atom(variable)))))
        self.do(Call(f"{name}.compute_root", ()))
        return replace(part, func=name, update=1, parted={loop.dim: variable})

    # ---- Places ----------------------------------------------------------------------------------------

    def put(self, stage: Stage, func: str, here: Place | None, nest: Nest) -> None:
        """Says where a Func is computed, the first time that one of its parts comes."""
        size = ", ".join(f"{n} {dim}" for dim, n in zip(nest.step.dims, nest.size, strict=True))
        if stage.name not in self.placed:
            self.placed.add(stage.name)
            self.statements.append(Blank())
            where = "" if here is None else f" in each {here.loop} of {here.func}"
            note = " (there, since last tiles further in are shorter)" if nest.step in self.moved else ""
            note += ", all of it anew" if nest.is_sliding else ""
            self.comment(f"{nest.step}{where}{note}: {size or 'one value'}")
            if self.names.results.get(stage.name) != func:
                self.compute(func, stage, here)
        else:
            self.comment(f"{nest.step}: {size or 'one value'}")

    def compute(self, func: str, stage: Stage, here: Place | None) -> None:
        if func in self.names.results.values():
            return
        directive = Call(f"{func}.compute_root", ())
        if here is not None:
            directive = Call(f"{func}.compute_at", (Atom(here.func), Atom(here.loop)))
        self.do(directive)
        if stage.name in self.layouts:
            first = innermost(stage, self.layouts)
            order = sorted(stage.variables, key=lambda v: v != first)
            names = (Atom(self.names.variables[v]) for v in order)
            self.do(Call(f"{func}.reorder_storage", tuple(names)))

    def do(self, directive: Node) -> None:
        self.statements.append(Do(directive))

    def comment(self, text: str) -> None:
        self.statements.append(Comment(text))

    # ---- Loops -----------------------------------------------------------------------------------------

    def cut(
        self,
        part: Part,
        step: Step,
        levels: Sequence[tuple[Level, PlacedLevel]],
        loops: _Loops,
        around: Needed,
        here: Place | None,
        outside: int,
    ) -> tuple[Place | None, list[Guest]]:
        """Dimensions into tiles: the innermost loop that there is then, and what is computed in which one.

        What is computed in one of the first levels, up to the one numbered `outside`, stays in `here`. So
        does what would be in loops of which the last tile is shorter: there, too, Halide would compute for a
        whole one.
        """
        guests: list[Guest] = []
        around_all, is_ragged = here, False
        for count, (level, placed) in enumerate(levels):
            cut = [loop for loop in level.loops if part.is_cut or loop.dim not in part.ranges]
            for loop in cut:
                is_parted = level.slot == "TASK" and loop.dim in part.parted
                name = part.parted[loop.dim] if is_parted else self.loop(part, loop.dim, level.slot.lower())
                outer = loops.spans[loop.dim]
                is_shifted = outer.is_full and not part.update
                is_ragged |= not (is_shifted or (outer.is_full and outer.most % loop.size == 0))
                if not is_parted:
                    self.split(part, loop.dim, (name, part.name(loop.dim)), loop.size, loops)
                loops.outer.append(name)
                loops.spans[loop.dim] = placed.needed[step][loop.dim]
            if cut:
                name = loops.outer[-1]
                if level.slot == "TASK":
                    loops.tasks = [name for name in loops.outer if name not in self.ranges]
                if is_ragged:
                    self.moved |= {guest.step for guest in level.guests}
                else:
                    here = Place(part.func, name)
            guests += _guests(level, placed, around_all if count <= outside else here)
        return here, guests

    def split(self, part: Part, dim: str, names: tuple[str, str], size: int, loops: _Loops) -> None:
        """Into an outer and an inner loop, of which the latter has the size."""
        tail = Atom(f"hl.TailStrategy.{part.tail(dim, loops.spans[dim], size, is_inner=dim in loops.split)}")
        cut = (Atom(part.name(dim)), *map(Atom, names), Atom(str(size)), tail)
        loops.statements.append(Do(Call(f"{part.handle}.split", cut)))
        loops.split.add(dim)

    def body(self, part: Part, loops: _Loops) -> None:
        """What is in no loop of a level: vectors along rows; all of a small box is written out."""
        spans, along = loops.spans, part.along
        most = spans[along].most if along else 1
        lanes = 1 << min(part.lanes, most).bit_length() - 1
        copies = math.prod(spans[v].most for v in part.variables) // lanes
        is_unrolled = (
            along is not None
            and most % lanes == 0
            and 1 < copies <= MOST_UNROLLED
            and all(spans[v].is_full for v in part.variables)
        )
        boxes: list[str] = []
        unrolled = [v for v in part.variables if is_unrolled and spans[v].most > (lanes if v == along else 1)]
        for v in unrolled:
            if v not in loops.split:
                boxes.append(self.loop(part, v, "box"))
                self.split(part, v, (boxes[-1], part.name(v)), spans[v].most, loops)
        vector = ""
        if along is not None and lanes > 1:
            vector = self.loop(part, along, "vector")
            self.split(part, along, (part.name(along), vector), lanes, loops)
        points = [part.variables[v] for v in sorted(part.variables, key=lambda v: v != along)]
        ranges = [*part.ranges.values()]
        # Sums stay in registers while ranges are gone through.
        inner = [*points, *ranges] if is_unrolled else [*ranges, *points]
        order = [*([vector] if vector else []), *inner, *boxes, *reversed(loops.outer)]
        self.statements += loops.statements
        if part.update and len(order) < 2 and not loops.statements:
            self.do(Call(f"{part.handle}.unscheduled", ()))
        if len(order) > 1:
            self.do(Call(f"{part.handle}.reorder", tuple(map(Atom, order))))
        # One loop instead of several would share out as well, but bounds inference does not see through it.
        for name in loops.tasks:
            self.do(Call(f"{part.handle}.parallel", (Atom(name),)))
        if vector:
            self.do(Call(f"{part.handle}.vectorize", (Atom(vector),)))
        for v in unrolled:
            self.do(Call(f"{part.handle}.unroll", (Atom(part.variables[v]),)))


def _guests(level: Level, placed: PlacedLevel, place: Place | None) -> list[Guest]:
    return [
        Guest(nest, inner, placed.needed, place)
        for nest, inner in zip(level.guests, placed.guests, strict=True)
    ]
