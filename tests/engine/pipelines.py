"""Image pipelines as plain objects, for `tests/language/corpus/pipeline.space`: stages over two dimensions.

In: for each stage, what it reads of which others, with stencils, downsampling and upsampling. Out: a kernel:
stages with their hosts, boxes for each slot and dimension, loops, and what each box has to cover. All graphs
are sparse: what a stage is linked to are tuples on it. `benchmarks/pipeline_spaces.py` measures spaces of
these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spacedsl.language.host import exposed

SPACE = Path(__file__).parents[1] / "language" / "corpus" / "pipeline.space"
FULL = 2**40
SLOTS = ("ROOT", "TASK", "CHUNK", "LANE", "REG")
DIMENSIONS = ("x", "y")


@dataclass(frozen=True, slots=True)
class Access:
    """Along each dimension, index i of a consumer reads (times * i + tap) // by for each tap."""

    x: Sequence[int] = (0,)
    y: Sequence[int] = (0,)
    times: int = 1
    by: int = 1

    @property
    def taps(self) -> tuple[Sequence[int], Sequence[int]]:
        return self.x, self.y


Graph = Mapping[str, Mapping[str, Access]]
"""`graph[consumer][producer]`; the last stage is the output, and producers come first."""


@exposed(
    *("name", "cap", "inner", "inlinable", "host", "guests", "between", "from_output"),
    *("task", "chunk", "lane", "reg"),
)
@dataclass(slots=True, eq=False, repr=False)
class Stage:
    name: str
    inner: bool
    from_output: int
    host: Stage | None = None
    guests: tuple[Stage, ...] = ()
    between: tuple[Stage, ...] = ()
    slots: tuple[Slot, ...] = ()
    cap: str = "REG"

    @property
    def inlinable(self) -> bool:
        return self.inner

    @property
    def task(self) -> Slot:
        return self.slots[0]

    @property
    def chunk(self) -> Slot:
        return self.slots[1]

    @property
    def lane(self) -> Slot:
        return self.slots[2]

    @property
    def reg(self) -> Slot:
        return self.slots[3]


@exposed("name", "stage", "boxes", "loops", "item_bytes")
@dataclass(slots=True, eq=False, repr=False)
class Slot:
    """One that a stage may own; each of its boxes may be a loop."""

    name: str
    stage: Stage
    boxes: tuple[Box, ...]
    item_bytes: int = 4

    @property
    def loops(self) -> tuple[Box, ...]:
        return self.boxes


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
    """What one consumer needs: from (sum + c) // div of the least indices to (sum + c + slack) // div."""

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


@exposed("stages", "inner", "updates", "boxes", "loops", "slots", "full")
@dataclass(slots=True, eq=False)
class Pipeline:
    stages: tuple[Stage, ...]
    boxes: tuple[Box, ...]
    updates: tuple[Stage, ...] = ()
    full: int = FULL

    @property
    def inner(self) -> tuple[Stage, ...]:
        return tuple(stage for stage in self.stages if stage.inner)

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


def pipeline(graph: Graph, extent: int = 1024, tiles: Sequence[int] = (4, 16, 64)) -> Pipeline:
    order = list(graph)
    output = order[-1]
    made = {name: Stage(name, name != output, len(order) - 1 - at) for at, name in enumerate(order)}
    consumers: dict[str, list[str]] = {name: [] for name in order}
    for consumer, reads in graph.items():
        for producer in reads:
            consumers[producer].append(consumer)
    boxes = {
        (name, dimension, box.slot): box
        for name, stage in made.items()
        for dimension in DIMENSIONS
        for box in _boxes(stage, dimension, tiles)
    }
    for name, stage in made.items():
        stage.slots = tuple(
            Slot(f"{name}.{slot}", stage, tuple(boxes[name, d, slot] for d in DIMENSIONS))
            for slot in SLOTS[1:]
        )
    for (name, dimension, slot), box in boxes.items():
        read = (
            _read(box, boxes[consumer, dimension, slot], graph[consumer][name], DIMENSIONS.index(dimension))
            for consumer in consumers[name]
        )
        box.reads = tuple(read) or (Read(f"{box.name}.all", (), slack=extent - 1),)
    hosts = _post_dominators(order, consumers)
    for name, host in hosts.items():
        between = _between(name, host, consumers)
        made[name].host = made[host]
        made[name].between = tuple(made[n] for n in order if n in between)
        made[host].guests = (*made[host].guests, made[name])
    return Pipeline(tuple(made.values()), tuple(boxes.values()))


def _boxes(stage: Stage, dimension: str, tiles: Sequence[int]) -> Iterator[Box]:
    around: Box | None = None
    for slot in SLOTS:
        sizes = (FULL,) if slot == "ROOT" else (*tiles, FULL)
        around = Box(f"{stage.name}.{dimension}.{slot}", stage, slot, sizes, around)
        yield around


def _read(box: Box, consumer: Box, access: Access, dimension: int) -> Read:
    """The hull of all taps; a box whose origin may lie anywhere covers one more element of a division."""
    taps = access.taps[dimension]
    name = f"{box.name}<-{consumer.name}"
    unaligned = 0 if box.slot == "ROOT" else access.by - 1
    term = Term(f"{name}.term", consumer, access.times)
    return Read(name, (term,), min(taps), access.by, max(taps) - min(taps) + unaligned)


def _post_dominators(order: Sequence[str], consumers: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """By stage: the first one after it that all paths to the output pass (Cooper, Harvey, Kennedy 2001)."""
    place = {name: at for at, name in enumerate(order)}
    found: dict[str, str] = {}
    for name in reversed(order[:-1]):
        met = set(consumers[name])
        while len(met) > 1:
            first = min(met, key=place.__getitem__)
            met = met - {first} | {found[first]}
        (found[name],) = met
    return {name: found[name] for name in order[:-1]}


def _between(name: str, host: str, consumers: Mapping[str, Sequence[str]]) -> set[str]:
    found: set[str] = set()
    pending = list(consumers[name])
    while pending:
        each = pending.pop()
        if each != host and each not in found:
            found.add(each)
            pending += consumers[each]
    return found


POINT = Access()
CROSS = Access((-1, 0, 1), (-1, 0, 1))
DOWN_X, DOWN_Y = Access(x=(-1, 0, 1, 2), times=2), Access(y=(-1, 0, 1, 2), times=2)
UP_X, UP_Y = Access(x=(-1, 0, 1), by=2), Access(y=(-1, 0, 1), by=2)

BLUR: Graph = {
    "blur_x": {},
    "blur_y": {"blur_x": Access(y=(0, 1, 2))},
}
HARRIS: Graph = {
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


def local_laplacian(levels: int = 8) -> Graph:
    """Pyramids of a grey image and of its remapped copy, their differences, and the way back up."""
    graph: dict[str, Mapping[str, Access]] = {
        "padded": {},
        "floating": {"padded": POINT},
        "gray": {"floating": POINT},
        "table": {},
        "g0": {"gray": POINT, "table": POINT},
    }

    def down(source: str, target: str) -> None:
        graph[f"{target}_x"] = {source: DOWN_X}
        graph[target] = {f"{target}_x": DOWN_Y}

    def up(source: str, target: str, beside: str) -> None:
        graph[f"{target}_x"] = {source: UP_X}
        graph[f"{target}_y"] = {f"{target}_x": UP_Y}
        graph[target] = {f"{target}_y": POINT, beside: POINT}

    for level in range(1, levels):
        down(f"g{level - 1}", f"g{level}")
        down(f"in{level - 1}" if level > 1 else "gray", f"in{level}")
    for level in range(levels - 1):
        up(f"g{level + 1}", f"l{level}", f"g{level}")
    for level in range(levels):
        laplacian = f"l{level}" if level < levels - 1 else f"g{level}"
        graph[f"mixed{level}"] = {laplacian: POINT, f"in{level}" if level else "gray": POINT}
    for level in reversed(range(levels - 1)):
        above = f"out{level + 1}" if level < levels - 2 else f"mixed{level + 1}"
        up(above, f"out{level}", f"mixed{level}")
    graph["color"] = {"out0": POINT, "floating": POINT, "gray": POINT}
    graph["output"] = {"color": POINT}
    return graph


def chain(stages: int) -> Graph:
    """Stencils of three by three, one after the other."""
    return {f"s{n}": {f"s{n - 1}": CROSS} if n else {} for n in range(stages)}
