"""The examples of `docs/diagnostics.md` and `docs/language.md` do what the pages say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spacedsl.diagnostics import Severity, render
from tests.language.sources import check

ROOT = Path(__file__).parents[2]
DIAGNOSTICS = (ROOT / "docs/diagnostics.md").read_text(encoding="utf-8")
SECTIONS = {s[:5]: s for s in re.split(r"^### ", DIAGNOSTICS, flags=re.MULTILINE)[1:]}


def blocks(text: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


PREAMBLE = blocks(DIAGNOSTICS, "space preamble")[0]


@pytest.mark.parametrize("code", [c for c, s in SECTIONS.items() if "```space wrong" in s])
def test_the_wrong_example_of_a_code_gives_that_code_and_no_other_error(code: str) -> None:
    (wrong,) = blocks(SECTIONS[code], "space wrong")
    found = check(PREAMBLE + wrong)[1]
    assert code in [d.code for d in found]
    assert {d.code for d in found if d.severity is Severity.ERROR} <= {code}


@pytest.mark.parametrize("code", [c for c, s in SECTIONS.items() if "```space right" in s])
def test_the_right_example_of_a_code_is_right(code: str) -> None:
    (right,) = blocks(SECTIONS[code], "space right")
    space, found = check(PREAMBLE + right)
    assert space is not None, [render(d) for d in found]
    assert [d for d in found if d.code == code and d.span.start >= len(PREAMBLE)] == []


def test_the_preamble_of_the_page_is_right() -> None:
    assert check(PREAMBLE)[0] is not None


def test_every_code_of_the_front_end_is_documented_and_no_other() -> None:
    files = [*(ROOT / "spacedsl/language").glob("*.py"), ROOT / "spacedsl/diagnostics.py"]
    used = {code for f in files for code in re.findall(r'"(SP\d{3})"', f.read_text(encoding="utf-8"))}
    assert used == {c for c in SECTIONS if c < "SP200"}


def test_the_pieces_of_the_language_reference_are_one_space_without_errors() -> None:
    page = (ROOT / "docs/language.md").read_text(encoding="utf-8")
    space, found = check("\n".join(blocks(page, "space")))
    assert space is not None, "\n".join(render(d) for d in found)
    assert list(space.orderings) == ["default"]
    assert list(space.quotients) == ["ThreadDims"]
    assert len(space.triggers) == 1
