"""What differs between the lanes of a vector, and how they move: how far each leads beyond the one before.

In: an expression; or a position, and the variable that counts lanes. Out: whether it may differ; the pace of
lanes, where neighbours can be read as vectors and shuffled to it. What vectors are read for it, code
generation says; what that costs, cost models do.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from spacedsl.kernels.pipeline.affine import Atom, Linear, Quotient, names_of
from spacedsl.kernels.pipeline.algorithm import Expression, Read, Stage, Variable, walk
from spacedsl.kernels.pipeline.interior import middle

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


def is_woven(twice: int, others: int) -> bool:
    """Whether even and odd points along a row are better computed apart: each of them reads neighbours, where
    all together read most elements twice. `twice`, `others`: so many reads move along it.
    """
    return twice > 2 * others


def varies(stage: Stage, node: Expression) -> bool:
    """Whether it is made of what is read, or of where a point lies: ranges are the same for all lanes."""
    names = {Variable(name) for name in stage.variables}
    return any(isinstance(part, Read) or part in names for part in walk(node))


def _moving(position: Linear, name: str) -> list[tuple[Atom, int]]:
    return [(atom, number) for atom, number in position.terms if name in names_of(atom)]
