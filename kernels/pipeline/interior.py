"""Where positions are what they are in the middle of an image: without clamps, mirrors, wraps at its edges.

In: positions that rise or fall with a variable. Out: the conditions under which no edge is near. What is done
elsewhere is for code generation.
"""

from __future__ import annotations

from collections.abc import Iterator

from spacedsl.kernels.pipeline.affine import (
    Atom,
    Extreme,
    Linear,
    Quotient,
    Remainder,
    quotient,
)
from spacedsl.kernels.pipeline.algorithm import Variable

LEAST_PERIOD = 64
"""A remainder of a smaller number is no wrap around an image."""


def conditions(position: Linear, name: str) -> Iterator[Linear]:
    """Positions that are not negative in the middle; in each, the variable stands alone."""
    for atom, _ in position.terms:
        yield from _conditions(atom, name)


def middle(position: Linear, name: str) -> Linear:
    """What the position is there."""
    total = Linear(position.constant)
    for atom, number in position.terms:
        total += _middle(atom, name) * number
    return total


def _depends(form: Linear, name: str) -> bool:
    return name in form.names


def _middle(atom: Atom, name: str) -> Linear:
    match atom:
        case Extreme(_, left, right) if _depends(left, name) or _depends(right, name):
            return middle(left if _depends(left, name) else right, name)
        case Remainder(dividend, divisor) if divisor >= LEAST_PERIOD and _depends(dividend, name):
            return _unwrapped(middle(dividend, name), divisor)
        case Quotient(dividend, divisor) if _depends(dividend, name):
            return quotient(middle(dividend, name), divisor)
    return Linear(0, ((atom, 1),))


def _unwrapped(dividend: Linear, divisor: int) -> Linear:
    """With a number that is nearest to 0, as it has been before it was made one from 0 on."""
    return dividend + Linear(-divisor) if 2 * dividend.constant > divisor else dividend


def _conditions(atom: Atom, name: str) -> Iterator[Linear]:
    match atom:
        case Extreme(operator, left, right) if _depends(left, name) or _depends(right, name):
            kept, other = (left, right) if _depends(left, name) else (right, left)
            yield from (*conditions(kept, name), *conditions(other, name))
            apart = middle(kept, name) + middle(other, name) * -1
            yield from usable(apart if operator == "max" else apart * -1, name)
        case Remainder(dividend, divisor) if divisor >= LEAST_PERIOD and _depends(dividend, name):
            yield from conditions(dividend, name)
            inner = _unwrapped(middle(dividend, name), divisor)
            yield from usable(inner, name)
            yield from usable(inner * -1 + Linear(divisor - 1), name)
        case Quotient(dividend) | Remainder(dividend):
            yield from conditions(dividend, name)


def usable(form: Linear, name: str) -> Iterator[Linear]:
    """The condition, where it says how large or how small the variable is."""
    parts = [atom for atom, _ in form.terms if name in atom.names]
    if parts == [Variable(name)]:
        yield form
