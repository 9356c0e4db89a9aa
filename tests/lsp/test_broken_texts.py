"""Whatever is typed, wherever the cursor is: each question has an answer, which lies inside the text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacedsl.lsp.analysis import Workspace
from spacedsl.lsp.completion import complete
from spacedsl.lsp.hover import definition, hover
from spacedsl.lsp.outline import outline
from spacedsl.lsp.rename import RenameError, references, rename
from tests.language import listings
from tests.language.test_formatter import FORMATTED
from tests.lsp.editing import SPACE

PATH = Path("/nowhere/main.space")
TEXTS = (SPACE, FORMATTED, listings.COUNTERS)
TYPED = [
    "",
    " ",
    "\n",
    "$",
    '"',
    "(",
    ")",
    "|",
    "is ",
    "end",
    "require ",
    "set ",
    "//",
    "/*",
    "é",
    "\0",
    "X",
    "\\",
]


def asked(workspace: Workspace, offset: int) -> None:
    text = workspace.texts[PATH]
    completion = complete(workspace, PATH, offset)
    assert 0 <= completion.start <= offset
    found = hover(workspace, PATH, offset)
    if found is not None and found.span is not None:
        assert found.span.start <= offset <= found.span.end
    definition(workspace, PATH, offset)
    for span in references(workspace, PATH, offset):
        assert 0 <= span.start < span.end <= len(span.source.text)
    for entry in outline(workspace.around(PATH), PATH):
        assert entry.extent.end <= len(text)
    try:
        rename(workspace, PATH, offset, "X1")
    except RenameError as error:
        assert str(error)
    for diagnostics in workspace.diagnostics().values():
        assert all(d.span.end <= len(text) + 1 for d in diagnostics)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_questions_about_a_mutated_text_are_answered(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS))
    workspace = Workspace()
    workspace.update(PATH, text)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        typed = data.draw(st.sampled_from(TYPED))
        text = text[:at] + typed + text[at + data.draw(st.integers(0, 6)) :]
        workspace.update(PATH, text)
        asked(workspace, min(at + len(typed), len(text)))
    asked(workspace, data.draw(st.integers(0, len(text))))


@pytest.mark.parametrize("text", ["", "\n", '"', "/*", "$", "set", "require (" * 200, 'include "main.space"'])
def test_questions_about_texts_that_say_little_are_answered(text: str) -> None:
    workspace = Workspace()
    workspace.update(PATH, text)
    for offset in {0, len(text) // 2, len(text)}:
        asked(workspace, offset)
