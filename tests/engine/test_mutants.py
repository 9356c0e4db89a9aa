"""The mistakes that `make mutants` makes are still mistakes in the text as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.mutants import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_the_text_of_its_file(mutant: Mutant) -> None:
    assert mutant.old != mutant.new
    assert mutant.old in (ROOT / mutant.path).read_text(encoding="utf-8")
