"""Copies of inputs, as stages: packed together, or nearer to what reads them, once a schedule says where.

In: an algorithm, and what is needed of each stage and input. Out: the same algorithm in which inputs are read
through stages that are what they read. A copy that is inlined is none. Whether one is worth making is for a
search; none is offered of what is read once, nor of a table in which values say where to look.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from spacedsl.kernels.pipeline.affine import linear
from spacedsl.kernels.pipeline.algorithm import (
    Algorithm,
    Box,
    Constant,
    Expression,
    Input,
    Read,
    Stage,
    Update,
    Variable,
    operands,
    reads,
    walk,
    with_operands,
)
from spacedsl.kernels.pipeline.moves import way
from spacedsl.kernels.unique_names import UniqueNames


def with_copies(algorithm: Algorithm, boxes: Mapping[str, Box]) -> tuple[Algorithm, Mapping[str, str]]:
    """The algorithm that reads inputs through copies, and by their stages the inputs.

    `boxes`: what is needed of each stage and input.
    """
    offered = [i for i in algorithm.inputs if i.name in boxes and _is_worth_it(i, algorithm)]
    names = UniqueNames(
        {s.name for s in algorithm.stages}
        | {i.name for i in algorithm.inputs}
        | {p.name for p in algorithm.parameters}
    )
    copies = {i.name: names.fresh(f"{i.name}_copy") for i in offered}
    stages = tuple(_copy(i, copies[i.name], algorithm) for i in offered)
    others = tuple(_reading(stage, copies) for stage in algorithm.stages)
    whole = replace(algorithm, stages=(*stages, *others))
    return whole, {copy: name for name, copy in copies.items()}


def without_copies(algorithm: Algorithm, copies: Mapping[str, str]) -> Algorithm:
    """The same with what some of the copies are in their place."""
    stages = (stage for stage in algorithm.stages if stage.name not in copies)
    return replace(algorithm, stages=tuple(_reading(stage, copies) for stage in stages))


def _copy(source: Input, name: str, algorithm: Algorithm) -> Stage:
    variables = tuple(_variables(source, algorithm))
    return Stage(name, variables, (Read(source.name, tuple(map(Variable, variables)), source.dtype),))


def _variables(source: Input, algorithm: Algorithm) -> Iterator[str]:
    """Called as where it is read first: `k` of `a(k, y)`, `x` of `image(x + i, y)`."""
    definitions = ((s, d) for s in algorithm.stages for d in s.definitions)
    stage, read = next((s, r) for s, d in definitions for r in reads(d) if r.source == source.name)
    names = UniqueNames()
    for place, at in enumerate(read.point):
        found = [node.name for node in walk(at) if isinstance(node, Variable)]
        own = [name for name in found if name in stage.variables]
        yield names.fresh(next(iter(own or found), f"i{place}"))


def _is_worth_it(source: Input, algorithm: Algorithm) -> bool:
    """Whether elements are read more than once, and at positions that loops say.

    One row lies together as it is. How many points there are makes no difference.
    """
    if source.rank < 2 or source.values is not None:
        return False
    times = 0
    for stage in algorithm.stages:
        for definition in stage.definitions:
            found = {read for read in reads(definition) if read.source == source.name}
            if any(read.source == source.name for read in _looked_up_by(definition)):
                return False
            if any(way(linear(at)) is None for read in found for at in read.point):
                return False
            again = any(_is_read_again(read, stage, definition) for read in found)
            times += 2 if again else len({_moving(read) for read in found})
    return times > 1


def _moving(read: Read) -> tuple[Expression | None, ...]:
    """Where it reads, as far as it moves: the colours of one point are read once each."""
    return tuple(None if isinstance(at, Constant) else at for at in read.point)


def _is_read_again(read: Read, stage: Stage, definition: Stage | Update) -> bool:
    """Whether there are more points than elements that it reads: fewer positions than dimensions move."""
    dims = stage.variables
    if isinstance(definition, Update):
        dims = (*definition.variables(stage), *(r.name for r in definition.ranges))
    moved = (any(isinstance(node, Variable) for node in walk(at)) for at in read.point)
    return sum(moved) < len(dims)


def _looked_up_by(definition: Stage | Update) -> Iterator[Read]:
    """Reads whose values say where something is read or written."""
    pending = list(definition.point) if isinstance(definition, Update) else []
    pending += [at for read in reads(definition) for at in read.point]
    for position in pending:
        yield from (node for node in walk(position) if isinstance(node, Read))


def _reading(stage: Stage, copies: Mapping[str, str]) -> Stage:
    def read(node: Expression) -> Expression:
        given = tuple(map(read, operands(node)))
        found = with_operands(node, given) if given else node
        if isinstance(found, Read) and found.source in copies:
            return replace(found, source=copies[found.source])
        return found

    if not any(r.source in copies for d in stage.definitions for r in reads(d)):
        return stage
    updates = tuple(
        replace(
            update,
            values=tuple(map(read, update.values)),
            condition=None if update.condition is None else read(update.condition),
        )
        for update in stage.updates
    )
    return replace(stage, values=tuple(map(read, stage.values)), updates=updates)
