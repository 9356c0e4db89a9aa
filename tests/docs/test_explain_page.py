"""The Python of the page on explanations runs, and prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    page = ROOT / "docs" / "explain.md"
    (example,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(example, page.name, "exec"), {})
    first, *steps = capsys.readouterr().out.splitlines()
    (shown,) = re.findall(r"# (\(.*)", example)
    assert first == shown
    assert len(steps) == 3
    assert steps[-1].startswith("None ")
    assert steps[-1].endswith("['home(x)']")
