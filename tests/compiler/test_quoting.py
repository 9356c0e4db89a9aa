"""Which lines of a space stand in the docstrings of its propagators."""

from __future__ import annotations

import pytest

from spacedsl.compiler import compile_space
from spacedsl.compiler.python.quoting import quoted
from spacedsl.diagnostics import Source, Span
from tests.language.sources import load

TEXT = """\
/// Where.
choice enum place($x in Items):
\tvalue HERE:
\t\t// why
\t\trequires "$x.ok"
end

choice counter count():
  forall $x in Items:

    sum 1 when: place($x) is HERE
end
require count() >= 1
require forall $x in Items: forall $y in Items:
  place($x) is HERE
    || place($y) is HERE
  place($x) is THERE
trigger "$kernel.go()" when true
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ('"$x.ok"', [
            "choice enum place($x in Items):", "        value HERE:", '                requires "$x.ok"',
        ]),
        ("count", [
            "choice counter count():", "  forall $x in Items:", "    sum 1 when: place($x) is HERE", "end",
        ]),
        ("require count() >= 1", ["require count() >= 1"]),
        ("place($x) is HERE\n    || place($y) is HERE", [
            "require forall $x in Items: forall $y in Items:", "  place($x) is HERE",
            "    || place($y) is HERE",
        ]),
        ("place($x) is THERE", ["require forall $x in Items: forall $y in Items:", "  place($x) is THERE"]),
        ("trigger", ['trigger "$kernel.go()" when true']),
    ],
    ids=["value", "counter", "one line", "several lines", "second condition", "last line"],
)  # fmt: skip
def test_what_is_quoted_is_the_whole_of_it_under_its_first_words(words: str, expected: list[str]) -> None:
    start = TEXT.index(f"counter {words}") + len("counter ") if words == "count" else TEXT.index(words)
    assert quoted(Span(Source("a.space", TEXT), start, start + len(words))) == expected


def test_a_module_says_what_its_bits_and_tables_stand_for() -> None:
    text = compile_space(load('require forall $x in Items: kind($x) is A || "$x.ok"\n')).python_source
    legend = [line for line in text.splitlines() if line.startswith("# ")]
    assert legend == [
        "# kind       A 0b1, B 0b10, C 0b100",
        "# order      BEFORE 0b1, AFTER 0b10, MERGED 0b100",
        '# size       a bit for each integer of "$x.sizes", the least one 0b1',
        "# host_0[x]  $x.ok",
    ]
