"""All that the ancestor of this language answered with a bare error, a panic or nothing has a place here.

The mistakes are written in the older syntax, which is still read: `define` for `choice`, and the keys that
only a statically typed host needed. Lines are counted from the end of the preamble of `sources.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from spacedsl.diagnostics import Diagnostic, Severity, render
from spacedsl.language.loader import check_file
from tests.language.sources import PREAMBLE, errors
from tests.language.timing import limited

LONGEST_S = 2.0
"""Processor time that checking any one file may take."""


@dataclass(frozen=True)
class Case:
    name: str
    text: str
    code: str
    line: int
    column: int


TYPE_ERRORS = [
    Case("a set declared twice", 'set Items: iterator = "$fun.a" end', "SP010", 1, 5),
    Case("an enum declared twice", "define enum kind($x in Items): value A: end", "SP010", 1, 13),
    Case("an integer named as an enum", 'define integer kind($x in Items): "[1]" end', "SP010", 1, 16),
    Case("a counter named as an integer", "define counter size(): sum 1 when: end", "SP010", 1, 16),
    Case("a key given twice", 'set A: iterator = "$fun.a" iterator = "$fun.b" end', "SP021", 1, 28),
    Case("an ignored key given twice", 'set A: id_type = "u" id_type = "v" iterator = "$fun.a" end',
         "SP021", 1, 22),
    Case("a missing key", 'set A: item_type = "a" end', "SP020", 1, 5),
    Case("an unknown set as a parameter of a set",
         'set A($x in Nope): iterator = "$x.a" end', "SP012", 1, 13),
    Case("an unknown superset", 'set A subsetof Nope: iterator = "$fun.a" end', "SP012", 1, 16),
    Case("an unknown set that is disjoint", 'set A: disjoint: Nope iterator = "$fun.a" end', "SP012", 1, 18),
    Case("an unknown set in reverse",
         'set A($x in Items) subsetof Items:\n  iterator = "$x.a"\n  reverse forall $y in Nope = "$y.a"\nend',
         "SP012", 3, 24),
    Case("an unknown set as a parameter of an enum",
         "define enum c($x in Nope): value A: end", "SP012", 1, 21),
    Case("an unknown set as a parameter of an integer", 'define integer c($x in Nope): "[1]" end',
         "SP012", 1, 24),
    Case("a parameter of an enum twice", "define enum c($x in Items, $x in Items): value A: end",
         "SP019", 1, 28),
    Case("a value twice", "define enum c($x in Items):\n  value A:\n  value A:\nend", "SP010", 3, 9),
    Case("an alias named as a value",
         "define enum c($x in Items):\n  value A:\n  value B:\n  alias A = B:\nend",
         "SP010", 4, 9),
    Case("symmetric twice", "define enum c($x in Items, $y in Items): symmetric symmetric value A: end",
         "SP032", 1, 52),
    Case("antisymmetric twice",
         "define enum c($x in Items, $y in Items):\n  antisymmetric:\n    A -> B\n  antisymmetric:\n"
         "    A -> B\n  value A:\n  value B:\nend", "SP032", 4, 3),
    Case("symmetric and antisymmetric",
         "define enum c($x in Items, $y in Items):\n  symmetric\n  antisymmetric:\n    A -> B\n"
         "  value A:\n  value B:\nend", "SP032", 3, 3),
    Case("an unknown value in an alias", "define enum c($x in Items): value A: alias B = D: end",
         "SP014", 1, 48),
    Case("an unknown value in antisymmetric",
         "define enum c($x in Items, $y in Items):\n  antisymmetric:\n    A -> D\n  value A:\nend",
         "SP014", 3, 10),
    Case("symmetry of one parameter", "define enum c($x in Items): symmetric value A: end", "SP031", 1, 13),
    Case("symmetry of three parameters",
         "define enum c($x in Items, $y in Items, $z in Items): symmetric value A: end", "SP031", 1, 13),
    Case("symmetry of two sets", "define enum c($x in Items, $y in Loops): symmetric value A: end",
         "SP031", 1, 13),
]  # fmt: skip

TEXT = [
    Case("an invalid token", "require @ true", "SP003", 1, 9),
    Case("an include that is not there", 'include "nowhere.space"', "SP007", 1, 10),
    Case("an unexpected token", "require forall forall", "SP002", 1, 16),
    Case("a token too many", "set A: iterator = \"$fun.a\" end end", "SP002", 1, 32),
    Case("an end of file in a set", "set A:", "SP002", 1, 7),
    Case("an end of file in a choice", "define enum c($x in Items):\n  value A:\n", "SP002", 2, 11),
    Case("an end of file in a condition", "require forall $x in Items:\n  kind($x) is", "SP002", 2, 14),
    Case("an end of file in a prefix", "require forall $x in", "SP002", 1, 21),
    Case("an end of file in a string", 'set A: iterator = "$fun.', "SP003", 1, 19),
    Case("an end of file in a comment", "/* and so on", "SP003", 1, 1),
    Case("an end of file behind a trigger's when", 'trigger "$fun.f()" when', "SP002", 1, 24),
    Case("code without a text", 'set A: iterator = "" end', "SP060", 1, 20),
]  # fmt: skip

PANICS = [
    Case("an undefined variable", "require forall $x in Items: kind($y) is A", "SP015", 1, 34),
    Case("a duplicate variable", "require forall $x in Items: forall $x in Loops: kind($x) is A",
         "SP019", 1, 36),
    Case("an unknown choice", "require forall $x in Items: nope($x) is A", "SP013", 1, 29),
    Case("an unknown set of a forall", "require forall $x in Nope: true", "SP012", 1, 22),
    Case("an unknown value", "require forall $x in Items: kind($x) is NOPE", "SP014", 1, 41),
    Case("too few arguments", "require forall $x in Items: order($x) is MERGED", "SP016", 1, 29),
    Case("too many arguments", "require forall $x in Items: forall $y in Items: kind($x, $y) is A",
         "SP016", 1, 49),
    Case("a variable of a larger set", "require forall $x in Items: size($x) <= 4", "SP017", 1, 34),
    Case("a set without its parameter",
         "choice enum c($x in Items): value A: value B: end\nset P($x in Items): iterator = \"$x.p\" end\n"
         "require forall $y in P($y): c($y) is A", "SP015", 3, 24),
    Case("a parameter that the set does not have", "require forall $x in Items: forall $y in Items($x): true",
         "SP016", 1, 42),
    Case("`is` on an integer", "require forall $x in Loops: size($x) is A", "SP051", 1, 29),
    Case("two choices without the same values",
         "require forall $x in Items: forall $y in Items: kind($x) == order($x, $y)", "SP053", 1, 49),
    Case("an enum compared with code", 'require forall $x in Items: kind($x) == "$x.kind"', "SP052", 1, 29),
    Case("an operator that a half counter does not allow",
         "define half counter c(): sum 1 when: end\nrequire c() >= 1", "SP044", 2, 9),
    Case("an operator that an internal counter does not allow",
         "define internal counter c(): sum 1 when: end\nrequire c() != 1", "SP044", 2, 9),
    Case("a loop of aliases",
         "define enum c($x in Items):\n  value A:\n  alias M = N:\n  alias N = M:\nend", "SP034", 3, 9),
    Case("a value in two antisymmetric pairs",
         "define enum c($x in Items, $y in Items):\n  antisymmetric:\n    A -> B\n    B -> C\n"
         "  value A:\n  value B:\n  value C:\nend", "SP033", 4, 5),
    Case("a counter used before its declaration",
         "define counter c(): sum d() when: end\ndefine counter d(): sum 1 when: end", "SP040", 1, 25),
    Case("a counter that shows less",
         "define half counter d(): sum 1 when: end\ndefine counter c(): sum d() when: end", "SP043", 2, 25),
    Case("a product of a sum",
         "define counter d(): sum 1 when: end\ndefine counter c(): mul d() when: end", "SP042", 2, 25),
    Case("a counter of an enum", "define counter c(): forall $x in Items: sum kind($x) when: end",
         "SP041", 1, 45),
    Case("an equivalence that is not symmetric",
         "quotient Q of $x in Items: r = true / order is BEFORE end", "SP070", 1, 39),
    Case("reverse without a parameter",
         'set A subsetof Items: iterator = "$fun.a" reverse forall $y in Items = "$y.a" end', "SP023", 1, 43),
    Case("reverse without a superset",
         'set A($x in Items): iterator = "$x.a" reverse forall $y in Items = "$y.a" end', "SP023", 1, 39),
    Case("reverse over another set",
         'set A($x in Items) subsetof Items: iterator = "$x.a" reverse forall $y in Loops = "$y.a" end',
         "SP023", 1, 75),
    Case("forall on another key", 'set A($x in Items): iterator forall $y in Items = "$x.a" end',
         "SP024", 1, 37),
    Case("an unknown variable in code", 'require forall $x in Items: "$x.a < $y.a"', "SP015", 1, 37),
    Case("an unknown variable in the code of a set", 'set A: iterator = "$x.a" end', "SP015", 1, 20),
]  # fmt: skip

CASES = [*TYPE_ERRORS, *TEXT, *PANICS]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_the_ancestor_left_without_a_place_has_one(case: Case) -> None:
    (found,) = errors(case.text)
    place = (found.span.line - PREAMBLE.count("\n"), found.span.column)
    assert (found.code, *place) == (case.code, case.line, case.column), render(found)


def errors_of(path: Path) -> list[Diagnostic]:
    """The errors of a file, each rendered, in the time that one file may take."""
    with limited(LONGEST_S):
        found = [d for d in check_file(path)[1] if d.severity is Severity.ERROR]
        assert all(render(d) for d in found)
    return found


SMALL = PREAMBLE.encode()
BYTES: dict[str, tuple[bytes, list[tuple[str, int, int]]]] = {
    "nothing": (b"", []),
    "a byte order mark": (b"\xef\xbb\xbf" + SMALL, []),
    "a second byte order mark": (b"\xef\xbb\xbf\xef\xbb\xbf" + SMALL, [("SP003", 1, 1)]),
    "Windows line ends": (SMALL.replace(b"\n", b"\r\n"), []),
    "Windows line ends before a mistake": (SMALL.replace(b"\n", b"\r\n") + b"nope\r\n", [("SP002", 11, 1)]),
    "old Macintosh line ends": (SMALL.replace(b"\n", b"\r"), []),
    "old Macintosh line ends before a mistake": (SMALL.replace(b"\n", b"\r") + b"nope\r", [("SP002", 11, 1)]),
    "old Macintosh line ends behind a comment": (b"// items\r// all\rnope", [("SP002", 3, 1)]),
    "old Macintosh line ends in a string": (b'set A:\riterator = "(1,\r2)"\rend', [("SP003", 2, 12)]),
    "old Macintosh line ends in a string that goes on": (
        b'set A: iterator = "(1 +\\\r\xc3\xa4)" end',
        [("SP060", 2, 1)],
    ),
    "old Macintosh line ends between conditions": (
        SMALL + b"require forall $x in Items:\r  kind($x) is SERIAL\r  kind($x) is SERIAL kind($x) is SERIAL",
        [("SP005", 13, 22)],
    ),
    "tabs": (SMALL.replace(b" ", b"\t"), []),
    "tabs before a mistake": (b"\t\tnope", [("SP002", 1, 3)]),
    "a form feed": (b"\x0cset", [("SP002", 1, 5)]),
    "letters of other alphabets in a comment": ("// Größe 大きさ\n".encode() + SMALL, []),
    "letters of other alphabets before a mistake": ("/* Größe 大きさ */ nope".encode(), [("SP002", 1, 17)]),
    "letters of other alphabets in a name": ("set Größe:".encode(), [("SP003", 1, 7)]),
    "a blank that is none": ("set\u00a0A".encode(), [("SP003", 1, 4)]),
    "a character of four bytes": ("/* \U0001f600 */ nope".encode(), [("SP002", 1, 9)]),
    "a zero byte": (b"require \x00 true", [("SP003", 1, 9)]),
    "a zero byte in code": (b'require "1 < \x00 2"', [("SP060", 1, 14)]),
    "bytes that are no UTF-8": (b"// \n  \xff\xfe", [("SP001", 2, 3)]),
    "bytes that are no UTF-8 behind a mark": (b"\xef\xbb\xbf// \xe4", [("SP001", 1, 4)]),
    "half a character": ("// \u00e4".encode()[:-1], [("SP001", 1, 4)]),
    "a lone surrogate": (b"// \xed\xa0\x80", [("SP001", 1, 4)]),
    "UTF-16": ("set A: end".encode("utf-16"), [("SP001", 1, 1)]),
    "ten megabytes": (b"require true\n" * 800_000, [("SP009", 1, 1)]),
    "a little too much": (b"require true\n" * 8_000, [("SP009", 1, 1)]),
    "as much as there may be": (b"require true\n" * 7_600, []),
    "ten thousand parentheses": (b"require " + b"(" * 10_000 + b"true" + b")" * 10_000, [("SP004", 1, 108)]),
    "ten thousand open parentheses": (b"require " + b"(" * 10_000, [("SP002", 1, 10_009)]),
    "ten thousand negations": (b"require " + b"!" * 10_000 + b"true", [("SP004", 1, 108)]),
    "ten thousand implications": (b"require " + b"true => " * 10_000 + b"true", [("SP004", 1, 801)]),
    "thousands of quantifiers of one variable": (
        SMALL + b"require " + b"forall $x in Items: " * 4_900 + b"true",
        [("SP019", 11, 36 + 20 * i) for i in range(4_899)],
    ),
    "thousands of quantifiers": (
        SMALL + b"require " + b"".join(b"forall $x%i in Loops: " % i for i in range(4_000)) + b"true",
        [],
    ),
    "ten thousand parentheses in code": (b'require "' + b"(" * 10_000 + b'"', [("SP060", 1, 10)]),
    "a thousand negations in code": (b'require "' + b"not " * 990 + b'1"', [("SP060", 1, 10)]),
    "thousands of names that are unknown": (
        b"".join(b"choice enum c%i(): value A: end\n" % i for i in range(1_000))
        + b"".join(b"require d%i() is A\n" % i for i in range(2_500)),
        [("SP013", 1_001 + i, 9) for i in range(2_500)],
    ),
}


@pytest.mark.parametrize("name", BYTES)
def test_no_text_is_too_strange_or_too_large_for_a_quick_answer(name: str, tmp_path: Path) -> None:
    data, expected = BYTES[name]
    (tmp_path / "main.space").write_bytes(data)
    found = [(d.code, d.span.line, d.span.column) for d in errors_of(tmp_path / "main.space")]
    assert found == expected


def test_a_mistake_in_an_included_file_is_shown_in_that_file(tmp_path: Path) -> None:
    (tmp_path / "part.space").write_text("\nset\n", encoding="utf-8")
    (tmp_path / "main.space").write_text('include "part.space"\n', encoding="utf-8")
    (found,) = errors_of(tmp_path / "main.space")
    assert (Path(found.span.source.name).name, found.code, found.span.line) == ("part.space", "SP002", 2)


def test_a_cycle_of_many_files_is_an_error_where_it_closes(tmp_path: Path) -> None:
    for i in range(10):
        (tmp_path / f"f{i}.space").write_text(f'include "f{(i + 1) % 10}.space"\n', encoding="utf-8")
    (found,) = errors_of(tmp_path / "f0.space")
    assert (Path(found.span.source.name).name, found.code, found.span.column) == ("f9.space", "SP008", 10)


def test_files_that_include_too_much_together_are_refused_where_it_becomes_too_much(tmp_path: Path) -> None:
    for i in range(5):
        (tmp_path / f"f{i}.space").write_text(f"// {'x' * 24_000}\n", encoding="utf-8")
    includes = "".join(f'include "f{i}.space"\n' for i in range(5))
    (tmp_path / "main.space").write_text(includes, encoding="utf-8")
    (found,) = errors_of(tmp_path / "main.space")
    assert (found.code, found.span.line) == ("SP007", 5)
