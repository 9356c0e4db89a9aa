"""What differs between the lanes of a vector, and how they move: how far each leads beyond the one before.

In: an expression; or a position, and the variable that counts lanes. Out: whether it may differ; the pace of
lanes, where neighbours can be read as vectors and shuffled to it. What vectors are read for it, code
generation says; what that costs, cost models do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from spacedsl.kernels.pipeline.affine import (
    Atom,
    Linear,
    Opaque,
    Quotient,
    atoms,
    compared,
    is_parity,
    linear,
)
from spacedsl.kernels.pipeline.algorithm import (
    Expression,
    Read,
    Stage,
    Update,
    Variable,
    operands,
    reads,
    walk,
)
from spacedsl.kernels.pipeline.backbone import Step
from spacedsl.kernels.pipeline.interior import middle

SUMS = 4
"""Vectors that go through a range side by side, where lanes have partial results."""

LONG = 16
"""Points of a range whose neighbours are worth a vector, where there are others."""

Layouts = Mapping[str, int]
"""By stage, the dimension along which neighbours lie beside each other, where it is not the first one."""

_PACES = (2, 4, 8)


def pace(position: Linear, name: str) -> Fraction | None:
    """1 for neighbours; 2, 4 or 8 where lanes lead to the second, fourth, .. element behind that of the one
    before; 1/2, 1/4 or 1/8 where so many lanes lead to each element. None for all others.
    """
    match _moving(position, name):
        case [(Variable(), number)] if number == 1 or number in _PACES:
            return Fraction(number)
        case [(Quotient(dividend, divisor), 1)] if divisor in _PACES:
            return Fraction(1, divisor) if _moving(dividend, name) == [(Variable(name), 1)] else None
    return None


def is_read_twice(first: Linear | None, others: Iterable[frozenset[str]], name: str) -> bool:
    """Whether two neighbours along a dimension read each element: `first`, the innermost position, None where
    values say it; `others`, the variables of all other positions.
    """
    is_half = first is not None and pace(middle(first, name), name) == Fraction(1, 2)
    return is_half and all(name not in names for names in others)


def innermost(stage: Stage, layouts: Layouts) -> str | None:
    """The variable whose neighbours lie beside each other."""
    return stage.variables[layouts.get(stage.name, 0)] if stage.variables else None


def summed_along(step: Step, layouts: Layouts) -> str | None:
    """The range that a reduction goes through in vectors of neighbours: where it reads neighbours along that,
    and none along the innermost variable, as sums of rows do; and where it is long, or there is no variable.
    None for all else.
    """
    stage, definition = step.stage, step.definition
    if not isinstance(definition, Update) or not step.is_accumulation:
        return None
    if step.neutral is None or step.keeps_best:
        return None
    positions = [
        ([linear(at) for at in read.point], layouts.get(read.source, 0))
        for read in reads(definition)
        if read.source != stage.name and read.point
    ]
    own = innermost(stage, layouts)
    if own is not None and any(_are_beside(*each, own) for each in positions):
        return None
    names = (r.name for r in definition.ranges if r.high - r.low >= LONG or not stage.variables)
    return next((name for name in names if any(_are_beside(*each, name) for each in positions)), None)


def _are_beside(positions: Sequence[Linear], inner: int, name: str) -> bool:
    """Whether neighbours along a dimension read neighbours."""
    others = (*positions[:inner], *positions[inner + 1 :])
    return pace(middle(positions[inner], name), name) == 1 and all(name not in f.names for f in others)


def is_woven(twice: int, others: int) -> bool:
    """Whether even and odd points along a row are better computed apart: each of them reads neighbours, where
    all together read most elements twice. `twice`, `others`: so many reads move along it.
    """
    return twice > 2 * others


def varies(stage: Stage, node: Expression, along: str | None = None) -> bool:
    """Whether it is made of what is read, or of where a point lies: ranges are the same for all lanes, but
    for one that they go `along`.
    """
    names = {Variable(name) for name in (*stage.variables, along) if name is not None}
    return any(isinstance(part, Read) or part in names for part in walk(node))


def widths(
    stage: Stage,
    definition: Stage | Update,
    inlined: Mapping[str, Stage],
    along: str | None = None,
    *,
    is_woven: bool = False,
) -> Iterator[int]:
    """In bytes, of what is stored, and of all else that may differ between lanes, also for positions.

    `along`: the range that lanes go along, if it is one. `is_woven`: lanes are all even, or all odd.
    """
    yield from (dtype.nbytes for dtype in stage.dtypes)
    pending = [(stage, value) for value in definition.values]
    seen: set[str] = set()
    while pending:
        of, node = pending.pop()
        if not varies(of, node, along if of is stage else None) or (
            is_woven and (a := compared(node)) is not None and is_parity(a)
        ):
            # Whether numbers are even is the same for all lanes then.
            continue
        yield node.dtype.arithmetic_bytes
        if not isinstance(node, Read):
            pending += [(of, operand) for operand in operands(node)]
            continue
        found = [a.expression for at in node.point for a in atoms(linear(at)) if isinstance(a, Opaque)]
        pending += [(of, expression) for expression in found]
        if node.source in inlined and node.source not in seen:
            seen.add(node.source)
            source = inlined[node.source]
            updated = [value for update in source.updates for value in update.values]
            pending += [(source, value) for value in (*source.values, *updated)]


def _moving(position: Linear, name: str) -> list[tuple[Atom, int]]:
    return [(atom, number) for atom, number in position.terms if name in atom.names]
