"""What the ancestor's engine was tested for: objects that triggers add, parametric sets, quotients, integers.

The scenarios 12 to 16 and 18 of its compiler tests. The outcome is the ancestor's but where the meaning of
the language differs by design, which the test then says: the representative of a class is the lowest of its
members, not the one that was there first (scenario 15).
"""

from __future__ import annotations

from tests.engine.plain_world import ABC, SETS, PlainWorld, plain_world

# ---- 12. Lowering ----------------------------------------------------------------------------------------

LOWERED = """
insts: [{name: i0, adds: [], pairs: []}, {name: i1, adds: [], pairs: []}]
dims: [{name: d0, adds: [e0], pairs: [p0]}, {name: d1, adds: [e1], pairs: [p1]}]
extras: [{name: e0, adds: [f0], pairs: []}, {name: e1, adds: [], pairs: []}]
further: [{name: f0, adds: [], pairs: []}]
paired: [{name: p0, adds: [], pairs: []}, {name: p1, adds: [], pairs: []}]
"""
LOWERING = """
set Statements: iterator = "$kernel.insts + $kernel.dims" end
set Dims subsetof Statements: iterator = "$kernel.dims" end
set Extras: iterator = "[]" end
choice enum foo($s in Statements): value A: value B: end
choice enum seen($e in Extras): value A: value B: end
trigger forall $d in Dims: "$kernel.add('Extras', $d.adds)" when foo($d) is A
"""


def test_a_trigger_fires_at_the_start_where_its_condition_is_certain() -> None:
    here = plain_world(LOWERED, LOWERING + "require forall $d in Dims: foo($d) is A\n")
    assert here.is_present(here.root, "seen(e0)")
    assert here.is_present(here.root, "seen(e1)")


def test_a_trigger_fires_on_a_change_and_for_its_own_objects_only() -> None:
    here = plain_world(LOWERED, LOWERING)
    assert not here.is_present(here.root, "seen(e0)")
    decided = here.after(("foo(d0)", "A"))
    assert here.is_present(decided, "seen(e0)")
    assert not here.is_present(decided, "seen(e1)")
    assert not here.is_present(here.after(("foo(d0)", "B")), "seen(e0)")


def test_a_trigger_does_not_fire_for_objects_outside_its_sets() -> None:
    here = plain_world(LOWERED.replace("i0, adds: []", "i0, adds: [e0]"), LOWERING)
    decided = here.after(("foo(i0)", "A"), ("foo(d0)", "B"))
    assert not here.is_present(decided, "seen(e0)")


def test_a_trigger_fires_for_an_object_that_another_one_has_added() -> None:
    chained = LOWERING + (
        "trigger forall $e in Extras: \"$kernel.add('Extras', $e.adds)\" when seen($e) is A\n"
        "require forall $e in Extras: seen($e) is A\n"
    )
    here = plain_world(LOWERED, chained)
    assert not here.is_present(here.root, "seen(f0)")
    decided = here.after(("foo(d0)", "A"))
    assert here.is_present(decided, "seen(e0)")
    assert here.is_present(decided, "seen(f0)"), "its condition holds from the moment that e0 is there"
    assert here.left(decided, "seen(f0)") == ("A",)


def test_a_trigger_of_two_inputs_fires_for_each_pair_once_both_are_certain() -> None:
    paired = LOWERING + (
        "choice enum bar($i in Statements): value A: value B: end\n"
        'set Insts subsetof Statements: disjoint: Dims iterator = "$kernel.insts" end\n'
        "trigger forall $i in Insts: forall $d in Dims:\n"
        "  \"$kernel.add('Extras', $d.pairs)\" when bar($i) is A && foo($d) is B\n"
    )
    here = plain_world(LOWERED, paired)
    one = here.after(("bar(i0)", "A"))
    assert not here.is_present(one, "seen(p0)")
    both = here.after(("foo(d0)", "B"), since=one)
    assert here.is_present(both, "seen(p0)")
    assert not here.is_present(both, "seen(p1)")
    assert here.is_present(here.after(("foo(d1)", "B"), since=both), "seen(p1)")
    only_other = here.after(("foo(d0)", "B"), ("bar(i0)", "B"))
    assert not here.is_present(only_other, "seen(p0)"), "i1 may still be A"
    assert here.is_present(here.after(("bar(i1)", "A"), since=only_other), "seen(p0)")


# ---- 13 and 14. Parametric sets --------------------------------------------------------------------------

OPERANDS = """
insts:
  - {name: i0, ops: [op0], big: [], new_ops: [op2]}
  - {name: i1, ops: [op0, op1], big: [op1], new_ops: [op2]}
operands: [op0, op1]
more: [op2]
"""
PARAMETRIC = f"""
set Insts: iterator = "$kernel.insts" end
set Operands: iterator = "$kernel.operands" end
set Ops($i in Insts) subsetof Operands: iterator = "$i.ops" end
choice enum bar($i in Insts): value C: value D: end
choice enum foo($i in Insts, $op in Ops($i)): {ABC} end
require forall $i in Insts: forall $op in Ops($i): bar($i) is not D || foo($i, $op) is A
"""


def test_a_rule_on_a_parametric_set_goes_both_ways() -> None:
    here = plain_world(OPERANDS, PARAMETRIC)
    decided = here.after(("bar(i1)", "D"))
    assert [here.left(decided, f"foo(i1, {op})") for op in ("op0", "op1")] == [("A",), ("A",)]
    assert here.left(decided, "foo(i0, op0)") == ("A", "B", "C")
    assert here.left(here.after(("foo(i1, op1)", "B", "C")), "bar(i1)") == ("C",)
    assert here.left(here.after(("foo(i1, op1)", "B", "C")), "bar(i0)") == ("C", "D")


def test_an_operand_that_appears_obeys_the_rules_of_its_instruction() -> None:
    text = PARAMETRIC + (
        "choice enum grow($i in Insts): value YES: value NO: end\n"
        "trigger forall $i in Insts: \"$kernel.add('Ops', $i.new_ops, $i)\" when grow($i) is YES\n"
    )
    here = plain_world(OPERANDS, text)
    constrained = here.after(("bar(i0)", "D"), ("grow(i0)", "YES"), ("grow(i1)", "YES"))
    assert here.left(constrained, "foo(i0, op2)") == ("A",)
    assert here.left(constrained, "foo(i1, op2)") == ("A", "B", "C")
    only_one = here.after(("grow(i0)", "YES"), ("grow(i1)", "NO"))
    assert here.is_present(only_one, "foo(i0, op2)")
    assert not here.is_present(only_one, "foo(i1, op2)")


def test_the_parameter_of_a_subset_is_respected_and_found_from_its_member() -> None:
    text = """
set Insts: iterator = "$kernel.insts" end
set Operands: iterator = "$kernel.operands" end
set Big($i in Insts) subsetof Operands:
  iterator = "$i.big"
  reverse forall $op in Operands = "[i for i in $kernel.insts if $op in i.big]"
end
choice enum bar($i in Insts): value C: value D: end
choice enum kind($op in Operands): value A: value B: end
require forall $i in Insts: forall $op in Big($i): kind($op) is not A || bar($i) is D
"""
    here = plain_world(OPERANDS, text)
    # Only the value has changed: which instructions hold it is asked the other way round.
    decided = here.after(("kind(op1)", "A"))
    assert here.left(decided, "bar(i1)") == ("D",)
    assert here.left(decided, "bar(i0)") == ("C", "D")
    assert here.left(here.after(("kind(op0)", "A")), "bar(i1)") == ("C", "D"), "op0 lies in no such set"


# ---- 15. Quotients ---------------------------------------------------------------------------------------

INSTS = "insts: [i0, i1, i2, i3]\ndims: [d0, d1]"
QUOTIENT = """
choice enum order($a in Insts, $b in Insts): symmetric value MERGED: value APART: end
require forall $a in Insts: forall $b in Insts: forall $c in Insts:
  order($a, $c) is MERGED || order($a, $b) is not MERGED || order($b, $c) is not MERGED
quotient Classes of $i in Insts: represents = true / order is MERGED end
"""


def test_one_of_four_represents_and_the_others_may() -> None:
    here = plain_world(INSTS, SETS + QUOTIENT)
    assert here.left(here.root, "represents(i0)") == ("TRUE",)
    assert [here.left(here.root, f"represents(i{n})") for n in (1, 2, 3)] == [("FALSE", "TRUE")] * 3


def test_what_is_apart_from_all_that_stand_before_it_represents() -> None:
    """The ancestor asks for the representatives that there are; here it is all members before it.

    So what is apart from i0 alone represents where i1 belongs to i0, and may still be merged with i1 else.
    """
    here = plain_world(INSTS, SETS + QUOTIENT)
    assert here.left(here.after(("order(i0, i1)", "APART")), "represents(i1)") == ("TRUE",)
    alone = here.after(("order(i0, i2)", "APART"))
    assert here.left(alone, "represents(i2)") == ("FALSE", "TRUE")
    merged = here.after(("order(i0, i1)", "MERGED"), since=alone)
    assert here.left(merged, "represents(i2)") == ("TRUE",)
    assert here.left(merged, "represents(i1)") == ("FALSE",)


def required(rule: str) -> PlainWorld:
    """The first three instructions are as the scenario has them; the rule is about i3 alone."""
    return plain_world(
        INSTS, SETS + QUOTIENT + f"require forall $i in Insts where \"$i.name == 'i3'\": {rule}\n"
    )


def test_what_must_represent_is_merged_with_nothing_before_it() -> None:
    here = required("represents($i) is TRUE")
    assert [here.left(here.root, f"order(i{n}, i3)") for n in range(3)] == [("APART",)] * 3


def test_what_must_not_represent_is_merged_with_the_last_that_is_left() -> None:
    here = required("represents($i) is FALSE")
    decided = here.after(("order(i0, i3)", "APART"), ("order(i1, i3)", "APART"))
    assert here.left(decided, "order(i2, i3)") == ("MERGED",)


PARAMETRIC_QUOTIENT = """
choice enum nest($i in Insts, $d in Dims): value OUTER: value ELSEWHERE: end
choice enum order($a in Dims, $b in Dims): symmetric value MERGED: value APART: end
quotient Iterations($i in Insts) of $d in Dims: iterates = nest($i, $d) is OUTER / order is MERGED end
choice counter iterations($i in Insts): forall $d in Iterations($i): sum 1 when: end
"""


def test_a_parametric_quotient_has_the_members_of_each_argument() -> None:
    here = plain_world("insts: [i0, i1]\ndims: [d0, d1]", SETS + PARAMETRIC_QUOTIENT)
    assert here.interval(here.root, "iterations(i0)") == (0, 2), "none at the start"
    outer = here.after(("nest(i0, d0)", "OUTER"))
    assert here.left(outer, "iterates(i0, d0)") == ("TRUE",)
    assert here.interval(outer, "iterations(i0)") == (1, 2)
    assert here.interval(outer, "iterations(i1)") == (0, 2)
    merged = here.after(("order(d0, d1)", "MERGED"), since=outer)
    assert here.left(merged, "iterates(i0, d1)") == ("FALSE",)
    assert here.interval(merged, "iterations(i0)") == (1, 1)


def test_what_represents_for_an_argument_qualifies_and_is_apart() -> None:
    rule = "require forall $i in Insts: forall $d in Dims where \"$d.name == 'd1'\": iterates($i, $d) is "
    here = plain_world("insts: [i0, i1]\ndims: [d0, d1]", SETS + PARAMETRIC_QUOTIENT + rule + "TRUE\n")
    assert here.left(here.root, "nest(i0, d1)") == ("OUTER",)
    outer = here.after(("nest(i0, d0)", "OUTER"))
    assert here.left(outer, "order(d0, d1)") == ("APART",)
    here = plain_world("insts: [i0, i1]\ndims: [d0, d1]", SETS + PARAMETRIC_QUOTIENT + rule + "FALSE\n")
    apart = here.after(("order(d0, d1)", "APART"))
    assert here.left(apart, "nest(i0, d1)") == ("ELSEWHERE",)


# ---- 16. Integers ----------------------------------------------------------------------------------------


def test_integers_are_limited_and_made_equal() -> None:
    text = 'set Dims: iterator = "$kernel.dims" end\nchoice integer size($d in Dims): "$d.sizes" end\n'
    objects = "dims: [{name: d0, sizes: [2, 4, 6]}, {name: d1, sizes: [3, 4, 7]}]"
    here = plain_world(objects, text + "require forall $d in Dims where \"$d.name == 'd0'\": size($d) < 5\n")
    assert here.left(here.root, "size(d0)") == (2, 4)
    here = plain_world(objects, text + "require forall $a in Dims: forall $b in Dims: size($a) == size($b)\n")
    assert here.left(here.root, "size(d0)") == here.left(here.root, "size(d1)") == (4,)


SUM = """
set Dims: iterator = "$kernel.dims" end
choice integer size($d in Dims): "[3, 4, 5]" end
choice counter total(): forall $d in Dims: sum size($d) when: end
"""


def test_a_sum_of_integers_follows_them_and_a_limit_decides_the_last() -> None:
    here = plain_world("dims: [d0, d1, d2]", SUM)
    assert here.interval(here.root, "total()") == (9, 15)
    assert here.interval(here.after(("size(d0)", 4)), "total()") == (10, 14)
    limited = plain_world("dims: [d0, d1, d2]", SUM + "require total() <= 12\n")
    assert limited.interval(limited.root, "total()") == (9, 12), (
        "the limit is part of the interval from the start"
    )
    one = limited.after(("size(d0)", 4))
    assert limited.interval(one, "total()") == (10, 12)
    two = limited.after(("size(d1)", 5), since=one)
    assert limited.interval(two, "total()") == (12, 12)
    assert limited.left(two, "size(d2)") == (3,)


# ---- 18. Sets that are only quantified over --------------------------------------------------------------


def test_an_object_of_a_set_that_no_choice_is_about_brings_its_rules_along() -> None:
    objects = "blocks: [{name: b0, witnesses: [w]}, {name: b1, witnesses: []}]\nunused: [w]"
    text = """
set Blocks: iterator = "$kernel.blocks" end
set Witnesses: iterator = "[]" end
choice enum foo($a in Blocks, $b in Blocks): value A: value B: end
choice enum call($b in Blocks): value YES: value NO: end
trigger forall $b in Blocks: "$kernel.add('Witnesses', $b.witnesses)" when call($b) is YES
require forall $w in Witnesses: forall $a in Blocks: forall $b in Blocks: foo($a, $b) is A
"""
    here = plain_world(objects, text)
    assert here.left(here.root, "foo(b0, b1)") == ("A", "B")
    assert here.left(here.after(("call(b1)", "YES")), "foo(b0, b1)") == ("A", "B")
    assert here.left(here.after(("call(b0)", "YES")), "foo(b0, b1)") == ("A",)
