"""What several tests of the native engine need."""

from __future__ import annotations

import pytest

from spacedsl.compiler.c import build as building

UNOPTIMISED = tuple("-O0" if flag.startswith("-O") else flag for flag in building.FLAGS)
"""With which engines take less time to compile, and more to run."""


@pytest.fixture
def quickly_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines of many small spaces, compiled in less time; those of the library are optimised."""
    assert UNOPTIMISED != building.FLAGS
    monkeypatch.setattr(building, "FLAGS", UNOPTIMISED)
