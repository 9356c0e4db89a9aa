"""What one process takes for the fastest, and what three do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import LIBRARY
from benchmarks.processes import chosen_over_fastest, main
from spacedsl import api


def test_the_middle_of_three_passes_over_a_process_that_errs() -> None:
    times_ns = np.array([[1.0, 2.0], [3.0, 2.0], [1.0, 2.0]])
    assert chosen_over_fastest(times_ns, 1).tolist() == [1.0, 2.0, 1.0]
    assert chosen_over_fastest(times_ns, 3).tolist() == [1.0]


def test_the_fastest_of_a_run_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = api.load_kernel(LIBRARY / "matmul_small.yaml", {"m": 32, "n": 32})
    result = api.explore(kernel, evaluations=2, runs=tmp_path)
    assert result.best is not None
    run = result.best.decisions.parent
    assert main([str(run), "--processes", "3", "--count", "2"]) == 0
    (row,) = (line for line in capsys.readouterr().out.splitlines() if run.name in line)
    cells = [cell.strip() for cell in row.split("│")]
    assert cells[2] == "2"
    assert cells[4] == "3"
    assert all(float(cell) >= 1 for cell in cells[6:10])


def test_three_processes_are_the_least(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path), "--processes", "2"])
    assert "2 processes: there are no 3" in capsys.readouterr().err
