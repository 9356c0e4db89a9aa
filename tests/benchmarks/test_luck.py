"""What is shown of searches whose clocks err."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.luck import Clock, lucky, main, tables
from spacedsl.kernels.evaluation import Lowered


def test_each_clock_has_a_ratio_for_each_doubt(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--evaluations", "30", "--seeds", "1", "--functions", "1"]) == 0
    rows = {cells[1].strip(): cells[2:5] for cells in map(_cells, capsys.readouterr().out.splitlines())}
    for clock in ("steady", "drifting", "lucky"):
        assert all(float(cell.split()[0]) > 0.5 for cell in rows[clock])


def test_side_by_side_all_are_seen_at_the_same_moment() -> None:
    clock = Clock(tables(0), lucky, np.random.default_rng(0))
    clock.open()
    codes = [Lowered(str(number), " ".join("0" * 14 + str(number))) for number in range(4)]
    for _ in range(50):
        outcomes = clock.compare(codes)
        costs = [tables(0)(tuple(map(int, code.code.split()))) for code in codes]
        ratios = [o.timing.time_ns / c for o, c in zip(outcomes, costs, strict=True) if o.timing is not None]
        assert max(ratios) < 1.1 * min(ratios)


def _cells(line: str) -> list[str]:
    return [*line.split("│"), "", ""]
