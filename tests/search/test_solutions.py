"""Solutions for their own sake: every one is found, once, whichever way they are looked for."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.enumerate import enumerate_solutions
from spacedsl.search.orderings import select_ordering
from spacedsl.search.solutions import all_solutions, random_solutions
from tests.engine.small import Machine, World, world

ORDER = """\
choice enum order($a in Things, $b in Things):
  antisymmetric: BEFORE -> AFTER
  value BEFORE: value AFTER: value MERGED:
end
require forall $a in Things: forall $b in Things: forall $c in Things:
  order($a, $c) is BEFORE || order($a, $b) is not BEFORE || order($b, $c) is not BEFORE | MERGED
  order($a, $c) is MERGED || order($a, $b) is not MERGED || order($b, $c) is not MERGED
choice counter merged():
  forall $a in Things: forall $b in Things: sum 1 when: order($a, $b) is MERGED
end
require merged() <= 2
"""

PIGEONS = """\
choice enum hole($x in Things): value A: value B: value C: end
require forall $x in Things: forall $y in Things: hole($x) != hole($y)
"""


def leaf(candidate: Candidate) -> frozenset[tuple[str, tuple[str, ...], str | int]]:
    return frozenset((d.choice, d.objects, d.values[0]) for d in candidate.decisions())


def expected(small: World) -> set[frozenset[tuple[str, tuple[str, ...], str | int]]]:
    space = small.instance.space
    return {
        frozenset((choice, names, value) for (choice, names), value in s.decisions.items())
        for s in enumerate_solutions(space, small.kernel, Machine())
    }


def test_all_solutions_are_those_of_the_enumerator_each_once() -> None:
    small = world(ORDER, 4)
    ordering = select_ordering(small.instance, small.instance.space)
    found = [leaf(s) for s in all_solutions(small.root(), ordering) if s is not None]
    assert len(found) == len(set(found))
    assert set(found) == expected(small)
    assert len(found) > 20


@pytest.mark.parametrize("seed", range(3))
def test_random_descents_find_all_solutions_each_once_and_then_end(seed: int) -> None:
    small = world(ORDER, 4)
    ordering = select_ordering(small.instance, small.instance.space)
    solutions = random_solutions(small.root(), ordering, np.random.default_rng(seed))
    found = [leaf(s) for s in solutions if s is not None]
    assert len(found) == len(set(found))
    assert set(found) == expected(small)


def test_descents_differ_from_seed_to_seed_and_are_repeated_by_a_seed() -> None:
    small = world(ORDER, 5)
    ordering = select_ordering(small.instance, small.instance.space)

    def firsts(seed: int) -> list[frozenset[tuple[str, tuple[str, ...], str | int]]]:
        solutions = random_solutions(small.root(), ordering, np.random.default_rng(seed))
        return [leaf(s) for s in itertools.islice((s for s in solutions if s is not None), 5)]

    assert firsts(1) == firsts(1)
    assert firsts(1) != firsts(2)


def test_random_descents_end_where_there_is_no_solution() -> None:
    small = world(PIGEONS, 4)
    ordering = select_ordering(small.instance, small.instance.space)
    found = list(random_solutions(small.root(), ordering, np.random.default_rng(0)))
    assert found, "propagation alone does not see that four do not fit in three"
    assert set(found) == {None}
