"""What maps, ordered enums, quantities, views and orderings become: the nodes of `space.py`."""

from __future__ import annotations

from itertools import product

import pytest

from spacedsl.diagnostics import Severity
from spacedsl.language import space
from spacedsl.language.applications import application, identifier
from spacedsl.language.space import Comparison, Use
from tests.language.sources import check, errors, load
from tests.language.timing import limited

DECLARED = """
choice ordered enum site($x in Items): ROOT < TASK < LANE
  /// As near as can be.
  value LANE: requires kind($x) is A
  alias DEEP = TASK | LANE:
end
choice ordered enum store($x in Items): ROOT < TASK < LANE end
map host($x in Items) in Items = "$x.host"
map loop($x in Items) in Loops = "$x.loop"
choice counter count(): forall $x in Items: sum 1 when: kind($x) is A end
"""


def quantity(text: str, name: str = "q") -> space.Quantity:
    return load(DECLARED + text).quantities[name]


def formula(text: str) -> space.Formula:
    return (
        load(f"{DECLARED}\nrequire forall $x in Items: forall $y in Items: {text}").requirements[-1].formula
    )


def by_map(binders: tuple[space.Binder, ...]) -> list[tuple[str, tuple[str, ...]]]:
    return [(b.set.name, b.set.args) for b in binders if b.by_map]


# Maps


def test_a_map_that_is_applied_is_a_variable_behind_those_that_it_depends_on() -> None:
    text = "require forall $x in Items: forall $y in Inner(loop(host($x))): kind(host($y)) is A"
    (requirement,) = load(DECLARED + text).requirements[-1:]
    h, hl, y = (b.name for b in requirement.foralls[1:4])
    assert [b.by_map for b in requirement.foralls] == [False, True, True, False, True]
    assert requirement.foralls[2].set == space.SetRef("loop", (h,))
    assert requirement.foralls[3].set == space.SetRef("Inner", (hl,)) and y == "y"
    assert isinstance(requirement.formula, space.Is)
    assert requirement.formula.use == Use("kind", (requirement.foralls[4].name,))
    assert requirement.foralls[2].span.text == "loop(host($x))"


def test_one_application_is_one_variable_and_conditions_have_their_own() -> None:
    text = """require forall $x in Items:
      kind(host($x)) is A || site(host($x)) is ROOT
      size(loop($x)) < 4
    """
    first, second = load(DECLARED + text).requirements[-2:]
    assert by_map(first.foralls) == [("host", ("x",))]
    assert by_map(second.foralls) == [("loop", ("x",))]


def test_an_application_is_no_variable_of_any_name() -> None:
    text = "require forall $x in Items: forall $host__x in Items: kind(host($x)) is A || kind($host__x) is A"
    (requirement,) = load(DECLARED + text).requirements[-1:]
    names = [b.name for b in requirement.foralls]
    assert len(set(names)) == 3 and names[:2] == ["x", "host__x"]
    assert isinstance(requirement.formula, space.Or)
    left, right = requirement.formula.operands
    assert isinstance(left, space.Is) and isinstance(right, space.Is)
    assert left.use.args == ("host($x)",) and right.use.args == ("host__x",)


@pytest.mark.parametrize(
    ("condition", "wrong"),
    [
        ("kind(first()) is A || kind($first) is B", ["SP015"]),
        ("kind(host($x)) is A || kind($host__x) is B", ["SP015"]),
        ('kind(first()) is A || "$first.ok"', ["SP015"]),
    ],
)
def test_a_variable_that_nothing_binds_is_unknown_whatever_maps_are_called(
    condition: str, wrong: list[str]
) -> None:
    text = f'map first() in Items = "$kernel.first" require forall $x in Items: {condition}'
    assert [d.code for d in errors(DECLARED + text)] == wrong


@pytest.mark.parametrize("name", ["first", "kernel", "device", "fun"])
def test_a_map_without_parameters_and_a_variable_may_have_one_name(name: str) -> None:
    variable = name if name == "first" else "y"
    text = f"""
        map {name}() in Items = "$kernel.first"
        require forall $x in Inner(loop({name}())): forall ${variable} in Items:
          kind($x) is A || kind(${variable}) is A || host(${variable}) == {name}() || "$kernel.ok"
    """
    requirement = load(DECLARED + text).requirements[-1]
    assert [b.name for b in requirement.foralls][-2:] == [variable, f"host(${variable})"]
    assert isinstance(requirement.formula, space.Or)
    compared = requirement.formula.operands[2]
    assert isinstance(compared, space.Host)
    assert compared.expression.text == f"host(${variable}) == {name}()"
    assert compared.expression.variables == tuple(sorted((f"host(${variable})", f"{name}()")))


def test_maps_on_variables_with_long_names_are_compared() -> None:
    name = "x" * 3000
    text = f"require forall ${name} in Items: host(${name}) != loop(${name}) || kind(${name}) is A"
    assert load(DECLARED + text).requirements


def test_different_variables_and_applications_are_different_identifiers() -> None:
    tokens = ["a", "b", "a_", "_a", "a_b", "a__b", "a_and", "and_b", "a_end", "a_u", "uu", "a_ub"]
    inner = [*tokens, "a()", "b()", *(application("a", [t]) for t in tokens), application("a", ["a", "b"])]
    names = {*inner, *(application(m, [arg]) for m in ("a", "a_b") for arg in inner)}
    names |= {application("b", pair) for pair in product(inner, repeat=2)}
    found = {identifier(name) for name in names}
    assert len(found) == len(names) and all(name.isidentifier() for name in found)
    assert identifier("buffer($access)") == "map_buffer__access"


def test_counters_and_triggers_apply_maps_too() -> None:
    loaded = load(
        DECLARED
        + """
        choice counter n($x in Items):
          forall $y in Items: sum size(loop($y)) when: kind(host($x)) is A
        end
        trigger forall $x in Items: "$kernel.add($x)" when kind(host($x)) is A
    """
    )
    counter = loaded.choices["n"]
    assert isinstance(counter, space.Counter)
    assert set(by_map(counter.foralls)) == {("loop", ("y",)), ("host", ("x",))}
    assert by_map(loaded.triggers[-1].foralls) == [("host", ("x",))]


# Ordered enums


def test_an_ordered_enum_has_its_values_in_order_with_docs_aliases_and_requirements() -> None:
    loaded = load(DECLARED)
    site = loaded.choices["site"]
    assert isinstance(site, space.EnumChoice) and site.ordered
    assert site.values == ("ROOT", "TASK", "LANE") and site.value_docs == ("", "", "As near as can be.")
    assert site.mask("DEEP") == 0b110
    requirement = loaded.requirements[-1].formula
    assert isinstance(requirement, space.Or) and len(loaded.requirements) == 1
    assert not load("choice enum c($x in Items): value P: end").choices["c"].ordered  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "mask"),
    [
        ("site($x) < TASK", 0b001),
        ("site($x) <= TASK", 0b011),
        ("TASK < site($x)", 0b100),
        ("TASK >= site($x)", 0b011),
        ("site($x) == TASK", 0b010),
        ("site($x) != TASK", 0b101),
    ],
)
def test_a_comparison_with_a_value_is_a_mask(text: str, mask: int) -> None:
    found = formula(text)
    assert isinstance(found, space.Is) and found.mask == mask and found.use == Use("site", ("x",))


def test_other_comparisons_of_ordered_enums_are_of_positions() -> None:
    found = formula("site($x) < store($y)")
    assert found == space.ComparePositions(
        Use("site", ("x",)),
        Comparison.LT,
        Use("store", ("y",)),
        ("ROOT", "TASK", "LANE"),
        None,  # type: ignore[arg-type]
    )
    found = formula('"$y.best" >= site($x)')
    assert isinstance(found, space.ComparePositions) and not isinstance(found.left, Use | int)
    assert isinstance(formula("site($x) != store($y)"), space.SameEnum)


# Quantities


def test_sums_products_and_divisions() -> None:
    body = quantity('quantity q($x in Loops) = ceil(3 * size($x) - "$x.n", 2) + -count()').body
    assert isinstance(body, space.Sum)
    (_, division), (_, negative) = body.terms
    assert isinstance(division, space.Division) and division.up and division.divisor == space.Literal(2)
    assert isinstance(division.dividend, space.Sum)
    assert [sign for sign, _ in division.dividend.terms] == [1, -1]
    assert isinstance(negative, space.Sum) and negative.terms[0][0] == -1


def test_the_body_of_an_aggregate_goes_as_far_as_it_can() -> None:
    loaded = load(
        DECLARED
        + """
        quantity far($x in Loops) = sum $y in Inner($x): size(loop($y)) + 1
        quantity near($x in Loops) = (sum $y in Inner($x): size(loop($y))) + 1
        quantity between($x in Loops) = kind($x) is A ? max $y in Inner($x): size(loop($y)) : 0
        quantity listed($x in Loops) = min(min $y in Inner($x): size(loop($y)), 3)
    """
    )
    far, near, between, listed = (q.body for q in loaded.quantities.values())
    assert isinstance(far, space.Aggregate) and isinstance(far.body, space.Sum)
    assert isinstance(near, space.Sum) and isinstance(near.terms[0][1], space.Aggregate)
    assert isinstance(between, space.Conditional) and isinstance(between.then, space.Aggregate)
    assert isinstance(listed, space.Extremum) and len(listed.operands) == 2


def test_map_applications_stand_where_their_last_variable_is_bound() -> None:
    found = quantity("""
        quantity q($x in Items) = sum $y in Inner(loop($x)):
          (size(loop($y)) + size(loop(host($x))) + count())
    """)
    assert by_map(found.maps)[:2] == [("loop", ("x",)), ("host", ("x",))] and len(found.maps) == 3
    assert isinstance(found.body, space.Aggregate)
    assert by_map(found.body.maps) == [("loop", ("y",))]


@pytest.mark.parametrize(
    ("body", "ordered"),
    [
        ("3", False),
        ('"$x.n"', False),
        ("size(loop($x))", False),
        ("site($x)", True),
        ("min(ROOT, site($x))", True),
        ('"$x.ok" ? "$x.best" : site($x)', True),
        ("kind($x) is A ? r($x) : s($x)", True),
        ("max $y in Items: r($y)", True),
        ("case kind($x) {A: ROOT, else: LANE}", True),
        ("case site($x) {ROOT: 1, else: 2}", False),
        ("site($x) < TASK ? 1 : 2", False),
        ("q(host($x))", False),
    ],
)
def test_the_type_of_a_quantity_is_that_of_what_it_is_made_of(body: str, ordered: bool) -> None:
    text = f"""
        quantity q($x in Items) = {body}
        quantity r($x in Items) = s($x)
        quantity s($x in Items) = "$x.is_root" ? TASK : r(host($x))
        choice ordered enum other($x in Items): LOW < HIGH end
    """
    assert (quantity(text).values is not None) is ordered
    if ordered:
        assert quantity(text).values == ("ROOT", "TASK", "LANE")


def test_a_branch_without_a_name_takes_the_values_that_are_left() -> None:
    body = quantity("quantity q($x in Items) = case kind($x) {B: 1, else: 2}").body
    assert body == space.Case(
        Use("kind", ("x",)),
        ((0b010, space.Literal(1)), (0b101, space.Literal(2))),
        None,  # type: ignore[arg-type]
    )


def test_quantities_stand_in_comparisons_on_both_sides() -> None:
    loaded = load(
        DECLARED
        + """
        quantity q($x in Items) = count() + 1
        require forall $x in Items: 2 * q($x) <= q(host($x)) + "$x.n"
    """
    )
    found = loaded.requirements[-1].formula
    assert isinstance(found, space.Compare) and found.left.use is not None and found.right.use is not None
    assert (found.left.use.choice, found.left.factor, found.right.use.choice) == ("q", 2, "q")
    assert loaded.is_derived("q")


# Views and orderings


def test_views_have_masks_of_groups() -> None:
    loaded = load(DECLARED + "/// Near or far.\nview v: site by ROOT, LANE kind end")
    assert loaded.views["v"].doc == "Near or far."
    assert [(i.choice, i.groups) for i in loaded.views["v"].items] == [("site", (0b001, 0b100)), ("kind", ())]


def test_blocks_of_orderings_hold_items_and_blocks() -> None:
    loaded = load(
        DECLARED
        + """
        ordering d:
          for $x in Loops by "$x.rank":
            for $y in Inner($x): kind(host($y)) by AB end
            size
          end
        end
        ordering e: dynamic smallest_domain end
    """
    )
    (outer,) = loaded.orderings["d"].items
    assert isinstance(outer, space.ObjectMajor) and outer.key is not None
    inner, size = outer.items
    assert isinstance(inner, space.ObjectMajor) and inner.key is None
    (item,) = inner.items
    assert isinstance(item, space.OrderingItem) and item.groups == (0b011,)
    assert by_map(item.binders) == [("host", ("y",))] and item.args == (item.binders[0].name,)
    assert isinstance(size, space.OrderingItem) and size.args is None
    assert loaded.orderings["e"].rule == "smallest_domain" and loaded.orderings["e"].items == ()


@pytest.mark.parametrize(
    ("rest", "wrong"),
    [
        ("require forall $y in Things: forall $x in S0($y): kind($x) is A", []),
        ("choice enum d($y in Things, $x in S40($y)): value A: value B: end "
         "require forall $y in Things: forall $x in S0($y): d($y, $x) is A", ["SP017"]),
    ],
)  # fmt: skip
def test_what_lies_in_what_is_known_soon_however_often_a_variable_stands_in_the_arguments(
    rest: str, wrong: list[str]
) -> None:
    text = """
        set Things: iterator = "$kernel.things" end
        map n($x in Things) in Things = "$x.n"
        map m($x in Things, $y in Things) in Things = "$x.m"
        choice enum kind($x in Things): value A: value B: end
        set S40($x in Things) subsetof Things: iterator = "$x.s" end
    """
    for i in range(40):
        above = f"S{i + 1}(m($x, n($x)))"
        text += f'set S{i}($x in Things) subsetof {above}, T{i}(m($x, n($x))): iterator = "$x.s" end\n'
        text += f'set T{i}($x in Things) subsetof {above}: iterator = "$x.t" end\n'
    with limited(5.0):
        _, found = check(text + rest)
    assert [d.code for d in found if d.severity is Severity.ERROR] == wrong
