"""The pieces of `docs/language.md` are what the page says."""

from __future__ import annotations

import re
from pathlib import Path

from spacedsl.diagnostics import render
from tests.language.sources import check

ROOT = Path(__file__).parents[2]


def blocks(text: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def test_the_pieces_of_the_language_reference_are_one_space_without_errors() -> None:
    page = (ROOT / "docs/language.md").read_text(encoding="utf-8")
    space, found = check("\n".join(blocks(page, "space")))
    assert space is not None, "\n".join(render(d) for d in found)
    assert list(space.orderings) == ["default"]
    assert list(space.quotients) == ["ThreadDims"]
    assert len(space.triggers) == 1
