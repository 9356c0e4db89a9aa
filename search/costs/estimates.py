"""What cost models of pipelines count: the work of a point, boxes and iterations, and what is kept where.

In: an instance of a pipeline, then complete candidates. Out: an `Estimate` of each, as far as it is the same
on every machine, and its phases: the nests at ROOT, with what is computed in them. How long they take is for
`costs/pipeline.py` and `costs/gpu_pipeline.py`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.kernels.pipeline.backbone import SLOTS, Box, Kernel, SlotName, Step
from spacedsl.kernels.pipeline.lanes import Layouts
from spacedsl.kernels.pipeline.sites import Sites
from spacedsl.search.costs.likeness import Likeness
from spacedsl.search.costs.model import Decisions, Phase
from spacedsl.search.costs.points import Access, Points, Rows, Total

REMEMBERED = 100_000
"""Phases whose times are not estimated again."""


class Steps:
    """Of the pipeline of an instance: what is the same for all candidates."""

    def __init__(self, instance: Instance) -> None:
        kernel = instance.kernel
        assert isinstance(kernel, Kernel)
        self.all = [step for step in kernel.steps if not step.is_exit]
        self.final = {step.stage.name: step for step in self.all}
        self.points = Points(self.all)
        is_shared = "reduce" in instance.space.choices
        self.reduce = {s: instance.variable("reduce", s) for s in self.all if s.parted and is_shared}
        self.boxes = {step: [{b.dim: b for b in slot.boxes} for slot in step.slots] for step in self.all}
        self.sites = {step: instance.variable("site", step) for step in self.all}
        boxes = [box for step in self.all for slot in step.slots for box in slot.boxes]
        self.extents = {box: instance.quantity_node("extent", box) for box in boxes}
        self.trips = {box: instance.quantity_node("trips", box) for step in self.all for box in step.loops}
        self.place = {step: place for place, step in enumerate(self.all)}.__getitem__
        self.tiles = {step: [instance.variable("tile", box) for box in step.loops] for step in self.all}
        is_ordered = "innermost" in instance.space.choices
        self.orders = {slot: instance.variable("innermost", slot) for slot in kernel.orderable if is_ordered}
        is_arranged = "layout" in instance.space.choices
        arrangeable = kernel.arrangeable if is_arranged else ()
        self.layouts = {step.stage.name: instance.variable("layout", step) for step in arrangeable}
        self._near: dict[tuple[Step, frozenset[Step]], Sequence[str]] = {}
        self.windows = {}
        if "window" in instance.space.choices:
            self.windows = {step: instance.variable("window", step) for step in kernel.slidable}
            self.turns = {box: instance.quantity_node("turns", box) for s in self.windows for box in s.loops}

    def near(self, step: Step, inlined: frozenset[Step]) -> Sequence[str]:
        """The stages that it keeps, or that it reads or what is inlined in it, of which elements may lie in
        several orders.
        """
        known = self._near.get((step, inlined))
        if known is None:
            names = self.points.read(step, inlined) | {step.stage.name}
            known = self._near[step, inlined] = tuple(name for name in self.layouts if name in names)
        return known


class Estimate(ABC):
    """Of one complete candidate."""

    def __init__(self, steps: Steps, candidate: Candidate) -> None:
        self.steps = steps
        self.candidate = candidate
        sites = {s: str(v.values(candidate.mask(v))[0]) for s, v in steps.sites.items()}
        self.sites = Sites(steps.all, sites.__getitem__)
        self.passes: dict[tuple[Step, str], float] = {}
        self.points: dict[tuple[Step, str], Mapping[str, int]] = {}
        self.sizes: dict[str, float] = {}
        self.layouts: Layouts = dict(self._layouts())

    @cached_property
    def highs(self) -> Sequence[int]:
        """Of all quantities, until something is propagated."""
        return self.candidate.instance.highs(self.candidate.vector)

    def _layouts(self) -> Iterator[tuple[str, int]]:
        for name, variable in self.steps.layouts.items():
            mask = self.candidate.mask(variable)
            # The first value of all is that nothing is another way.
            if mask != 1:
                (place,) = variable.values(mask)
                yield name, int(place)

    # ---- Phases ------------------------------------------------------------------------------------------

    @abstractmethod
    def phase_ns(self, root: Step, steps: Sequence[Step]) -> float:
        """Of the nest of a step at ROOT, and all steps that are computed in it."""

    def nests(self) -> Mapping[Step, Sequence[Step]]:
        """The steps that are computed in the nest of each step at ROOT."""
        found: dict[Step, list[Step]] = defaultdict(list)
        for step in self.steps.all:
            if self.sites.of[step] != "INLINE":
                found[self.root(step)].append(step)
        return found

    def decisions(self, steps: Sequence[Step]) -> Decisions:
        """What decides how a nest is computed: of its steps, and of all that is inlined in them; of what else
        they read, that it is computed before, and where it lies.
        """
        computed = set(steps).union(*map(self.sites.inlined_in, steps))
        near = computed.union(*(step.sources for step in computed))
        variables = [self.steps.sites[step] for step in sorted(near, key=self.steps.place)]
        variables += [self.steps.reduce[step] for step in steps if step in self.steps.reduce]
        variables += [variable for step in steps for variable in self.steps.tiles[step]]
        orders = (slot for step in steps for slot in step.orderable if slot in self.steps.orders)
        variables += [self.steps.orders[slot] for slot in orders]
        variables += [self.steps.windows[step] for step in steps if step in self.steps.windows]
        arrays = dict.fromkeys(n for s in steps for n in self.steps.near(s, self.sites.inlined_in(s)))
        variables += [self.steps.layouts[name] for name in arrays]
        places = [variable.index for variable in variables]
        return tuple(zip(places, self.candidate.masks_of(variables), strict=True))

    def root(self, step: Step) -> Step:
        """The step at ROOT in whose nest it is computed."""
        owner = step if self.sites.of[step] == "ROOT" else self.sites.owner(step, "TASK")
        assert owner is not None
        return owner

    def way(self, step: Step) -> str:
        """How the points of its ranges are shared out."""
        variable = self.steps.reduce.get(step)
        return "SERIAL" if variable is None else str(variable.values(self.candidate.mask(variable))[0])

    # ---- Loops -------------------------------------------------------------------------------------------

    def boxes(self, step: Step, slot: SlotName) -> Mapping[str, Box]:
        """By dimension."""
        return self.steps.boxes[step][SLOTS.index(slot)]

    def trips(self, step: Step, slot: SlotName) -> Iterator[int]:
        return (self.highs[self.steps.trips[box]] for box in self.boxes(step, slot).values())

    def innermost(self, step: Step, slot: SlotName) -> int:
        """Of the boxes of a slot that the step has, the one whose loop is inside of all others."""
        variable = self.steps.orders.get(step.slots[SLOTS.index(slot)])
        return 0 if variable is None else int(variable.values(self.candidate.mask(variable))[0])

    def loops(self, step: Step, slot: SlotName) -> Sequence[tuple[str, int]]:
        """Of a slot that the step has: dimensions with more than one iteration, the innermost loop first."""
        boxes = step.slots[SLOTS.index(slot)].ordered(self.innermost(step, slot))
        found = ((box.dim, self.highs[self.steps.trips[box]]) for box in boxes)
        return [(dim, trips) for dim, trips in found if trips > 1]

    def extents(self, step: Step, slot: SlotName) -> Mapping[str, int]:
        known = self.points.get((step, slot))
        if known is None:
            of, boxes = self.steps.extents, self.boxes(step, slot)
            known = self.points[step, slot] = {dim: self.highs[of[box]] for dim, box in boxes.items()}
        return known

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
                # The last tile of a row is as long as what is left.
                outer = SLOTS[SLOTS.index(slot) - 1]
                boxes, within = self.extents(step, slot), self.extents(step, outer)
                known = self.iterations(step, outer) * math.prod(within[d] / n for d, n in boxes.items())
                if outer == self.sites.of[step]:
                    known *= self.fresh(step, outer)
            self.passes[step, slot] = known
        return known

    def visits(self, step: Step, slot: SlotName) -> float:
        """The same, less what sliding saves."""
        return self.iterations(step, slot) * (self.fresh(step, slot) if slot == self.sites.of[step] else 1.0)

    def fresh(self, step: Step, slot: SlotName) -> float:
        """The share of a box at its site that the iterations before have not computed."""
        window = self.steps.windows.get(step)
        if window is None or window.values(self.candidate.mask(window)) != ("SLIDING",):
            return 1.0
        outer = self.extents(step, SLOTS[SLOTS.index(slot) - 1])
        boxes, of = self.boxes(step, slot), self.steps.turns
        turns = {dim: self.highs[of[box]] for dim, box in boxes.items()}
        moved = [d for d in step.dims if turns[d] > 1] or [step.dims[-1]]
        owner = self.sites.owner(step, slot)
        if len(moved) > 1 and owner is not None and self.innermost(owner, slot):
            # Along which of them it slides depends on what moves with that loop: maybe along none.
            return 1.0
        dim = moved[0]
        return min(1.0, outer[dim] / (turns[dim] * self.extents(step, slot)[dim]))

    # ---- Memory ------------------------------------------------------------------------------------------

    def footprint(self, access: Access, boxes: Mapping[str, int]) -> float:
        touched = math.prod(boxes[d] for d in access.dims if d in boxes) * access.nbytes
        return min(touched, self.stored(access.source))

    def stored(self, source: str) -> float:
        """Bytes of the array of a stage, or of all that is read of an input."""
        known = self.sizes.get(source)
        if known is None:
            step = self.steps.final.get(source)
            known = self.sizes[source] = math.inf if step is None else self.array(step)
        return known

    def array(self, step: Step) -> float:
        site = self.sites.of[step]
        assert site in SLOTS
        points = math.prod(self.extents(step.first, site).values())
        return float(points * sum(d.nbytes for d in step.stage.dtypes))

    # ---- Work of a point ---------------------------------------------------------------------------------

    def of(self, step: Step, along: str | None, rows: Rows = ()) -> Total:
        """With all that is inlined, where neighbours along a dimension are computed together; `rows`: points
        that share what they need.
        """
        return self.steps.points.total(step, self.sites.inlined_in(step), along, rows, self.layouts)


class PhasedCosts(ABC):
    """A cost model whose phases are the nests at ROOT, which are remembered."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.steps = Steps(instance)
        self._likeness = Likeness(self.steps.all, instance.variables)
        self._named = {step.name: step for step in self.steps.all}
        self._known: dict[Decisions, Phase] = {}

    @abstractmethod
    def estimate(self, candidate: Candidate) -> Estimate: ...

    def phases(self, candidate: Candidate) -> Sequence[Phase]:
        estimate = self.estimate(candidate)
        return [self._phase(estimate, root, steps) for root, steps in estimate.nests().items()]

    def _phase(self, estimate: Estimate, root: Step, steps: Sequence[Step]) -> Phase:
        decisions = estimate.decisions(steps)
        known = self._known.get(decisions)
        if known is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            form, points = self._likeness.form(root, decisions), math.prod(map(root.points, root.dims))
            time_ns = estimate.phase_ns(root, steps)
            known = self._known[decisions] = Phase(root.name, decisions, time_ns, form, points)
        return known

    def alike(self, name: str) -> Sequence[str]:
        return [step.name for step in self._likeness.alike(self._named[name])]

    def translated(self, decisions: Decisions, name: str, other: str) -> Decisions | None:
        return self._likeness.translated(self._named[name], decisions, self._named[other])
