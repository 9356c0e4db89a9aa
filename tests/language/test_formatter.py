"""The formatter keeps every token and every comment, and what it has laid out it leaves alone."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lark import Token, Tree

from spacedsl.diagnostics import DiagnosticError, Source, Span
from spacedsl.language.formatter import WIDTH, format_source
from spacedsl.language.parser import grammar, parse
from tests.engine.generated_spaces import generate_space
from tests.language import listings
from tests.language.sources import PREAMBLE
from tests.rules import rules_of

ROOT = Path(__file__).parents[2]
FORMATTED = (ROOT / "tests/language/formatted.space").read_text(encoding="utf-8")
LINALG = rules_of()
REFERENCE = "\n".join(
    re.findall(
        r"^```space\n(.*?)^```", (ROOT / "docs/language.md").read_text(encoding="utf-8"), re.M | re.DOTALL
    )
)
CORPUS = {
    path.stem: path.read_text(encoding="utf-8")
    for top in ("kernels", "tests")
    for path in sorted((ROOT / top).rglob("*.space"))
}
TEXTS = (listings.SETS, listings.COUNTERS, listings.GPU, PREAMBLE, LINALG, REFERENCE, FORMATTED)


@cache
def formatted(text: str) -> str:
    return format_source(Source("test.space", text))


@cache
def meaning(text: str) -> object:
    """The syntax tree without its places; a continued string counts as its words."""
    return without_places(parse(Source("test.space", text)).declarations)


def without_places(node: object) -> object:
    if isinstance(node, tuple):
        return tuple(without_places(item) for item in node)
    if is_dataclass(node):
        parts = [getattr(node, f.name) for f in fields(node)]
        return (type(node).__name__, *(without_places(p) for p in parts if not isinstance(p, Span)))
    return node


@cache
def tokens(text: str) -> list[Token]:
    return list(grammar().lex(text))


COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|(///(?!/)[^\r\n]*|//[^\r\n]*|/\*.*?\*/)', re.DOTALL)
"""A string, in which nothing is a comment, or a comment."""


def comments(text: str) -> list[str]:
    """All comments in order, found without the language's own lexer; blanks do not count."""
    return ["".join(m[1].split()) for m in COMMENT.finditer(text) if m[1] is not None]


def rules(tree: Tree[Token]) -> Iterator[str]:
    return (str(node.data) for node in tree.iter_subtrees())


def test_the_file_of_every_construct_is_left_alone() -> None:
    assert formatted(FORMATTED) == FORMATTED


@pytest.mark.parametrize("path", sorted((ROOT / "kernels").rglob("*.space")), ids=lambda path: path.stem)
def test_every_space_that_is_shipped_is_in_its_canonical_layout(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert formatted(text) == text, f"run spacedsl fmt {path.relative_to(ROOT)}"


@pytest.mark.parametrize("text", [*TEXTS[:4], REFERENCE, *CORPUS.values()])
def test_formatting_changes_neither_the_meaning_nor_the_comments(text: str) -> None:
    result = formatted(text)
    assert meaning(result) == meaning(text)
    assert comments(result) == comments(text)
    assert formatted(result) == result


def test_every_rule_of_the_grammar_is_in_the_file_of_every_construct() -> None:
    used = set(rules(grammar().parse(FORMATTED)))
    aliases = {rule.alias for rule in grammar().rules if rule.alias}
    # Rules that vanish from the tree: inlined, or replaced by their only child or by an alias. What
    # begins with `spelled` is no part of a file.
    named = {
        str(rule.origin.name)
        for rule in grammar().rules
        if not rule.origin.name.startswith(("_", "spelled")) and not rule.options.expand1
    }
    assert {name for name in named | aliases if not name.startswith("_")} <= used


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False))
def test_generated_spaces_keep_their_meaning_and_are_formatted_once(rng: random.Random) -> None:
    text = generate_space(rng).text
    result = formatted(text)
    assert meaning(result) == meaning(text)
    assert formatted(result) == result
    assert max(map(len, result.splitlines())) <= WIDTH


BLANKS = [" ", "  ", "\t", "\n", "\n\n\n", " \n \n", "\r\n"]


def between(rng: random.Random, number: int, *, needs_line: bool) -> str:
    """Random blanks and comments, with a line break in front where one is needed."""
    trivia = [
        rng.choice(BLANKS),
        rng.choice([f" // c{number}\n", f" /* c{number} */ ", f"\n/* c{number}\n   more */ ", "", "", ""]),
        rng.choice(BLANKS),
        rng.choice([f"// d{number} \n", f"/* d{number} */", "", "", ""]),
    ]
    return ("\n" if needs_line else "") + "".join(trivia)


def scattered(text: str, rng: random.Random) -> str:
    """The tokens of a text with anything between them that may stand there."""
    found = tokens(text)
    parts = [between(rng, 0, needs_line=False)]
    for number, token in enumerate(found, start=1):
        gap = text[token.end_pos : found[number].start_pos] if number < len(found) else ""
        parts += [token, between(rng, number, needs_line="\n" in gap or token.type == "DOC")]
    return "".join(parts)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([*TEXTS[:4], REFERENCE, FORMATTED]), st.randoms(use_true_random=False))
def test_comments_between_any_two_tokens_are_kept(text: str, rng: random.Random) -> None:
    found = tokens(text)
    start = rng.randrange(len(found))
    # Around one place of the file: hypothesis can shrink it, and each example stays small.
    at, upto = found[start].start_pos, found[min(start + 40, len(found) - 1)].start_pos
    assert at is not None and upto is not None
    text = text[:at] + scattered(text[at:upto], rng) + "\n" + text[upto:]
    text = text.replace("\r\n", "\n") if rng.random() < 0.5 else text
    result = formatted(text)
    assert comments(result) == comments(text)
    assert meaning(result) == meaning(text)
    assert formatted(result) == result
    assert not re.search(r"[ \t]+$", result.replace("\r", ""), re.MULTILINE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("\n\n // only\n\n\n // comments\n", "// only\n\n// comments\n"),
        ("define enum a(): value A: end", "choice enum a(): value A: end\n"),
        (
            "choice enum a( ) :\n\n\nvalue A:\n\n\n\nvalue B : end",
            "choice enum a():\n  value A:\n\n  value B:\nend\n",
        ),
        ("choice enum a():symmetric:value A:end", "choice enum a(): symmetric value A: end\n"),
        (
            "choice enum a():\nsymmetric /* kept */:\nvalue A: end",
            "choice enum a():\n  symmetric /* kept */ :\n  value A:\nend\n",
        ),
        ("///doc\n///  more\nset A: end", "/// doc\n///  more\nset A: end\n"),
        ("require f()<1||f( )is A|B", "require f() < 1 || f() is A | B\n"),
        ("require\nf()<1", "require f() < 1\n"),
        ("require f() is A\nf() is B", "require\n  f() is A\n  f() is B\n"),
        ("require forall $x in A:\nf($x) is A", "require forall $x in A:\n  f($x) is A\n"),
        ("require forall $x in A: f($x) is A", "require forall $x in A: f($x) is A\n"),
        ("require ! f() is A &&\t(-1<2)", "require !f() is A && (-1 < 2)\n"),
        ("require f /* a */ ( /* b */ ) // c", "require f /* a */ ( /* b */) // c\n"),
        (
            'set A:\n// first\n\niterator = "1" // a\n // b\n end',
            'set A:\n  // first\n\n  iterator = "1" // a\n  // b\nend\n',
        ),
        ("set A: /* x\n  y */ end", "set A: /* x\n  y */\nend\n"),
        ("set A: end set B: end", "set A: end\nset B: end\n"),
    ],
)  # fmt: skip
def test_examples(text: str, expected: str) -> None:
    assert formatted(text) == expected
    assert formatted(expected) == expected


def test_lines_end_as_the_first_line_does() -> None:
    assert formatted("set A:\r\nend\nset B: end") == "set A:\r\nend\r\nset B: end\r\n"
    assert formatted("set A:\nend\r\nset B: end") == "set A:\nend\nset B: end\n"
    assert formatted("set A:// all\r\rend\rset B: end") == "set A: // all\rend\rset B: end\r"


@pytest.mark.parametrize(
    "text", ["set A", "require f() is A f() is B", "require " + "(" * 300 + "f()" + ")" * 300]
)
def test_a_text_with_errors_is_refused(text: str) -> None:
    with pytest.raises(DiagnosticError):
        formatted(text)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_mutated_text_is_formatted_or_has_a_diagnostic(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([*TEXTS[:4], REFERENCE]))
    typed = ["", " ", "\n", "//", "/*", "*/", "///", '"', "\\", "\r", "\t", "(", ")", ":", "é"]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(st.sampled_from(typed)) + text[at + data.draw(st.integers(0, 4)) :]
    try:
        result = formatted(text)
    except DiagnosticError:
        return
    assert comments(result) == comments(text)
    assert formatted(result) == result


def test_a_long_condition_takes_time_in_proportion_to_its_length() -> None:
    def once(text: str) -> float:
        start = time.process_time()
        format_source(Source("test.space", text))
        return time.process_time() - start

    def seconds(length: int) -> float:
        text = "require " + " || ".join(f"f() is A{i}" for i in range(length))
        return min(once(text) for _ in range(3))  # what else runs here makes some of them slower

    seconds(100)
    assert seconds(1200) < 10 * seconds(300)  # 4 times as long; the square would be 16


def test_a_text_that_is_too_large_is_refused_at_once() -> None:
    with pytest.raises(DiagnosticError, match="SP009"):
        formatted(" " * 1_000_000)
