"""The semantic backbone of pipelines: steps, the boxes that they compute, and what these have to cover.

In: built by `build.py` from an algorithm and its boxes. Out: the objects that `spaces/pipeline.space` names.
Nothing here decides anything: sites and tiles are choices of the space.

A *step* is what is computed together, in one loop nest: the definition of a stage, or one of its updates.
Its path is cut into *slots*, outermost first; down to its site, it shares those of its host, which encloses
all that read it. At each slot it has a *box*: what one iteration of the loops of that slot computes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.algorithm import Algorithm, Binary, Constant, Stage, Update
from spacedsl.kernels.pipeline.algorithm import Box as Region
from spacedsl.kernels.pipeline.best import Best
from spacedsl.kernels.pipeline.reductions import is_accumulation, turn_count
from spacedsl.language.host import exposed

SlotName = Literal["ROOT", "TASK", "CHUNK", "LANE", "REG"]
SLOTS: tuple[SlotName, ...] = ("ROOT", "TASK", "CHUNK", "LANE", "REG")
"""Outermost first. ROOT is all of a step, and has no loops."""

FOLLOWING: tuple[SlotName, ...] = ("CHUNK", "LANE")
"""Those whose iterations follow each other in a thread of a CPU."""

FULL = 2**40
"""The size of a tile that is its whole box, so that there is no loop."""

MOST_COPIES = 64
"""Of the value of an inlined step, for one point of what is not."""

MOST_UNROLLED = 32
"""Copies of a point, or of a vector, that are written out."""

MOST_WRITTEN_OUT = 4
"""Points along a dimension that are written out where which of them it is decides something."""

ADDED = (DType.I32, DType.F32, DType.F64)
"""Types of numbers that memory of a GPU adds up."""

PART_BYTES = 64
"""What partial results of one task begin at multiples of: a cache line is of one task."""

VECTOR = 4
"""Elements that a vector of a GPU has at most."""

TOGETHER = 32
"""Partial results that a thread of a GPU makes one of."""

MOST_PARTIAL_BYTES = 2**24
"""Of all partial results of a step together."""


TASK_WORK = 2**15
"""Points, with all turns of their ranges, that take about as long as a thread of a CPU takes to wake up."""

BLOCK_WORK = 2**12
"""The same that a block of a GPU is worth: some for each of its threads."""


@exposed(
    *("name", "cap", "host", "between", "before", "is_output", "is_inlinable", "from_output", "loops"),
    *("uses", "guests", "first", "kept_bytes", "kept_arrays", "is_copy"),
    *("spread", "host_turns", "parted", "part_bytes", "is_sum", "orderable"),
    *("is_arrangeable", "layouts", "kept_boxes", "is_accumulation", "exchanged"),
    *("free_points", "work", "keeps_best", "widest_bytes", "rows"),
)
@dataclass(slots=True, eq=False, repr=False)
class Step:
    """The builder fills in the relations."""

    name: str
    """That of its stage; of updates with their number: `histogram.1` is the first one."""
    stage: Stage
    """Of the exit, the host of what several outputs need, one without values."""
    update: int | None
    """Which of the stage's, from 0 on; None of its definition."""
    dims: tuple[str, ...]
    """The variables that it has a loop for, the innermost first; those of ranges first."""
    from_output: int
    is_output: bool = False
    is_inlinable: bool = False
    is_slidable: bool = False
    """Whether, from one iteration of any loop around it to the next, it is needed further on along one of its
    dimensions, and nowhere before."""
    copied: str | None = None
    """The input that it is a copy of."""
    host: Step | None = None
    """The innermost step that all paths from it to the exit pass through."""
    readers: tuple[Step, ...] = ()
    """The steps that need what it has computed; of an output, the exit too."""
    sources: tuple[Step, ...] = ()
    """The steps whose values it needs, in the order in which it reads them."""
    uses: tuple[Use, ...] = ()
    """How often each of them reads it at a point; the exit reads nothing."""
    spread: int = 1
    """Different points of it that a point of its host needs, where all between them is inlined."""
    between: tuple[Step, ...] = ()
    """The steps on paths from it to its host."""
    before: Step | None = None
    """Of an update: the step that gives its stage the values that it updates."""
    neutral: tuple[Constant, ...] | None = None
    """Of a reduction: what partial results of it begin with."""
    best: Best | None = None
    """Of a reduction that keeps the best of what it meets: of what, and when. Its parts come in order."""
    part_points: int = 0
    """Of a reduction: room for the partial results of one task, in points of its stage."""
    guests: tuple[Step, ...] = ()
    """The steps whose host it is."""
    slots: tuple[Slot, ...] = ()
    """All of them, as in `SLOTS`; the exit has none."""
    layouts: tuple[int, ...] = (0,)
    """Places of the dimensions that elements of its stage may lie beside each other along: the first one, and
    those that are more than a point long, as what they come before is."""

    @property
    def cap(self) -> SlotName:
        """The innermost site that there may be: within the exit there is nothing but ROOT."""
        return "ROOT" if self.host is None or self.host.is_exit else "REG"

    @property
    def is_copy(self) -> bool:
        """Of an input: inlined, it is none, however often it is read."""
        return self.copied is not None

    @property
    def turns(self) -> int:
        """Of its ranges."""
        return turn_count(self.definition)

    @property
    def free_points(self) -> int:
        """Of all that is needed, without its ranges: what may be computed beside each other."""
        return math.prod(self.points(dim) for dim in self.variables)

    @property
    def work(self) -> int:
        """Those, with all turns of their ranges."""
        return self.free_points * self.turns

    @property
    def host_turns(self) -> int:
        return 1 if self.host is None else self.host.turns

    @property
    def parted(self) -> Box | None:
        """Of a reduction: the tasks of its outermost range, which have parts of it."""
        if self.neutral is None:
            return None
        assert isinstance(self.definition, Update)
        return self.box(self.definition.ranges[-1].name, "TASK")

    @property
    def keeps_best(self) -> bool:
        """Whether it is a reduction of which only parts of the outermost range may be combined, in order."""
        return self.best is not None

    @property
    def exchanged(self) -> tuple[Box, ...]:
        """Of a reduction in any order: the threads of its innermost range."""
        return () if self.neutral is None or self.keeps_best else (self.box(self.dims[0], "LANE"),)

    @property
    def is_accumulation(self) -> bool:
        """Of an update: whether each point goes on with what it is itself."""
        return isinstance(self.definition, Update) and is_accumulation(self.stage, self.definition)

    @property
    def is_sum(self) -> bool:
        """Of a reduction: whether it adds up what memory of a GPU can add up by itself."""
        return self.neutral is not None and all(
            isinstance(value, Binary) and value.operator == "+" and value.dtype in ADDED
            for value in self.definition.values
        )

    @property
    def widest_bytes(self) -> int:
        """Of the widest of its values."""
        return max(dtype.nbytes for dtype in self.stage.dtypes)

    @property
    def part_bytes(self) -> int:
        """Of all values."""
        return self.part_points * sum(dtype.nbytes for dtype in self.stage.dtypes)

    @property
    def first(self) -> Step:
        """The definition of its stage."""
        return self if self.before is None else self.before.first

    @property
    def is_last(self) -> bool:
        """Whether its stage has its values after it. Where it is computed, there they are kept."""
        return self.update == (len(self.stage.updates) - 1 if self.stage.updates else None)

    @property
    def kept_bytes(self) -> int:
        """Of a point of its stage, all values; counted for its last step."""
        return sum(dtype.nbytes for dtype in self.stage.dtypes) if self.is_last else 0

    @property
    def kept_arrays(self) -> int:
        """Of its stage, one for each value; counted for its last step."""
        return len(self.stage.dtypes) if self.is_last else 0

    @property
    def is_arrangeable(self) -> bool:
        """Whether it is the last one of a stage that no caller sees, of which elements may lie in several
        orders.
        """
        return len(self.layouts) > 1 and self.is_last and not self.is_output

    @property
    def kept_boxes(self) -> tuple[Box, ...]:
        """What its stage may keep, at each slot, along all dimensions but the first."""
        return tuple(box for slot in self.first.slots for box in slot.boxes[1:])

    @property
    def is_exit(self) -> bool:
        """Alone, it has no host."""
        return self.host is None

    @property
    def loops(self) -> tuple[Box, ...]:
        """Its boxes at the slots that it may own."""
        return tuple(box for slot in self.slots[1:] for box in slot.boxes)

    @property
    def orderable(self) -> tuple[Slot, ...]:
        """Slots in which its loops may be in another order."""
        return tuple(slot for slot in self.slots if slot.slot in FOLLOWING and len(slot.boxes) > 1)

    @property
    def rows(self) -> tuple[Box, ...]:
        """Of the innermost slot, its box along rows of its stage, where it has one."""
        return tuple(box for box in self.slots[-1].boxes if box.dim in self.stage.variables[:1])

    def box(self, dim: str, slot: str) -> Box:
        return next(b for s in self.slots if s.slot == slot for b in s.boxes if b.dim == dim)

    def points(self, dim: str) -> int:
        """Along a dimension, of all that is needed."""
        reads = self.box(dim, "ROOT").reads
        return max(r.least + r.more for r in reads) - min(r.least for r in reads) + 1

    @property
    def variables(self) -> tuple[str, ...]:
        """Those of its stage that it is done for each value of."""
        if self.update is None:
            return self.dims
        return self.stage.updates[self.update].variables(self.stage)

    @property
    def definition(self) -> Stage | Update:
        return self.stage if self.update is None else self.stage.updates[self.update]

    @property
    def updates_before(self) -> tuple[Step, ...]:
        """Those of its stage, the last one first."""
        before = self.before
        return () if before is None or before.update is None else (before, *before.updates_before)

    def __repr__(self) -> str:
        return self.name


@exposed("name", "reader", "count", "turns", "along")
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Use:
    """Reads of a step at different points."""

    name: str
    """`blur_y<-blur_x`."""
    reader: Step
    count: int
    turns: int
    """Of the ranges of the reader: so often it reads them for a point, where it is inlined."""
    along: int
    """Whether neighbours along a row of the reader read neighbours along a row: 1, or 0."""

    def __repr__(self) -> str:
        return self.name


@exposed("name", "step", "slot", "boxes", "places")
@dataclass(slots=True, eq=False, repr=False)
class Slot:
    """A part of the path of a step."""

    name: str
    """`blur.TASK`."""
    step: Step
    slot: SlotName
    boxes: tuple[Box, ...] = ()
    """The innermost dimension first."""

    @property
    def places(self) -> tuple[int, ...]:
        """Of its boxes."""
        return tuple(range(len(self.boxes)))

    def ordered(self, innermost: int) -> tuple[Box, ...]:
        """Its boxes as their loops are, the innermost first: the one at that place, then all others."""
        first, others = self.boxes[innermost : innermost + 1], self.boxes[innermost + 1 :]
        return (*first, *self.boxes[:innermost], *others)

    def __repr__(self) -> str:
        return self.name


@exposed(
    *("name", "step", "slot", "sizes", "outer", "reads", "is_range", "is_parted", "is_ordered"),
    *("place", "inside", "passes", "is_row"),
)
@dataclass(slots=True, eq=False, repr=False)
class Box:
    """Of one dimension, at a slot. What is inherited from the host covers what the step is read for."""

    name: str
    """`blur.x.TASK`."""
    step: Step
    dim: str
    slot: SlotName
    sizes: tuple[int, ...]
    """On offer where the step owns the slot; the last one is `FULL`."""
    outer: Box | None
    """That of the next slot outwards; None at ROOT."""
    is_range: bool
    """Whether the dimension is a range of an update, all of which is done wherever the update is."""
    is_parted: bool = False
    """Of the outermost range of a reduction: whether tasks may have parts of it."""
    is_ordered: bool = False
    """Of a range: whether tiles of it and of others would change the order of points that depend on it."""
    reads: tuple[Read, ...] = ()

    @property
    def passes(self) -> tuple[Step, ...]:
        """The updates before its step, of the same stage, that go through all of its dimension at once."""
        before = () if self.is_range else self.step.updates_before
        return tuple(step for step in before if self.dim not in step.variables)

    @property
    def place(self) -> int:
        """Of its dimension among those of its step, the innermost of which is at 0."""
        return self.step.dims.index(self.dim)

    @property
    def is_row(self) -> bool:
        """Whether elements of its stage that lie beside each other are, unless they are arranged otherwise,
        neighbours along it; of updates, which are as they are, it is not.
        """
        return self.dim in self.step.stage.variables[:1] and not self.step.stage.updates

    @property
    def inside(self) -> tuple[Box, ...]:
        """Those of the same slot whose dimensions are further in."""
        return self.step.slots[SLOTS.index(self.slot)].boxes[: self.place]

    def __repr__(self) -> str:
        return self.name


@exposed("name", "terms", "least", "divisor", "more")
@dataclass(slots=True, eq=False, repr=False)
class Read:
    """What a box has to cover: from (terms + least) / divisor up to (terms + least + more) / divisor.

    Both are rounded down; the terms have their least values in the first, their greatest in the second.
    Without terms, it is all that there is.
    """

    name: str
    terms: tuple[Term, ...]
    least: int
    divisor: int = 1
    more: int = 0

    def __repr__(self) -> str:
        return self.name


@exposed("name", "box", "positive", "negative")
@dataclass(slots=True, eq=False, repr=False)
class Term:
    """A position in another box at the same slot, times a number: `positive`, or `-negative`; one is 0."""

    name: str
    box: Box
    positive: int
    negative: int

    def __repr__(self) -> str:
        return self.name


@exposed(
    *("name", "steps", "inner", "updates", "reductions", "boxes", "loops", "full"),
    *("most_copies", "most_partial_bytes", "slidable", "windows", "orderable", "arrangeable"),
    *("task_work", "block_work", "vector"),
)
@dataclass(slots=True, eq=False)
class Kernel:
    """An algorithm as a space sees it."""

    algorithm: Algorithm
    """With copies of inputs."""
    steps: tuple[Step, ...]
    """Each behind those that it reads; the exit is the last one."""
    needed: Mapping[str, Region]
    """Of each stage, also of copies, and of each input."""

    @property
    def name(self) -> str:
        return self.algorithm.name

    @property
    def full(self) -> int:
        return FULL

    @property
    def most_copies(self) -> int:
        return MOST_COPIES

    @property
    def vector(self) -> int:
        return VECTOR

    @property
    def most_partial_bytes(self) -> int:
        return MOST_PARTIAL_BYTES

    @property
    def task_work(self) -> int:
        return TASK_WORK

    @property
    def block_work(self) -> int:
        return BLOCK_WORK

    @property
    def inner(self) -> tuple[Step, ...]:
        """All but the exit."""
        return tuple(step for step in self.steps if not step.is_exit)

    @property
    def updates(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.before is not None)

    @property
    def slidable(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.is_slidable)

    @property
    def windows(self) -> tuple[Slot, ...]:
        """Slots of these in which iterations follow each other."""
        return tuple(slot for step in self.slidable for slot in step.slots if slot.slot in FOLLOWING)

    @property
    def orderable(self) -> tuple[Slot, ...]:
        return tuple(slot for step in self.inner for slot in step.orderable)

    @property
    def arrangeable(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.is_arrangeable)

    @property
    def reductions(self) -> tuple[Step, ...]:
        """The updates whose points may be computed in parts that are combined afterwards."""
        return tuple(step for step in self.steps if step.neutral is not None)

    @property
    def boxes(self) -> tuple[Box, ...]:
        return (*(box for step in self.inner for box in step.slots[0].boxes), *self.loops)

    @property
    def loops(self) -> tuple[Box, ...]:
        """The boxes of slots that a step may own."""
        return tuple(box for step in self.steps for box in step.loops)
