"""Options of the whole suite."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from spacedsl.compiler.c import build as building

# Programs and instances are many objects that live long and make no cycles: to look for those among them as
# often as usual takes a tenth of the time of all tests.
gc.set_threshold(50_000)

# Many tests start processes, which import the project: half of that is compiling what nobody is to keep.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Threads that wait for each other take longer than all that small matrices need. Read when NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


# Of generated cases, as many as a quarter of an hour leaves time for; soaks go on where there are any.
settings.register_profile("suite", max_examples=50)
settings.load_profile("suite")


UNOPTIMISED = tuple("-O0" if flag.startswith("-O") else flag for flag in building.FLAGS)
"""With which engines take less time to compile, and more to run."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew")


@pytest.fixture
def quickly_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines of many small spaces, compiled in less time; those of the library are optimised."""
    assert UNOPTIMISED != building.FLAGS
    monkeypatch.setattr(building, "FLAGS", UNOPTIMISED)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)`: the text is that of the file `golden/name` beside the test."""

    def compare(name: str, text: str) -> None:
        path = Path(request.path).parent / "golden" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return compare
