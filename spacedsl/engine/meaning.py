"""Functions of the decisions, with the decisions that they read: what the enumerator builds all else from.

In: constants, values of decisions, other such functions. Out: `Meaning`, a function of a complete assignment.
Absent objects have no values: a function that reads one raises `AbsentError`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from spacedsl.language.space import Comparison

T = TypeVar("T")

LARGEST_COUNT = 2**64 - 1
"""The value of a counter whose exact one would be greater."""
Assignment = Sequence[int | None]
"""By decision: the number of an enum's value, the value of an integer, None where its objects are absent."""


class AbsentError(LookupError):
    """A decision without a value is read for present objects: what is assigned does not fit together."""


@dataclass(frozen=True, slots=True)
class Meaning(Generic[T]):
    """A function of the decisions, and the positions of those that it may read."""

    reads: frozenset[int]
    of: Callable[[Assignment], T]


def constant(value: T) -> Meaning[T]:
    return Meaning(frozenset(), lambda _: value)


def reads_of(*parts: Meaning[int] | Meaning[bool]) -> frozenset[int]:
    return frozenset[int]().union(*(p.reads for p in parts))


def remembered(meaning: Meaning[T]) -> Meaning[T]:
    """The same function, computed once for each combination of the values that it reads."""
    positions = sorted(meaning.reads)
    values_of: Callable[[Assignment], object] = operator.itemgetter(*positions) if positions else lambda _: ()
    known: dict[object, T] = {}

    def of(assignment: Assignment) -> T:
        values = values_of(assignment)
        if values not in known:
            known[values] = meaning.of(assignment)
        return known[values]

    return Meaning(meaning.reads, of)


def all_of(parts: Sequence[Meaning[bool]]) -> Meaning[bool]:
    """All hold, looked at in this order up to the first that does not."""
    tests = tuple(p.of for p in parts)
    return Meaning(reads_of(*parts), lambda a: all(test(a) for test in tests))


def any_of(parts: Sequence[Meaning[bool]]) -> Meaning[bool]:
    """One holds, looked at in this order up to the first that does."""
    if any(not p.reads and p.of(()) for p in parts):
        return constant(True)
    tests = tuple(p.of for p in parts)
    return Meaning(reads_of(*parts), lambda a: any(test(a) for test in tests))


def negation(part: Meaning[bool]) -> Meaning[bool]:
    return Meaning(part.reads, lambda a: not part.of(a))


def is_in(value: Meaning[int] | Meaning[bool], mask: int) -> Meaning[bool]:
    return Meaning(value.reads, lambda a: bool(mask >> value.of(a) & 1))


COMPARE: Mapping[Comparison, Callable[[int, int], bool]] = {
    Comparison.EQ: operator.eq,
    Comparison.NE: operator.ne,
    Comparison.LT: operator.lt,
    Comparison.LE: operator.le,
    Comparison.GT: operator.gt,
    Comparison.GE: operator.ge,
}
