"""The syntax tree of the `stages:` of a pipeline.

In: built by `parser.py`. Out: frozen nodes that carry spans of the kernel file. What names mean, and which
types expressions have, is found out in `resolution.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spacedsl.diagnostics import Span

Reducer = Literal["sum", "prod", "max", "min", "argmax", "argmin"]


@dataclass(frozen=True, slots=True)
class Number:
    value: int | float
    span: Span


@dataclass(frozen=True, slots=True)
class Name:
    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class Call:
    """A stage or an input at a point, a function or a conversion."""

    name: Name
    arguments: tuple[Node, ...]
    element: int | None
    """Which of the values of a stage: `f(x).1`."""
    span: Span


@dataclass(frozen=True, slots=True)
class Prefix:
    operator: Literal["-", "!", "~"]
    operand: Node
    span: Span


@dataclass(frozen=True, slots=True)
class Infix:
    operator: str
    left: Node
    right: Node
    span: Span


@dataclass(frozen=True, slots=True)
class RangeNode:
    """`name in low:high`."""

    name: Name
    low: Node
    high: Node
    span: Span


@dataclass(frozen=True, slots=True)
class Reduction:
    """The body's values at all points of the ranges, combined."""

    operator: Reducer
    ranges: tuple[RangeNode, ...]
    condition: Node | None
    body: Node
    span: Span


@dataclass(frozen=True, slots=True)
class Within:
    """`position in low:high`, an argument: outside of these, a source has what a rule says."""

    position: Node
    low: Node
    high: Node
    span: Span


Node = Number | Name | Call | Prefix | Infix | Reduction | Within


@dataclass(frozen=True, slots=True)
class Definition:
    """A line: the first for a stage, or an update of it."""

    target: Call
    operator: str
    """What stands before `=`: empty, `+`, `-`, `*`, `min` or `max`."""
    values: tuple[Node, ...]
    ranges: tuple[RangeNode, ...]
    condition: Node | None
    span: Span
