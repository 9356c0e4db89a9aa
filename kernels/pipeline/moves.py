"""How the positions that are needed of a step move with those of the step that encloses it.

In: ways in which readers take positions, and how the readers themselves move. Out: a `Move`, in exact
arithmetic but for constants. Two paths to one step may move it at different speeds, and then no box at its
host holds what both need but all of it; or alike but for roundings, by so many positions at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType

from spacedsl.kernels.pipeline.affine import Extreme, Linear, Quotient, Remainder
from spacedsl.kernels.pipeline.algorithm import Variable

Hold = tuple[tuple[str, int], ...]
"""The `min` and `max` with numbers that positions are held by, from the outside inwards."""


@dataclass(frozen=True, slots=True)
class Way:
    """Positions from (terms + least) / divisor to (terms + most) / divisor, rounded down.

    For any origin of the box that the terms are relative to: a remainder may be anywhere in its range.
    """

    terms: tuple[tuple[str, int], ...]
    """Dimensions of the reader, and numbers other than 0."""
    least: int
    most: int
    divisor: int = 1
    holds: Hold = ()


def way(form: Linear) -> Way | None:
    """Of sums of variables with one quotient at most, or of one held by numbers; None for others."""
    terms: dict[str, int] = {}
    least = most = form.constant
    quotient: Quotient | None = None
    for atom, number in form.terms:
        match atom:
            case Variable(name):
                terms[name] = number
            case Remainder(_, divisor):
                least += min(0, number * (divisor - 1))
                most += max(0, number * (divisor - 1))
            case Quotient() if number == 1 and quotient is None:
                quotient = atom
            case Extreme() if number == 1 and len(form.terms) == 1 and form.constant == 0:
                return _held(atom)
            case _:
                return None
    if quotient is None:
        return Way(tuple(terms.items()), least, most)
    inner, divisor = way(quotient.dividend), quotient.divisor
    if inner is None or inner.divisor != 1 or inner.holds:
        return None
    scaled = {name: number * divisor for name, number in terms.items()}
    for name, number in inner.terms:
        scaled[name] = scaled.get(name, 0) + number
    items = tuple((name, number) for name, number in scaled.items() if number)
    return Way(items, least * divisor + inner.least, most * divisor + inner.most + divisor - 1, divisor)


def _held(atom: Extreme) -> Way | None:
    for held, by in ((atom.left, atom.right), (atom.right, atom.left)):
        if not by.terms and (inner := way(held)) is not None:
            holds = ((atom.operator, by.constant), *inner.holds)
            return Way(inner.terms, inner.least, inner.most, inner.divisor, holds)
    return None


@dataclass(frozen=True, slots=True)
class Of:
    """A dimension of the enclosing step."""

    dim: str


@dataclass(frozen=True, slots=True)
class Sum:
    """Of functions times numbers, divided and rounded down."""

    terms: tuple[tuple[Shape, int], ...]
    divisor: int


Shape = Of | Sum
"""A function of the dimensions of the enclosing step, but for constants."""


@dataclass(frozen=True, slots=True)
class Move:
    """Positions are `speeds` times those of the enclosing step, less something from `lag[0]` to `lag[1]`."""

    shape: Shape
    speeds: Mapping[str, Fraction]
    lag: tuple[Fraction, Fraction]
    holds: tuple[Hold, ...] = ()
    """Of all ways, what holds them: where that holds, they do not move."""

    def is_alike(self, other: Move) -> bool:
        """Whether both move at the same speed, always."""
        return self.speeds == other.speeds and self.holds == other.holds

    def apart(self, other: Move) -> tuple[int, int]:
        """How far the other one may be from this one, where they are alike but for roundings."""
        if self.shape == other.shape:
            return 0, 0
        return math.floor(self.lag[0] - other.lag[1]), math.ceil(self.lag[1] - other.lag[0])


STILL = Move(Sum((), 1), MappingProxyType({}), (Fraction(0), Fraction(0)))


def along(dim: str) -> Move:
    """That of the enclosing step itself."""
    return Move(Of(dim), {dim: Fraction(1)}, (Fraction(0), Fraction(0)))


def moved(taken: Way, of_reader: Callable[[str], Move]) -> Move:
    """Of what a reader takes in some way, from the moves of its dimensions."""
    found = _sum([(of_reader(dim), number) for dim, number in taken.terms], taken.divisor)
    return replace(found, holds=(*found.holds, taken.holds)) if taken.holds else found


def composed(move: Move, of_host: Callable[[str], Move]) -> Move:
    """Of a move within a host, and of the host within what encloses it."""
    found = _within(move.shape, of_host)
    return replace(found, holds=(*found.holds, *move.holds))


def _within(shape: Shape, of_host: Callable[[str], Move]) -> Move:
    if isinstance(shape, Of):
        return of_host(shape.dim)
    return _sum([(_within(each, of_host), number) for each, number in shape.terms], shape.divisor)


def _sum(terms: Sequence[tuple[Move, int]], divisor: int) -> Move:
    """Of moves times numbers, divided and rounded down."""
    speeds: dict[str, Fraction] = {}
    low = high = Fraction(0)
    for move, number in terms:
        for dim, speed in move.speeds.items():
            speeds[dim] = speeds.get(dim, Fraction(0)) + speed * number / divisor
        ends = [lag * number / divisor for lag in move.lag]
        low, high = low + min(ends), high + max(ends)
    high += Fraction(divisor - 1, divisor)
    shapes = tuple((move.shape, number) for move, number in terms)
    is_alone = divisor == 1 and len(shapes) == 1 and shapes[0][1] == 1
    return Move(
        shapes[0][0] if is_alone else Sum(shapes, divisor),
        {dim: speed for dim, speed in speeds.items() if speed},
        (low, high),
        tuple(hold for move, _ in terms for hold in move.holds),
    )
