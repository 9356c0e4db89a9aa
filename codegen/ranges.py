"""How large and how small positions can become at a place of a program.

In: the variables that are visible there, each by what bounds it, and conditions that hold. Out: the greatest
and the least value of a position, as far as that follows: both ends of a loop may depend on other variables,
and what they have in common cancels out. It is exact for sums of variables that vary by themselves, and never
beyond for others. Where nothing bounds a position there is no answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from spacedsl.kernels.pipeline.affine import (
    Atom,
    Extreme,
    Linear,
    Opaque,
    Quotient,
    Remainder,
    extreme,
    quotient,
    remainder,
    substituted,
    variable,
)
from spacedsl.kernels.pipeline.algorithm import Variable

MOST_CASES = 20_000
"""Of one position: with more of them it counts as unbounded."""

_Sum = Mapping[Atom, Fraction]
"""Atoms, each times a number."""


@dataclass(frozen=True, slots=True)
class _Loop:
    """From some position to another, and where conditions hold, also to these."""

    first: Linear
    last: Linear
    least: tuple[tuple[_Sum, Fraction], ...] = ()
    most: tuple[tuple[_Sum, Fraction], ...] = ()


@dataclass(frozen=True, slots=True)
class Ranges:
    """Variables in the order in which they are declared: of loops, and those that stand for a position."""

    loops: Mapping[str, _Loop] = field(default_factory=dict)
    positions: Mapping[str, Linear] = field(default_factory=dict)
    """In terms of loops alone."""
    _known: dict[tuple[tuple[Atom, Fraction], ...], Fraction | None] = field(
        default_factory=dict, compare=False, repr=False
    )

    def __contains__(self, variable: str) -> bool:
        return variable in self.loops or variable in self.positions

    def with_loop(self, variable: str, first: Linear, last: Linear) -> Ranges:
        loop = _Loop(self.plain(first), self.plain(last))
        return Ranges({**self.loops, variable: loop}, self.positions)

    def with_position(self, variable: str, position: Linear) -> Ranges:
        return Ranges(self.loops, {**self.positions, variable: self.plain(position)})

    def where(self, least: Linear) -> Ranges:
        """With the condition that a position is not negative, and what follows for the loops around."""
        loops = dict(self.loops)
        order = {name: number for number, name in enumerate(loops)}
        pending = list(_parts(self.plain(least)))
        while pending:
            form = pending.pop()
            variables = [atom.name for atom, _ in form.terms if isinstance(atom, Variable)]
            if len(variables) < len(form.terms) or not variables:
                continue
            latest = max(variables, key=order.__getitem__)
            number = next(n for atom, n in form.terms if atom == Variable(latest))
            rest = {atom: Fraction(-n, number) for atom, n in form.terms if atom != Variable(latest)}
            bound, loop = (rest, Fraction(-form.constant, number)), loops[latest]
            if number > 0:
                loops[latest] = _Loop(loop.first, loop.last, (*loop.least, bound), loop.most)
            else:
                loops[latest] = _Loop(loop.first, loop.last, loop.least, (*loop.most, bound))
            end = loop.last if number > 0 else loop.first
            pending += _parts(substituted(form, {latest: end}))
        return Ranges(loops, self.positions)

    def plain(self, position: Linear) -> Linear:
        """The same in terms of loops alone."""
        return substituted(position, self.positions)

    def greatest(self, position: Linear) -> int | None:
        """None where nothing bounds it."""
        plain = self.plain(position)
        terms = {atom: Fraction(number) for atom, number in plain.terms}
        found = _Search(self, self._known).greatest(terms)
        return None if found is None else math.floor(found + plain.constant)

    def least(self, position: Linear) -> int | None:
        found = self.greatest(position * -1)
        return None if found is None else -found

    def is_apart(self, position: Linear, name: str, more: int) -> bool:
        """Whether it is another one, and so are `more` behind it, in each iteration of a loop."""
        plain = self.plain(position)
        for step in set(self._steps(plain, name)):
            moved = plain + variable(name) * -step
            low, high = self.least(moved), self.greatest(moved)
            if low is not None and high is not None and high - low + more < abs(step):
                return True
        return False

    def _steps(self, form: Linear, name: str) -> Iterator[int]:
        """How far an iteration of a loop may lead, where loops inside of it are where they begin."""
        for atom, number in form.terms:
            if isinstance(atom, Extreme):
                for end in (atom.left, atom.right):
                    yield from self._steps(form + Linear(0, ((atom, -number),)) + end * number, name)
                return
        names = [atom.name for atom, _ in form.terms if isinstance(atom, Variable)]
        inside = list(self.loops)[list(self.loops).index(name) + 1 :]
        latest = next((n for n in reversed(inside) if n in names), None)
        if latest is not None:
            yield from self._steps(substituted(form, {latest: self.loops[latest].first}), name)
        else:
            yield next((number for atom, number in form.terms if atom == Variable(name)), 0)

    def is_natural(self, position: Linear) -> bool:
        """Whether it is known never to be negative."""
        least = self.least(position)
        return least is not None and least >= 0


@dataclass(slots=True)
class _Search:
    ranges: Ranges
    known: dict[tuple[tuple[Atom, Fraction], ...], Fraction | None]
    cases: int = 0

    def greatest(self, terms: _Sum) -> Fraction | None:
        key = tuple(terms.items())
        if key not in self.known:
            self.cases += 1
            if self.cases > MOST_CASES:
                return None
            self.known[key] = self._greatest(terms)
        return self.known[key]

    def _greatest(self, terms: _Sum) -> Fraction | None:
        """By cases of minima and maxima, then without quotients, then without variables, latest first."""
        for atom, number in terms.items():
            if isinstance(atom, Extreme):
                ends = [self.with_part(terms, atom, end) for end in (atom.left, atom.right)]
                if (atom.operator == "max") is (number > 0):
                    return None if None in ends else max(e for e in ends if e is not None)
                return min((e for e in ends if e is not None), default=None)
        for atom, number in terms.items():
            match atom:
                case Quotient(dividend, divisor):
                    part = Linear(dividend.constant + (0 if number > 0 else 1 - divisor), dividend.terms)
                    return self.with_part(terms, atom, part, Fraction(1, divisor))
                case Remainder(_, divisor):
                    return self.with_part(terms, atom, Linear(divisor - 1 if number > 0 else 0))
                case Opaque() | Extreme():
                    return None
        names = {atom.name for atom in terms if isinstance(atom, Variable)}
        for name in reversed(tuple(self.ranges.loops)):
            if name in names:
                return self.without(terms, name)
        return None if names else Fraction(0)

    def without(self, terms: _Sum, name: str) -> Fraction | None:
        """With each of the ends of a loop in place of its variable, the best of them."""
        number, loop = terms[Variable(name)], self.ranges.loops[name]
        end, bounds = (loop.last, loop.most) if number > 0 else (loop.first, loop.least)
        found = [self.with_part(terms, Variable(name), end)]
        rest = {atom: n for atom, n in terms.items() if atom != Variable(name)}
        for bound, constant in bounds:
            other = self.greatest(_sum(rest, bound, number))
            found.append(None if other is None else other + constant * number)
        return min((f for f in found if f is not None), default=None)

    def with_part(
        self, terms: _Sum, atom: Atom, part: Linear, share: Fraction = Fraction(1)
    ) -> Fraction | None:
        """With a position, times a number, in place of an atom."""
        number = terms[atom] * share
        rest = {other: n for other, n in terms.items() if other != atom}
        found = self.greatest(_sum(rest, {a: Fraction(n) for a, n in part.terms}, number))
        return None if found is None else found + part.constant * number


def _sum(terms: _Sum, more: _Sum, number: Fraction) -> _Sum:
    total = dict(terms)
    for atom, n in more.items():
        total[atom] = total.get(atom, Fraction(0)) + n * number
    return {atom: n for atom, n in total.items() if n}


def _parts(form: Linear) -> Iterator[Linear]:
    """Forms that are not negative either where this one is not: all cases of what is the smaller one."""
    for atom, number in form.terms:
        if isinstance(atom, Extreme):
            if (atom.operator == "min") is (number > 0):
                for end in (atom.left, atom.right):
                    yield from _parts(form + end * number + Linear(0, ((atom, -number),)))
            return
    yield form


def simplified(position: Linear, is_natural: Callable[[Linear], bool]) -> Linear:
    """The same without minima, maxima, quotients and remainders of which it is known which part they are.

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
            if left.terms != right.terms:
                if is_natural(left + right * -1):
                    return left if operator == "max" else right
                if is_natural(right + left * -1):
                    return right if operator == "max" else left
            return extreme(operator, left, right)
        case Quotient(dividend, divisor):
            inner = simplified(dividend, is_natural)
            is_less = is_natural(inner) and is_natural(inner * -1 + Linear(divisor - 1))
            return Linear(0) if is_less else quotient(inner, divisor)
        case Remainder(dividend, divisor):
            inner = simplified(dividend, is_natural)
            is_less = is_natural(inner) and is_natural(inner * -1 + Linear(divisor - 1))
            return inner if is_less else remainder(inner, divisor)
        case Variable() | Opaque():
            return Linear(0, ((atom, 1),))
