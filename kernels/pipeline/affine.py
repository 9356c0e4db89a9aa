"""Positions as sums: of numbers times what cannot be taken apart.

In: an expression of i32. Out: a `Linear` form, equal to it for all values of its variables, in which each
atom stands once: a variable, a quotient, a remainder, a minimum or maximum of forms, or any other expression.
What values they have is for `intervals.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, Literal

from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.algorithm import Binary, Compare, Constant, Expression, Unary, Variable


class _Nested:
    """What is nested deep and looked up often keeps its hash."""

    __slots__ = ("_hash",)
    __match_args__: ClassVar[tuple[str, ...]]
    _hash: int

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            found = hash(tuple([getattr(self, name) for name in self.__match_args__]))
            object.__setattr__(self, "_hash", found)
            return found

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        """Without what is derived: hashes are others in another process."""
        return type(self), tuple([getattr(self, name) for name in self.__match_args__])


@dataclass(frozen=True, slots=True)
class Quotient(_Nested):
    """Rounded to minus infinity; the divisor is at least 2."""

    dividend: Linear
    divisor: int
    __hash__ = _Nested.__hash__

    @property
    def names(self) -> frozenset[str]:
        return self.dividend.names


@dataclass(frozen=True, slots=True)
class Remainder(_Nested):
    """From 0 to below the divisor, which is at least 2."""

    dividend: Linear
    divisor: int
    __hash__ = _Nested.__hash__

    @property
    def names(self) -> frozenset[str]:
        return self.dividend.names


@dataclass(frozen=True, slots=True)
class Extreme(_Nested):
    operator: Literal["min", "max"]
    left: Linear
    right: Linear
    __hash__ = _Nested.__hash__

    @property
    def names(self) -> frozenset[str]:
        return self.left.names | self.right.names


@dataclass(frozen=True, slots=True)
class Opaque(_Nested):
    expression: Expression
    __hash__ = _Nested.__hash__

    @property
    def names(self) -> frozenset[str]:
        """None that positions can take the place of."""
        return _NOBODY


Atom = Variable | Quotient | Remainder | Extreme | Opaque
"""Its `names` are those of all variables in it, wherever they are."""


@dataclass(frozen=True, slots=True)
class Linear(_Nested):
    """The constant plus each atom times its number, none of which is 0."""

    constant: int
    terms: tuple[tuple[Atom, int], ...] = ()
    _names: frozenset[str] = field(init=False, repr=False, compare=False)
    __hash__ = _Nested.__hash__

    def __add__(self, other: Linear) -> Linear:
        constant = self.constant + other.constant
        if not self.terms or not other.terms:
            return Linear(constant, self.terms or other.terms)
        return _form(constant, (*self.terms, *other.terms))

    def __mul__(self, number: int) -> Linear:
        if number == 0:
            return Linear(0)
        return Linear(self.constant * number, tuple([(atom, n * number) for atom, n in self.terms]))

    @property
    def names(self) -> frozenset[str]:
        """Of all variables in it, wherever they are."""
        try:
            return self._names
        except AttributeError:
            found = _NOBODY.union(*[atom.names for atom, _ in self.terms])
            object.__setattr__(self, "_names", found)
            return found


_NOBODY: frozenset[str] = frozenset()


_KNOWN: dict[int, tuple[Expression, Linear]] = {}
"""Forms that were asked for, by the identity of what they are of: code generation asks for each of them many
times, and expressions that compare equal need not be alike where there are floats in them.
"""

_MOST_KNOWN = 1 << 14


def linear(node: Expression) -> Linear:
    known = _KNOWN.get(id(node))
    if known is not None:
        return known[1]
    form = _linear(node)
    if len(_KNOWN) >= _MOST_KNOWN:
        _KNOWN.clear()
    _KNOWN[id(node)] = node, form
    return form


def _linear(node: Expression) -> Linear:
    match node:
        case Constant(value=int(value)):
            return Linear(value)
        case Variable():
            return _of(node)
        case Unary("-", operand):
            return linear(operand) * -1
        case Binary("+", left, right):
            return linear(left) + linear(right)
        case Binary("-", left, right):
            return linear(left) + linear(right) * -1
        case Binary("*", left, right):
            a, b = linear(left), linear(right)
            if not b.terms:
                return a * b.constant
            return b * a.constant if not a.terms else _of(Opaque(node))
        case Binary("/" | "%" as operator, left, Constant(value=int(divisor))) if divisor > 0:
            dividend = linear(left)
            if has_values(dividend) and not is_atom(dividend):
                # A sum of values may have wrapped around: what it is a multiple of counts.
                return _of(Opaque(node))
            return quotient(dividend, divisor) if operator == "/" else remainder(dividend, divisor)
        case Binary("min" | "max" as operator, left, right) if node.dtype is DType.I32:
            sides = linear(left), linear(right)
            if any(has_values(side) and not is_atom(side) for side in sides):
                # Sums of values may have wrapped around: their terms do not say which one is greater.
                return _of(Opaque(node))
            return extreme(operator, *sides)
        case _:
            return _of(Opaque(node))


def compared(node: Expression) -> Linear | None:
    """How far the left side of a comparison of i32 is beyond the right one; None for others."""
    if not isinstance(node, Compare) or node.left.dtype is not DType.I32:
        return None
    return linear(node.left) + linear(node.right) * -1


def quotient(dividend: Linear, divisor: int) -> Linear:
    """Multiples of the divisor come out of it."""
    if divisor == 1:
        return dividend
    whole = _form(
        dividend.constant // divisor, ((a, n // divisor) for a, n in dividend.terms if n % divisor == 0)
    )
    rest = _form(dividend.constant % divisor, ((a, n) for a, n in dividend.terms if n % divisor))
    match rest.terms:
        case ():
            return whole
        case ((Quotient(dividend, inner), 1),) if divisor * inner <= DType.I32.greatest:
            return whole + quotient(dividend + Linear(rest.constant * inner), divisor * inner)
    return whole + _of(Quotient(rest, divisor))


def remainder(dividend: Linear, divisor: int) -> Linear:
    """Multiples of the divisor do not count."""
    if divisor == 1:
        return Linear(0)
    rest = _form(dividend.constant % divisor, ((a, n) for a, n in dividend.terms if n % divisor))
    return rest if not rest.terms else _of(Remainder(rest, divisor))


def extreme(operator: Literal["min", "max"], left: Linear, right: Linear) -> Linear:
    """One of two forms, where they differ by a constant, or by constants in quotients."""
    apart = right + left * -1
    if _is_natural(apart):
        return left if operator == "min" else right
    if _is_natural(apart * -1):
        return right if operator == "min" else left
    return _of(Extreme(operator, left, right))


def _is_natural(apart: Linear) -> bool:
    """Whether it is plain that a difference is never negative."""
    match apart.terms:
        case ():
            return apart.constant >= 0
        case ((Quotient() as one, number), (Quotient() as other, opposite)) if number == -opposite:
            more, less = (one, other) if number > 0 else (other, one)
            rest = more.dividend + less.dividend * -1
            return more.divisor == less.divisor and not rest.terms and rest.constant >= 0 <= apart.constant
    return False


@lru_cache(maxsize=1 << 12)
def variable(name: str) -> Linear:
    return _of(Variable(name))


def _of(atom: Atom) -> Linear:
    return Linear(0, ((atom, 1),))


def _form(constant: int, terms: Iterable[tuple[Atom, int]]) -> Linear:
    numbers: dict[Atom, int] = {}
    for atom, number in terms:
        numbers[atom] = numbers.get(atom, 0) + number
    return _made(constant, numbers)


def _made(constant: int, numbers: Mapping[Atom, int]) -> Linear:
    return Linear(constant, tuple([each for each in numbers.items() if each[1]]))


def fixed(numbers: Mapping[str, int]) -> dict[str, Linear]:
    """Numbers as positions."""
    return {name: Linear(number) for name, number in numbers.items()}


def is_atom(form: Linear) -> bool:
    """Whether it is nothing but one atom."""
    return not form.constant and len(form.terms) == 1 and form.terms[0][1] == 1


def is_parity(form: Linear) -> bool:
    """Whether it follows from what is even."""
    return all(isinstance(atom, Remainder) and atom.divisor == 2 for atom, _ in form.terms)


def substituted(form: Linear, positions: Mapping[str, Linear]) -> Linear:
    """The form with positions in place of variables."""
    if form.names.isdisjoint(positions):
        return form
    constant, numbers = form.constant, dict[Atom, int]()
    for atom, number in form.terms:
        part = _substituted(atom, positions)
        if part is None:
            numbers[atom] = numbers.get(atom, 0) + number
            continue
        constant += part.constant * number
        for inner, n in part.terms:
            numbers[inner] = numbers.get(inner, 0) + n * number
    return _made(constant, numbers)


def _substituted(atom: Atom, positions: Mapping[str, Linear]) -> Linear | None:
    """What an atom becomes; None where it stays."""
    if isinstance(atom, Variable):
        return positions.get(atom.name)
    if atom.names.isdisjoint(positions):
        return None
    return _rebuilt(atom, lambda inner: substituted(inner, positions))


def replaced(form: Linear, positions: Mapping[Atom, Linear]) -> Linear:
    """The form with positions in place of atoms, wherever these are."""
    constant, terms = form.constant, []
    for atom, number in form.terms:
        part = positions.get(atom)
        if part is None:
            part = _rebuilt(atom, lambda inner: replaced(inner, positions))
        constant += part.constant * number
        terms += [(inner, n * number) for inner, n in part.terms]
    return _form(constant, terms)


def _rebuilt(atom: Atom, changed: Callable[[Linear], Linear]) -> Linear:
    """An atom of what its parts become."""
    match atom:
        case Quotient(dividend, divisor):
            return quotient(changed(dividend), divisor)
        case Remainder(dividend, divisor):
            return remainder(changed(dividend), divisor)
        case Extreme(operator, left, right):
            return extreme(operator, changed(left), changed(right))
        case Variable() | Opaque():
            return _of(atom)


def has_values(form: Linear) -> bool:
    """Whether anything in it is no position, but a value."""
    return any(isinstance(atom, Opaque) for atom in atoms(form))


def atoms(form: Linear) -> Iterator[Atom]:
    """All of them, wherever they are."""
    for atom, _ in form.terms:
        yield atom
        match atom:
            case Quotient(dividend) | Remainder(dividend):
                yield from atoms(dividend)
            case Extreme(_, left, right):
                yield from (*atoms(left), *atoms(right))
