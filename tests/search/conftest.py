"""What several tests of bounds need."""

from __future__ import annotations

import pytest

from spacedsl.search.bounds import nests


@pytest.fixture
def no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor that begins no load early and has no registers: every line counts."""
    monkeypatch.setattr(nests, "EARLY_LOADS", 0)
    monkeypatch.setattr(nests, "kept_values", lambda device: 0)
