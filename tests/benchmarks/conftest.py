"""A machine that is described already: what is shown of measurements needs no description of this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import machine

__all__ = ["machine"]


@pytest.fixture(autouse=True)
def described(machine: Path) -> None:
    """Of all benchmarks."""
