"""How large and how small positions can become at a place of a program.

In: the variables that are visible there, each by what bounds it, and conditions that hold. Out: the greatest
and the least value of a position, as far as that follows: both ends of a loop may depend on other variables,
and what they have in common cancels out. It is exact for sums of variables that vary by themselves, and never
beyond for others. Where nothing bounds a position there is no answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from spacedsl.kernels.pipeline.affine import (
    Atom,
    Extreme,
    Linear,
    Opaque,
    Quotient,
    Remainder,
    atoms,
    extreme,
    quotient,
    remainder,
    substituted,
    variable,
)
from spacedsl.kernels.pipeline.algorithm import Variable

MOST_STEPS = 2_000
"""On the way to one answer; where there are more of them, there is none."""

MOST_TRIED = 100
"""Of them, where any answer will do."""

_Number = int | Fraction

_Sum = Mapping[Atom, _Number]
"""Atoms, each times a number."""

_Key = tuple[tuple[Atom, _Number], ...]


@dataclass(frozen=True, slots=True)
class _Loop:
    """From some position to another; so many loops are declared before it."""

    first: Linear
    last: Linear
    depth: int


@dataclass(frozen=True, slots=True)
class Ranges:
    """Variables in the order in which they are declared: of loops, and those that stand for a position."""

    loops: Mapping[str, _Loop] = field(default_factory=dict)
    positions: Mapping[str, Linear] = field(default_factory=dict)
    """In terms of loops alone."""
    known: dict[_Key, tuple[_Number | None, _Number | None]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """Of sums, what they have been shown to be below, and of what that could not be shown."""

    def __contains__(self, variable: str) -> bool:
        return variable in self.loops or variable in self.positions

    def with_loop(self, variable: str, first: Linear, last: Linear) -> Ranges:
        """A variable that is at one of these positions, or between them."""
        start, end = self.plain(first), self.plain(last)
        if start == end:
            return self.with_position(variable, first)
        again = self.loops.get(variable)
        depth = len(self.loops) if again is None else again.depth
        positions = {name: form for name, form in self.positions.items() if name != variable}
        return Ranges({**self.loops, variable: _Loop(start, end, depth)}, positions)

    def with_position(self, variable: str, position: Linear) -> Ranges:
        plain = simplified(self.plain(position), self._is_an_end)
        return Ranges(self.loops, {**self.positions, variable: plain}, self.known)

    def _is_an_end(self, apart: Linear) -> bool:
        """Whether it is plain that it is how far a variable is from an end of its loop.

        What a loop goes through lies between its ends, which they themselves may not tell: a loop that would
        end before it begins is not gone through.
        """
        for atom, number in apart.terms:
            if isinstance(atom, Variable) and abs(number) == 1 and (loop := self.loops.get(atom.name)):
                end = loop.first * -1 if number == 1 else loop.last
                if apart + variable(atom.name) * -number == end:
                    return True
        return False

    def plain(self, position: Linear) -> Linear:
        """The same in terms of loops alone."""
        return substituted(position, self.positions)

    def origins(self, names: Collection[str]) -> frozenset[str]:
        """The loops whose variables these are, or depend on."""
        found: set[str] = set()
        wanted = {*names}
        while wanted:
            name = wanted.pop()
            form = self.positions.get(name)
            if form is not None:
                wanted |= form.names
            elif name not in found:
                found.add(name)
                loop = self.loops.get(name)
                wanted |= (loop.first.names | loop.last.names) - found if loop is not None else set()
        return frozenset(found)

    def is_natural(self, position: Linear) -> bool:
        """Whether it is known never to be negative."""
        plain = self.plain(position)
        return self._is_natural(plain)

    def _is_natural(self, plain: Linear) -> bool:
        return _Search(self).is_below({atom: -number for atom, number in plain.terms}, plain.constant + 1)

    def is_among(self, position: Linear, count: int) -> bool:
        """Whether it is known to be one of so many from 0 on."""
        plain = self.plain(position)
        return self._is_natural(plain) and _Search(self).is_below(dict(plain.terms), count - plain.constant)

    def greatest(self, position: Linear) -> int | None:
        """What it is known to be at most, without much ado; None where nothing bounds it."""
        plain = self.plain(position)
        found = _Search(self).greatest(dict(plain.terms))
        return None if found is None else math.floor(found + plain.constant)

    def least(self, position: Linear) -> int | None:
        found = self.greatest(position * -1)
        return None if found is None else -found

    def steps(
        self, position: Linear, name: str, around: Collection[str] = ()
    ) -> Iterator[tuple[int, Linear]]:
        """How far an iteration of a loop leads, and from where, other loops being where it is least.

        `around`: variables that are the same in all these iterations, of which the latter may be made.
        """
        others = {other: form for other, form in self.positions.items() if other != name}
        yield from self._steps(substituted(position, others), name, around)

    def is_within(
        self, position: Linear, more: int, name: str, step: int, first: Linear, most: int | None = None
    ) -> bool:
        """Whether it, and `more` behind it, are among |step| from step * a loop's variable + first on.

        `most`: how many they are among instead.
        """
        moved = position + variable(name) * -step + first * -1
        return self.is_among(moved, (abs(step) if most is None else most) - more)

    def _steps(self, form: Linear, name: str, around: Collection[str]) -> Iterator[tuple[int, Linear]]:
        for atom, number in form.terms:
            if isinstance(atom, Extreme) and not atom.names.issubset(around):
                for end in (atom.left, atom.right):
                    yield from self._steps(form + _of(atom) * -number + end * number, name, around)
                return
            if isinstance(atom, Quotient) and number % atom.divisor == 0 and not atom.names.issubset(around):
                # Pairs may begin where the first number is, or before it.
                whole, rest = number // atom.divisor, form + _of(atom) * -number
                for less in range(min(atom.divisor, _TRIED)):
                    yield from self._steps(rest + (atom.dividend + Linear(-less)) * whole, name, around)
                return
        names = {atom.name for atom, _ in form.terms if isinstance(atom, Variable)} - {name, *around}
        names &= self.loops.keys()
        if names:
            latest = _latest(self.loops, names)
            loop = self.loops[latest]
            end = loop.last if _sign_of(form, latest) == -1 else loop.first
            yield from self._steps(substituted(form, {latest: end}), name, around)
        else:
            step = next((n for atom, n in form.terms if atom == Variable(name)), 0)
            fixed = tuple((atom, n) for atom, n in form.terms if atom.names.issubset(around))
            yield step, Linear(form.constant, fixed)


_TRIED = 2
"""Beginnings of what is rounded down."""

_Way = list[tuple[_Sum, _Number]]
"""Sums, each with a number that is added: what is asked is at most the greatest of them."""


@dataclass(slots=True)
class _Search:
    """For one answer."""

    ranges: Ranges
    steps: int = 0

    def is_below(self, terms: _Sum, limit: _Number) -> bool:
        """Whether some way shows it."""
        if not terms:
            return limit > 0
        if all(number.denominator == 1 for number in terms.values()):
            # It is whole, a multiple of what all its numbers are.
            common = math.gcd(*[number.numerator for number in terms.values()])
            if common != 1:
                terms = {atom: number.numerator // common for atom, number in terms.items()}
            limit = (math.ceil(limit) - 1) // common + 1
        key = tuple(terms.items())
        shown, failed = self.ranges.known.get(key, (None, None))
        if shown is not None and shown <= limit:
            return True
        if failed is not None and failed >= limit:
            return False
        self.steps += 1
        if self.steps > MOST_STEPS:
            return False
        found = any(all(self.is_below(part, limit - more) for part, more in way) for way in self.ways(terms))
        self.ranges.known[key] = (limit, failed) if found else (shown, limit)
        return found

    def greatest(self, terms: _Sum) -> _Number | None:
        """The least number that some way leads to, of those that are tried."""
        self.steps += 1
        if self.steps > MOST_TRIED:
            return None
        best: _Number | None = None
        for way in self.ways(terms):
            ends = [(self.greatest(part), more) for part, more in way]
            known = [end + more for end, more in ends if end is not None]
            if len(known) == len(ends):
                best = _least(best, max(known, default=0))
        return best

    def ways(self, terms: _Sum) -> Iterator[_Way]:
        """The last variable is replaced by what it is at most, where all parts rise with it; else a remainder
        is. Then minima and maxima become cases; without any, a quotient is replaced by what it is at most.

        Before a variable is replaced, it may itself stand for an end of its loop inside of other parts: a
        loop that would end before it begins is not gone through, which its ends do not tell.
        """
        if not terms:
            yield []
            return
        loops = self.ranges.loops
        names = frozenset[str]().union(*[atom.names for atom in terms])
        if not names <= loops.keys():
            return
        if names and (way := self.without(terms, latest := _latest(loops, names))) is not None:
            yield way
            if (within := _within(terms, variable(latest), loops[latest])) is not None:
                yield [within]
            return
        remainder = next((atom for atom in terms if isinstance(atom, Remainder)), None)
        if remainder is not None:
            yield [_with(terms, remainder, Linear(remainder.divisor - 1 if terms[remainder] > 0 else 0))]
            return
        extremes = [atom for atom in terms if isinstance(atom, Extreme)]
        both = [atom for atom in extremes if (atom.operator == "max") is (terms[atom] > 0)]
        if both:
            # What consists of others goes first: they may stand elsewhere, too, and cancel out.
            chosen = max(both, key=lambda atom: sum(1 for _ in atoms(_of(atom))))
            yield [_with(terms, chosen, end) for end in (chosen.left, chosen.right)]
            return
        yield from ([_with(terms, atom, end)] for atom in extremes for end in _ends(atom))
        yield from (way for atom in extremes for way in _in_shares(terms, atom))
        # What is whole once one of them is gone is rounded: which one is first matters.
        for divided in [] if extremes else [atom for atom in terms if isinstance(atom, Quotient)]:
            yield from self.whole(terms, divided)

    def whole(self, terms: _Sum, atom: Quotient) -> Iterator[_Way]:
        """With what a quotient is at most, or at least, in its place."""
        is_last = terms[atom] > 0
        part = atom.dividend if is_last else atom.dividend + Linear(1 - atom.divisor)
        yield [_with(terms, atom, part, Fraction(1, atom.divisor))]
        sign = 1 if is_last else -1
        end = _Search(self.ranges).greatest({a: n * sign for a, n in atom.dividend.terms})
        if end is not None:
            dividend = math.floor(end + atom.dividend.constant * sign) * sign
            yield [_with(terms, atom, Linear(dividend // atom.divisor))]

    def without(self, terms: _Sum, name: str) -> _Way | None:
        """With an end of a loop in place of its variable, where the sum only rises with it, or only falls."""
        signs: set[int] = set()
        moved: set[Atom] = set()
        for part, number in terms.items():
            sign = _sign(part, name)
            if sign is None:
                return None
            if sign:
                signs.add(sign if number > 0 else -sign)
                moved.add(part)
        if len(signs) != 1:
            return None
        loop = self.ranges.loops[name]
        end = loop.last if 1 in signs else loop.first

        def form(part: Atom) -> Linear:
            if part not in moved:
                return _of(part)
            return end if isinstance(part, Variable) else substituted(_of(part), {name: end})

        return [_summed((form(part), number) for part, number in terms.items())]


def _within(terms: _Sum, here: Linear, loop: _Loop) -> tuple[_Sum, _Number] | None:
    """What a sum is at most with a loop's variable in place of an end; None where no part has that end."""

    def form(atom: Atom, end: Linear) -> Linear:
        is_part = end.terms and not isinstance(atom, Variable)
        return _replaced(_of(atom), end, here) if is_part else _of(atom)

    ends = ((atom, loop.first if number > 0 else loop.last, number) for atom, number in terms.items())
    total, constant = _summed((form(atom, end), number) for atom, end, number in ends)
    return (total, constant) if total != terms else None


def _replaced(form: Linear, end: Linear, here: Linear) -> Linear:
    """A form that rises with what is replaced in its minima, maxima and quotients."""
    if (apart := form + end * -1) == Linear(apart.constant):
        return here + apart
    found = Linear(form.constant)
    for atom, number in form.terms:
        match atom:
            case Extreme(operator, left, right) if number > 0:
                sides = _replaced(left, end, here), _replaced(right, end, here)
                found += extreme(operator, *sides) * number
            case Quotient(dividend, divisor) if number > 0:
                found += quotient(_replaced(dividend, end, here), divisor) * number
            case _:
                found += _of(atom) * number
    return found


def _latest(loops: Mapping[str, _Loop], names: Iterable[str]) -> str:
    """The loop that is declared last of some."""
    return max(names, key=lambda name: loops[name].depth)


def _with(terms: _Sum, atom: Atom, part: Linear, share: _Number = 1) -> tuple[_Sum, _Number]:
    """With a position, times a number, in place of an atom."""
    number = terms[atom] * share
    rest = {other: n for other, n in terms.items() if other != atom}
    return _sum(rest, dict(part.terms), number), part.constant * number


def _ends(atom: Extreme) -> Iterator[Linear]:
    """What a minimum is never above, a maximum never below: of parts that are opposites, their mean, too."""
    both = atom.left + atom.right
    if not both.terms:
        yield Linear(both.constant // 2 if atom.operator == "min" else -(-both.constant // 2))
    yield from (atom.left, atom.right)


def _in_shares(terms: _Sum, atom: Extreme) -> Iterator[_Way]:
    """Of several of a minimum or maximum, one side for as many as cancel out with a term, else the other.

    `7 * min(a + 5, b) - a` is at most `(a + 5) + 6 * b - a`.
    """
    sign = 1 if terms[atom] > 0 else -1
    count = terms[atom] * sign
    for side, other in ((atom.left, atom.right), (atom.right, atom.left)):
        for part, number in side.terms:
            share = Fraction(-terms.get(part, 0)) * sign / Fraction(number)
            if 0 < share < count:
                some, constant = _with(terms, atom, side, share / count)
                all_of_it, more = _with({**some, atom: terms[atom]}, atom, other, 1 - share / count)
                yield [(all_of_it, constant + more)]


def _sign(part: Atom, name: str) -> int | None:
    """Whether it rises with a variable (1), falls (-1) or does not depend on it (0); None for others."""
    match part:
        case Variable():
            return int(part.name == name)
        case Quotient(dividend):
            return _sign_of(dividend, name)
        case Extreme(_, left, right):
            signs = {_sign_of(left, name), _sign_of(right, name)} - {0}
            return 0 if not signs else signs.pop() if len(signs) == 1 else None
        case _:
            return 0 if name not in part.names else None


def _sign_of(form: Linear, name: str) -> int | None:
    signs: set[int | None] = set()
    for atom, number in form.terms:
        sign = _sign(atom, name)
        signs.add(None if sign is None else sign if number > 0 else -sign)
    signs -= {0}
    return 0 if not signs else signs.pop() if len(signs) == 1 else None


def _summed(forms: Iterable[tuple[Linear, _Number]]) -> tuple[_Sum, _Number]:
    """Positions, each times a number."""
    total: dict[Atom, _Number] = {}
    constant: _Number = 0
    for form, number in forms:
        constant += form.constant * number
        for atom, n in form.terms:
            _add(total, atom, n * number)
    return total, constant


def _sum(terms: _Sum, more: _Sum, number: _Number) -> _Sum:
    total = dict(terms)
    for atom, n in more.items():
        _add(total, atom, n * number)
    return total


def _add(total: dict[Atom, _Number], atom: Atom, number: _Number) -> None:
    """Adds to a sum, in which no atom is times 0."""
    if found := total.get(atom, 0) + number:
        total[atom] = found
    else:
        total.pop(atom, None)


def _least(one: _Number | None, other: _Number) -> _Number:
    return other if one is None else min(one, other)


def _of(atom: Atom) -> Linear:
    return Linear(0, ((atom, 1),))


# ---- Positions that are simpler where something is known -------------------------------------------------


def simplified(position: Linear, is_natural: Callable[[Linear], bool]) -> Linear:
    """The same without minima, maxima and remainders of which it is known which part they are.

    `is_natural`: whether a position is known never to be negative.
    """
    found = Linear(position.constant)
    for atom, number in position.terms:
        found += _simplified(atom, is_natural) * number
    return found


def _simplified(atom: Atom, is_natural: Callable[[Linear], bool]) -> Linear:
    match atom:
        case Extreme(operator):
            left, right = simplified(atom.left, is_natural), simplified(atom.right, is_natural)
            for one, other in ((left, right), (right, left)):
                apart = other + one * -1 if operator == "min" else one + other * -1
                # A number in place of what moves would no longer cancel out with where a box begins.
                if one.terms and one.terms != other.terms and is_natural(apart):
                    return one
            return extreme(operator, left, right)
        case Quotient(dividend, divisor):
            return quotient(simplified(dividend, is_natural), divisor)
        case Remainder(dividend, divisor):
            inner = simplified(dividend, is_natural)
            # Numbers below 0 have become ones below the divisor.
            for whole in (inner, inner + Linear(-divisor)):
                if is_natural(whole) and is_natural(whole * -1 + Linear(divisor - 1)):
                    return whole
            return remainder(inner, divisor)
        case Variable() | Opaque():
            return _of(atom)
