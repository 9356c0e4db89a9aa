"""Whatever the text, checking it gives a space or located diagnostics, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacedsl.diagnostics import Severity, render
from tests.language import fuzz, listings
from tests.language.sources import PREAMBLE, check
from tests.rules import rules_of

LINALG = Path(__file__).parents[2] / "kernels/spaces/linalg.space"
TEXTS = (
    listings.SETS,
    listings.COUNTERS,
    listings.GPU,
    listings.PIPELINE,
    PREAMBLE,
    rules_of(),
)
WORDS = sorted({w for text in TEXTS for w in re.findall(r"\$?\w+|\"[^\"\n]*\"|[^\w\s]", text)})
EXTRA = [
    "case",
    "quantity",
    "map",
    "view",
    "ordered",
    "where",
    "{",
    "}",
    "?",
    "=>",
    "/*",
    "*/",
    "///",
    "\\",
    "\0",
    "é",
]


def is_diagnosed(text: str) -> None:
    space, found = check(text)
    for diagnostic in found:
        assert 0 <= diagnostic.span.start <= diagnostic.span.end <= len(text) + 1
        assert render(diagnostic)
    assert (space is None) == any(d.severity is Severity.ERROR for d in found)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_mutated_space_gives_only_diagnostics(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS[:-1]))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        length = data.draw(st.integers(0, 12))
        text = (
            text[:start]
            + data.draw(st.sampled_from(WORDS + EXTRA + [" ", "\n", ""]))
            + text[start + length :]
        )
    is_diagnosed(text)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(WORDS + EXTRA), max_size=30).map(" ".join))
def test_words_in_any_order_give_only_diagnostics(text: str) -> None:
    is_diagnosed(text)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40))
def test_any_text_gives_only_diagnostics(text: str) -> None:
    is_diagnosed(text)


@pytest.mark.parametrize("cut", range(0, 2000, 97))
def test_a_file_that_was_cut_off_gives_only_diagnostics(cut: int) -> None:
    is_diagnosed(TEXTS[4][:-cut] if cut else TEXTS[4])


@pytest.mark.parametrize(
    "text",
    [
        "require " + "(" * 20_000,
        "require " + "true => " * 5_000 + "true",
        "require " + "-" * 20_000 + "1 < 2",
        "require " + "true ? 1 : " * 2_000 + "1",
        "require c(" + "f(" * 20_000,
        'require "' + "(" * 20_000 + '"',
        "choice enum c(): value A: " + "".join(f"alias A{i} = A{i + 1}: " for i in range(1_500)) + "end",
        "".join(f'set A{i} subsetof A{i + 1}: iterator = "1" end ' for i in range(1_500)),
        "require " + "!" * 20_000 + "true",
    ],
    ids=["open", "implies", "minus", "conditional", "arguments", "host", "aliases", "supersets", "not"],
)
def test_depth_without_measure_is_an_error_and_no_overflow(text: str) -> None:
    is_diagnosed(text)


def test_whatever_the_file_checking_it_gives_only_diagnostics_and_soon() -> None:
    traces: list[str] = []
    counts = fuzz.fuzz(250, seed=0, on_failure=lambda suffix, data, trace: traces.append(trace))
    assert traces == []
    assert len(counts) > 20, "the files are too much alike"


def test_a_file_that_raises_anything_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_something(path: Path) -> None:
        raise KeyError(path.suffix)

    monkeypatch.setattr(fuzz, "check_one", raise_something)
    failed: list[str] = []
    fuzz.fuzz(20, seed=0, on_failure=lambda suffix, data, trace: failed.append(suffix))
    assert len(failed) == 20 and set(failed) == {".space", ".yaml"}
