"""Places as the protocol counts them, against Python's own codecs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacedsl.lsp.positions import Positions

TEXT = st.text(st.sampled_from("ab é😀\u2028\x0c\r\n"), max_size=20)


@given(TEXT, st.sampled_from(["utf-8", "utf-16", "utf-32"]))
def test_an_offset_and_its_position_lead_to_each_other(text: str, encoding: str) -> None:
    positions = Positions(text, encoding)
    for offset in range(len(text) + 1):
        if text[offset - 1 : offset + 1] == "\r\n" and offset:
            continue  # inside of a line's end
        line, character = positions.position(offset)
        assert positions.offset(line, character) == offset
        row = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")[line]
        assert len(row.encode("utf-32-le")) // 4 >= 0 and character <= len(row.encode("utf-8"))


def test_utf_16_counts_a_character_outside_the_basic_plane_as_two() -> None:
    assert Positions("😀x").position(2) == (0, 3)
    assert [Positions("😀x").offset(0, n) for n in range(4)] == [0, 0, 1, 2]
    assert Positions("😀x", "utf-8").position(1) == (0, 4)
    assert Positions("😀x", "utf-32").position(1) == (0, 1)


@pytest.mark.parametrize(("line", "character", "offset"), [(0, 99, 2), (1, 0, 4), (9, 0, 5)])
def test_places_behind_a_line_or_the_text_are_its_end(line: int, character: int, offset: int) -> None:
    assert Positions("ab\r\nc").offset(line, character) == offset
