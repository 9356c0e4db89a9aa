"""What is shown of estimates for GPUs, and of walks by what resources need."""

from __future__ import annotations

import pytest

from benchmarks import LIBRARY, estimates


def test_a_walk_by_needs_ends_lower_than_it_began(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = str(LIBRARY / "matmul.yaml")
    sizes = [word for size in ("m=64", "n=64", "k=64") for word in ("--size", size)]
    assert estimates.main([kernel, "--count", "12", "--walks", "1", *sizes]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "│ matmul" in line)
    _, correlation, _, least, middle, begin, end, *_ = (cell.strip() for cell in line.split("│")[1:-1])
    assert 0 < float(correlation) <= 1
    assert float(least) <= float(middle)
    assert float(end) < float(begin)
