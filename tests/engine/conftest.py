"""What several tests of the native engine need."""

from __future__ import annotations

import pytest

from spacedsl.compiler.c import build as building


@pytest.fixture
def quickly_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines of many small spaces, compiled in a quarter of the time; those of the library are optimised."""
    monkeypatch.setattr(building, "FLAGS", tuple("-O0" if f == "-O2" else f for f in building.FLAGS))
