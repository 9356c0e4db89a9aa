"""A schedule of a pipeline on a part of its outputs: what a CPU can check of code for a GPU.

In: a kernel file, and a complete candidate of it. Out: kernels of which less is wanted, with the same
decisions about them: sites, and tiles as far as there is as much as a tile. Smaller and smaller ones follow
each other. Their text is not that of the whole: what is known of ends of boxes is another thing. What depends
on large numbers alone is for `verify.py`, which goes through the accesses of the whole program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial

from spacedsl.codegen.pipeline.schedule import Decisions
from spacedsl.kernels.pipeline.algorithm import Box as Region
from spacedsl.kernels.pipeline.algorithm import Extent
from spacedsl.kernels.pipeline.backbone import SLOTS, VECTOR, Box, Kernel, Slot, Step
from spacedsl.kernels.pipeline.corner import corner, needed
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.kernels.pipeline.work import points

KEPT_TILES: Mapping[str, int] = {"TASK": 2, "CHUNK": 3}
"""Of a nest, along each dimension, of its outermost loops; and the last one, where it ends early."""

FEW_POINTS = 1 << 16
"""Of all stages together: a pipeline that has no more is checked as it is."""

MOST_POINTS = 1 << 25
"""Of all stages together: what computes more takes seconds. Each point is a statement at least."""

FEW_ELEMENTS = 1024
"""Of an output that may stay whole."""

HARDLY_MORE, LESS = 1.25, 2
"""So many times the points of the smallest part are as good; the next part has so many times less."""

_SMALLEST = 8
"""Points along a dimension of an output."""


@dataclass(slots=True)
class CornerDecisions:
    """Those about a kernel, for one of which less is wanted."""

    whole: Kernel
    made: Decisions
    kernel: Kernel
    _of: dict[Step, Step] = field(init=False)
    """Steps of the whole, by those of the corner."""
    _ends: dict[Box, tuple[int, int]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        named = {step.name: step for step in self.whole.steps}
        self._of = {step: named[step.name] for step in self.kernel.steps}

    def site(self, step: Step) -> str:
        return self.made.site(self._of[step])

    def reduce(self, step: Step) -> str:
        return self.made.reduce(self._of[step])

    def extent(self, box: Box) -> int:
        low, high = self.ends(box)
        return max(1, high - low + 1)

    def beside(self, step: Step) -> int:
        return self.made.beside(self._of[step])

    def trips(self, box: Box) -> int:
        if box.outer is None or not self.is_owned(box):
            return 1
        return -(-self.extent(box.outer) // self.extent(box))

    def is_sliding(self, step: Step) -> bool:
        return self.made.is_sliding(self._of[step])

    def innermost(self, slot: Slot) -> int:
        return self.made.innermost(self._of[slot.step].slots[SLOTS.index(slot.slot)])

    def layout(self, step: Step) -> int:
        return self.made.layout(self._of[step])

    def is_owned(self, box: Box) -> bool:
        """Whether the step has loops of its own there."""
        order = (*SLOTS, "INLINE")
        return order.index(self.site(box.step)) < order.index(box.slot)

    def ends(self, box: Box) -> tuple[int, int]:
        """Counted from where the box begins of the step that owns the slot."""
        if box not in self._ends:
            if self.is_owned(box):
                assert box.outer is not None
                own = self._of[box.step].box(box.dim, box.slot)
                room = self.extent(box.outer)
                tile = self.made.extent(own) if self.made.trips(own) > 1 else room
                self._ends[box] = 0, min(tile, room) - 1
            else:
                self._ends[box] = self.covered(box)
        return self._ends[box]

    def covered(self, box: Box) -> tuple[int, int]:
        """All that is read of it."""
        lows, highs = [], []
        for read in box.reads:
            low = high = read.least
            for term in read.terms:
                least, most = self.ends(term.box)
                low += term.positive * least - term.negative * most
                high += term.positive * most - term.negative * least
            lows.append(low // read.divisor)
            highs.append((high + read.more) // read.divisor)
        return min(lows), max(highs)


Part = Mapping[str, Region]
"""Of each output."""


@dataclass(frozen=True, slots=True)
class Smaller:
    """A pipeline of which less is wanted."""

    points: float
    """Of all its stages together."""
    cut: Callable[[], tuple[PipelineFile, Decisions]]
    """Makes it, and what is decided about it."""


def corners(file: PipelineFile, made: Decisions) -> Iterator[Sequence[Smaller]]:
    """At the beginning of outputs, and at their end, smaller and smaller ones.

    A small pipeline is checked as it is.
    """
    whole = points(file.algorithm, file.boxes)
    if whole <= FEW_POINTS:
        yield [Smaller(whole, lambda: (file, made))]
        return
    yield [*_smaller(file, made, is_end=False)]
    yield [*_smaller(file, made, is_end=True)]


def _smaller(file: PipelineFile, made: Decisions, *, is_end: bool) -> Iterator[Smaller]:
    """From the first part on that may be easily executed, or costs hardly more than the smallest one."""
    counted: list[tuple[Part, float]] = []
    kept = _kept(file, made)
    while not counted or part(file, kept, is_end=is_end) != counted[-1][0]:
        wanted = part(file, kept, is_end=is_end)
        counted.append((wanted, _points(file, tuple(wanted.items()))))
        kept = [max(size // 2, min(size, _SMALLEST)) for size in kept]
    enough = max(MOST_POINTS, HARDLY_MORE * min(count for _, count in counted))
    before = math.inf
    for wanted, count in counted:
        if count <= min(enough, before / LESS):
            before = count
            yield Smaller(count, partial(_cut, file, made, tuple(wanted.items())))


def _cut(
    file: PipelineFile, made: Decisions, wanted: tuple[tuple[str, Region], ...]
) -> tuple[PipelineFile, Decisions]:
    cut = _corner(file, wanted)
    return cut, CornerDecisions(file.backbone, made, cut.backbone)


@lru_cache(maxsize=256)
def _points(file: PipelineFile, wanted: tuple[tuple[str, Region], ...]) -> float:
    """Of all stages that a part needs; infinitely many where it does not need all of them."""
    boxes = needed(file, dict(wanted))
    return points(file.algorithm, boxes) if boxes.keys() == file.boxes.keys() else math.inf


@lru_cache(maxsize=16)
def _corner(file: PipelineFile, wanted: tuple[tuple[str, Region], ...]) -> PipelineFile:
    """Implementations near each other are checked on the same parts."""
    return corner(file, dict(wanted))


def part(file: PipelineFile, kept: Sequence[int], *, is_end: bool) -> Part:
    """So many points along each dimension of the outputs, the innermost first, as far as there are so many;
    of rows some more, so that as much is left of them as of the whole when they are cut into vectors. Inputs
    have the extents that the file says, or what is needed of them, which may be another number at an edge.

    What has few points stays whole where that costs hardly more: of a histogram, each point depends on all of
    the image, and rounding may leave nothing to compare in the first ones.
    """
    outputs = file.algorithm.outputs
    wanted = {
        name: tuple(
            _end(extent, count if at else count + (extent.size - count) % VECTOR, is_end=is_end)
            for at, (extent, count) in enumerate(zip(box, kept, strict=False))
        )
        for name, box in outputs.items()
    }
    most = HARDLY_MORE * _points(file, tuple(wanted.items()))
    for name, box in outputs.items():
        if math.prod(extent.size for extent in box) <= FEW_ELEMENTS:
            fuller = {**wanted, name: box}
            if _points(file, tuple(fuller.items())) <= most:
                wanted = fuller
    return wanted


def _end(extent: Extent, count: int, *, is_end: bool) -> Extent:
    size = min(count, extent.size)
    return Extent(extent.high - size + 1 if is_end else extent.low, size)


def _kept(file: PipelineFile, made: Decisions) -> list[int]:
    """Points along each dimension, the innermost first: tiles of every kind of each nest at ROOT."""
    found = [1] * max(len(box) for box in file.boxes.values())
    for step in file.backbone.inner:
        if made.site(step) != "ROOT":
            continue
        for at, variable in enumerate(step.stage.variables):
            if variable in step.variables:
                found[at] = max(found[at], _of_dimension(step, variable, made))
    return found


def _of_dimension(step: Step, dim: str, made: Decisions) -> int:
    whole = made.extent(step.box(dim, "ROOT"))
    for slot, count in KEPT_TILES.items():
        box = step.box(dim, slot)
        if made.trips(box) > 1:
            tile = made.extent(box)
            return min(whole, count * tile + whole % tile)
    return whole
