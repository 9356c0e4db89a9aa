"""Image pipelines as plain objects, for `pipeline.space`: stages over two dimensions, stencils between them.

In: for each stage, what it reads of which others. Out: a kernel: stages with their hosts, boxes for each slot
and dimension, loops, and what each box has to cover.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spacedsl.language.host import exposed

FULL = 2**40
SLOTS = ("ROOT", "TASK", "CHUNK", "LANE", "REG")
DIMENSIONS = ("x", "y")

Stencil = tuple[Sequence[int], Sequence[int]]
"""The taps along each dimension."""


@exposed("name", "cap", "is_inner", "is_inlinable", "host", "guests", "between", "slots", "from_output")
@dataclass(slots=True, eq=False, repr=False)
class Stage:
    name: str
    is_inner: bool
    from_output: int = 0
    host: Stage | None = None
    guests: tuple[Stage, ...] = ()
    between: tuple[Stage, ...] = ()
    slots: tuple[Slot, ...] = ()
    cap: str = "REG"

    @property
    def is_inlinable(self) -> bool:
        return self.is_inner


@exposed("name", "boxes", "loops", "item_bytes")
@dataclass(slots=True, eq=False, repr=False)
class Slot:
    name: str
    boxes: tuple[Box, ...]
    loops: tuple[Box, ...]
    item_bytes: int = 4


@exposed("name", "stage", "slot", "sizes", "outer", "reads")
@dataclass(slots=True, eq=False, repr=False)
class Box:
    name: str
    stage: Stage
    slot: str
    sizes: tuple[int, ...]
    outer: Box | None
    reads: tuple[Read, ...] = ()


@exposed("name", "terms", "c", "div", "slack")
@dataclass(slots=True, eq=False, repr=False)
class Read:
    name: str
    terms: tuple[Term, ...]
    c: int = 0
    div: int = 1
    slack: int = 0


@exposed("name", "box", "pos", "neg")
@dataclass(slots=True, eq=False, repr=False)
class Term:
    name: str
    box: Box
    pos: int = 1
    neg: int = 0


@exposed("stages", "inner", "boxes", "loops", "slots", "full")
@dataclass(slots=True, eq=False)
class Pipeline:
    stages: tuple[Stage, ...]
    boxes: tuple[Box, ...]
    full: int = FULL

    @property
    def inner(self) -> tuple[Stage, ...]:
        return tuple(stage for stage in self.stages if stage.is_inner)

    @property
    def loops(self) -> tuple[Box, ...]:
        return tuple(box for box in self.boxes if box.slot != "ROOT")

    @property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(slot for stage in self.stages for slot in stage.slots)


@exposed("shared_bytes", "max_threads")
@dataclass(frozen=True, slots=True)
class Gpu:
    shared_bytes: int = 48 << 10
    max_threads: int = 1024


def pipeline(
    stages: Mapping[str, Mapping[str, Stencil]], extent: int = 1024, tiles: Sequence[int] = (4, 16, 64)
) -> Pipeline:
    """`stages[consumer][producer]` are the taps; the last stage is the output, and producers come first."""
    *inner, output = stages
    made = {name: Stage(name, name != output) for name in stages}
    consumers = {name: [c for c, reads in stages.items() if name in reads] for name in stages}
    for number, name in enumerate(reversed(list(stages))):
        made[name].from_output = number
    boxes: dict[tuple[str, str, str], Box] = {}
    for name, stage in made.items():
        for dimension in DIMENSIONS:
            around: Box | None = None
            for slot in SLOTS:
                sizes = (FULL,) if slot == "ROOT" else (*tiles, FULL)
                box = Box(f"{name}.{dimension}.{slot}", stage, slot, sizes, around)
                boxes[name, dimension, slot] = around = box
        stage.slots = tuple(
            Slot(
                f"{name}.{slot}",
                tuple(boxes[name, d, slot] for d in DIMENSIONS),
                tuple(boxes[name, d, slot] for d in DIMENSIONS),
            )
            for slot in SLOTS[1:]
        )
    for (name, dimension, slot), box in boxes.items():
        reads = [
            Read(
                f"{box.name}<-{consumer}{tap:+}", (Term(f"{box.name}<-{consumer}{tap:+}.term", around),), tap
            )
            for consumer in consumers[name]
            for around in (boxes[consumer, dimension, slot],)
            for tap in stages[consumer][name][DIMENSIONS.index(dimension)]
        ]
        box.reads = tuple(reads) or (Read(f"{box.name}.all", (), slack=extent - 1),)
    for name in inner:
        host = _post_dominator(name, consumers, list(stages))
        between = _between(name, host, consumers)
        made[name].host = made[host]
        made[name].between = tuple(made[n] for n in stages if n in between)
        made[host].guests = (*made[host].guests, made[name])
    return Pipeline(tuple(made.values()), tuple(boxes.values()))


def _post_dominator(name: str, consumers: Mapping[str, Sequence[str]], order: Sequence[str]) -> str:
    """The first stage after this one that all paths to the output pass."""
    above: dict[str, set[str]] = {}
    for each in reversed(order):
        sets = [above[c] for c in consumers[each]]
        above[each] = {each} | (set.intersection(*sets) if sets else set())
    return next(each for each in order if each != name and each in above[name])


def _between(name: str, host: str, consumers: Mapping[str, Sequence[str]]) -> set[str]:
    found: set[str] = set()
    pending = list(consumers[name])
    while pending:
        each = pending.pop()
        if each != host and each not in found:
            found.add(each)
            pending += consumers[each]
    return found


POINT: Stencil = ((0,), (0,))
CROSS: Stencil = ((-1, 0, 1), (-1, 0, 1))

BLUR: Mapping[str, Mapping[str, Stencil]] = {
    "blur_x": {},
    "blur_y": {"blur_x": ((0,), (0, 1, 2))},
}
HARRIS: Mapping[str, Mapping[str, Stencil]] = {
    "gray": {},
    "ix": {"gray": CROSS},
    "iy": {"gray": CROSS},
    "ixx": {"ix": POINT},
    "iyy": {"iy": POINT},
    "ixy": {"ix": POINT, "iy": POINT},
    "sxx": {"ixx": CROSS},
    "syy": {"iyy": CROSS},
    "sxy": {"ixy": CROSS},
    "det": {"sxx": POINT, "syy": POINT, "sxy": POINT},
    "trace": {"sxx": POINT, "syy": POINT},
    "harris": {"det": POINT, "trace": POINT},
}
