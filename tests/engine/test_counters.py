"""Counters: intervals from what is certain and possible, and what limits force. Worked out by hand."""

from __future__ import annotations

import pytest

from spacedsl.compiler.ir import SATURATED
from spacedsl.diagnostics import DiagnosticError
from tests.engine.small import Thing, Things, things, world

KIND = """
choice enum kind($x in Things):
  value A:
  value B:
end
"""


def test_a_sum_counts_what_is_certain_and_what_is_possible() -> None:
    text = KIND + "choice counter total(): base 3 forall $x in Things: sum 1 when: kind($x) is A end\n"
    here = world(text, 4)
    a, b, *_ = here.things
    assert here.root().interval("total") == (3, 7)
    decided = here.made(here.made(here.root(), "kind", a, to=("A",)), "kind", b, to=("B",))
    assert decided.interval("total") == (4, 6)


def test_a_limit_turns_the_remaining_contributions_off() -> None:
    text = (
        KIND
        + "choice counter total(): forall $x in Things: sum 1 when: kind($x) is A end\nrequire total() < 3\n"
    )
    here = world(text, 3)
    a, b, c = here.things
    decided = here.made(here.made(here.root(), "kind", a, to=("A",)), "kind", b, to=("A",))
    assert decided.possible("kind", c) == ("B",)
    assert decided.interval("total") == (2, 2)


def test_a_lower_limit_turns_the_remaining_contributions_on() -> None:
    text = (
        KIND
        + "choice counter total(): forall $x in Things: sum 1 when: kind($x) is A end\nrequire total() >= 1\n"
    )
    here = world(text, 3)
    a, b, c = here.things
    decided = here.made(here.made(here.root(), "kind", a, to=("B",)), "kind", b, to=("B",))
    assert decided.possible("kind", c) == ("A",)


def test_a_limited_sum_of_integers_bounds_its_terms() -> None:
    text = (
        'choice integer size($x in Things): "$x.sizes" end\n'
        "choice counter total(): forall $x in Things: sum size($x) when: end\n"
        "require total() <= 12\n"
    )
    here = world(text, Things(things(3, sizes=(3, 4, 5, 7))))
    a, b, c = here.things
    assert here.root().interval("total") == (9, 12)
    assert here.root().possible("size", a) == (3, 4, 5)
    one_four = here.made(here.root(), "size", a, to=(4,))
    assert one_four.interval("total") == (10, 12)
    both = here.made(one_four, "size", b, to=(5,))
    assert both.interval("total") == (12, 12)
    assert both.value("size", c) == 3


def test_a_product_with_a_fixed_value_leaves_only_factors_that_reach_it() -> None:
    text = (
        'choice integer size($x in Things): "$x.sizes" end\n'
        "choice counter volume(): forall $x in Things: mul size($x) when: end\n"
        "require volume() == 15\n"
    )
    here = world(text, Things(things(2, sizes=(1, 3, 5, 9, 15))))
    a, b = here.things
    assert here.root().possible("size", a) == (1, 3, 5, 9, 15)
    assert here.set(here.root(), "size", a, to=(9,)) is None
    assert here.made(here.root(), "size", a, to=(5,)).value("size", b) == 3


def test_a_counter_of_counters_passes_a_limit_down() -> None:
    text = KIND + (
        "choice counter inner($x in Things): base 1 forall $y in Things: mul 2 when: kind($y) is A end\n"
        "choice counter outer(): forall $x in Things: sum inner($x) when: end\n"
        "require outer() <= 4\n"
    )
    here = world(text, 2)
    # inner(a) is 1 or 2 as b is B or A; the sum of both is 2 to 4.
    assert here.root().interval("outer") == (2, 4)
    limited = world(text.replace("<= 4", "<= 2"), 2)
    assert [limited.root().possible("kind", x) for x in limited.things] == [("B",), ("B",)]


def test_a_condition_may_be_any_formula() -> None:
    text = (
        KIND
        + KIND.replace("kind", "other")
        + (
            "choice counter total(): forall $x in Things:\n"
            "  sum 1 when: kind($x) is A && (other($x) is A || kind($x) is B)\nend\n"
            "require total() <= 0\n"
        )
    )
    here = world(text, 1)
    (x,) = here.things
    assert here.root().interval("total") == (0, 0)
    assert here.made(here.root(), "kind", x, to=("A",)).possible("other", x) == ("B",)
    assert here.made(here.root(), "other", x, to=("A",)).possible("kind", x) == ("B",)


def test_both_ends_of_a_symmetric_pair_count_it() -> None:
    text = (
        "choice enum near($x in Things, $y in Things):\n  symmetric\n  value YES:\n  value NO:\nend\n"
        "choice counter degree($x in Things): forall $y in Things: sum 1 when: near($x, $y) is YES end\n"
    )
    here = world(text, 2)
    x, y = here.things
    assert here.root().interval("degree", x) == here.root().interval("degree", y) == (0, 1)
    decided = here.made(here.root(), "near", y, x, to=("YES",))
    assert decided.interval("degree", x) == decided.interval("degree", y) == (1, 1)


def test_an_antisymmetric_pair_counts_on_one_side_only() -> None:
    text = (
        "choice enum order($x in Things, $y in Things):\n  antisymmetric:\n    FIRST -> SECOND\n"
        "  value FIRST:\n  value SECOND:\nend\n"
        "choice counter later($x in Things): forall $y in Things: sum 1 when: order($x, $y) is FIRST end\n"
    )
    here = world(text, 2)
    x, y = here.things
    decided = here.made(here.root(), "order", x, y, to=("FIRST",))
    assert decided.interval("later", x) == (1, 1)
    assert decided.interval("later", y) == (0, 0)


@pytest.mark.parametrize("visibility", ["half", "internal"])
def test_counters_that_show_less_still_prune(visibility: str) -> None:
    text = KIND + (
        f"choice {visibility} counter total(): forall $x in Things: sum 1 when: kind($x) is A end\n"
        "require total() <= 1\n"
    )
    here = world(text, 2)
    a, b = here.things
    assert here.made(here.root(), "kind", a, to=("A",)).possible("kind", b) == ("B",)


def test_an_inequality_shaves_an_end_of_the_interval() -> None:
    text = (
        KIND
        + "choice counter total(): forall $x in Things: sum 2 when: kind($x) is A end\nrequire total() != 4\n"
    )
    here = world(text, 2)
    a, b = here.things
    assert here.made(here.root(), "kind", a, to=("A",)).possible("kind", b) == ("B",)


def test_counters_in_a_disjunction_are_limited_once_the_rest_is_impossible() -> None:
    text = KIND + (
        "choice counter total(): forall $x in Things: sum 1 when: kind($x) is A end\n"
        "require forall $x in Some: kind($x) is A || total() == 0\n"
    )
    all_of_them = things(2)
    here = world(text, Things(all_of_them, some=all_of_them[:1]))
    a, b = all_of_them
    assert here.root().possible("kind", b) == ("A", "B")
    assert here.made(here.root(), "kind", a, to=("B",)).possible("kind", b) == ("B",)
    assert here.made(here.root(), "kind", b, to=("A",)).possible("kind", a) == ("A",)


def test_counters_saturate_and_do_not_wrap() -> None:
    text = (
        'choice integer size($x in Things): "$x.sizes" end\n'
        "choice counter volume(): forall $x in Things: mul size($x) when: end\n"
    )
    big = 2**62
    here = world(text, Things(things(3, sizes=(1, 4, big))))
    a, b, _ = here.things
    assert here.root().interval("volume") == (1, SATURATED)
    decided = here.made(here.made(here.root(), "size", a, to=(big,)), "size", b, to=(4,))
    assert decided.interval("volume") == (SATURATED, SATURATED)
    below = world(text + f"require volume() < {2**62 + 1}\n", Things(things(3, sizes=(1, 4, big))))
    x, y, z = below.things
    one = below.made(below.root(), "size", x, to=(big,))
    assert (one.value("size", y), one.value("size", z)) == (1, 1)
    assert below.made(below.root(), "size", x, to=(4,)).possible("size", y) == (1, 4)


def test_a_saturated_sum_is_not_mistaken_for_a_limit() -> None:
    text = (
        'choice integer size($x in Things): "$x.sizes" end\n'
        "choice counter total(): forall $x in Things: sum size($x) when: end\n"
        f"require total() > {2**63 - 1}\n"
    )
    big = 2**63 - 1
    here = world(text, Things(things(4, sizes=(0, big))))
    assert here.root().interval("total") == (2**63, SATURATED)
    a, b, c, d = here.things
    two_left = here.made(here.made(here.root(), "size", a, to=(0,)), "size", b, to=(0,))
    assert (two_left.value("size", c), two_left.value("size", d)) == (big, big)
    assert here.made(here.root(), "size", a, to=(0,)).possible("size", b) == (0, big)


@pytest.mark.parametrize(
    "counter",
    [
        "forall $x in Things: mul size($x) when: end",
        'forall $x in Things: mul "$x.weight" when: end',
        'forall $x in Things: sum "0 - 1 - $x.weight" when: end',
        'base "0 - 1" forall $x in Things: sum 1 when: end',
    ],
)
def test_contributions_that_are_too_small_are_located_errors(counter: str) -> None:
    text = f'choice integer size($x in Things): "$x.sizes" end\nchoice counter total(): {counter}\n'
    with pytest.raises(DiagnosticError, match="SP413"):
        world(text, Things((Thing(0, "t0", weight=0, sizes=(0, 1)),)))


def test_a_counter_over_nothing_is_its_base() -> None:
    text = (
        KIND
        + "choice counter total($x in Things): base 2 forall $y in Near($x): sum 1 when: kind($y) is A end\n"
    )
    here = world(text, 1)
    assert here.root().interval("total", here.things[0]) == (2, 2)


def test_counters_that_contradict_each_other_are_found_out_within_their_bounds() -> None:
    """Raising each above the other in turn ends at what they can count, not at the greatest integer."""
    text = KIND + (
        "choice counter left(): forall $x in Things: sum 1 when: kind($x) is A end\n"
        "choice counter right(): forall $x in Things: sum 1 when: kind($x) is B end\n"
        "require left() < right()\nrequire right() < left()\n"
    )
    assert world(text, 6).instance.root() is None


@pytest.mark.parametrize("where", ["$x.weight > 1", "$device.limit != 4"])
def test_a_counter_whose_contributions_are_all_filtered_out_is_its_base(where: str) -> None:
    text = (
        f'choice counter total($x in Things): base 2 forall $y in Things where "{where}": '
        "sum 1 when: kind($y) is A end\nrequire forall $x in Things: total($x) <= 2\n"
    )
    here = world(KIND + text, 2)
    assert [here.root().interval("total", x) for x in here.things] == [(2, 2), (2, 2)]


def test_a_limit_reaches_the_contributions_though_the_counter_waits_for_what_they_have_made_of_it() -> None:
    """At the root a counter is settled, and limited before its change has been looked at."""
    text = (
        KIND
        + "choice counter total(): forall $x in Things: sum 1 when: kind($x) is A end\nrequire total() <= 0\n"
    )
    here = world(text, 3)
    assert [here.root().possible("kind", x) for x in here.things] == [("B",)] * 3
