"""What each mistake in maps, ordered enums, quantities, views and orderings says, and where."""

from __future__ import annotations

import pytest

from tests.language.sources import check
from tests.language.test_diagnostics import Case

DECLARED = """\
set Items: iterator = "$kernel.items" end
set Loops subsetof Items: iterator = "$kernel.loops" end
set Inner($x in Loops) subsetof Items: iterator = "$x.inner" end
choice enum kind($x in Items): value A: value B: value C: alias AB = A | B: end
choice enum near($a in Items, $b in Items): symmetric value YES: value NO: end
choice ordered enum site($x in Items): ROOT < TASK < LANE alias DEEP = TASK | LANE: end
choice ordered enum speed($x in Items): SLOW < FAST end
choice integer size($x in Loops): "$x.sizes" end
choice half counter used(): forall $x in Items: sum 1 when: kind($x) is A end
map host($x in Items) in Items = "$x.host"
map loop($x in Items) in Loops = "$x.loop"
quantity bytes($x in Loops) = 4 * size($x)
quantity cap($x in Items) = min(site($x), "$x.cap")
"""

MAPS = [
    Case('map host($x in Items) in Items = "$x"', "SP010", 1, 5, "map `host` is declared twice"),
    Case("quantity kind($x in Items) = 1", "SP010", 1, 10, "quantity `kind` is declared twice"),
    Case('map m($x in Nope) in Items = "$x"', "SP012", 1, 13, "unknown set `Nope`"),
    Case('map m($x in Items) in Itms = "$x"', "SP012", 1, 23, "unknown set `Itms`", "did you mean `Items`?"),
    Case('map m($x in Items) in Items = "$y"', "SP015", 1, 32, "unknown variable `$y`"),
    Case("require forall $x in Items: kind(hst($x)) is A", "SP013", 1, 34, "unknown choice `hst`",
         "did you mean `host`?"),
    Case("require forall $x in Items: kind(host($y)) is A", "SP015", 1, 39, "unknown variable `$y`",
         "in scope: $x"),
    Case("require forall $x in Items: kind(host()) is A", "SP016", 1, 34, "`host` takes 1 argument, not 0"),
    Case("require forall $x in Items: near(host($x), host($x)) is YES", "SP016", 1, 29,
         "`near` is used twice on one object"),
    Case("require forall $x in Items: size(host($x)) < 3", "SP017", 1, 34,
         "`host($x)` is of Items, which is not a subset of Loops",
         "quantify over Loops, or declare `Items subsetof Loops`"),
    Case("require forall $x in Items: forall $y in Inner(host($x)): true", "SP017", 1, 48,
         "`host($x)` is of Items, which is not a subset of Loops"),
    Case('require forall $x in Items: kind(host($x)) is A && "$host__x.ok"', "SP015", 1, 53,
         "unknown variable `$host__x`"),
    Case('set S($x in Items, $y in Inner(host($x))): iterator = "$y" end', "SP017", 1, 32,
         "`host($x)` is of Items, which is not a subset of Loops"),
    Case("set S($x in Items, $y in Inner(loop($x))): iterator = \"$y\" end\n"
         "require forall $x in Items: forall $y in Inner(loop($x)): forall $z in Items:\n"
         "  forall $s in S($x, $y): forall $t in S($x, $z): true", "SP017", 3, 46,
         "`$z` is of Items, which is not a subset of Inner(loop($x))",
         "quantify over Inner(loop($x)), or declare `Items subsetof Inner(loop($x))`"),
    Case("choice enum c($x in Items, $y in Inner(loop($x))): value P: end\n"
         "require forall $x in Items: forall $y in Items: forall $z in Inner(loop($y)): c($x, $z) is P",
         "SP017", 2, 85, "`$z` is of Inner(loop($y)), which is not a subset of Inner(loop($x))"),
    Case('map m($x in Items, $y in Inner(n($x))) in Items = "$y"\n'
         'map n($x in Items) in Inner(m($x)) = "$x"', "SP026", 1, 5,
         "`m` is needed to say what it is over: m -> n -> m", "give the set an `iterator` that says it"),
    Case("quotient Q($x in Loops) of $y in Inner($x): r = kind($y) is A / near is YES end\n"
         "choice enum c($x in Items, $y in Q(loop($x))): value P: end", "SP026", 2, 34,
         "who is in `Q` follows from decisions: no map can be applied in it here",
         "name the set that it is a quotient of, and ask in a condition who represents a class"),
    Case("require forall $x in Items: kind(kind($x)) is A", "SP027", 1, 34,
         "`kind` gives no object: it cannot be an argument"),
    Case("require forall $x in Items: host($x) is A", "SP028", 1, 29,
         "`host` is a map: it gives an object, which has no value",
         "apply a choice to it: `choice(host($x))`"),
    Case("quantity q($x in Items) = 1 + host($x)", "SP028", 1, 31,
         "`host` is a map: it gives an object, which has no value"),
    Case("require forall $x in Items: host($x) < loop($x)", "SP052", 1, 38, "`<` between two objects",
         "only `==` and `!=` compare objects; what has an order is an attribute, in double quotes"),
    Case("require forall $x in Items: host($x) == host($y)", "SP015", 1, 46, "unknown variable `$y`"),
    Case("require forall $x in Items: host($x) == bytes(loop($x))", "SP028", 1, 29,
         "`host` is a map: it gives an object, which has no value"),
    Case("require forall $x in Items: host($x) == 3", "SP028", 1, 29,
         "`host` is a map: it gives an object, which has no value"),
    Case("ordering d: host end", "SP028", 1, 13, "`host` is a map: nothing is decided"),
]  # fmt: skip

ORDERED = [
    Case("choice ordered enum o($x in Items): LOW < LOW end", "SP010", 1, 43,
         "`LOW` is declared twice in `o`"),
    Case("choice ordered enum o($x in Items): LOW < HIGH value HIGH: value HIGH: end", "SP010", 1, 66,
         "`HIGH` is declared twice in `o`"),
    Case("choice ordered enum o($x in Items): LOW < HIGH alias LOW = HIGH: end", "SP010", 1, 54,
         "`LOW` is declared twice in `o`"),
    Case("choice ordered enum o($x in Items): " + " < ".join(f"V{i}" for i in range(65)) + " end", "SP030",
         1, 21, "`o` has 65 values; there may be 64"),
    Case("choice ordered enum o($x in Items, $y in Items): symmetric LOW < HIGH end", "SP002", 1, 50,
         "expected the name of a value, found `symmetric`"),
    Case("choice ordered enum o($x in Items, $y in Items): LOW < HIGH symmetric end", "SP035", 1, 61,
         "an ordered enum has no symmetry"),
    Case("choice ordered enum o($x in Items): LOW < HIGH value MID: end", "SP036", 1, 54,
         "`MID` is not in the order of `o`"),
    Case("require forall $x in Items: site($x) < MID", "SP014", 1, 40,
         "ROOT < TASK < LANE has no value `MID`",
         "it has ROOT, TASK, LANE"),
    Case("require forall $x in Items: site($x) < DEEP", "SP056", 1, 40,
         "`DEEP` is an alias: it has no place in the order", "one of ROOT, TASK, LANE"),
    Case("require forall $x in Items: site($x) < 3", "SP052", 1, 40,
         "this has no place in the order ROOT < TASK < LANE"),
    Case("require forall $x in Items: site($x) < speed($x)", "SP053", 1, 29,
         "the two sides do not have the same values in the same order"),
    Case("require forall $x in Items: site($x) == kind($x)", "SP053", 1, 29,
         "`site` and `kind` do not have the same values"),
    Case("require forall $x in Items: site($x) < kind($x)", "SP052", 1, 38, "`<` between two enums"),
    Case("require forall $x in Items: cap($x) is ROOT", "SP051", 1, 29,
         "`cap` is a quantity: `is` asks for values of an enum", "compare it: == != < <= > >="),
    Case("require forall $x in Items: 1 + cap($x) < 3", "SP052", 1, 33,
         "`cap` is a quantity: it has no number"),
    Case("require forall $x in Items: kind($x) < A", "SP052", 1, 38,
         "the values of `kind` have no order"),
]  # fmt: skip

QUANTITIES = [
    Case("quantity q($x in Nope) = 1", "SP012", 1, 18, "unknown set `Nope`"),
    Case("quantity q($x in Items) = size($x)", "SP017", 1, 32,
         "`$x` is of Items, which is not a subset of Loops"),
    Case("quantity q($x in Items) = floor(3)", "SP016", 1, 27,
         "`floor` takes a dividend and a divisor, not 1",
         "`floor(a, b)`"),
    Case("quantity q($x in Loops) = floor(size($x), 0)", "SP442", 1, 43, "this divisor is 0",
         "divide by what is at least 1"),
    Case("quantity q($x in Loops) = ceil(size($x), 1 - 2)", "SP442", 1, 42, "this divisor is -1"),
    Case("quantity q($x in Loops) = 1 + floor(4, (0 * size($x)))", "SP442", 1, 40, "this divisor is 0"),
    Case('quantity q($x in Loops) = floor(4, max("2 - 5", -floor(9, 2)))', "SP442", 1, 36,
         "this divisor is -3"),
    Case('quantity q($x in Loops) = floor(4, size($x) > 1 ? 0 : "1 - 1")', "SP442", 1, 36,
         "this divisor is 0"),
    Case("quantity q() = sum bytes($x) in Loops: 1", "SP002", 1, 20,
         "expected a variable such as `$x`, found `bytes`"),
    Case("quantity q() = sum $x in Lops: 1", "SP012", 1, 26, "unknown set `Lops`"),
    Case("quantity q($x in Items) = used()", "SP044", 1, 27, "`used` does not show both its ends",
         "declare it without `half`"),
    Case("quantity q($x in Items) = FAR", "SP046", 1, 10, "`FAR`: no ordered enum has such values"),
    Case("choice ordered enum o($x in Items): ROOT < LEAF end quantity q($x in Items) = ROOT", "SP046", 1, 62,
         "`ROOT`: several ordered enums have such values"),
    Case("quantity q($x in Items) = min(site($x), 3)", "SP047", 1, 41,
         "an integer stands among values of ROOT < TASK < LANE"),
    Case("quantity q($x in Items) = max(site($x), cap($x) + cap($x))", "SP047", 1, 41,
         "an integer stands among values of ROOT < TASK < LANE"),
    Case("quantity q($x in Items) = min(3, ROOT)", "SP047", 1, 34, "the value `ROOT` stands among integers",
         "say what it counts for: `choice($x) is ROOT ? 1 : 0`"),
    Case("quantity q($x in Items) = 1 + site($x)", "SP047", 1, 31,
         "`site` gives values of ROOT < TASK < LANE, among integers"),
    Case("quantity q($x in Items) = min(site($x), speed($x))", "SP047", 1, 41,
         "`speed` gives values of SLOW < FAST, among values of ROOT < TASK < LANE"),
    Case("quantity q($x in Items) = min(site($x), DEEP)", "SP056", 1, 41,
         "`DEEP` is an alias: it has no place in the order"),
    Case("quantity q($x in Items) = case kind($x) {A: 1, B: 2}", "SP048", 1, 27, "no branch for C",
         "add `else: ..`"),
    Case("quantity q($x in Items) = case kind($x) {AB: 1, B: 2, C: 3}", "SP048", 1, 49,
         "an earlier branch takes B"),
    Case("quantity q($x in Items) = case kind($x) {A: 1, else: 2, B: 3}", "SP048", 1, 57,
         "no value is left for this branch"),
    Case("quantity q($x in Items) = case kind($x) {A: 1, D: 2, else: 3}", "SP014", 1, 48,
         "`kind` has no value `D`"),
    Case("quantity q($x in Loops) = case size($x) {A: 1, else: 2}", "SP058", 1, 32,
         "`case` asks for the value of an enum"),
    Case("quantity q($x in Items) = kind($x) is A", "SP057", 1, 27,
         "a condition stands where a value is needed",
         "write `condition ? 1 : 0` to count it"),
    Case("quantity q($x in Items) = 1 + kind($x)", "SP057", 1, 31,
         "`kind` is an enum without an order: it has no value to compute with"),
    Case("quantity q($x in Items) = 1 + q($x)", "SP049", 1, 10,
         "`q` is computed from itself on the same objects", "q -> q"),
    Case("quantity q($x in Items) = q($x) > 3 ? 1 : 2", "SP049", 1, 10,
         "`q` is computed from itself on the same objects"),
    Case("quantity q($x in Items) = r($x) + 1 quantity r($x in Items) = max(q($x), 3)", "SP049", 1, 10,
         "`q` is computed from itself on the same objects", "q -> r -> q"),
    Case("choice counter n(): sum 1 when: q() > 3 end quantity q() = n()", "SP049", 1, 16,
         "`n` depends on itself", "n -> q -> n: only quantities may, on other objects"),
    Case("quotient Q of $x in Items: r = q() > 3 / near is YES end quantity q() = sum $x in Q: 1",
         "SP049", 1, 10,
         "`r` depends on itself"),
    Case("choice counter n(): forall $x in Loops: sum bytes($x) when: end", "SP041", 1, 45,
         "`bytes` is a quantity: a counter adds integer choices and counters"),
    Case("require forall $x in Loops: min(size($x), 2) < 3", "SP055", 1, 29,
         "an operator of quantities in a comparison",
         "declare it: `quantity NAME(..) = ..`, and compare that"),
    Case("require forall $x in Items: kind($x) is A ? true : false", "SP050", 1, 29,
         "a value is not a condition"),
    Case("require forall $x in Loops: bytes($x)", "SP050", 1, 29, "a choice is not a condition"),
]  # fmt: skip

LISTS = [
    Case("view v: nope end", "SP013", 1, 9, "unknown choice `nope`"),
    Case("view v: kind by D end", "SP014", 1, 17, "`kind` has no value `D`"),
    Case("view v: kind by A, AB end", "SP080", 1, 20, "`AB` overlaps a group before it"),
    Case("view v: size by A end", "SP081", 1, 9, "`size` is no enum: it has no named values to group by"),
    Case("view v: kind end view v: kind end", "SP010", 1, 23, "view `v` is declared twice"),
    Case("ordering d: dynamic smallest end", "SP084", 1, 21, "no dynamic rule is called `smallest`",
         "did you mean `smallest_domain`?"),
    Case("ordering d: for $x in Items: speed end end", "SP083", 1, 17,
         "this `for` binds a variable that is not used", "`choice($x)`"),
    Case('ordering d: for $x in Items by "$y.rank": kind($x) end end', "SP015", 1, 33,
         "unknown variable `$y`", "in scope: $x, $kernel, $device"),
    Case("ordering d: for $x in Items: kind($y) end end", "SP015", 1, 35, "unknown variable `$y`"),
    Case("ordering d: for $x in Items: size($x) end end", "SP017", 1, 35,
         "`$x` is of Items, which is not a subset of Loops"),
    Case("ordering d: for $x in Items: kind($x) for $x in Items end end", "SP019", 1, 43,
         "`$x` is bound twice"),
]  # fmt: skip


@pytest.mark.parametrize(
    "case", [*MAPS, *ORDERED, *QUANTITIES, *LISTS], ids=lambda c: f"{c.code} {c.text[:60]!r}"
)
def test_a_mistake_is_reported_once_at_its_place_in_words(case: Case) -> None:
    (found,) = (d for d in check(DECLARED + case.text)[1] if d.severity.value == "error")
    place = (found.span.line - DECLARED.count("\n"), found.span.column)
    assert (found.code, *place, found.message) == (case.code, case.line, case.column, case.message)
    if case.hint is not None:
        assert found.hint == case.hint


def test_a_choice_that_follows_from_others_is_no_decision_to_look_at() -> None:
    for text in ("view v: bytes end", "ordering d: cap end", "view v: used end"):
        (found,) = (d for d in check(DECLARED + text)[1] if d.severity.value == "warning")
        assert found.code == "SP082"


def test_a_branch_may_apply_to_objects_that_only_some_kernels_have_there() -> None:
    text = 'quantity q($x in Items) = "$x.is_loop" ? sum $y in Inner($x): size(loop($y)) : bytes(host($x))'
    assert check(DECLARED + text)[0] is not None


def test_a_map_may_be_applied_in_a_header_in_front_of_its_declaration() -> None:
    text = """
        set Deep($x in Items, $y in Inner(inmost($x))) subsetof Inner(inmost(host($x))):
          iterator = "$y.deep"
        end
        choice enum c($x in Items, $y in Inner(inmost($x)), $z in Deep($x, $y)): value P: value Q: end
        map next($x in Items, $y in Inner(inmost($x))) in Deep($x, $y) = "$y.next"
        quotient Kept($x in Items) of $y in Inner(inmost($x)):
          is_kept = kind(host($y)) is A / near is YES
        end
        require forall $x in Items: forall $y in Inner(inmost($x)): c($x, $y, next($x, $y)) is P
        map inmost($x in Items) in Loops = "$x.inmost"
    """
    space, found = check(DECLARED + text)
    assert space is not None, [d.message for d in found]
    assert [p.set.name for p in space.choices["c"].params] == ["Items", "Inner__map_inmost__x", "Deep"]
    assert [m.name for m in space.quotients["Kept"].maps] == ["host($y)"]


def test_a_divisor_of_a_branch_that_may_be_impossible_is_remarked_on() -> None:
    text = "quantity q($x in Loops) = size($x) < 1 ? floor(4, 0) : floor(4, 1)"
    space, found = check(DECLARED + text)
    assert space is not None
    (remark,) = (d for d in found if d.severity.value == "warning")
    assert (remark.code, remark.span.column, remark.message) == ("SP442", 51, "this divisor is 0")


def test_a_divisor_that_a_kernel_settles_is_left_to_it() -> None:
    for divisor in (
        '"$x.step"',
        "size($x) - 1",
        '"1 // 0"',
        "min(0, size($x))",
        "max(0, size($x))",
        "prod $y in Loops: 0",
    ):
        assert check(DECLARED + f"quantity q($x in Loops) = floor(4, {divisor})")[0] is not None


def test_what_no_branch_could_need_is_wrong_in_a_branch_too() -> None:
    text = """
        set Others: iterator = "$kernel.others" end
        quantity q($o in Others) = "$o.ok" ? size($o) : 0
    """
    assert [d.code for d in check(DECLARED + text)[1] if d.severity.value == "error"] == ["SP017"]
