"""What is shown of each way of drawing neighbours."""

from __future__ import annotations

import pytest

from benchmarks import LIBRARY
from benchmarks.neighbours import main

_KERNEL = LIBRARY / "matmul_small.yaml"


def test_each_way_is_named_with_how_many_programs_it_came_to(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(_KERNEL), "--after", "2", "--count", "2", "--size", "m=32", "--size", "n=32"]) == 0
    rows = [line.split("│") for line in capsys.readouterr().out.splitlines() if "matmul_small" in line]
    programs = {row[2].strip(): int(row[3]) for row in rows}
    assert {"one decision", "OwnDims", "IndexDims", "LevelDims"} <= programs.keys()
    assert all(count == 2 for count in programs.values())
