"""The pieces of `docs/language.md` are what the page says."""

from __future__ import annotations

import re
from pathlib import Path

from spacedsl.diagnostics import Severity, render
from spacedsl.language.parser import grammar
from tests.language.sources import check

ROOT = Path(__file__).parents[2]


def blocks(text: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


PIECES = "\n".join(blocks((ROOT / "docs/language.md").read_text(encoding="utf-8"), "space"))


def test_the_pieces_of_the_language_reference_are_one_space_without_a_warning() -> None:
    space, found = check(PIECES)
    assert space is not None, "\n".join(render(d) for d in found)
    assert [render(d) for d in found if d.severity is not Severity.NOTE] == []
    assert list(space.orderings) == ["default", "by_instruction", "narrowest"]
    assert list(space.quotients) == ["ThreadDims"]
    assert list(space.maps) == ["buffer", "producer"]
    assert [q.values for q in space.quantities.values()] == [None] * 4 + [("REGISTER", "SHARED", "GLOBAL")]
    assert list(space.views) == ["structure"]
    assert len(space.triggers) == 1


def test_every_construct_of_the_grammar_has_an_example_in_the_reference() -> None:
    shown = {str(tree.data) for tree in grammar().parse(PIECES).iter_subtrees()}
    rules = {rule.alias or str(rule.origin.name) for rule in grammar().rules if not rule.options.expand1}
    constructs = {name for name in rules if not name.startswith(("_", "spelled"))}
    # A file by itself includes nothing.
    assert constructs - shown == {"include"}
