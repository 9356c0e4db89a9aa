"""What a checked file becomes: the nodes of `space.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from spacedsl.language import space
from spacedsl.language.loader import check_file, load_space
from spacedsl.language.space import Affine, Comparison, Use
from tests.language.sources import PREAMBLE, check, errors, load

LINALG = Path(__file__).parents[2] / "kernels/spaces/linalg.space"


def requirement(text: str) -> space.Formula:
    """The formula of the last requirement of a text behind the preamble."""
    return load(text).requirements[-1].formula


def compared(text: str) -> space.Compare:
    formula = requirement(f"require forall $x in Loops: forall $y in Loops: {text}")
    assert isinstance(formula, space.Compare)
    return formula


def host_texts(affine: Affine) -> list[tuple[int, int | str]]:
    return [(sign, o if isinstance(o, int) else o.text) for sign, o in affine.offsets]


def test_the_space_of_linear_algebra_loads_without_a_remark() -> None:
    loaded, found = check_file(LINALG)
    assert loaded is not None and found == ()
    assert loaded.name == "linalg"
    assert list(loaded.choices)[:3] == ["size", "tile_product", "tile"]
    assert (
        loaded.sources == (str(LINALG), str(LINALG.parent / "loop_nests.space")) and len(loaded.digest) == 64
    )


def test_its_order_is_antisymmetric_with_aliases() -> None:
    order = load_space(LINALG).choices["order"]
    assert isinstance(order, space.EnumChoice)
    assert order.names(order.mask("NESTED")) == ("INNER", "OUTER")
    assert order.names(order.invert(order.mask("BEFORE", "INNER"))) == ("AFTER", "OUTER")


def test_requires_of_a_value_becomes_a_constraint_over_the_choice_and_more() -> None:
    loaded = load("""
        choice enum c($x in Items):
          value ON:
            requires forall $y in Items: kind($y) is A
              "$x.ok"
          value OFF:
          alias ANY = ON: requires false
        end
    """)
    first, second, third = loaded.requirements[-3:]
    assert [b.name for b in first.foralls] == ["x", "y"] and [b.name for b in third.foralls] == ["x"]
    assert isinstance(first.formula, space.Or)
    off, condition = first.formula.operands
    assert isinstance(off, space.Is) and off.mask == 0b10 and off.use == Use("c", ("x",))
    assert isinstance(condition, space.Is) and condition.use == Use("kind", ("y",))
    assert isinstance(second.formula, space.Or) and isinstance(second.formula.operands[1], space.Host)
    assert isinstance(third.formula, space.Or) and third.formula.operands[1] == space.Constant(False)


def test_is_not_is_folded_into_the_mask() -> None:
    formula = requirement("require forall $x in Items: kind($x) is not AB")
    assert isinstance(formula, space.Is) and formula.mask == 0b100


def test_implication_is_a_disjunction_with_a_negation() -> None:
    formula = requirement('require forall $x in Items: kind($x) is A => "$x.ok" && !("$x.bad")')
    assert isinstance(formula, space.Or)
    premise, conclusion = formula.operands
    assert isinstance(premise, space.Not) and isinstance(conclusion, space.And)
    assert isinstance(conclusion.operands[1], space.Not)


def test_conditions_under_one_prefix_become_one_requirement_each() -> None:
    loaded = load("require forall $x in Items:\n  kind($x) is A\n  kind($x) is AB")
    assert len(loaded.requirements) == 2
    assert loaded.requirements[0].foralls == loaded.requirements[1].foralls


@pytest.mark.parametrize(
    ("text", "factor", "left", "op", "right"),
    [
        ("size($x) <= 4", 1, [], Comparison.LE, [(1, 4)]),
        ("4 < size($x)", 1, [], Comparison.GT, [(1, 4)]),
        ('"$y.n" >= size($x) + 1', 1, [(1, 1)], Comparison.LE, [(1, "$y.n")]),
        ('2 * 3 * size($x) - "$y.n" == 7 - (1 - "$x.m")', 6, [(-1, "$y.n")], Comparison.EQ,
         [(1, 7), (-1, 1), (1, "$x.m")]),
        ("(size($x)) != -1", 1, [], Comparison.NE, [(-1, 1)]),
    ],
)  # fmt: skip
def test_a_comparison_has_its_choice_on_the_left(
    text: str, factor: int, left: list[tuple[int, object]], op: Comparison, right: list[tuple[int, object]]
) -> None:
    found = compared(text)
    assert found.left.use == Use("size", ("x",)) and found.left.factor == factor
    assert host_texts(found.left) == left
    assert found.op is op
    assert found.right.use is None and host_texts(found.right) == right


def test_two_choices_stay_on_their_sides() -> None:
    found = compared('size($y) >= "$x.f" * size($x) + "$x.halo"')
    assert found.left == Affine(Use("size", ("y",)), 1, ())
    assert found.right.use == Use("size", ("x",))
    assert not isinstance(found.right.factor, int) and found.right.factor.text == "$x.f"
    assert host_texts(found.right) == [(1, "$x.halo")]


def test_enums_with_the_same_values_in_another_order_are_translated() -> None:
    formula = requirement("""
        choice enum other($x in Items): value C: value A: value B: end
        require forall $x in Items: kind($x) != other($x)
    """)
    assert isinstance(formula, space.SameEnum)
    assert not formula.equal and formula.translate == (1, 2, 0)


def test_a_filter_belongs_to_its_binder() -> None:
    loaded = load('require forall $x in Items: forall $y in Items where "$x.n < $y.n": kind($x) is A')
    where = loaded.requirements[-1].foralls[1].where
    assert where is not None and where.variables == ("x", "y")


def test_a_counter_has_a_neutral_base_and_a_conjunction() -> None:
    loaded = load(
        """
        choice counter a(): forall $x in Loops: mul size($x) when: end
        choice internal counter b($x in Items):
          base "$x.base"
          forall $y in Items: sum 2 when: kind($y) is A kind($x) is B
        end
        choice half counter c(): sum b($z) when: end
    """.replace("sum b($z)", "sum 1")
    )
    a, b, c = (loaded.choices[n] for n in "abc")
    assert isinstance(a, space.Counter) and isinstance(b, space.Counter) and isinstance(c, space.Counter)
    assert (a.base, a.product, a.condition) == (1, True, space.And(()))
    assert a.value == Use("size", ("x",))
    assert b.visibility is space.Visibility.INTERNAL and isinstance(b.condition, space.And)
    assert not isinstance(b.base, int) and [f.name for f in b.foralls] == ["y"]
    assert (c.base, c.value, c.visibility) == (0, 1, space.Visibility.HALF)


def test_a_subset_is_known_through_the_parameters_of_sets() -> None:
    load("""
        set Deep($x in Loops) subsetof Inner($x): iterator = "$x.deep" end
        choice enum c($x in Loops, $y in Inner($x)): value A: value B: end
        require forall $x in Loops: forall $y in Deep($x): c($x, $y) is A
        require forall $x in Loops: forall $y in Deep: kind($y) is A
    """)


def test_another_instance_of_a_parametric_set_is_not_a_subset() -> None:
    found = check("""
        set Items: iterator = "$kernel.items" end
        set Inner($x in Items) subsetof Items: iterator = "$x.inner" end
        choice enum c($x in Items, $y in Inner($x)): value A: value B: end
        require forall $x in Items: forall $z in Items: forall $y in Inner($z): c($x, $y) is A
    """)[1]
    assert [d.code for d in found] == ["SP017"]
    assert found[0].message == "`$y` is of Inner($z), which is not a subset of Inner($x)"


def test_a_quotient_declares_a_derived_choice_at_its_place() -> None:
    loaded = load("""
        quotient Leaders($p in Loops) of $x in Items: leads = kind($x) is A / order is MERGED end
        choice counter n():
          forall $p in Loops: forall $x in Leaders($p): sum 1 when: leads($p, $x) is TRUE
        end
    """)
    assert list(loaded.choices)[-2:] == ["leads", "n"]
    quotient = loaded.quotients["Leaders"]
    assert [p.name for p in quotient.params] == ["p"] and quotient.item.name == "x"
    assert quotient.equivalence_mask == 0b100
    assert "Leaders" not in loaded.sets and loaded.is_derived("leads") and loaded.is_derived("n")


UNIONS = """
quotient First of $x in Items: is_first = kind($x) is A / order is MERGED end
quotient Own($p in Loops) of $x in Items: is_own = kind($p) is A / order is MERGED end
set Behind($p in First) subsetof Items: iterator = "$p.behind" end
"""


@pytest.mark.parametrize("name", ["Own", "Behind"])
@pytest.mark.parametrize(
    "text",
    [
        "choice enum c($y in S): value P: end",
        "choice counter c(): forall $y in S: sum 1 when: end",
        "quantity q($y in S) = 1",
        "quantity q() = sum $y in S: 1",
        "quotient Q of $y in S: is_q = kind($y) is A / order is MERGED end",
        'set Further($y in S): iterator = "$y.further" end',
        'map further($y in S) in Items = "$y.further"',
        "require forall $y in S: kind($y) is A",
        'trigger forall $y in S: "$kernel.lower($y)" when kind($y) is A',
    ],
)
def test_who_is_in_any_instance_of_a_quotient_is_not_known(text: str, name: str) -> None:
    found = errors(UNIONS + text.replace("S:", f"{name}:").replace("S)", f"{name})"))
    assert [each.code for each in found] == ["SP302"]
    load(UNIONS + f"ordering default: for $y in {name}: kind($y) end end")


@pytest.mark.parametrize("name", ["First", "Own", "Own($y)", "Behind"])
def test_nothing_lies_in_a_quotient(name: str) -> None:
    in_set = errors(UNIONS + f'set In($y in Loops) subsetof {name}: iterator = "$y.all" end')
    in_map = errors(UNIONS + f'map within($y in Loops) in {name} = "$y.first"')
    assert [each.code for each in (*in_set, *in_map)] == ["SP026", "SP026"]


def test_a_trigger_keeps_its_callback_apart() -> None:
    (trigger,) = load(
        'trigger forall $x in Items: "$kernel.lower($x)" when kind($x) is A && "$x.ok"'
    ).triggers
    assert trigger.callback.text == "$kernel.lower($x)" and trigger.callback.variables == ("kernel", "x")


def test_an_ordering_lists_choices_with_arguments_and_groups() -> None:
    loaded = load("""
        ordering default:
          size($x) for $x in Loops
          order by MERGED, BEFORE
          kind($x) for $x in Items by AB
          kind
        end
        ordering other: end
    """)
    items = loaded.orderings["default"].items
    first, second, third, last = (i for i in items if isinstance(i, space.OrderingItem))
    assert first.args == ("x",) and [b.set.name for b in first.binders] == ["Loops"]
    assert second.groups == (0b100, 0b001) and second.args is None
    assert third.groups == (0b011,) and len(third.binders) == 1
    assert (last.choice, last.args, last.groups) == ("kind", None, ())
    assert loaded.orderings["other"].items == ()


def test_declarations_may_stand_in_any_order_but_for_counters() -> None:
    text = """
        require forall $x in Late: c($x) is A
        choice enum c($x in Late): value A: value B: requires n() <= 3 end
        choice counter n(): forall $x in Late: sum 1 when: c($x) is A end
        set Late subsetof Later: iterator = "$kernel.late" end
        set Later: iterator = "$kernel.later" end
    """
    assert check(text)[0] is not None


def test_docs_belong_to_what_follows_them() -> None:
    loaded = load("/// A.\n/// B.\nchoice enum c($x in Items):\n/// V.\nvalue V:\nvalue W:\nend")
    declared = loaded.choices["c"]
    assert isinstance(declared, space.EnumChoice)
    assert declared.doc == "A.\nB." and declared.value_docs == ("V.", "")


def test_conditions_that_say_nothing_or_too_much_are_remarked_on() -> None:
    found = check("""
        set S: iterator = "$kernel.s" end
        choice enum c($x in S): value A: value B: requires c($x) is not B && c($x) is B end
        require forall $x in S: c($x) is A || !(c($x) is A)
          c($x) is A && c($x) is B
          "$x.ok" || true
          false
    """)[1]
    # `!(c is A)` is kept as a negation, which is looked at by itself.
    assert [d.code for d in found] == ["SP105", "SP104", "SP103", "SP104"]


@pytest.mark.parametrize(
    "declared",
    [
        'choice enum p($x in Loops): value LOW: requires "$x.ok" value TOP: end',
        'choice ordered enum p($x in Loops): LOW < TOP value LOW: requires "$x.ok" end',
        'choice enum p($x in Loops): value LOW: value TOP: alias ANY = LOW | TOP: requires "$x.ok" end',
    ],
)
def test_a_choice_with_a_value_or_alias_that_requires_something_is_used(declared: str) -> None:
    assert "p" not in unused(declared)


@pytest.mark.parametrize("item", ["p", "p($x) for $x in Loops", "for $x in Loops: p($x) end"])
def test_a_choice_that_an_ordering_alone_lists_is_not_used(item: str) -> None:
    declared = "choice enum p($x in Loops): value LOW: value TOP: end"
    assert "p" in unused(f"{declared} ordering default: {item} end")


def unused(text: str) -> list[str]:
    """What SP102 says of a text behind the preamble."""
    return [d.span.text for d in check(PREAMBLE + text)[1] if d.code == "SP102"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_definition_of_a_counter_begins_behind_its_comment_however_lines_end(end: str) -> None:
    lines = [
        "/// How many.",
        "// More of it.",
        "choice counter c():",
        "  forall $x in Items: sum 1 when:",
        "end",
    ]
    counter = load(end.join(["", *lines, ""])).choices["c"]
    assert isinstance(counter, space.Counter)
    assert counter.definition.text == end.join(lines[2:])
