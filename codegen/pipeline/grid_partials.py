"""Partial results of a reduction on a GPU: what they begin with, and how all of them are combined.

In: the partial results of the threads of a grid. Out: what is done for each of their elements before it, and
behind it: some are combined to one at a time, so that no thread goes through many, and those are combined
then. The order follows from how many there are. What becomes of it is for `grids.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spacedsl.codegen.pipeline.arithmetic import constant
from spacedsl.codegen.pipeline.blocks import index
from spacedsl.codegen.pipeline.partials import Fresh, Partials, better, together
from spacedsl.codegen.tree.expressions import Load, Register, Type
from spacedsl.codegen.tree.program import Assign, Statement, Store, Sweep
from spacedsl.kernels.pipeline.affine import Linear, extreme, variable
from spacedsl.kernels.pipeline.algorithm import Binary, Update
from spacedsl.kernels.pipeline.backbone import TOGETHER


@dataclass(frozen=True, slots=True)
class Along:
    """A dimension of `count` places, from `first` on."""

    variable: str
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class PerPoint:
    """Statements for each point of some dimensions, the innermost first."""

    dims: Sequence[Along]
    statements: tuple[Statement, ...]


def begun(partials: Partials, fresh: Fresh) -> Iterator[PerPoint]:
    """What is neutral, in each element of all parts."""
    assert partials.step.neutral is not None
    element = Along(fresh("element"), 0, partials.result.span)
    part = Along(fresh("part"), 0, partials.parts)
    place = index(variable(element.variable) + variable(part.variable) * partials.step.part_points)
    stores = [
        Store(name, place, constant(start.value, start.dtype))
        for name, start in zip(partials.names, partials.step.neutral, strict=True)
    ]
    yield PerPoint(_dims(element, part), tuple(stores))


def combined(partials: Partials, fresh: Fresh) -> Iterator[PerPoint]:
    """The result with all partial results."""
    parts, apart = partials.parts, partials.step.part_points
    while parts > TOGETHER:
        groups, group = -(-parts // TOGETHER), fresh("group")
        begin = variable(group) * TOGETHER
        last = extreme("min", begin + Linear(TOGETHER - 1), Linear(parts - 1))
        yield _combined(partials, apart, (begin + Linear(1), last), Along(group, 0, groups), fresh)
        parts, apart = groups, apart * TOGETHER
    yield _combined(partials, apart, (Linear(0), Linear(parts - 1)), None, fresh)


def _combined(
    partials: Partials,
    apart: int,
    parts: tuple[Linear, Linear],
    group: Along | None,
    fresh: Fresh,
) -> PerPoint:
    """Of each element: with what these parts have, which are so far apart, the first one of a group becomes
    that of the whole group; without groups, the result itself does.
    """
    definition, best = partials.step.definition, partials.step.best
    assert isinstance(definition, Update)
    element = Along(fresh("element"), 0, partials.result.span)
    at, place = fresh("part"), variable(element.variable)
    names = partials.names if group is not None else partials.result.tensors
    to = index(place if group is None else place + variable(group.variable) * (TOGETHER * apart))
    there = index(place + variable(at) * apart)
    kinds = [Type(dtype) for dtype in partials.stage.dtypes]
    own = [Register(fresh("sum" if best is None else "best"), kind) for kind in kinds]
    others = [Load(name, there, kind) for name, kind in zip(partials.names, kinds, strict=True)]
    more: list[Statement] = []
    if best is not None:
        new = [Register(fresh("other"), kind) for kind in kinds]
        more += [Assign(n, other) for n, other in zip(new, others, strict=True)]
        more += better(best, own, new, fresh)
    else:
        for sum_, value, other in zip(own, definition.values, others, strict=True):
            assert isinstance(value, Binary)
            more.append(Assign(sum_, together(value.operator, sum_, other)))
    statements: tuple[Statement, ...] = (
        *(Assign(o, Load(name, to, kind)) for o, name, kind in zip(own, names, kinds, strict=True)),
        Sweep(at, *parts, 1, tuple(more)),
        *(Store(name, to, o) for o, name in zip(own, names, strict=True)),
    )
    return PerPoint([element] if group is None else _dims(element, group), statements)


def _dims(element: Along, part: Along) -> Sequence[Along]:
    """Threads of a block go along elements, or along parts where there are few of them."""
    return [element, part] if element.count >= TOGETHER else [part, element]
