"""Reads beyond the edges of inputs, found again in positions that are clamped, wrapped or mirrored.

In: an expression that may be a read of an input with extents. Out: the rule, the dimensions that it holds
for, and the point that may lie outside. Halide has these rules as `BoundaryConditions`, and computes the
middle of an image without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spacedsl.kernels.pipeline.algorithm import (
    Binary,
    Compare,
    Constant,
    Expression,
    Input,
    Read,
    Select,
    Variable,
    walk,
)
from spacedsl.kernels.pipeline.functions import EDGES
from spacedsl.kernels.pipeline.typing import typed


@dataclass(frozen=True, slots=True)
class Edge:
    """An input with a rule for what lies outside of it, along some of its dimensions."""

    source: str
    rule: str
    """As Halide calls it."""
    dims: tuple[bool, ...]
    outside: Constant | None = None
    """What is there, in the type of the input: for `constant_exterior` alone."""


@dataclass(frozen=True, slots=True)
class EdgeRead:
    edge: Edge
    read: Read
    """At a point that may lie outside."""


def edge_read(node: Expression, inputs: Mapping[str, Input]) -> EdgeRead | None:
    """None for what is no such read. Of several rules in one point, the first one counts as such."""
    match node:
        case Select(condition, Read() as read, Constant() as outside):
            return _with_constant(condition, read, outside, inputs)
        case Read(source, point, dtype) if source in inputs:
            extents = inputs[source].extents
            for rule in EDGES if extents else ():
                inner = [_inner(rule, at, n) for at, n in zip(point, extents, strict=True)]
                if any(inner):
                    dims = tuple(at is not None for at in inner)
                    moved = tuple(new or at for new, at in zip(inner, point, strict=True))
                    return EdgeRead(Edge(source, rule, dims), Read(source, moved, dtype))
    return None


def _inner(rule: str, at: Expression, extent: int) -> Expression | None:
    """The position that a rule was given."""
    match rule, at:
        case ("repeat_edge", Binary("max", Binary("min", given, _), _)) | (
            "repeat_image",
            Binary("%", given, _),
        ):
            pass
        case "mirror_image" | "mirror_interior", Binary("min", Binary("%", given, _), _):
            pass
        case _:
            return None
    # A position that depends on values is rarely near an edge where others are not.
    if not any(isinstance(n, Variable) for n in walk(given)) or any(isinstance(n, Read) for n in walk(given)):
        return None
    return given if typed(EDGES[rule](given, extent)) == at else None


def _with_constant(
    condition: Expression, read: Read, outside: Constant, inputs: Mapping[str, Input]
) -> EdgeRead | None:
    inner = edge_read(read, inputs)
    if inner is None or inner.edge.rule != "repeat_edge":
        return None
    wanted = []
    for at, extent, is_edge in zip(
        inner.read.point, inputs[read.source].extents, inner.edge.dims, strict=True
    ):
        if is_edge:
            zero, end = (Constant(number, at.dtype) for number in (0, extent))
            wanted += [Compare(">=", at, zero), Compare("<", at, end)]
    if _conjuncts(condition) != wanted:
        return None
    return EdgeRead(Edge(read.source, "constant_exterior", inner.edge.dims, outside), inner.read)


def _conjuncts(condition: Expression) -> list[Expression]:
    match condition:
        case Binary("&&", left, right):
            return [*_conjuncts(left), *_conjuncts(right)]
    return [condition]
