"""What is shown of each way to begin a search."""

from __future__ import annotations

import pytest

from benchmarks import LIBRARY
from benchmarks.starts import WAYS, main

_KERNEL = LIBRARY / "matmul_small.yaml"


def test_each_way_has_its_implementations(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.starts.WAYS", (WAYS[1], WAYS[-1]))
    assert main([str(_KERNEL), "--count", "2", "--size", "m=32", "--size", "n=32"]) == 0
    rows = [line.split("│") for line in capsys.readouterr().out.splitlines() if "matmul_small" in line]
    assert [row[2].strip() for row in rows] == ["4 drawn", "64 drawn, 100 steps, groups too"]
    assert all(1 <= int(row[3]) <= 2 for row in rows)
