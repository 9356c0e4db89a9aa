"""Which steps of a pipeline are alike but for names and numbers, and the decisions of one made of another.

In: the steps of a pipeline, the variables of its instance; then the decisions of phases. Out: their forms,
and the same decisions elsewhere. Pyramids and chains have the same nests again and again: what is known of
one of them says much of the others, which may be larger or smaller. How long they take is not known here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence

from spacedsl.engine.instance import Variable
from spacedsl.kernels.pipeline.algorithm import (
    Apply,
    Binary,
    Compare,
    Expression,
    Read,
    Unary,
    expressions,
    walk,
)
from spacedsl.kernels.pipeline.algorithm import Variable as Point
from spacedsl.kernels.pipeline.backbone import SLOTS, Box, Slot, Step
from spacedsl.search.costs.model import Decisions, Form

Role = tuple[str, int, int]
"""Of a variable of a step: its choice, and which slot and which dimension it is about; -1 for all of them."""

Path = tuple[int, ...]
"""From a step to another: which of the sources of each step comes next."""


class Likeness:
    """Of the steps of one pipeline. The kind of a step is what it computes and what there is to decide on it,
    but neither what it reads nor how many points there are.
    """

    def __init__(self, steps: Sequence[Step], variables: Sequence[Variable]) -> None:
        self._variables = variables
        self._about: dict[int, tuple[Step, Role]] = {}
        self._at: dict[Step, dict[Role, Variable]] = {step: {} for step in steps}
        for variable in variables:
            step, role = _role(variable)
            if step in self._at:
                self._about[variable.index] = step, role
                self._at[step][role] = variable
        kinds: dict[Hashable, list[Step]] = {}
        for step in steps:
            kinds.setdefault((_computed(step), frozenset(self._at[step])), []).append(step)
        self._kinds = {step: kind for kind, alike in enumerate(kinds.values()) for step in alike}
        self._alike = list(kinds.values())
        self._paths: dict[Step, Mapping[Step, Path]] = {}

    def alike(self, step: Step) -> Sequence[Step]:
        """All steps of its kind, with itself."""
        return self._alike[self._kinds[step]]

    def form(self, root: Step, decisions: Decisions) -> Form:
        """Of a phase that is the nest of this step."""
        paths = self._reached(root)
        objects, values = [], []
        for index, mask in decisions:
            step, role = self._about[index]
            objects.append((paths.get(step, step), self._kinds[step], role))
            values.append(self._variables[index].values(mask))
        return Form(self._kinds[root], hash(tuple(objects)), hash(tuple(values)))

    def translated(self, root: Step, decisions: Decisions, other: Step) -> Decisions | None:
        """What decides the same for another step: None where what it reads is not alike. Values that are not
        on offer there are left out.
        """
        if other is root:
            return decisions
        paths, found = self._reached(root), []
        met: dict[Step, Step] = {}
        for index, mask in decisions:
            step, role = self._about[index]
            there = _followed(other, paths[step]) if step in paths else None
            if (
                there is None
                or self._kinds[there] != self._kinds[step]
                or met.setdefault(there, step) != step
            ):
                return None
            variable = self._at[there][role]
            values = self._variables[index].values(mask)
            same = sum(1 << bit for bit, value in enumerate(variable.universe) if value in values)
            if same:
                found.append((variable.index, same))
        return tuple(found)

    def _reached(self, root: Step) -> Mapping[Step, Path]:
        """All steps that it needs, with itself, by the shortest of the ways there."""
        known = self._paths.get(root)
        if known is None:
            found: dict[Step, Path] = {root: ()}
            pending = deque([root])
            while pending:
                step = pending.popleft()
                for place, source in enumerate(step.sources):
                    if source not in found:
                        found[source] = (*found[step], place)
                        pending.append(source)
            known = self._paths[root] = found
        return known


def _role(variable: Variable) -> tuple[Step, Role]:
    about = variable.objects[0]
    match about:
        case Box():
            return about.step, (variable.choice, SLOTS.index(about.slot), about.place)
        case Slot():
            return about.step, (variable.choice, SLOTS.index(about.slot), -1)
    assert isinstance(about, Step)
    return about, (variable.choice, -1, -1)


def _followed(step: Step, path: Path) -> Step | None:
    for place in path:
        if place >= len(step.sources):
            return None
        step = step.sources[place]
    return step


def _computed(step: Step) -> Hashable:
    """What is computed at a point, names by their places and numbers by their types."""
    return tuple(tuple(_tokens(expression, step)) for expression in expressions(step.definition))


def _tokens(expression: Expression, step: Step) -> Iterator[Hashable]:
    sources = {source.stage.name: place for place, source in enumerate(step.sources)}
    for node in walk(expression):
        match node:
            case Read():
                yield Read, sources.get(node.source, -1), node.element, node.dtype
            case Point():
                yield Point, step.dims.index(node.name)
            case Unary() | Binary() | Compare():
                yield type(node), node.operator, node.dtype
            case Apply():
                yield Apply, node.function, node.dtype
            case _:
                yield type(node), node.dtype
