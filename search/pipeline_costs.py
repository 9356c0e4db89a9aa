"""A cost model of pipelines on CPUs: how long implementations may take, to tell which are worth measuring.

In: an instance of a pipeline, a device, then complete candidates. Out: nanoseconds, roughly. Each step costs
what its innermost boxes compute, as vectors where neighbours are read, and what its reads move between levels
of memory: the largest box of its loops that a cache holds is loaded once for each iteration around it.
Nothing is excluded by this: `bounds/pipeline.py` says what no implementation undercuts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.kernels.device import CpuDevice
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.affine import Opaque, atoms, linear
from spacedsl.kernels.pipeline.algorithm import (
    Apply,
    Binary,
    Constant,
    Expression,
    Read,
    Update,
    Variable,
    expressions,
    operands,
    walk,
)
from spacedsl.kernels.pipeline.backbone import SLOTS, Kernel, SlotName, Step
from spacedsl.kernels.pipeline.interior import middle
from spacedsl.kernels.pipeline.reductions import turn_count
from spacedsl.kernels.pipeline.sites import Sites

BODY_NS, ROW_NS, START_NS = 3.0, 1.0, 3000.0
"""Of each innermost box, of each row in it, and of what runs in parallel: what is spent around the work."""

HELD = 0.6
"""The share of a cache that what is read again stays in."""

SLOW: Mapping[str, float] = {
    "exp": 15, "log": 15, "tanh": 20, "sqrt": 6, "abs": 1, "floor": 1, "ceil": 1, "trunc": 1, "round": 1,
}  # fmt: skip
"""Instructions of a function of vectors; others are called for each lane."""

CALL = 40.0

Pattern = Literal["same", "beside", "apart"]
"""Where neighbours along the innermost dimension are read: at one place, beside each other, or anywhere."""


@dataclass(frozen=True, slots=True)
class Access:
    """Reads of one array that move alike: along which dimensions of the step, and how for neighbours."""

    source: str
    dims: frozenset[str]
    pattern: Pattern
    nbytes: int


@dataclass(slots=True)
class _Work:
    """Of one point."""

    vector: float = 0.0
    """Instructions that work on all lanes."""
    scalar: float = 0.0
    """Those that each lane needs one of."""
    widest: int = 1
    accesses: Counter[Access] = field(default_factory=Counter)

    def add(self, other: _Work, times: int, moved: Mapping[str, frozenset[str]], pattern: Pattern) -> None:
        """What is inlined: `moved`, its dimensions in those of the step."""
        self.vector += other.vector * times
        self.scalar += other.scalar * times
        self.widest = max(self.widest, other.widest)
        for access, count in other.accesses.items():
            dims = frozenset[str]().union(*(moved[d] for d in access.dims))
            worst = access.pattern if pattern == "beside" else "same" if access.pattern == "same" else pattern
            self.accesses[Access(access.source, dims, worst, access.nbytes)] += count * times


class PipelineCosts:
    """The time of a complete candidate, in nanoseconds."""

    def __init__(self, instance: Instance, device: CpuDevice) -> None:
        kernel = instance.kernel
        assert isinstance(kernel, Kernel)
        self.instance = instance
        self.device = device
        self.steps = [step for step in kernel.steps if not step.is_exit]
        self.final = {step.stage.name: step for step in self.steps}
        self.names = instance.objects.names
        rates = [r.instructions_per_ns for r in device.arithmetic if r.dtype == "f32"]
        self.per_ns = max(rates, default=8.0)

    def __call__(self, candidate: Candidate) -> float:
        return _Estimate(self, candidate).total_ns()


class _Estimate:
    def __init__(self, costs: PipelineCosts, candidate: Candidate) -> None:
        self.costs = costs
        self.sites = Sites(costs.steps, lambda step: str(candidate.value("site", step)))
        self.quantities: dict[tuple[str, str], int] = {
            (name, costs.names[key[0]]): high
            for name, key, (_, high) in candidate.instance.propagation.quantities(candidate.vector)
            if len(key) == 1 and name in ("extent", "trips")
        }
        self.work: dict[Step, _Work] = {}
        self.passes: dict[tuple[Step, str], float] = {}

    def total_ns(self) -> float:
        threads = self.costs.device.threads
        total = 0.0
        for step in self.costs.steps:
            if self.sites.of[step] == "INLINE":
                continue
            root = step if self.sites.of[step] == "ROOT" else self.sites.owner(step, "TASK")
            assert root is not None
            tasks = math.prod(self.trips(root, "TASK"))
            speed = tasks / math.ceil(tasks / threads)
            total += self.step_ns(step) / min(speed, threads)
            total += START_NS if step is root and tasks > 1 else 0.0
        return total

    # ---- Loops -------------------------------------------------------------------------------------------

    def trips(self, step: Step, slot: SlotName) -> Iterator[int]:
        slots = step.slots[SLOTS.index(slot)]
        return (self.quantities["trips", box.name] for box in slots.boxes)

    def extent(self, step: Step, dim: str, slot: str) -> int:
        return self.quantities["extent", step.box(dim, slot).name]

    def iterations(self, step: Step, slot: SlotName) -> float:
        """Of all loops around a box of that slot."""
        if slot == "ROOT":
            return 1.0
        known = self.passes.get((step, slot))
        if known is None:
            if self.sites.shares(step, slot):
                owner = self.sites.owner(step, slot)
                assert owner is not None
                known = self.iterations(owner, slot)
            else:
                outer = SLOTS[SLOTS.index(slot) - 1]
                known = self.iterations(step, outer) * math.prod(self.trips(step, slot))
            self.passes[step, slot] = known
        return known

    # ---- Steps -------------------------------------------------------------------------------------------

    def step_ns(self, step: Step) -> float:
        work = self.of(step)
        along = step.stage.variables[0] if step.stage.variables else None
        extents = {d: self.extent(step, d, "REG") for d in step.dims}
        bodies = self.iterations(step, "REG")
        length = extents.get(along, 1) if along in step.variables else 1
        lanes = 1 << (max(1, min(self.costs.device.vector_bytes // work.widest, length)).bit_length() - 1)
        rows = math.prod(extents.values()) / length
        turns = -(-length // lanes) if length >= lanes else length
        each = work.vector + lanes * work.scalar + 1
        for access, count in work.accesses.items():
            each += count * (lanes if access.pattern == "apart" else 0.6)
        computed = rows * (turns * each / self.costs.per_ns + ROW_NS) + BODY_NS
        return bodies * computed + self.moved_ns(step, work, extents, along)

    def moved_ns(self, step: Step, work: _Work, extents: Mapping[str, int], along: str | None) -> float:
        """Between the levels of memory, for what the step reads and writes."""
        points = self.iterations(step, "REG") * math.prod(extents.values())
        own = [d.nbytes for d in step.stage.dtypes]
        total = 0.0
        inner = 0.0
        memory = self.costs.device.memory
        for level, beyond in pairwise(memory):
            inner += (level.capacity_bytes or 0) * HELD
            wide = [a for a in work.accesses if self.stored(a.source) > inner]
            missed = self.missed(step, wide, extents, along, inner) if wide else 0.0
            if self.stored(step.stage.name) > inner:
                missed += 2 * points * sum(own) / self.ranges(step, extents)
            total += missed / beyond.bytes_per_ns
        return total

    def ranges(self, step: Step, extents: Mapping[str, int]) -> float:
        return math.prod(n for d, n in extents.items() if d not in step.variables)

    def missed(
        self, step: Step, accesses: list[Access], extents: Mapping[str, int], along: str | None, inner: float
    ) -> float:
        """Bytes that are loaded from beyond a cache: once for each box that it holds."""
        for slot in SLOTS:
            boxes = {d: self.extent(step, d, slot) for d in step.dims}
            held = sum(self.footprint(a, boxes) for a in accesses)
            if held <= inner:
                return self.iterations(step, slot) * held
        row = {d: n if d == along else 1 for d, n in extents.items()}
        rows = self.iterations(step, "REG") * math.prod(n for d, n in extents.items() if d != along)
        return rows * sum(self.footprint(a, row) for a in accesses)

    def footprint(self, access: Access, boxes: Mapping[str, int]) -> float:
        touched = math.prod(boxes[d] for d in access.dims if d in boxes) * access.nbytes
        return min(touched, self.stored(access.source))

    def stored(self, source: str) -> float:
        """Bytes of the array of a stage, or of all that is read of an input."""
        step = self.costs.final.get(source)
        if step is None:
            return math.inf
        *_, first = _steps_of(step)
        site = self.sites.of[step]
        points = math.prod(self.extent(first, d, site) for d in first.dims)
        return points * sum(d.nbytes for d in step.stage.dtypes)

    # ---- Work of a point ---------------------------------------------------------------------------------

    def of(self, step: Step) -> _Work:
        if step in self.work:
            return self.work[step]
        work = _Work()
        along = step.stage.variables[0] if step.stage.variables else None
        seen: dict[Read, None] = {}
        for expression in expressions(step.definition):
            for node in _computed(expression):
                if isinstance(node, Read):
                    seen[node] = None
                else:
                    _count(node, work)
        is_inlined = self.sites.of[step] == "INLINE"
        for read in seen:
            if is_inlined and read.source == step.stage.name:
                # What an accumulation goes on with is in a register.
                continue
            moved, pattern = _moved(read, along, step.dims)
            source = self.costs.final.get(read.source)
            if source is not None and source is not step and self.sites.of[source] == "INLINE":
                dims = dict(zip(source.stage.variables, moved, strict=True))
                for each in _steps_of(source):
                    ranges = dict.fromkeys(each.dims, frozenset[str]())
                    turns = turn_count(each.definition) if isinstance(each.definition, Update) else 1
                    work.add(self.of(each), turns, {**ranges, **dims}, pattern)
            else:
                dims_all = frozenset[str]().union(*moved)
                work.accesses[Access(read.source, dims_all, pattern, read.dtype.nbytes)] += 1
        self.work[step] = work
        return work


def _steps_of(last: Step) -> Iterator[Step]:
    """All steps of a stage, of which this is the last one."""
    step: Step | None = last
    while step is not None:
        yield step
        step = step.before


def _computed(node: Expression) -> Iterator[Expression]:
    """All that is computed for an expression; of a read, what is computed for its position."""
    yield node
    if isinstance(node, Read):
        for at in node.point:
            for atom in atoms(linear(at)):
                if isinstance(atom, Opaque):
                    yield from _computed(atom.expression)
        return
    for part in operands(node):
        yield from _computed(part)


def _count(node: Expression, work: _Work) -> None:
    size = 4 if node.dtype is DType.F16 else node.dtype.nbytes
    match node:
        case Constant() | Variable():
            return
        case Apply(function):
            if function in SLOW:
                work.vector += SLOW[function]
            else:
                work.scalar += CALL
        case Binary("/" | "%", _, right):
            is_plain = node.dtype.is_float or isinstance(right, Constant)
            work.vector += 5 if is_plain else 0
            work.scalar += 0 if is_plain else 8
        case _:
            work.vector += 1
    work.widest = max(work.widest, size)


def _moved(
    read: Read, along: str | None, dims: tuple[str, ...]
) -> tuple[tuple[frozenset[str], ...], Pattern]:
    """Of each position of a read, the dimensions that it moves with; and where neighbours are."""
    moved = []
    pattern: Pattern = "same"
    for place, at in enumerate(read.point):
        names = frozenset(n.name for n in walk(at) if isinstance(n, Variable)) & frozenset(dims)
        moved.append(names)
        form = linear(at)
        has_values = any(isinstance(atom, Opaque) for atom in atoms(form))
        if along is None or (along not in names and not has_values):
            continue
        inside = middle(form, along)
        is_beside = place == 0 and not has_values and (Variable(along), 1) in inside.terms
        is_beside = is_beside and [*atoms(inside)].count(Variable(along)) == 1
        pattern = "beside" if is_beside and pattern != "apart" else "apart"
    return tuple(moved), pattern
