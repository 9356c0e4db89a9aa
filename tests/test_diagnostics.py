"""Positions in texts and what a person sees of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from spacedsl.diagnostics import Diagnostic, DiagnosticError, Source, Span, render


def shown(text: str, wrong: str) -> list[str]:
    start = text.index(wrong)
    source = Source("a.space", text)
    return render(Diagnostic("SP999", "wrong", Span(source, start, start + len(wrong)))).splitlines()


def test_lines_and_columns_count_from_one() -> None:
    span = Span(Source("a", "ab\ncde\n"), 4, 5)
    assert (span.line, span.column, span.text, str(span)) == (2, 2, "d", "a:2:2")


def test_the_caret_stands_under_the_span() -> None:
    assert shown("first\nset Foo bar\n", "Foo") == [
        "a.space:2:5: error SP999: wrong",
        " 2 | set Foo bar",
        "   |     ^^^",
    ]


def test_tabs_before_the_span_are_kept_so_that_the_caret_lines_up() -> None:
    assert shown("\tx\ty", "y")[-1] == "   | \t \t^"


@pytest.mark.parametrize(
    ("text", "caret"),
    [("/* 世界 */ x", "           ^"), ("/* e\u0301 */ x", "        ^"), ("世界 x", "     ^")],
    ids=["wide", "combining", "wide first"],
)
def test_the_caret_counts_the_columns_that_characters_take(text: str, caret: str) -> None:
    assert shown(text, "x")[-1] == f"   | {caret}"


def test_what_is_wide_is_underlined_as_wide() -> None:
    assert shown("a 世界 b", "世界")[-1] == "   |   ^^^^"


def test_of_a_very_long_name_the_middle_is_left_out() -> None:
    name = "a" * 3000
    (line, *_) = render(
        Diagnostic("SP999", f"unknown choice `{name}`", Span(Source("a", name), 0, 3000))
    ).splitlines()
    assert len(line) < 200


def test_a_span_over_several_lines_is_underlined_to_the_end_of_its_first() -> None:
    assert shown("ab cd\nef", "cd\nef")[-1] == "   |    ^^"


def test_the_end_of_a_text_can_be_pointed_at() -> None:
    source = Source("a", "abc")
    assert render(Diagnostic("SP999", "more is expected", Span(source, 3, 3))).splitlines()[-1] == "   |    ^"


def test_of_a_very_long_line_the_part_around_the_span_is_shown() -> None:
    _, excerpt, caret = shown("x" * 5000 + "HERE" + "y" * 5000, "HERE")
    assert len(excerpt) < 200
    assert excerpt[caret.index("^") :].startswith("HERE")


def test_characters_that_would_move_the_cursor_are_not_printed() -> None:
    assert "\x1b" not in "".join(shown("a\x1b[2Jb\x07 c", "c"))


def test_a_file_that_is_not_utf8_is_a_diagnostic_at_the_first_such_byte(tmp_path: Path) -> None:
    file = tmp_path / "a.space"
    file.write_bytes("sét\n".encode() + b"ab\xff\n")
    with pytest.raises(DiagnosticError) as caught:
        Source.read(file)
    assert (caught.value.diagnostics[0].span.line, caught.value.diagnostics[0].span.column) == (2, 3)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    file = tmp_path / "a.space"
    file.write_bytes(b"\xef\xbb\xbfset")
    assert Source.read(file).text == "set"
