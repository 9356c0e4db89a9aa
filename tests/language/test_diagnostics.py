"""What each mistake says and where. Lines are counted from the end of the preamble."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.language.sources import PREAMBLE, check, errors

PREAMBLE_LINES = PREAMBLE.count("\n")


@dataclass(frozen=True)
class Case:
    text: str
    code: str
    line: int
    column: int
    message: str
    hint: str | None = None


SYNTAX = [
    Case('set A iterator = "x" end', "SP002", 1, 7, "expected `:`, found `iterator`", "put `:` here"),
    Case('set A\n  iterator = "x" end', "SP002", 1, 6, "expected `:`, found `iterator`", "put `:` here"),
    Case('set A: iterator = "x"\nset B: iterator = "y" end', "SP002", 2, 1, "expected `end`, found `set`",
         "put `end` in front of it"),
    Case("ordering d:\n  size", "SP002", 2, 7, "expected `end`, found the end of the file",
         "put `end` in front of it"),
    Case("quotient Q of $d Items: r = kind($d) is A / order is MERGED end", "SP002", 1, 18,
         "expected `in`, found `Items`", "put `in` here"),
    Case("choice counter n():\n  sum 1 when\n  true\nend", "SP002", 2, 13, "expected `:`, found `true`",
         "put `:` here"),
    Case("require size($x = 4", "SP002", 1, 17, "expected `)` or `,`, found `=`"),
    Case("require size($x) = 4", "SP002", 1, 18,
         "expected a declaration, a condition, an operator or the end of the file, found `=`",
         "write `==` for `=`"),
    Case("require true or false", "SP002", 1, 14, "`or` is Python", "write `||` for `or`"),
    Case("require not true", "SP002", 1, 9,
         "expected a condition or `forall`, found `not`", "write `!` for `not`"),
    Case("require kind($x) is a", "SP002", 1, 21, "expected `not` or the name of a value, found `a`",
         "values are written in UPPER_CASE: `A`"),
    Case("choice enum Kind(): value A: end", "SP002", 1, 13, "expected a name in snake_case, found `Kind`",
         "choices, keys and orderings are written in snake_case: `kind`"),
    Case("choice enum value(): value A: end", "SP002", 1, 13, "expected a name in snake_case, found `value`",
         "`value` is a word of the language: choose another name"),
    Case("set my_set: end", "SP002", 1, 5, "expected the name of a set, found `my_set`",
         "sets are written in CamelCase: `MySet`"),
    Case("require forall x in Items: true", "SP002", 1, 16, "expected a variable such as `$x`, found `x`",
         "variables begin with `$`: `$x`"),
    Case("end", "SP002", 1, 1, "expected a declaration or the end of the file, found `end`", "remove `end`"),
    Case('trigger "$kernel.f()" when: true', "SP002", 1, 27, "expected a condition, found `:`", "remove `:`"),
    Case('set A:\n  /// no\n  iterator = "x"\nend', "SP002", 2, 3,
         "expected `disjoint`, `end` or a name in snake_case, found a `///` comment",
         "a `///` comment stands in front of a declaration or a value; write `//`"),
    Case("ordering d: for $x in Items by A end", "SP002", 1, 13, "this `for` belongs to no choice"),
    Case('set A: iterator = "x', "SP003", 1, 19, "this string is not closed"),
    Case("set A: /* x", "SP003", 1, 8, "this comment is not closed", "close it with `*/`"),
    Case("require true & true", "SP003", 1, 14, "unexpected `&`", "conjunction is `&&`"),
    Case("# x", "SP003", 1, 1, "unexpected `#`", "a comment begins with `//`"),
    Case("set A: ... end", "SP003", 1, 8, "`...` stands for text that is left out", "write it out"),
    Case("require size($x) < 1.5", "SP003", 1, 21, "numbers are integers"),
    Case("require size($x) < 2x", "SP003", 1, 20, "a number with letters in it"),
    Case("require é", "SP003", 1, 9, "unexpected character `é`"),
    Case("require \x00", "SP003", 1, 9, "unexpected character U+0000"),
    Case("require " + "(" * 200 + "true" + ")" * 200, "SP004", 1, 108, "nested more than 100 levels deep"),
    Case("require " + "!" * 5000 + "true", "SP004", 1, 108, "nested more than 100 levels deep"),
    Case("require true true", "SP005", 1, 14, "a second condition on the same line"),
    Case("require forall $x in Loops: size($x) < " + "9" * 5000, "SP006", 1, 40, "this number is too large"),
    Case(f"require forall $x in Loops: {2**62} * 2 * size($x) <= 4", "SP006", 1, 29,
         "this product of numbers is too large", "the greatest integer is 2**63 - 1"),
]  # fmt: skip

NAMES = [
    Case('set Items: iterator = "x" end', "SP010", 1, 5,
         "set `Items` is declared twice", "rename one of the two"),
    Case("choice enum kind($x in Items): value A: end", "SP010", 1, 13, "choice `kind` is declared twice"),
    Case("choice enum c($x in Items): value A: value A: end", "SP010", 1, 44, "`A` is declared twice in `c`"),
    Case("ordering d: kind end ordering d: kind end", "SP010", 1, 31, "ordering `d` is declared twice"),
    Case("choice enum dimKind($x in Items): value A: end", "SP011", 1, 13,
         "`dimKind` is no name for a choice"),
    Case("require forall $x in Item: true", "SP012", 1, 22, "unknown set `Item`", "did you mean `Items`?"),
    Case("choice enum c($x in Nope): value A: end", "SP012", 1, 21, "unknown set `Nope`"),
    Case('set A subsetof Nope: iterator = "1" end', "SP012", 1, 16, "unknown set `Nope`"),
    Case('set A: disjoint: Nope iterator = "1" end', "SP012", 1, 18, "unknown set `Nope`"),
    Case("require forall $x in Items: knd($x) is A", "SP013", 1, 29, "unknown choice `knd`",
         "did you mean `kind`?"),
    Case("ordering d: nope end", "SP013", 1, 13, "unknown choice `nope`"),
    Case("quotient Q of $x in Items: r = true / nope is A end", "SP013", 1, 39, "unknown choice `nope`"),
    Case("require forall $x in Items: kind($x) is D", "SP014", 1, 41, "`kind` has no value `D`",
         "it has A, B, C, AB"),
    Case("choice enum c($x in Items): value A: alias N = B: end", "SP014", 1, 48, "`c` has no value `B`"),
    Case("choice enum c($x in Items, $y in Items): value A: antisymmetric: A -> B end", "SP014", 1, 71,
         "`c` has no value `B`"),
    Case("ordering d: kind by D end", "SP014", 1, 21, "`kind` has no value `D`"),
    Case("require forall $x in Items: kind($y) is A", "SP015", 1, 34,
         "unknown variable `$y`", "in scope: $x"),
    Case('require "$x.ok"', "SP015", 1, 10, "unknown variable `$x`", "in scope: $kernel, $device"),
    Case('set A($p in Items): iterator = "$p.a + $q.b" end', "SP015", 1, 40, "unknown variable `$q`"),
    Case("require forall $x in Items: order($x) is MERGED", "SP016", 1, 29,
         "`order` takes 2 arguments, not 1"),
    Case("require forall $x in Items: order($x, $x) is MERGED", "SP016", 1, 29,
         "`order` is used twice on one object"),
    Case("require forall $x in Items($x): true", "SP015", 1, 28, "unknown variable `$x`"),
    Case("require forall $x in Items: forall $y in Loops($x): true", "SP016", 1, 42,
         "`Loops` takes 0 arguments, not 1"),
    Case("require forall $x in Items: size($x) < 4", "SP017", 1, 34,
         "`$x` is of Items, which is not a subset of Loops"),
    Case("require forall $x in Items: forall $y in Inner($x): true", "SP017", 1, 48,
         "`$x` is of Items, which is not a subset of Loops"),
    Case("require forall $device in Items: true", "SP018", 1, 16, "`$device` is always in scope"),
    Case("require forall $x in Items: forall $x in Loops: true", "SP019", 1, 36, "`$x` is bound twice"),
    Case("choice enum c($x in Items, $x in Items): value A: end", "SP019", 1, 28, "`$x` is bound twice"),
]  # fmt: skip

SETS = [
    Case('set A: type = "T" end', "SP020", 1, 5, "`A` has no `iterator`"),
    Case('set A: iterator = "1" iterator = "2" end', "SP021", 1, 23, "`iterator` is given twice"),
    Case('set A: itertor = "1" end', "SP021", 1, 8, "unknown key `itertor`", "did you mean `iterator`?"),
    Case('set A subsetof A: iterator = "1" end', "SP022", 1, 5, "`A` is a subset of itself", "A -> A"),
    Case('set A($x in B): iterator = "1" end set B($x in A): iterator = "1" end', "SP022", 1, 5,
         "`A` has itself as a parameter", "A -> B -> A"),
    Case('set A($x in Items): iterator = "1" reverse forall $y in Items = "2" end', "SP023", 1, 36,
         "`reverse` needs a set with one parameter and a superset"),
    Case('set A($x in Items) subsetof Items: iterator = "1" reverse = "2" end', "SP023", 1, 51,
         "`reverse` needs a `forall`"),
    Case('set A($x in Items) subsetof Items: iterator = "1" reverse forall $y in Loops = "2" end',
         "SP023", 1, 72,
         "Loops is no superset of `A`", "quantify over Items"),
    Case('set A: iterator forall $x in Items = "1" end', "SP024", 1, 24, "`iterator` takes no `forall`"),
    Case('set A subsetof Items: disjoint: Items iterator = "1" end', "SP025", 1, 33,
         "`A` cannot be disjoint from `Items`"),
]  # fmt: skip

CHOICES = [
    Case("choice enum c($x in Items): end", "SP030", 1, 13, "`c` has no values", "add `value NAME:`"),
    Case("choice enum c($x in Items): " + "".join(f"value V{i}: " for i in range(65)) + "end", "SP030", 1, 13,
         "`c` has 65 values; there may be 64"),
    Case("choice enum c($x in Items): symmetric value A: end", "SP031", 1, 13,
         "a choice with symmetry has two parameters of one set, not Items"),
    Case("choice enum c($x in Items, $y in Loops): symmetric value A: end", "SP031", 1, 13,
         "a choice with symmetry has two parameters of one set, not Items and Loops"),
    Case("choice enum c($x in Items, $y in Items): symmetric symmetric value A: end", "SP032", 1, 52,
         "symmetry is declared twice"),
    Case("choice enum c($x in Items, $y in Items): value A: value B: value C:\n"
         "antisymmetric: A -> B A -> C end", "SP033", 2, 23, "`A` is in two pairs"),
    Case("choice enum c($x in Items): value A: alias M = N: alias N = M: end", "SP034", 1, 44,
         "alias `M` stands for itself", "M -> N -> M"),
    Case("choice counter c(): sum d() when: end choice counter d(): sum 1 when: end", "SP040", 1, 25,
         "`d` is declared after the counter that uses it"),
    Case("choice counter c(): sum 1 when: d() > 1 end choice counter d(): sum 1 when: end", "SP040", 1, 33,
         "`d` is declared after the counter that looks at it"),
    Case("choice counter c(): sum c() when: end", "SP040", 1, 25,
         "`c` is declared after the counter that uses it"),
    Case("choice counter c(): forall $x in Items: sum kind($x) when: end", "SP041", 1, 45,
         "`kind` is an enum: it has no number to count"),
    Case("choice counter c(): sum 1 when: end choice counter d(): mul c() when: end", "SP042", 1, 61,
         "a product of `c`, which is a sum"),
    Case("choice counter c(): mul 0 when: end", "SP045", 1, 25,
         "a factor of 0: what is multiplied is at least 1"),
    Case("choice counter c(): base 0 mul 2 when: end", "SP045", 1, 26,
         "a factor of 0: what is multiplied is at least 1"),
    Case("choice half counter c(): sum 1 when: end choice counter d(): sum c() when: end", "SP043", 1, 66,
         "`c` shows less than the counter that uses it"),
    Case("choice half counter c(): sum 1 when: end require c() == 1", "SP044", 1, 50,
         "`c` is a half counter: it can only be limited from above"),
    Case("choice internal counter c(): sum 1 when: end require 1 > c()", "SP044", 1, 54,
         "`c` is an internal counter: it can only be limited from above"),
    Case("choice internal counter c(): sum 1 when: end require !(c() <= 1)", "SP044", 1, 56,
         "`c` is an internal counter: it can only be limited from above"),
    Case("choice half counter c(): sum 1 when: end choice counter d(): sum 1 when: c() <= 1 end",
         "SP044", 1, 74,
         "`c` is a half counter: its greatest value is not known"),
]  # fmt: skip

CONDITIONS = [
    Case("require forall $x in Items: kind($x)", "SP050", 1, 29, "a choice is not a condition",
         "say what must hold of it: `kind($x) is VALUE`"),
    Case("require forall $x in Items: A", "SP050", 1, 29, "a value is not a condition"),
    Case("require 3", "SP050", 1, 9, "a number is not a condition"),
    Case("require forall $x in Loops: size($x) is A", "SP051", 1, 29,
         "`size` is an integer choice: `is` asks for values of an enum"),
    Case("require 3 is A", "SP051", 1, 9, "`is` needs a choice in front of it"),
    Case("require forall $x in Items: kind($x) == A", "SP052", 1, 29,
         "a choice is compared with a value by `is`", "write `kind($x) is A`"),
    Case("require forall $x in Items: kind($x) == knd($x)", "SP013", 1, 41, "unknown choice `knd`"),
    Case("require forall $x in Items: knd($x) != kind($x)", "SP013", 1, 29, "unknown choice `knd`"),
    Case('require forall $x in Items: kind($x) == "1"', "SP052", 1, 29,
         "an enum can only be compared with an enum of the same values"),
    Case("require forall $x in Items: forall $y in Items: kind($x) < kind($y)", "SP052", 1, 58,
         "`<` between two enums"),
    Case("require forall $x in Items: 1 + kind($x) < 3", "SP052", 1, 33,
         "`kind` is an enum: it has no number"),
    Case("require forall $x in Items: forall $y in Items: kind($x) == order($x, $y)", "SP053", 1, 49,
         "`kind` and `order` do not have the same values"),
    Case('require forall $x in Items: "$x.a" < 3', "SP054", 1, 29, "this comparison has no choice in it"),
    Case("require forall $x in Loops: forall $y in Loops: size($x) + size($y) < 3", "SP055", 1, 60,
         "a second choice on this side"),
    Case("require forall $x in Loops: 3 - size($x) < 3", "SP055", 1, 33, "a choice with a minus sign"),
    Case("require forall $x in Loops: forall $y in Loops: size($x) * size($y) < 3", "SP055", 1, 49,
         "a product of two choices"),
    Case('require forall $x in Loops: 2 * "$x.a" * size($x) < 3', "SP055", 1, 29,
         "a product of two constants"),
    Case("require forall $x in Loops: 2 * (size($x) + 1) < 3", "SP055", 1, 34, "a product with a sum in it"),
    Case("require forall $x in Loops: (true) < 3", "SP055", 1, 30,
         "a condition stands where a number is needed"),
    Case('require forall $x in Items: "$x.a +"', "SP060", 1, 36, "not a Python expression: invalid syntax"),
    Case('require forall $x in Items: "$x.a ** 2"', "SP060", 1, 30, "`**` is not allowed"),
    Case('require "gpu.local_mem_size"', "SP060", 1, 10, "unknown name `gpu`", "the device is `$device`"),
    Case('trigger "$kernel.a" when true', "SP060", 1, 10, "a trigger calls one method of the backbone"),
]  # fmt: skip

OTHERS = [
    Case("quotient Q of $x in Items: r = true / order is BEFORE end", "SP070", 1, 39,
         "this equivalence is not symmetric"),
    Case("quotient Q of $x in Items: r = true / kind is A end", "SP071", 1, 39,
         "`kind` does not relate two objects of Items"),
    Case("ordering d: kind by A, AB end", "SP080", 1, 24, "`AB` overlaps a group before it"),
    Case("ordering d: size by A end", "SP081", 1, 13,
         "`size` is no enum: it has no named values to group by"),
    Case("ordering d: size for $x in Loops end", "SP083", 1, 22,
         "this `for` binds a variable that is not used"),
]  # fmt: skip

CASES = [*SYNTAX, *NAMES, *SETS, *CHOICES, *CONDITIONS, *OTHERS]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.code} {c.text[:60]!r}")
def test_a_mistake_is_reported_once_at_its_place_in_words(case: Case) -> None:
    (found,) = errors(case.text)
    place = (found.span.line - PREAMBLE_LINES, found.span.column)
    assert (found.code, *place, found.message) == (case.code, case.line, case.column, case.message)
    if case.hint is not None:
        assert found.hint == case.hint


def test_all_mistakes_of_a_file_are_reported_in_one_run_in_order_of_place() -> None:
    found = errors("""
        require forall $x in Item: true
        require forall $x in Items: knd($x) is A
        require forall $x in Items: kind($x) is D && "$x.a **" && size($x) < 3
        choice enum c($x in Items): end
        """)
    assert [d.code for d in found] == ["SP012", "SP013", "SP014", "SP060", "SP017", "SP030"]


def test_a_wrong_header_is_reported_once_and_not_at_each_use() -> None:
    text = """
        choice enum c($x in Nope): value A: end
        choice integer n($x in Items): "$x.a **" end
        require forall $x in Items: c($x) is A
        require forall $x in Items: n($x) < 3
        """
    assert [d.code for d in errors(text)] == ["SP012", "SP060"]


def test_a_missing_end_shows_where_the_declaration_begins() -> None:
    (found,) = errors('set A:\n  iterator = "x"\nset B: iterator = "y" end')
    ((span, words),) = found.related
    assert (span.line - PREAMBLE_LINES, words) == (1, "this `set` has no `end`")


def test_a_second_declaration_shows_the_first() -> None:
    (found,) = errors('set Items: iterator = "x" end')
    ((span, words),) = found.related
    assert (span.line, words) == (1, "it is declared here")


def test_remarks_do_not_keep_a_space_from_being_used() -> None:
    space, found = check('set Things: iterator = "$kernel.things" new_objs = "$objs" end')
    assert space is not None
    assert [(d.code, d.severity.value) for d in found] == [("SP101", "note"), ("SP100", "note")]
