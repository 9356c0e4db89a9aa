"""What is said to people who write a construct as another language has it, or leave a part of it out.

Each row was written as a beginner would write it; the hint was then read by a person: it repairs that row.
"""

from __future__ import annotations

import re

import pytest

from spacedsl.diagnostics import Severity, Source
from spacedsl.language.loader import check_source
from spacedsl.language.slips import SLIPS
from tests.language.sources import errors

UNREADABLE = [
    ('set Foo\n  iterator = "$kernel.foo"\nend', 1, 8, "put `:` here"),
    ('set Foo: iterator "$kernel.foo" end', 1, 19, "put `=` here"),
    ('set Foo: "$kernel.foo" end', 1, 10, 'write `iterator = ".."`'),
    ('set Foo = "$kernel.foo"', 1, 9, 'a set is declared as `set NAME: iterator = ".." end`'),
    ('set foo: iterator = "$kernel.foo" end', 1, 5, "sets are written in CamelCase: `Foo`"),
    ("set Foo: iterator = $kernel.foo end", 1, 21,
     'what is asked of objects stands in double quotes: `"$kernel.foo"`'),
    ("set Foo: iterator = '$kernel.foo' end", 1, 21, "write the expression in double quotes"),
    ('set Foo: iterator = "$kernel.foo"\n\nchoice enum a($x in Foo):\n  value A:\nend', 3, 1,
     "put `end` in front of it"),
    ('set Foo subset of Items: iterator = "$kernel.foo" end', 1, 9, "write `subsetof`"),
    ("choice enum a(x in Items):\n  value A:\nend", 1, 15, "variables begin with `$`: `$x`"),
    ("choice enum a($x: Items):\n  value A:\nend", 1, 17, "write `in` for `:`"),
    ("choice enum a($x):\n  value A:\nend", 1, 17, "say of which set: `$x in SET`"),
    ("choice enum a($x of Items):\n  value A:\nend", 1, 18, "write `in` for `of`"),
    ("choice enum a($x in Items):\n  A\n  B\nend", 2, 3, "write `value A:`"),
    ("choice enum a($x in Items):\n  value a:\n  value b:\nend", 2, 9,
     "values are written in UPPER_CASE: `A`"),
    ("choice enum Foo($x in Items):\n  value A:\nend", 1, 13,
     "choices, keys and orderings are written in snake_case: `foo`"),
    ("choice enum a:\n  value A:\nend", 1, 14,
     "parameters stand here: `($x in SET)`, or `()` where there are none"),
    ("choice a($x in Items):\n  value A:\nend", 1, 8, "say which kind of choice: `choice enum a(..)`"),
    ("enum a($x in Items):\n  value A:\nend", 1, 1, "put `choice` in front of it"),
    ("choice bool a($x in Items): end", 1, 8, "yes or no is a `choice enum` with two values"),
    ("choice integer a($x in Items): [1, 2, 4] end", 1, 32,
     "arguments stand in `(..)`; a list is part of a host expression, in double quotes"),
    ("choice integer a($x in Items): 1..4 end", 1, 32, 'a host expression stands in double quotes: `"1..4"`'),
    ("choice integer a($x in Items): range(4) end", 1, 32,
     'a host expression stands in double quotes: `"range(4)"`'),
    ('choice integer a($x in Items) = "range(4)"', 1, 31,
     'an integer choice is declared as `choice integer NAME(..): ".." end`'),
    ("choice counter n(): forall $x in Items: sum 1 end", 1, 47, "put `when:` here"),
    ("choice counter n(): sum $x in Items: 1 when: kind($x) is SERIAL end", 1, 25,
     "the quantifiers of a counter stand in front: `forall $x in SET: sum ..`"),
    ("choice counter n(): forall $x in Items: count when: kind($x) is SERIAL end", 1, 41,
     "a counter of ones is `sum 1 when: ..`"),
    ("choice counter n(): forall $x in Loops: sum size($x) + 1 when: end", 1, 54,
     "a counter adds one number, choice or counter; declare a `quantity` to compute"),
    ("choice counter n(): forall $x in Loops: prod size($x) when: end", 1, 41, "write `mul` for `prod`"),
    ("choice counter n(): forall $x in Loops: max size($x) when: end", 1, 41,
     "a counter is a sum or a product; declare a `quantity` for others"),
    ("choice counter internal n(): forall $x in Loops: mul size($x) when: end", 1, 16,
     "write `choice internal counter`"),
    ("require forall $x in Items, $y in Items: order($x, $y) is BEFORE", 1, 27, "write `: forall` for `,`"),
    ("require for $x in Items: kind($x) is SERIAL", 1, 9, "write `forall` for `for`"),
    ("forall $x in Items: kind($x) is SERIAL", 1, 1, "put `require` in front of it"),
    ("require: forall $x in Items: kind($x) is SERIAL", 1, 8, "remove `:`"),
    ("require forall $x in Items: kind($x) is SERIAL end", 1, 48, "remove `end`"),
    ("require forall $x in Items: kind($x) = SERIAL", 1, 38, "write `is` for `=`"),
    ("require forall $x in Items: kind($x) is serial", 1, 41, "values are written in UPPER_CASE: `SERIAL`"),
    ("require forall $x in Items: kind($x) not SERIAL", 1, 38, "write `!` for `not`"),
    ("require forall $x in Items: kind($x) is SERIAL or kind($x) is PARALLEL", 1, 48, "write `||` for `or`"),
    ("require forall $x in Items: kind is SERIAL", 1, 34, "say of which objects: `kind($x)`, or `kind()`"),
    ("require forall $x in Items: kind($x) in SERIAL", 1, 38, "write `is` for `in`"),
    ("require forall $x in Loops: size($x) <= size($x) / 2", 1, 50,
     "division is rounded: `floor(a, b)` or `ceil(a, b)`, in a quantity"),
    ("require forall $x in Loops: size($x) % 2 == 0", 1, 38,
     "remainders are computed in host expressions, in double quotes"),
    ("require forall $x in Loops: size($x) ** 2 <= 5", 1, 39, "a power is a product: `a * a`, in a quantity"),
    ("require forall $x in Loops: size($x) =< 4", 1, 38, "write `<=` or `>=`"),
    ("require forall $x in Loops: 1 <= size($x) <= 4", 1, 43, "join two comparisons: `a <= b && b <= c`"),
    ("require forall $x in Loops: kind($x) is SERIAL -> size($x) == 4", 1, 48, "write `=>` for `->`"),
    ("require forall $x in Loops: if kind($x) is SERIAL then size($x) == 4", 1, 32,
     "write `condition => condition`; in a quantity, `condition ? value : value`"),
    ("require forall $x in Items where kind($x) is SERIAL: level($x) is LOW", 1, 34,
     "`where` takes a host expression in double quotes; what is decided is a condition"),
    ("require forall $x in Items: $x.big || level($x) is LOW", 1, 29,
     'what is asked of objects stands in double quotes: `"$x.big"`'),
    ("quantity q($x in Loops): size($x) * 2", 1, 24, "write `=` for `:`"),
    ("quantity q($x in Loops) = case kind($x) { SERIAL -> 1, PARALLEL -> 2 }", 1, 50,
     "write `:` behind the values of a branch"),
    ("quantity q($x in Loops) = case kind($x) { SERIAL: 1; PARALLEL: 2 }", 1, 52,
     "branches are separated by `,`, conditions and declarations by new lines"),
    ("quantity q($x in Loops) = case kind($x) { SERIAL: 1 PARALLEL: 2 }", 1, 53, "put `,` here"),
    ("quantity q($x in Loops) = case kind($x) { SERIAL: 1, PARALLEL: 2, }", 1, 67,
     "remove the `,` in front of it"),
    ("quantity q($x in Loops) = case kind($x) { SERIAL: 1, default: 2 }", 1, 54,
     "write `else` for `default`"),
    ("quantity q($x in Loops) = case kind($x) { SERIAL: 1, _: 2 }", 1, 54, "write `else` for `_`"),
    ("quantity q($x in Loops) = case size($x) { 1: 1, else: 2 }", 1, 43,
     "a `case` is of an enum; of integers: `size($x) == 1 ? a : b`"),
    ("quantity q() = sum(size($x) for $x in Loops)", 1, 19, "say over what: `sum $x in SET: (..)`"),
    ("quantity q() = sum forall $x in Loops: size($x)", 1, 20, "remove `forall`"),
    ("quantity q() = sum $x in Loops, $y in Loops: size($x) * size($y)", 1, 31,
     "each variable has a quantifier of its own: `sum $x in A: sum $y in B: ..`"),
    ("quantity q() = mul $x in Loops: size($x)", 1, 16, "write `prod` for `mul`"),
    ("quantity q() = product $x in Loops: size($x)", 1, 24, "write `prod`"),
    ("quantity q() = count $x in Loops: kind($x) is SERIAL", 1, 22,
     "write `sum $x in SET: (condition ? 1 : 0)`"),
    ("quantity q($x in Loops) = size($x)\nrequire forall $x in Loops: q($x) is 4", 2, 38,
     "write `==` for `is`: numbers are compared"),
    ("quantity q($x in Loops) = size($x)\nrequire forall $x in Loops: q <= 4", 2, 31,
     "say of which objects: `q($x)`, or `q()`"),
    ("choice quantity q($x in Loops) = size($x)", 1, 8, "a quantity is declared without `choice`"),
    ("map m($x in Items) in Banks", 1, 28, 'say which object it gives: `= "$x.attribute"`'),
    ('map m($x in Items) -> Banks = "$x.bank"', 1, 20, "write `in` for `->`"),
    ("map m($x in Items) in Banks = $x.bank", 1, 31,
     'what is asked of objects stands in double quotes: `"$x.bank"`'),
    ('map m($x in Items) = "$x.bank"', 1, 20, "say of which set it gives an object: `in SET`"),
    ('require forall $x in Items: kind("$x.next") is SERIAL', 1, 34,
     "an argument is a variable, or a map applied to one: declare `map NAME(..) in ..`"),
    ("require forall $x in Items: kind($x.next) is SERIAL", 1, 36,
     "attributes are read in double quotes; what gives an object is a `map`"),
    ("require forall $x in bank($y): kind($x) is SERIAL", 1, 22, "sets are written in CamelCase: `Bank`"),
    ("require forall $x in Items: forall $y in users($x): kind($x) is SERIAL", 1, 42,
     "sets are written in CamelCase: `Users`"),
    ("choice ordered enum l2($x in Items): A, B, C end", 1, 39,
     "the values stand in ascending order: `A < B < C`"),
    ("choice ordered enum l2($x in Items):\n  value A:\n  value B:\nend", 2, 3,
     "the values stand in ascending order first: `A < B < C`"),
    ("ordered choice enum l2($x in Items): A < B end", 1, 1, "write `choice ordered enum`"),
    ("choice enum k2($a in Items):\n  value A:\n  value B: requires C\n  alias D = A, B:\nend", 4, 14,
     "write `|` for `,`"),
    ("choice enum k2($a in Items):\n  value A:\n    require kind($a) is SERIAL\n  value B:\nend", 3, 5,
     "write `requires` for `require`"),
    ("choice enum k2($a in Items):\n  value A: kind($a) is SERIAL\n  value B:\nend", 2, 12,
     "put `requires` here"),
    ("quotient Q of Loops: r = kind($x) is PARALLEL / order is MERGED end", 1, 15,
     "bind a variable: `$x in Loops`"),
    ("quotient Q of $x in Loops: kind($x) is PARALLEL / order is MERGED end", 1, 32,
     "name what says who represents: `is_kept = kind(..)`"),
    ("quotient Q of $x in Loops: r = kind($x) is PARALLEL by order is MERGED end", 1, 53,
     "write `/` for `by`"),
    ("quotient Q of $x in Loops: r = kind($x) is PARALLEL / order($x, $y) is MERGED end", 1, 60,
     "the relation stands alone: `order is VALUE`"),
    ('trigger forall $x in Loops: "$kernel.go($x)" if kind($x) is SERIAL', 1, 46, "write `when` for `if`"),
    ('trigger forall $x in Loops: kind($x) is SERIAL => "$kernel.go($x)"', 1, 29,
     'what is added stands first: `"$kernel.add(..)" when condition`'),
    ("ordering default: size, kind end", 1, 23, "remove `,`"),
    ("ordering default:\n  forall $x in Loops: size($x) end\nend", 2, 3, "write `for` for `forall`"),
    ("ordering default:\n  kind by SERIAL | PARALLEL\nend", 2, 18,
     "write `,` between groups; a group of several values has an `alias`"),
    ("ordering default:\n  size\n  dynamic smallest_domain\nend", 3, 3,
     "an ordering has items, or one `dynamic` rule and nothing else"),
    ("ordering:\n  size\nend", 1, 9, "give it a name: `ordering default:`"),
    ("view v: order: MERGED end", 1, 14, "write `by` for `:`"),
    ("view v: end", 1, 9, "name at least one choice"),
    ("include other.space", 1, 9, 'the path stands in double quotes: `"other.space"`'),
    ('import "other.space"', 1, 1, "write `include` for `import`"),
    ('require forall $x in Items: "$x.flops > 3', 1, 29,
     r'close it with `"` on its line, or end the line with `\`'),
    ("require forall $x in Items: (kind($x) is SERIAL", 1, 48, "put `)` here"),
    ("require forall $x in Items: kind($x) is SERIAL)", 1, 47, "remove `)`"),
    ("# comment\nrequire forall $x in Items: kind($x) is SERIAL", 1, 1, "a comment begins with `//`"),
    ("require forall $x in Items: kind($x) is SERIAL -- comment", 1, 58,
     "say of which objects: `comment($x)`, or `comment()`"),
    ("require forall $x in Items: exists $y in Items: kind($x) is SERIAL", 1, 36,
     "what holds of one object at least is a counter: `count() >= 1`"),
    ("require forall $x in Items: forall $y in Items: $x != $y => kind($x) is SERIAL", 1, 49,
     'what is asked of objects stands in double quotes: `"$x != $y"`'),
    ("require forall $x in Loops: size($x) <= 4, kind($x) is SERIAL", 1, 42,
     "join conditions by `&&`, or begin a new line"),
    ("require forall $x in Loops: total <= 4", 1, 35, "say of which objects: `total($x)`, or `total()`"),
    ('choice integer s2($x in Loops): "$x.sizes", "3" end', 1, 43,
     'one expression gives all values: `"[1, 2, 4]"`'),
    ("choice enum set($x in Items):\n  value A:\nend", 1, 13,
     "`set` is a word of the language: choose another name"),
    ("choice enum value($x in Items):\n  value A:\nend", 1, 13,
     "`value` is a word of the language: choose another name"),
    ("choice enum where($x in Items): value A: value B: end\n"
     "require forall $x in Items: where($x) is A && \"$x.id > 1\"", 1, 13,
     "`where` is a word of the language: choose another name"),
    ("set Foo: iterator = \u201c$kernel.foo\u201d end", 1, 21,
     "write `\"` around host expressions, `'` in them"),
    ("set\u00a0Foo: end", 1, 4, "write a plain blank"),
    ("require total() \u2264 4", 1, 17, "write `<=`"),
    ("choice enum k($x in Items):\n  value A:\n    /// why\n    requires true\nend", 3, 5, "write `//`"),
    ("quantity q() = 1 /// why\n  + 2", 1, 18, "write `//`"),
    ("/// at the end", 1, 1, "write `//`"),
    ('/// other things\ninclude "other.space"', 1, 1, "write `//`"),
]  # fmt: skip
"""A text, the line and column of the mistake, the repair."""

MISUNDERSTOOD = [
    ("require kind($x) is A", 14, "bind it: `forall $x in SET:`"),
    (
        "require forall $x in Items: kind($x) is A ? kind($x) is B : true",
        29,
        "of conditions, write `(a => b) && (a || c)` for `a ? b : c`",
    ),
    ("require forall $x in Items: kind($x) < B", 38, "declare `choice ordered enum kind`"),
    (
        "require forall $x in Loops: forall $y in Loops: size($x) * size($y) <= 4",
        49,
        "declare a `quantity` for the product, and compare that",
    ),
    (
        "require forall $x in Loops: forall $y in Loops: size($x) + size($y) <= 4",
        60,
        "move it to the other side, or declare a `quantity` for the sum and compare that",
    ),
    ('require forall $x in Items: "$x.ok && $x.good"', 37, "Python writes `and` for `&&`"),
    ('require forall $x in Items: "$x.mode == FAST"', 41, "a text stands in single quotes: `'FAST'`"),
    (
        'require forall $x in Items: "kind($x) == 1"',
        30,
        "what is decided is not known yet: ask for it outside of the quotes",
    ),
    (
        "require forall $x in Items: abs($x) <= 4",
        29,
        "quantities have min, max, floor, ceil; Python stands in double quotes",
    ),
]
"""A text behind the preamble, the column of the mistake, the repair."""


@pytest.mark.parametrize(("text", "line", "column", "hint"), UNREADABLE, ids=lambda value: repr(value)[:50])
def test_what_cannot_be_read_is_answered_with_its_repair(
    text: str, line: int, column: int, hint: str
) -> None:
    (found,) = check_source(Source("test.space", text))[1]
    assert (found.span.line, found.span.column, found.hint) == (line, column, hint)


@pytest.mark.parametrize("text", ["require (", "require total() ==", "ordering d: size by A,"])
def test_of_a_text_that_ends_too_early_nothing_is_guessed(text: str) -> None:
    (found,) = check_source(Source("test.space", text))[1]
    assert found.message.endswith("found the end of the file") and found.hint is None


def test_every_slip_that_is_known_is_tried() -> None:
    hints = [hint for *_, hint in UNREADABLE]
    patterns = [re.sub(r"\\\{\w+\\\}", ".*", re.escape(slip.hint)) for slip in SLIPS]
    assert [p for p in patterns if not any(re.fullmatch(p, hint) for hint in hints)] == []


@pytest.mark.parametrize(("text", "column", "hint"), MISUNDERSTOOD, ids=lambda value: repr(value)[:50])
def test_what_is_misunderstood_is_answered_with_its_repair(text: str, column: int, hint: str) -> None:
    (found,) = errors(text)
    assert (found.span.column, found.hint) == (column, hint)


@pytest.mark.parametrize(
    ("text", "is_division"),
    [
        ("size($x) // 2", True),
        ("size($x) // 2 + 1", True),
        ('"$x.extent" // size($x)', True),
        ("size($x) // twice", False),
        ("size($x) // 2 of them are enough", False),
        ('"$x.extent // 2"', False),
        ("size($x) /* // 2 */", False),
    ],
)
def test_a_division_that_became_a_comment_is_noticed(text: str, is_division: bool) -> None:
    loops = 'set Loops: iterator = "$kernel.loops" end choice integer size($x in Loops): "$x.sizes" end\n'
    checked, found = check_source(Source("test.space", f"{loops}quantity q($x in Loops) = {text}\n"))
    assert checked is not None
    assert [d.code for d in found if d.severity is Severity.WARNING] == ["SP106"] * is_division
