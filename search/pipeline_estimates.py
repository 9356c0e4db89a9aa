"""What cost models of pipelines count: the work of a point, boxes and iterations, and what is kept where.

In: an instance of a pipeline, then complete candidates. Out: an `Estimate` of each, as far as it is the same
on every machine. How long that takes is for `pipeline_costs.py` and `gpu_pipeline_costs.py`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.affine import Opaque, atoms, linear
from spacedsl.kernels.pipeline.algorithm import (
    Apply,
    Binary,
    Constant,
    Expression,
    Read,
    Variable,
    expressions,
    operands,
    walk,
)
from spacedsl.kernels.pipeline.backbone import SLOTS, Kernel, SlotName, Step
from spacedsl.kernels.pipeline.interior import middle
from spacedsl.kernels.pipeline.sites import Sites

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
class Work:
    """Of one point."""

    vector: float = 0.0
    """Instructions that work on all lanes."""
    scalar: float = 0.0
    """Those that each lane needs one of."""
    widest: int = 1
    accesses: Counter[Access] = field(default_factory=Counter)

    def add(self, other: Work, times: int, moved: Mapping[str, frozenset[str]], pattern: Pattern) -> None:
        """What is inlined: `moved`, its dimensions in those of the step."""
        self.vector += other.vector * times
        self.scalar += other.scalar * times
        self.widest = max(self.widest, other.widest)
        for access, count in other.accesses.items():
            dims = frozenset[str]().union(*(moved[d] for d in access.dims))
            worst = access.pattern if pattern == "beside" else "same" if access.pattern == "same" else pattern
            self.accesses[Access(access.source, dims, worst, access.nbytes)] += count * times


class Steps:
    """Of the pipeline of an instance."""

    def __init__(self, instance: Instance) -> None:
        kernel = instance.kernel
        assert isinstance(kernel, Kernel)
        self.all = [step for step in kernel.steps if not step.is_exit]
        self.final = {step.stage.name: step for step in self.all}
        self.names = instance.objects.names
        self.boxes: dict[tuple[Step, str, str], str] = {
            (step, box.dim, slot.slot): box.name
            for step in self.all
            for slot in step.slots
            for box in slot.boxes
        }
        """Their names, by step, dimension and slot."""


class Estimate(ABC):
    """Of one complete candidate."""

    def __init__(self, steps: Steps, candidate: Candidate) -> None:
        self.steps = steps
        self.sites = Sites(steps.all, lambda step: str(candidate.value("site", step)))
        self.quantities: dict[tuple[str, str], int] = {
            (name, steps.names[key[0]]): high
            for name, key, (_, high) in candidate.instance.propagation.quantities(candidate.vector)
            if len(key) == 1 and name in ("extent", "trips")
        }
        self.work: dict[Step, Work] = {}
        self.passes: dict[tuple[Step, str], float] = {}

    @abstractmethod
    def total_ns(self) -> float: ...

    def root(self, step: Step) -> Step:
        """The step at ROOT in whose nest it is computed."""
        owner = step if self.sites.of[step] == "ROOT" else self.sites.owner(step, "TASK")
        assert owner is not None
        return owner

    # ---- Loops -------------------------------------------------------------------------------------------

    def trips(self, step: Step, slot: SlotName) -> Iterator[int]:
        slots = step.slots[SLOTS.index(slot)]
        return (self.quantities["trips", box.name] for box in slots.boxes)

    def extent(self, step: Step, dim: str, slot: str) -> int:
        return self.quantities["extent", self.steps.boxes[step, dim, slot]]

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

    # ---- Memory ------------------------------------------------------------------------------------------

    def footprint(self, access: Access, boxes: Mapping[str, int]) -> float:
        touched = math.prod(boxes[d] for d in access.dims if d in boxes) * access.nbytes
        return min(touched, self.stored(access.source))

    def stored(self, source: str) -> float:
        """Bytes of the array of a stage, or of all that is read of an input."""
        step = self.steps.final.get(source)
        if step is None:
            return math.inf
        first = step
        while first.before is not None:
            first = first.before
        site = self.sites.of[step]
        points = math.prod(self.extent(first, d, site) for d in first.dims)
        return points * sum(d.nbytes for d in step.stage.dtypes)

    # ---- Work of a point ---------------------------------------------------------------------------------

    def of(self, step: Step) -> Work:
        if step in self.work:
            return self.work[step]
        work = Work()
        along = step.stage.variables[0] if step.stage.variables else None
        seen: dict[Read, None] = {}
        for expression in expressions(step.definition):
            for node in _computed(expression):
                if isinstance(node, Read):
                    seen[node] = None
                else:
                    _count(node, work)
        for read in seen:
            moved, pattern = _moved(read, along, step.dims)
            source = self.steps.final.get(read.source)
            if source is not None and source is not step and self.sites.of[source] == "INLINE":
                dims = dict(zip(source.stage.variables, moved, strict=True))
                work.add(self.of(source), 1, dims, pattern)
            else:
                dims_all = frozenset[str]().union(*moved)
                work.accesses[Access(read.source, dims_all, pattern, read.dtype.nbytes)] += 1
        self.work[step] = work
        return work


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


def _count(node: Expression, work: Work) -> None:
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
