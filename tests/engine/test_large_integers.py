"""Counters and integers near 2**63, against exact Python integers; many objects; three parameters."""

from __future__ import annotations

import math
import operator
import random
import time
from itertools import permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacedsl.engine.enumerate import enumerate_solutions
from spacedsl.engine.instance import Engine
from tests.engine.agreement import Agreement
from tests.engine.native import needs_compiler
from tests.engine.small import Machine, Thing, Things, World, things, world

GREATEST = 2**63 - 1
COUNT = 2**64 - 1
TWO_COUNTERS = """
choice integer size($x in Things): "$x.sizes" end
choice integer other($x in Things): "$x.sizes" end
choice counter volume(): forall $x in Things: mul size($x) when: end
choice counter total(): forall $x in Things: sum other($x) when: end
"""
COMPARE = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">=": operator.ge}

large = st.sampled_from([1, 2, 3, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 2, GREATEST]) | st.integers(
    1, GREATEST
)


def compared(here: World, text: str) -> Agreement:
    solutions = tuple(enumerate_solutions(here.instance.space, Things(here.things), Machine()))
    return Agreement(here.instance.space, here.instance, solutions, {x.name: x for x in here.things})


@given(
    st.lists(large, min_size=1, max_size=3, unique=True).map(sorted),
    st.lists(large, min_size=1, max_size=3, unique=True).map(sorted),
    st.sampled_from(sorted(COMPARE)),
    st.integers(1, 3),
    st.integers(0, 2) | st.sampled_from([2**62, GREATEST]),
)
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
def test_counters_that_saturate_are_compared_as_the_numbers_that_they_stop_at(
    first: list[int], second: list[int], op: str, factor: int, offset: int
) -> None:
    text = TWO_COUNTERS + f"require {factor} * volume() {op} total() + {offset}\n"
    a, b = things(2)
    a.sizes, b.sizes = tuple(first), tuple(second)
    expected = sum(
        COMPARE[op](factor * min(math.prod(sizes), COUNT), min(sum(others), COUNT) + offset)
        for sizes in product(first, second)
        for others in product(first, second)
    )
    here = world(text, Things((a, b)))
    found = compared(here, text)
    assert len(found.solutions) == expected
    found.check_exhaustively()
    found.check_descent(random.Random(0))
    found.check_queue(random.Random(0))


CHASES = {
    "two comparisons": "require d() + 1 <= e()\nrequire e() + 1 <= d()",
    "an equality": "require d() + 1 == e()\nrequire e() <= d()",
    "tripled": "require 3 * d() + 1 <= 3 * e()\nrequire e() + 3 <= d() + 3",
    "a ring": "require d() < e()\nrequire e() < f()\nrequire f() < d()",
    "by turns": "require 3 * d() <= 3 * e() - 3\nrequire e() + 2 <= 1 * d() + 1",
    "through a condition": "require forall $x in Things: kind($x) is A || d() < e()\nrequire e() < d()",
}


@pytest.mark.parametrize("rules", CHASES.values(), ids=CHASES)
def test_counters_that_push_each_other_up_come_to_rest_and_no_leaf_breaks_a_rule(rules: str) -> None:
    text = (
        "choice enum kind($x in Things):\n  value A:\n  value B:\nend\n"
        + "".join(
            f"choice counter {name}(): forall $x in Things: sum {2**62} when: kind($x) is A end\n"
            for name in "def"
        )
        + rules
    )
    started = time.process_time()
    here = world(text, 2)
    found = compared(here, text)
    found.check_exhaustively()
    assert (here.instance.root() is None) == ("||" not in rules), (
        "what holds unconditionally is found at once"
    )
    assert time.process_time() - started < 10, "a chase of 2**62 steps would take years"


def test_a_chain_of_sums_that_push_each_other_comes_to_rest() -> None:
    # p = a + b and q = a + b + 1 cannot both be 2**40, which the intervals find out one by one.
    text = f"""
choice integer size($x in Things): "$x.sizes" end
choice counter a($x in Things): sum size($x) when: end
choice counter c($x in Things): base 1 sum size($x) when: end
choice counter p(): forall $x in Things: sum a($x) when: end
choice counter q(): forall $x in Things: sum c($x) when: "$x.id == 0" end
require p() == {2**40}
require forall $x in Things: a($x) < {2**40}
require q() >= p()
"""
    here = world(text, Things(things(2, sizes=(1, 2**39, 2**40 - 1, 2**40))))
    compared(here, text).check_exhaustively()


def test_rules_over_more_objects_than_two_words_have_bits() -> None:
    text = """
choice enum colour($x in Things):
  value RED:
  value GREEN:
end
choice counter reds(): forall $x in Things: sum 1 when: colour($x) is RED end
require forall $x in Things: forall $y in Near($x): colour($x) != colour($y)
require reds() >= 70
"""
    ring = things(140)
    for number, node in enumerate(ring):
        node.near = (ring[(number + 1) % len(ring)],)
    here = world(text, Things(ring))
    assert here.root().interval("reds") == (70, 140)
    decided = here.made(here.root(), "colour", ring[133], to=("RED",))
    assert [decided.value("colour", x) for x in ring] == ["GREEN", "RED"] * 70
    ring[138].near = (ring[0],)
    odd = world(text, Things(ring[:139]))
    assert odd.set(odd.root(), "colour", ring[0], to=("RED",)) is None


def test_choices_over_three_parameters_against_all_assignments() -> None:
    text = """
choice enum between($x in Things, $y in Things, $z in Near($x)):
  value YES:
  value NO:
end
choice counter through($y in Things):
  forall $x in Things: forall $z in Near($x): sum 1 when: between($x, $y, $z) is YES
end
require forall $y in Things: through($y) == 1
require forall $x in Things: forall $y in Things: forall $z in Near($x):
  between($x, $y, $z) is NO || "$x.id < $z.id"
"""
    nodes = things(3)
    for node in nodes:
        node.near = tuple(other for other in nodes if other is not node)
    here = world(text, Things(nodes))
    found = compared(here, text)
    triples = list(permutations(range(3), 3))
    expected = [
        chosen
        for chosen in product((True, False), repeat=len(triples))
        if all(sum(c for c, (_, y, _) in zip(chosen, triples, strict=True) if y == m) == 1 for m in range(3))
        and all(not c or x < z for c, (x, _, z) in zip(chosen, triples, strict=True))
    ]
    assert len(found.solutions) == len(expected) == 1
    found.check_exhaustively()
    for seed in range(5):
        found.check_descent(random.Random(seed))


@needs_compiler
@pytest.mark.parametrize("highs", [(2**64, 3 * 2**62), (2**62, 3 * 2**62), (2**64, 2**62, 2), (2**64, 2**64)])
def test_both_engines_know_the_same_of_what_is_left_of_a_large_product(highs: tuple[int, ...]) -> None:
    text = f"""
choice integer size($x in Things): "$x.sizes" end
choice counter a($x in Things): forall $y in Near($x): mul size($y) when: end
choice counter b(): forall $x in Some: mul a($x) when: end
require b() >= {GREATEST} + {GREATEST}
"""
    owners = things(len(highs))
    factors: list[Thing] = []
    for owner, high in zip(owners, highs, strict=True):
        first = 1 << max(0, min(high.bit_length() - 3, 60))
        pair = [Thing(len(owners) + len(factors) + i, f"f{len(factors) + i}") for i in range(2)]
        pair[0].sizes, pair[1].sizes = (1, first), (1, high // first)
        owner.near = tuple(pair)
        factors += pair
    kernel = Things((*owners, *factors), owners)
    roots = [world(text, kernel, engine).root().vector for engine in Engine]
    assert roots[0] == roots[1]
