"""A complete candidate of `pipeline.space` as loop nests: what is computed inside of what, in which order.

In: the steps of a pipeline, and the decisions of a candidate. Out: a `Nest` for each step that is outside of
all others, with those that are computed in its iterations; and their text. Inlined steps are in no nest: they
are part of what reads them. Where a box begins, and what becomes of the last tile of a row, is for lowering.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from spacedsl.diagnostics import Diagnostic, DiagnosticError, Source, Span
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.kernel_file import Kind
from spacedsl.kernels.pipeline.backbone import SLOTS, Box, Slot, SlotName, Step
from spacedsl.kernels.pipeline.sites import Sites
from spacedsl.language.space import Choice, EnumChoice, Quantity, Space

VOCABULARY = frozenset({"site", "extent", "trips"})
"""What a space has to decide, or compute, of steps and of boxes."""


WAYS: Mapping[Kind, Sequence[str]] = {
    "cpu": ("SERIAL", "PARTIAL"),
    "gpu": ("SERIAL", "ATOMIC", "PARTIAL", "SHUFFLE"),
}
"""How lowering for a kind of machine may share out points of ranges: where nothing decides, not at all."""


SHARED: Mapping[Kind, Sequence[SlotName]] = {"cpu": ("TASK",), "gpu": ("TASK", "LANE")}
"""Slots of ranges whose iterations are shared out where they are."""


def check_decisions(space: Space, source: Source, kind: Kind = "cpu") -> None:
    """Raises `DiagnosticError` (SP420) unless a space decides what lowering reads, in words that it knows.

    `source` is the text of the space: where something is missing.
    """
    report: list[Diagnostic] = []
    site = space.choices.get("site")
    known = (*SLOTS, "INLINE")
    if not isinstance(site, EnumChoice) or len(site.params) != 1:
        report.append(_missing("an enum choice `site`", site, source))
    else:
        report += _unknown(site, known)
    reduce = space.choices.get("reduce")
    if isinstance(reduce, EnumChoice):
        report += _unknown(reduce, WAYS[kind])
    for name in ("extent", "trips"):
        quantity = space.quantities.get(name)
        if quantity is None or len(quantity.params) != 1 or quantity.values is not None:
            report.append(_missing(f"a quantity `{name}`", quantity, source))
    if report:
        raise DiagnosticError(report)


def _unknown(choice: EnumChoice, known: Sequence[str]) -> Iterator[Diagnostic]:
    hint = f"values with code are {', '.join(known)}"
    for value in choice.values:
        if value not in known:
            message = f"there is no code for the value `{value}` of `{choice.name}`"
            yield Diagnostic("SP420", message, choice.span, hint)


def _missing(wanted: str, found: Choice | Quantity | None, source: Source) -> Diagnostic:
    span = found.span if found is not None else Span(source, 0, min(1, len(source.text)))
    return Diagnostic("SP420", f"no code can be made: {wanted} of 1 object is needed", span)


class Decisions(Protocol):
    """Of a complete candidate."""

    def site(self, step: Step) -> str: ...

    def reduce(self, step: Step) -> str:
        """How the points of the ranges of an update are shared out: `SERIAL` is not at all."""

    def extent(self, box: Box) -> int:
        """Points of a box."""

    def beside(self, step: Step) -> int:
        """Points along rows of its stage that a thread of a GPU stores, or loads, one after the other, at
        most; 1 where the space does not say.
        """

    def trips(self, box: Box) -> int:
        """How many boxes the one around it is cut into."""

    def is_sliding(self, step: Step) -> bool:
        """Whether what the iterations before have computed is kept."""

    def innermost(self, slot: Slot) -> int:
        """Of the boxes of a slot, the one whose loop is inside of all others."""

    def layout(self, step: Step) -> int:
        """Of the variables of a stage of which this is the last step, the one whose neighbours lie beside
        each other.
        """


@dataclass(frozen=True, slots=True)
class CandidateDecisions:
    candidate: Candidate
    _quantities: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict, init=False, repr=False)
    """By name and object; all of them, once somebody asks for one."""

    def site(self, step: Step) -> str:
        return str(self.candidate.value("site", step))

    def reduce(self, step: Step) -> str:
        is_decided = step.parted is not None and "reduce" in self.candidate.instance.space.choices
        return str(self.candidate.value("reduce", step)) if is_decided else "SERIAL"

    def extent(self, box: Box) -> int:
        return self._quantity("extent", box)

    def beside(self, step: Step) -> int:
        is_said = "beside" in self.candidate.instance.space.quantities
        return self._quantity("beside", step) if is_said else 1

    def trips(self, box: Box) -> int:
        return self._quantity("trips", box)

    def is_sliding(self, step: Step) -> bool:
        if not step.is_slidable or "window" not in self.candidate.instance.space.choices:
            return False
        return self.candidate.value("window", step) == "SLIDING"

    def innermost(self, slot: Slot) -> int:
        if slot not in slot.step.orderable or "innermost" not in self.candidate.instance.space.choices:
            return 0
        return int(self.candidate.value("innermost", slot))

    def layout(self, step: Step) -> int:
        is_decided = step.is_arrangeable and "layout" in self.candidate.instance.space.choices
        return int(self.candidate.value("layout", step)) if is_decided else 0

    def _quantity(self, name: str, of: Box | Step) -> int:
        if not self._quantities:
            for quantity, names, interval in self.candidate.instance.quantities(self.candidate.vector):
                self._quantities[quantity.name, names[0]] = interval
        low, high = self._quantities[name, of.name]
        assert low == high, f"{name}({of}) is open"
        return low


@dataclass(frozen=True, slots=True)
class Loop:
    """Over the boxes of one dimension at one slot."""

    dim: str
    size: int
    """Points of each box; of the last one, maybe fewer."""
    trips: int
    """At least 2."""


@dataclass(frozen=True, slots=True)
class Level:
    """A slot that a step owns: its loops, and what is computed in each iteration before anything deeper."""

    slot: SlotName
    loops: tuple[Loop, ...]
    """Outermost first."""
    guests: tuple[Nest, ...]


@dataclass(frozen=True, slots=True)
class Nest:
    """The loops of a step, from its site inwards."""

    step: Step
    size: tuple[int, ...]
    """Points that it computes there, at most, along its dimensions, the innermost first."""
    levels: tuple[Level, ...]
    """Those of its slots that have loops or guests, outermost first."""
    is_sliding: bool = False
    """Whether it goes on with what the iterations before have computed, of the innermost loop around it."""
    reduce: str = "SERIAL"
    """How the points of its ranges are shared out."""
    layout: str | None = None
    """Of the last step of a stage: the variable whose neighbours lie beside each other, if not the first."""

    @property
    def parted(self) -> Loop | None:
        """The loop of tasks that have parts of its outermost range."""
        box = self.step.parted
        loops = self.levels[0].loops if self.levels and self.levels[0].slot == "TASK" else ()
        return next((loop for loop in loops if box is not None and loop.dim == box.dim), None)

    @property
    def nests(self) -> Iterator[Nest]:
        """Itself, and all that are computed in it."""
        yield self
        for level in self.levels:
            for guest in level.guests:
                yield from guest.nests


def schedule(steps: Sequence[Step], decisions: Decisions) -> tuple[Nest, ...]:
    """The nests that are outside of all others, in the order in which they are computed."""
    return tuple(_nests(None, "ROOT", Sites(steps, decisions.site), decisions))


def _nests(owner: Step | None, slot: SlotName, sites: Sites, decisions: Decisions) -> Iterator[Nest]:
    """What is computed in an iteration of a slot that `owner` has."""
    for step in sites.steps:
        if sites.of[step] == slot and sites.owner(step, slot) is owner:
            yield _nest(step, slot, sites, decisions)


def _nest(step: Step, site: SlotName, sites: Sites, decisions: Decisions) -> Nest:
    levels = []
    at = SLOTS.index(site)
    for slot in step.slots[at + 1 :]:
        guests = tuple(_nests(step, slot.slot, sites, decisions))
        loops = tuple(_loops(slot, decisions))
        if loops or guests:
            levels.append(Level(slot.slot, loops, guests))
    size = tuple(decisions.extent(box) for box in step.slots[at].boxes)
    layout = decisions.layout(step)
    return Nest(
        step,
        size,
        tuple(levels),
        decisions.is_sliding(step),
        decisions.reduce(step),
        step.stage.variables[layout] if layout else None,
    )


def _loops(slot: Slot, decisions: Decisions) -> Iterator[Loop]:
    for box in reversed(slot.ordered(decisions.innermost(slot))):
        if (trips := decisions.trips(box)) > 1:
            yield Loop(box.dim, decisions.extent(box), trips)


def text(nests: Sequence[Nest], kind: Kind = "cpu") -> str:
    """Loops as a person would sketch them, a line each."""
    return "\n".join(line for nest in nests for line in _lines(nest, kind, ""))


def _lines(nest: Nest, kind: Kind, margin: str) -> Iterator[str]:
    step = nest.step
    size = ", ".join(f"{n} {dim}" for dim, n in zip(step.dims, nest.size, strict=True)) or "one value"
    notes = [
        *(["sliding"] if nest.is_sliding else []),
        *([f"kept along {nest.layout}"] if nest.layout else []),
    ]
    yield f"{margin}{step}: {', '.join((size, *notes))}"
    for level in nest.levels:
        for loop in level.loops:
            margin += "  "
            is_shared = loop.dim not in step.variables and level.slot in SHARED[kind]
            how = f", {nest.reduce}" if is_shared and nest.reduce != "SERIAL" else ""
            yield f"{margin}for {loop.dim} in {loop.trips} of {loop.size} ({level.slot}{how})"
        for guest in level.guests:
            yield from _lines(guest, kind, f"{margin}  ")
