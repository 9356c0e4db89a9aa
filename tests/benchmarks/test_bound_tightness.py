"""The micro-kernels of the bound: their decisions leave implementations, none faster than its bound."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.bound_tightness import main
from benchmarks.gpu_micro_kernels import CASES


def test_micro_kernels_of_gpus_are_no_faster_than_their_bounds(tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    assert main(["--device", "h100", "--leaves", "1", "--json", str(found)]) == 0
    rows = json.loads(found.read_text(encoding="utf-8"))
    assert [row["case"] for row in rows] == [case.name for case in CASES]
    assert all(row["time_ns"] >= row["bound_ns"] > 0 for row in rows)
