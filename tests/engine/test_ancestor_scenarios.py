"""What the ancestor's engine was tested for, by small spaces over plain objects: enums, conditions, symmetry.

The scenarios of its compiler tests, in their order, with their outcomes: 1 to 6 and 17. Those on counters are
in `test_ancestor_scenarios_counters.py`, those on what else is derived are in
`test_ancestor_scenarios_derived.py`.
"""

from __future__ import annotations

import math

import pytest

from tests.engine.plain_world import ABC, PlainWorld, plain_world

ITEMS = 'set Items: iterator = "$kernel.items" end\n'
TWO = "items: [x, y]"
FOO = f"choice enum foo($i in Items): {ABC} end\n"
BAR = f"choice enum bar($i in Items): {ABC} end\n"
ALL = ("A", "B", "C")


# ---- 1. Domains ------------------------------------------------------------------------------------------


def test_sets_of_values_are_intersected_until_one_is_left_or_none() -> None:
    here = plain_world("items: [x]", ITEMS + FOO)
    assert here.left(here.root, "foo(x)") == ALL
    two = here.after(("foo(x)", "A", "B"))
    assert here.left(two, "foo(x)") == ("A", "B")
    one = here.after(("foo(x)", "B", "C"), since=two)
    assert here.left(one, "foo(x)") == ("B",)
    assert here.left(here.after(("foo(x)", *ALL), since=one), "foo(x)") == ("B",)
    assert here.set(one, "foo(x)", "A", "C") is None
    assert here.left(two, "foo(x)") == ("A", "B"), "what is decided further down changes nothing above"


def test_a_negated_value_leaves_its_complement() -> None:
    here = plain_world("items: [x]", ITEMS + FOO + "require forall $i in Items: foo($i) is not A\n")
    assert here.left(here.root, "foo(x)") == ("B", "C")


NUMBERS = """
items:
  - {name: x, sizes: [1, 3, 4, 5, 8], others: [2, 3, 5, 9]}
"""
SIZES = (
    ITEMS
    + FOO
    + """
choice integer size($i in Items): "$i.sizes" end
choice integer other($i in Items): "$i.others" end
"""
)


def numbers(requirement: str, others: str = "[2, 3, 5, 9]") -> PlainWorld:
    return plain_world(
        NUMBERS.replace("[2, 3, 5, 9]", others), SIZES + f"require forall $i in Items: {requirement}\n"
    )


def test_integers_of_two_universes_that_are_equal_have_common_values() -> None:
    here = numbers("size($i) == other($i)")
    assert here.left(here.root, "size(x)") == here.left(here.root, "other(x)") == (3, 5)
    here = numbers("size($i) == other($i)", "[1, 6, 8]")
    assert here.left(here.root, "size(x)") == (1, 8)


def test_common_divisors_and_multiples_are_those_of_what_is_left() -> None:
    here = plain_world(NUMBERS, SIZES)
    assert math.lcm(*map(int, here.left(here.root, "size(x)"))) == 120
    assert math.gcd(*map(int, here.left(here.after(("size(x)", 4, 8)), "size(x)"))) == 4


@pytest.mark.parametrize(
    ("comparison", "holds"),
    [("< 9", True), ("< 8", False), ("> 0", True), ("> 1", False), ("<= 8", True), (">= 1", True)],
)
def test_a_comparison_holds_once_it_holds_of_all_values(comparison: str, holds: bool) -> None:
    here = numbers(f"size($i) {comparison} => foo($i) is A")
    assert here.left(here.root, "foo(x)") == (("A",) if holds else ALL)


@pytest.mark.parametrize(("others", "holds"), [("[6, 7]", True), ("[4, 7]", False), ("[2, 9]", True)])
def test_integers_differ_once_they_have_no_common_value(others: str, holds: bool) -> None:
    here = numbers("size($i) != other($i) => foo($i) is A", others)
    assert here.left(here.root, "foo(x)") == (("A",) if holds else ALL)


@pytest.mark.parametrize(
    ("comparison", "left"), [("< 5", (1, 3, 4)), ("> 5", (8,)), ("<= 5", (1, 3, 4, 5)), (">= 5", (5, 8))]
)
def test_a_comparison_with_a_number_keeps_what_satisfies_it(comparison: str, left: tuple[int, ...]) -> None:
    here = numbers(f"size($i) {comparison}")
    assert here.left(here.root, "size(x)") == left


# ---- 2. One condition ------------------------------------------------------------------------------------


@pytest.mark.parametrize("condition", ["bar($i) is A | B", "bar($i) is not C"])
def test_a_value_that_requires_another_choice_goes_with_it(condition: str) -> None:
    text = (
        ITEMS + BAR + f"choice enum foo($i in Items): value A: requires {condition} value B: value C: end\n"
    )
    here = plain_world("items: [x]", text)
    assert here.left(here.after(("foo(x)", "A")), "bar(x)") == ("A", "B")
    assert here.left(here.after(("foo(x)", "B")), "bar(x)") == ALL
    assert here.left(here.after(("bar(x)", "C")), "foo(x)") == ("B", "C")


@pytest.mark.parametrize("condition", ["foo($other) is A | B", "foo($other) is not C"])
def test_a_value_that_requires_the_same_choice_of_another_object_concerns_both(condition: str) -> None:
    text = (
        "choice enum foo($i in Items):\n"
        f"  value A: requires forall $other in Items: {condition}\n  value B: value C:\nend\n"
    )
    here = plain_world(TWO, ITEMS + text)
    for other, left in (("A", ("A", "B")), ("B", ALL), ("C", ("B", "C"))):
        assert here.left(here.after(("foo(y)", other)), "foo(x)") == left


def test_equality_copies_and_inequality_removes() -> None:
    here = plain_world("items: [x]", ITEMS + FOO + BAR + "require forall $i in Items: foo($i) == bar($i)\n")
    assert here.left(here.after(("foo(x)", "A", "C")), "bar(x)") == ("A", "C")
    here = plain_world("items: [x]", ITEMS + FOO + BAR + "require forall $i in Items: foo($i) != bar($i)\n")
    assert here.left(here.after(("foo(x)", "A")), "bar(x)") == ("B", "C")
    assert here.left(here.after(("foo(x)", "A", "B")), "bar(x)") == ALL


@pytest.mark.parametrize(("code", "left"), [("1 > 2", ("B", "C")), ("1 < 2", ALL)])
def test_a_value_that_requires_code_is_there_where_it_is_true(code: str, left: tuple[str, ...]) -> None:
    text = f'choice enum foo($i in Items): value A: requires "{code}" value B: value C: end\n'
    here = plain_world("items: [x]", ITEMS + text)
    assert here.left(here.root, "foo(x)") == left


def test_what_another_value_leaves_open_stays_open() -> None:
    """The ancestor's code that is true leaves {A, C} beside a second rule that takes B away."""
    text = 'choice enum foo($i in Items): value A: requires "1 < 2" value B: requires "1 > 2" value C: end\n'
    here = plain_world("items: [x]", ITEMS + text)
    assert here.left(here.root, "foo(x)") == ("A", "C")


# ---- 3. Several conditions -------------------------------------------------------------------------------

PAIR = "require forall $l in Items: forall $r in Items: "


def test_of_three_conditions_the_last_that_is_possible_holds() -> None:
    here = plain_world(
        "items: [l, r]",
        ITEMS + FOO + BAR + PAIR + 'foo($l) is A || bar($l) is B || foo($r) is C || "$l.id > $r.id"\n',
    )
    assert here.left(here.after(("foo(r)", "A"), ("bar(l)", "A")), "foo(l)") == ("A",)
    assert here.left(here.after(("foo(r)", "A"), ("bar(l)", "B")), "foo(l)") == ALL
    assert here.left(here.after(("foo(r)", "C")), "foo(l)") == ALL


def test_an_inequality_among_conditions_removes_once_the_other_is_impossible() -> None:
    here = plain_world("items: [l, r]", ITEMS + FOO + PAIR + "foo($l) is A || foo($l) != foo($r)\n")
    assert here.left(here.after(("foo(r)", "B")), "foo(l)") == ("A", "C")
    assert here.left(here.after(("foo(r)", "A")), "foo(l)") == ALL


def test_code_among_conditions_is_asked_for_each_object() -> None:
    text = ITEMS + FOO + PAIR + "foo($l) is not A || foo($r) is B || \"$r.name == 'bb1'\"\n"
    here = plain_world("items: [bb0, bb1]", text)
    # That bb0 is A requires nothing of bb1; that bb1 is A requires that bb0 is B.
    for bb1, left in (("A", ("B",)), ("B", ALL), ("C", ALL)):
        assert here.left(here.after(("foo(bb1)", bb1)), "foo(bb0)") == left
    for bb0, other in (("A", ("B", "C")), ("B", ALL), ("C", ("B", "C"))):
        assert here.left(here.after(("foo(bb0)", bb0)), "foo(bb1)") == other


SUBTYPES = """
set Statements: iterator = "$kernel.insts + $kernel.dims" end
set Insts subsetof Statements: disjoint: Dims iterator = "$kernel.insts" end
set Dims subsetof Statements: iterator = "$kernel.dims" end
"""
KINDS = "insts: [i0, i1]\ndims: [d0, d1]"


def test_a_rule_on_a_subset_concerns_its_members_only() -> None:
    text = SUBTYPES + (
        f"choice enum e5($s in Statements): {ABC} end\n"
        f"choice enum e6($i in Insts): {ABC} end\n"
        "require forall $d in Dims: e5($d) is A | B\n"
        "require forall $i in Insts: e6($i) is not A || e5($i) is A\n"
    )
    here = plain_world(KINDS, text)
    assert here.left(here.root, "e5(d0)") == ("A", "B")
    assert here.left(here.root, "e5(i0)") == ALL
    decided = here.after(("e6(i0)", "A"))
    assert here.left(decided, "e5(i0)") == ("A",)
    assert here.left(decided, "e5(i1)") == ALL


# ---- 4. Strength -----------------------------------------------------------------------------------------


def test_two_rules_on_the_same_choices_act_as_one() -> None:
    text = (
        ITEMS
        + BAR
        + (
            "choice enum foo($i in Items):\n"
            "  value A: requires bar($i) is A | C requires bar($i) is B | C\n"
            "  value B: value C:\nend\n"
        )
    )
    here = plain_world("items: [x]", text)
    # With A or B left, either rule alone would still allow A.
    assert here.left(here.after(("bar(x)", "A", "B")), "foo(x)") == ("B", "C")


# ---- 5. Symmetry -----------------------------------------------------------------------------------------

SYMMETRIC = f"choice enum same($a in Items, $b in Items): symmetric {ABC} end\n"
ORDER = """
choice enum order($a in Items, $b in Items):
  antisymmetric:
    BEFORE -> AFTER
    INNER -> OUTER
  value BEFORE: value AFTER: value INNER: value OUTER: value MERGED:
end
"""


@pytest.mark.parametrize(
    ("value", "inverse"),
    [("BEFORE", "AFTER"), ("AFTER", "BEFORE"), ("INNER", "OUTER"), ("OUTER", "INNER"), ("MERGED", "MERGED")],
)
def test_the_other_orientation_has_the_inverse(value: str, inverse: str) -> None:
    here = plain_world(TWO, ITEMS + ORDER)
    for asked, other in (("order(x, y)", "order(y, x)"), ("order(y, x)", "order(x, y)")):
        decided = here.after((asked, value))
        assert here.left(decided, asked) == (value,)
        assert here.left(decided, other) == (inverse,)


def test_a_rule_on_both_orientations_of_a_symmetric_choice_is_one_rule() -> None:
    here = plain_world(TWO, ITEMS + SYMMETRIC + PAIR + "same($l, $r) is A | B || same($r, $l) is A\n")
    assert here.left(here.root, "same(x, y)") == ("A", "B")
    here = plain_world(
        TWO, ITEMS + SYMMETRIC + PAIR + "same($l, $r) is A | B\n" + PAIR + "same($r, $l) is B | C\n"
    )
    assert here.left(here.root, "same(x, y)") == here.left(here.root, "same(y, x)") == ("B",)


def test_a_pair_that_equals_its_mirror_image_is_merged() -> None:
    here = plain_world(TWO, ITEMS + ORDER + PAIR + "order($l, $r) == order($r, $l)\n")
    assert here.left(here.root, "order(x, y)") == ("MERGED",)


def test_a_rule_and_its_mirror_image_hold_together() -> None:
    text = ITEMS + ORDER + PAIR + "order($l, $r) is BEFORE | MERGED | INNER\n"
    here = plain_world(TWO, text + PAIR + "order($r, $l) is BEFORE | MERGED | INNER\n")
    assert here.left(here.root, "order(x, y)") == ("MERGED",)


# ---- 6. On change ----------------------------------------------------------------------------------------


def test_a_change_propagates_to_the_same_object_and_no_other() -> None:
    here = plain_world(
        TWO, ITEMS + FOO + BAR + "require forall $i in Items: foo($i) is not B || bar($i) is A\n"
    )
    decided = here.after(("foo(x)", "B"))
    assert here.left(decided, "bar(x)") == ("A",)
    assert here.left(decided, "bar(y)") == ALL
    again = here.set(decided, "foo(x)", "B")
    assert again is not None
    assert again.vector == decided.vector, "saying it again adds nothing"
    assert here.set(decided, "bar(x)", "B", "C") is None


def test_a_change_propagates_to_all_objects_that_are_quantified() -> None:
    here = plain_world("items: [x, y, z]", ITEMS + FOO + PAIR + "foo($l) is not A || foo($r) is B\n")
    decided = here.after(("foo(y)", "A"))
    assert [here.left(decided, f"foo({i})") for i in "xyz"] == [("B",), ("A",), ("B",)]


def test_a_change_propagates_along_subtypes_in_arguments_and_quantifiers() -> None:
    text = SUBTYPES + (
        f"choice enum foo($i in Insts, $s in Statements): {ABC} end\n"
        f"choice enum bar($d in Dims): {ABC} end\n"
        "require forall $i in Insts: forall $d in Dims: foo($i, $d) is not A || bar($d) is A\n"
    )
    here = plain_world(KINDS, text)
    decided = here.after(("foo(i0, d0)", "A"), ("foo(i0, i1)", "A"))
    assert here.left(decided, "bar(d0)") == ("A",)
    assert here.left(decided, "bar(d1)") == ALL
    assert here.left(here.after(("bar(d1)", "B")), "foo(i1, d1)") == ("B", "C")
    assert here.left(here.after(("bar(d1)", "B")), "foo(i1, i0)") == ALL


# ---- 17. Rules that are merged ---------------------------------------------------------------------------


def test_rules_on_the_same_pair_are_merged_whichever_of_them_it_is_bound_by() -> None:
    text = (
        ITEMS
        + FOO
        + (PAIR + "foo($l) is A | B || foo($r) is not C\n" + PAIR + "foo($r) is A | C || foo($l) is not C\n")
    )
    here = plain_world("items: [obj0, obj1]", text)
    assert here.left(here.after(("foo(obj1)", "C")), "foo(obj0)") == ("A",)
