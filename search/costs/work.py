"""What one point of each step of a pipeline takes to compute, before anything is decided.

In: a step. Out: instructions, and reads with how they move along the dimensions of the step. Which of the
reads are loads, and which are of what is inlined, follows from sites: `costs/pipeline.py` puts them together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from spacedsl.kernels.pipeline.affine import (
    Linear,
    Opaque,
    atoms,
    compared,
    has_values,
    is_parity,
    linear,
)
from spacedsl.kernels.pipeline.algorithm import (
    Apply,
    Binary,
    Constant,
    Expression,
    Read,
    Select,
    Variable,
    expressions,
    operands,
    walk,
)
from spacedsl.kernels.pipeline.backbone import MOST_WRITTEN_OUT, Step
from spacedsl.kernels.pipeline.interior import middle
from spacedsl.kernels.pipeline.lanes import pace, varies

DIVISION = 16.0
"""Instructions that take as long as one division of floats."""

SLOW: Mapping[str, float] = {
    "exp": 15, "log": 15, "tanh": 20, "sqrt": 20, "abs": 1, "floor": 1, "ceil": 1, "trunc": 1, "round": 1,
}  # fmt: skip
"""Instructions of a function of vectors; others are called for each lane."""

CALL = 40.0

Pattern = Literal["same", "beside", "woven", "apart"]
"""Where neighbours along the innermost dimension are read: at one place, beside each other, so that shuffles
bring them together, or anywhere."""


@dataclass(frozen=True, slots=True)
class Moving:
    """A read: its positions, and along which dimensions of the step each of them moves."""

    source: str
    forms: tuple[Linear | None, ...]
    """None where values say it."""
    moved: tuple[frozenset[str], ...]
    nbytes: int
    is_looked_up: bool
    """Whether values say where."""


@dataclass(frozen=True, slots=True)
class Work:
    """Of one point of a step, without what is inlined."""

    vector: float
    """Instructions that work on all lanes."""
    products: float
    """Of these, multiplications of floats."""
    scalar: float
    """Those that each lane needs one of."""
    widest: int
    """Bytes of the widest value."""
    reads: tuple[Moving, ...]
    """At different points each."""
    turns: int
    """Of the ranges of an update."""


def work_of(step: Step, along: str | None = None) -> Work:
    """`along`: the range that lanes go along, if it is one."""
    vector, scalar, products = 0.0, 0.0, 0.0
    widest = max((dtype.nbytes for dtype in step.stage.dtypes), default=1)
    seen: dict[Read, None] = {}
    few = frozenset(dim for dim in step.dims if step.points(dim) <= MOST_WRITTEN_OUT)
    for expression in expressions(step.definition):
        for node, share in _computed(expression, few):
            if isinstance(node, Read):
                seen[node] = None
            elif not isinstance(node, Constant | Variable) and varies(step.stage, node, along):
                more, single = _instructions(node)
                vector, scalar = vector + more * share, scalar + single * share
                products += share if _operator(node) == "*" and node.dtype.is_float else 0.0
                widest = max(widest, node.dtype.arithmetic_bytes)
    reads = tuple(_moving(read, step.dims) for read in seen)
    return Work(vector, products, scalar, widest, reads, step.turns)


def _computed(
    node: Expression, few: frozenset[str], share: float = 1.0
) -> Iterator[tuple[Expression, float]]:
    """All that is computed for an expression, and for which share of points; of a read, what is computed for
    its position. What one of a `few` points decides is computed for it alone.
    """
    parts = operands(node)
    if isinstance(node, Select) and (chosen := _chosen(node, few)):
        parts, share = tuple(chosen), share / len(chosen)
    elif isinstance(node, Read):
        yield node, share
        found = (atom for at in node.point for atom in atoms(linear(at)))
        parts = tuple(atom.expression for atom in found if isinstance(atom, Opaque))
    else:
        yield node, share
    for part in parts:
        yield from _computed(part, few, share)


def _chosen(node: Expression, few: frozenset[str]) -> list[Expression]:
    """The values of selections of which one is made by where a point lies along one of these dimensions, or
    by whether numbers are even.
    """
    values: list[Expression] = []
    while isinstance(node, Select):
        parts = _compared(node.condition)
        if not all(_is_decided(apart, few) for apart in parts):
            break
        values.append(node.yes)
        node = node.no
    return [*values, node] if values else []


def _compared(condition: Expression) -> list[Linear | None]:
    """What is compared in it; None for what is no comparison of positions."""
    if isinstance(condition, Binary) and condition.operator in ("&&", "||"):
        return [*_compared(condition.left), *_compared(condition.right)]
    return [compared(condition)]


def _is_decided(apart: Linear | None, few: frozenset[str]) -> bool:
    """Whether it follows from where a point lies along one of these dimensions, or from what is even."""
    if apart is None or has_values(apart) or not apart.names:
        return False
    return is_parity(apart) or apart.names <= few


def _instructions(node: Expression) -> tuple[float, float]:
    """On all lanes at once, and for each of them."""
    match node:
        case Apply(function):
            return (SLOW[function], 0) if function in SLOW else (0, CALL)
        case Binary("+" | "-", left, right) if node.dtype.is_float and "*" in map(_operator, (left, right)):
            # One instruction with the product.
            return 0, 0
        case Binary("/") if node.dtype.is_float:
            return DIVISION, 0
        case Binary("/" | "%", _, Constant(value=int(divisor))):
            return (1, 0) if divisor & (divisor - 1) == 0 else (5, 0)
        case Binary("/" | "%"):
            return 0, 8
        case _:
            return 1, 0


def _operator(node: Expression) -> str:
    return node.operator if isinstance(node, Binary) else ""


def _moving(read: Read, dims: tuple[str, ...]) -> Moving:
    forms = [linear(at) for at in read.point]
    names = (frozenset(n.name for n in walk(at) if isinstance(n, Variable)) for at in read.point)
    return Moving(
        read.source,
        tuple(None if has_values(form) else form for form in forms),
        tuple(each & frozenset(dims) for each in names),
        read.dtype.nbytes,
        any(map(has_values, forms)),
    )


def pattern_of(
    positions: Sequence[Linear | None], moved: Sequence[frozenset[str]], inner: int, along: str | None
) -> Pattern:
    """Of reads at positions that move along these dimensions, where neighbours lie along one of them.

    `inner`: the position whose neighbours lie beside each other in memory.
    """
    pattern: Pattern = "same"
    for place, (form, names) in enumerate(zip(positions, moved, strict=True)):
        if along is None or (along not in names and form is not None):
            continue
        step = None if place != inner or form is None else pace(middle(form, along), along)
        pattern = "apart" if step is None or pattern == "apart" else "beside" if step == 1 else "woven"
    return pattern
