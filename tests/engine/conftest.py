"""What several tests of the native engine need."""

from __future__ import annotations

import pytest

from spacedsl.compiler.c import build as building


@pytest.fixture
def quickly_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines of many small spaces, compiled in less time; those of the library are optimised."""
    flags = tuple("-O0" if flag.startswith("-O") else flag for flag in building.FLAGS)
    assert flags != building.FLAGS
    monkeypatch.setattr(building, "FLAGS", flags)
