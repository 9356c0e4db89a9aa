"""What a decision removes elsewhere: enums, sets, symmetry, guards. Domains are written by hand."""

from __future__ import annotations

import random

import pytest

from spacedsl.diagnostics import DiagnosticError
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.decision import Decision
from tests.engine.small import KIND, Thing, Things, things, world

ORDER = """
choice enum order($x in Things, $y in Things):
  antisymmetric:
    BEFORE -> AFTER
    INNER -> OUTER
  value BEFORE:
  value AFTER:
  value INNER:
  value OUTER:
  value MERGED:
end
"""

EQUAL = """
choice enum equal($x in Things, $y in Things):
  symmetric
  value YES:
  value NO:
end
require forall $x in Things: forall $y in Things: forall $z in Things:
  equal($x, $z) is YES || equal($x, $y) is NO || equal($y, $z) is NO
"""

TRIANGLES = """
require forall $a in Things: forall $b in Things: forall $c in Things:
  order($a, $c) is BEFORE || order($a, $b) is not BEFORE || order($b, $c) is not BEFORE | OUTER | MERGED
  order($a, $c) is INNER || order($a, $b) is not INNER || order($b, $c) is not INNER
  order($a, $c) is MERGED || order($a, $b) is not MERGED || order($b, $c) is not MERGED
require forall $a in Things: forall $b in Things: order($a, $b) is not MERGED || kind($a) == kind($b)
"""


@pytest.mark.parametrize(
    ("requirement", "left"),
    [
        ('forall $x in Things: "$device.limit == 4" || kind($x) is A', ("A", "B", "C")),
        ('forall $x in Things: "$device.limit != 4" || kind($x) is A', ("A",)),
        ('forall $x in Things where "$device.limit != 4": kind($x) is A', ("A", "B", "C")),
        ('"$device.limit == 4"', ("A", "B", "C")),
    ],
)
def test_a_condition_on_the_device_alone_is_asked_like_any_other(
    requirement: str, left: tuple[str, ...]
) -> None:
    here = world(f"{KIND}require {requirement}\n", 1)
    assert here.root().possible("kind", here.things[0]) == left


def test_names_that_generated_code_uses_too_stay_apart() -> None:
    text = """
    choice enum at_keep($x in Things): value A: value B: end
    choice integer keep_n($keep_n in Things): "[1, 2]" end
    choice counter count_n($v in Things): forall $v_ in Things: sum 1 when: at_keep($v_) is A end
    require forall $set_Things in Things: forall $of_set_Things in Things:
      keep_n($set_Things) <= keep_n($of_set_Things) || count_n($of_set_Things) > 1
    require forall $mask in Things: forall $mask_ in Things: at_keep($mask) is A || keep_n($mask_) < 2
    """
    here = world(text, 2)
    x, y = here.things
    child = here.made(here.made(here.root(), "at_keep", x, to=("B",)), "keep_n", x, to=(1,))
    assert child.value("keep_n", y) == 1 and child.interval("count_n", x) == (0, 1)


def test_functions_of_generated_code_stay_apart_too() -> None:
    text = """
    choice enum n_everywhere($x in Things): value A: value B: end
    choice enum n($x in Things): value A: value B: end
    require forall $x in Things: forall $y in Things: n_everywhere($x) is A || n_everywhere($y) is B
    require forall $x in Things: n($x) is A
    choice integer is_some_blockers($x in Things): "[1, 2]" end
    quotient Classes of $x in Things: is_some = true / equal is YES end
    """
    here = world(EQUAL + text, 2)
    assert [here.root().possible("n", x) for x in here.things] == [("A",), ("A",)]
    assert here.root().possible("equal", *here.things) == ("YES", "NO")


@pytest.mark.parametrize(("count", "refused"), [(10, False), (11, True)])
def test_a_requirement_on_very_many_objects_is_compiled_or_refused_in_no_time(
    count: int, refused: bool
) -> None:
    text = " ".join(f"forall $x{i} in Things:" for i in range(count))
    text = f"{KIND}require {text} kind($x0) is A || kind($x1) is B\n"
    if refused:
        with pytest.raises(DiagnosticError, match="SP303"):
            world(text, 2)
    else:
        here = world(text, 2)
        assert here.root().possible("kind", here.things[0]) == ("A", "B", "C")


def test_a_space_is_empty_where_the_device_alone_violates_it() -> None:
    assert world(f'{KIND}require "$device.limit != 4"\n', 1).instance.root() is None


def test_a_literal_that_is_left_alone_is_made_to_hold() -> None:
    here = world(
        KIND + "require forall $x in Things: forall $y in Things: kind($x) is not A || kind($y) is A | B", 2
    )
    x, y = here.things
    assert here.made(here.root(), "kind", y, to=("A",)).possible("kind", x) == ("A", "B")
    assert here.made(here.root(), "kind", y, to=("B",)).possible("kind", x) == ("A", "B", "C")
    assert here.made(here.root(), "kind", y, to=("C",)).possible("kind", x) == ("B", "C")


def test_three_conditions_wait_for_two_of_them() -> None:
    text = KIND + KIND.replace("kind", "other")
    text += (
        "require forall $x in Things: forall $y in Things: kind($x) is A || other($x) is B || kind($y) is C"
    )
    here = world(text, 2)
    x, y = here.things
    decided = here.made(here.root(), "kind", y, to=("A",))
    assert decided.possible("kind", x) == ("A", "B", "C")
    assert here.made(decided, "other", x, to=("A",)).possible("kind", x) == ("A",)
    assert here.made(decided, "other", x, to=("B",)).possible("kind", x) == ("A", "B", "C")


def test_clauses_on_the_same_choices_act_together() -> None:
    text = KIND + (
        "require forall $x in Things: forall $y in Things:\n"
        "  kind($x) is not A || kind($y) is A | C\n  kind($x) is not A || kind($y) is B | C\n"
    )
    here = world(text, 2)
    x, y = here.things
    # Each clause alone would keep A for x while y is A or B.
    assert here.made(here.root(), "kind", y, to=("A", "B")).possible("kind", x) == ("B", "C")


@pytest.mark.parametrize(("relation", "left"), [("==", ("A",)), ("!=", ("B", "C"))])
def test_equality_of_enums_copies_or_removes_a_value(relation: str, left: tuple[str, ...]) -> None:
    text = (
        KIND + KIND.replace("kind", "other") + f"require forall $x in Things: kind($x) {relation} other($x)"
    )
    here = world(text, 1)
    (x,) = here.things
    assert here.made(here.root(), "other", x, to=("A",)).possible("kind", x) == left


def test_enums_with_the_same_names_in_another_order_are_compared_by_name() -> None:
    other = "choice enum other($x in Things):\n value C:\n value A:\n value B:\nend\n"
    here = world(KIND + other + "require forall $x in Things: kind($x) == other($x)", 1)
    (x,) = here.things
    assert here.made(here.root(), "other", x, to=("C", "B")).possible("kind", x) == ("B", "C")


def test_host_conditions_select_the_bindings() -> None:
    text = KIND + 'require forall $x in Things: kind($x) is not A || "$x.weight > 1"'
    here = world(text, Things((Thing(0, "light", 1), Thing(1, "heavy", 2))))
    assert here.root().possible("kind", here.things[0]) == ("B", "C")
    assert here.root().possible("kind", here.things[1]) == ("A", "B", "C")


def test_a_filtered_quantifier_concerns_only_what_passes() -> None:
    text = KIND + 'require forall $x in Things where "$x.weight > 1": forall $y in Things: kind($y) is not A'
    here = world(text, Things((Thing(0, "light", 1), Thing(1, "heavy", 2))))
    assert here.root().possible("kind", here.things[0]) == ("B", "C")
    assert here.root().possible("kind", here.things[1]) == ("A", "B", "C")


def test_quantified_objects_are_distinct_across_overlapping_sets() -> None:
    text = KIND + "require forall $x in Things: forall $y in Some: kind($x) is A || kind($y) is B"
    all_of_them = things(1)
    here = world(text, Things(all_of_them, some=all_of_them))
    assert here.made(here.root(), "kind", here.things[0], to=("C",)).value("kind", here.things[0]) == "C"


def test_a_parametric_set_binds_its_members_only() -> None:
    a, b, c = things(3)
    a.near = (b,)
    here = world(
        KIND + "require forall $x in Things: forall $y in Near($x): kind($x) == kind($y)", Things((a, b, c))
    )
    decided = here.made(here.root(), "kind", b, to=("B",))
    assert decided.possible("kind", a) == ("B",)
    assert decided.possible("kind", c) == ("A", "B", "C")
    assert here.made(here.root(), "kind", a, to=("B",)).possible("kind", b) == ("B",)


def test_a_parametric_set_without_arguments_is_the_union_of_its_instances() -> None:
    a, b, c = things(3)
    a.near, c.near = (b,), (b,)
    here = world(
        KIND + "require forall $x in Near: forall $y in Things: kind($x) is B || kind($y) is A",
        Things((a, b, c)),
    )
    decided = here.made(here.root(), "kind", b, to=("A",))
    assert [decided.possible("kind", x) for x in (a, b, c)] == [("A",)] * 3
    assert here.made(here.root(), "kind", a, to=("B",)).possible("kind", b) == ("B",)


def test_a_set_with_two_parameters_depends_on_both() -> None:
    pairs = KIND + (
        'set Between($x in Things, $y in Things) subsetof Things: iterator = "$x.near" end\n'
        "require forall $x in Things: forall $y in Things: forall $z in Between($x, $y):\n"
        "  kind($x) is not A || kind($y) is not A || kind($z) is A\n"
    )
    a, b, c = things(3)
    a.near = (c,)
    here = world(pairs, Things((a, b, c)))
    decided = here.made(here.made(here.root(), "kind", a, to=("A",)), "kind", b, to=("A",))
    assert decided.possible("kind", c) == ("A",)
    backward = here.made(here.made(here.root(), "kind", a, to=("A",)), "kind", c, to=("B",))
    assert backward.possible("kind", b) == ("B", "C")


def test_both_orientations_of_a_pair_are_kept_in_step() -> None:
    here = world(ORDER, 2)
    x, y = here.things
    decided = here.made(here.root(), "order", y, x, to=("AFTER", "INNER"))
    assert decided.possible("order", y, x) == ("AFTER", "INNER")
    assert decided.possible("order", x, y) == ("BEFORE", "OUTER")
    assert here.instance.variable("order", y, x) is here.instance.variable("order", x, y)


def test_a_pair_that_equals_its_mirror_image_is_merged() -> None:
    here = world(
        ORDER + "require forall $x in Things: forall $y in Things: order($x, $y) == order($y, $x)", 2
    )
    assert here.root().value("order", *here.things) == "MERGED"


def test_a_condition_on_one_orientation_holds_for_both() -> None:
    here = world(
        ORDER + "require forall $x in Things: forall $y in Things: order($x, $y) is BEFORE | MERGED | INNER",
        2,
    )
    assert here.root().value("order", *here.things) == "MERGED"


def test_symmetric_relations_close_transitively_whichever_pair_comes_first() -> None:
    here = world(EQUAL, 4)
    a, b, c, d = here.things
    for first, second in (((a, b), (b, c)), ((c, b), (b, a)), ((a, c), (c, b))):
        decided = here.made(
            here.made(here.root(), "equal", *first, to=("YES",)), "equal", *second, to=("YES",)
        )
        assert all(decided.value("equal", x, y) == "YES" for x, y in ((a, b), (b, c), (a, c)))
        apart = here.made(decided, "equal", d, a, to=("NO",))
        assert all(apart.value("equal", x, d) == "NO" for x in (a, b, c))
    contrary = here.made(here.made(here.root(), "equal", a, b, to=("YES",)), "equal", b, c, to=("YES",))
    assert here.set(contrary, "equal", a, c, to=("NO",)) is None


def test_an_empty_space_has_no_root() -> None:
    assert (
        world(
            KIND + "require forall $x in Things: kind($x) is A\nrequire forall $x in Things: kind($x) is B", 1
        ).instance.root()
        is None
    )


def test_a_candidate_is_never_changed_by_what_is_derived_from_it() -> None:
    here = world(EQUAL, 4)
    a, b, c, _ = here.things
    root = here.root()
    before = bytes(root.vector)
    decided = here.made(root, "equal", a, b, to=("YES",))
    kept = bytes(decided.vector)
    assert here.set(here.made(decided, "equal", b, c, to=("YES",)), "equal", a, c, to=("NO",)) is None
    assert (bytes(root.vector), bytes(decided.vector)) == (before, kept)


def test_the_fixpoint_does_not_depend_on_the_order_of_the_queue() -> None:
    here = world(ORDER + KIND + TRIANGLES, 5)
    rng = random.Random(5)
    for _ in range(15):
        candidate: Candidate | None = here.root()
        while candidate is not None and not candidate.is_complete:
            variable = rng.choice([x for x in here.instance.variables if candidate.is_open(x)])
            mask = candidate.mask(variable)
            mask = 1 << rng.choice([bit for bit in range(mask.bit_length()) if mask >> bit & 1])
            here.instance.propagation.pick = None
            plain = here.instance.restrict(candidate, variable, mask)
            for seed in range(3):
                here.instance.propagation.pick = random.Random(seed).randrange
                shuffled = here.instance.restrict(candidate, variable, mask)
                assert (shuffled is None) == (plain is None)
                assert shuffled is None or plain is None or shuffled.vector == plain.vector
            candidate = plain


def test_decisions_are_replayed_by_name() -> None:
    here = world(EQUAL + KIND, 3)
    a, b, c = here.things
    candidate = here.made(here.made(here.root(), "equal", b, c, to=("YES",)), "kind", a, to=("A", "C"))
    again: Candidate | None = here.root()
    for decision in candidate.decisions():
        assert again is not None
        again = here.instance.decide(again, decision)
    assert again is not None and again.vector == candidate.vector


@pytest.mark.parametrize("wrong", [("kind", "t9", "A"), ("kund", "t0", "A"), ("kind", "t0", "Z")])
def test_a_decision_about_something_unknown_is_a_key_error(wrong: tuple[str, str, str]) -> None:
    here = world(KIND, 1)
    choice, name, value = wrong
    with pytest.raises(KeyError):
        here.instance.decide(here.root(), Decision(choice, (name,), (value,)))


def test_a_host_condition_is_asked_of_members_only() -> None:
    text = """
        choice enum order($a in Things, $b in Things): antisymmetric: LOW -> HIGH value LOW: value HIGH: end
        require forall $x in Things: forall $y in Some: order($x, $y) is LOW || "$y.spare.id < 9"
    """
    a, b, c = things(3)
    a.spare = Thing(9, "spare")
    here = world(text, Things((a, b, c), some=(a,)))
    # The others have no spare, and a change of their order is nothing to this constraint.
    assert here.made(here.root(), "order", b, c, to=("HIGH",)).value("order", b, a) == "LOW"


@pytest.mark.parametrize(
    ("choice", "objects", "value"),
    [
        ("pair", ("t0", "t1"), "NONE"),
        ("pair", ("t1", "t0"), "NONE"),
        ("pair", ("t0", "t0"), "A"),
        ("plain", ("t1", "t0"), "P"),
        ("number", ("t1", "t0"), 1),
        ("number", ("t0", "t1"), 3),
        ("size", ("t0",), "A"),
    ],
)
def test_a_decision_that_is_not_there_is_a_key_error(
    choice: str, objects: tuple[str, ...], value: str | int
) -> None:
    made = things(2)
    here = world(
        "choice enum pair($x in Things, $y in Things): antisymmetric: A -> B value A: value B: end\n"
        "choice enum plain($x in Some, $y in Things): value P: value Q: end\n"
        'choice integer number($x in Some, $y in Things): "[1, 2]" end\n',
        Things(made, made[:1]),
    )
    with pytest.raises(KeyError):
        here.instance.decide(here.root(), Decision(choice, objects, (value,)))
    turned = here.instance.decide(here.root(), Decision("pair", ("t1", "t0"), ("A",)))
    assert turned is not None
    assert turned.value("pair", *made) == "B"
