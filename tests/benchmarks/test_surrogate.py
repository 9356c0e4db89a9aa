"""How what a search learns is judged on its record."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import LIBRARY
from benchmarks.surrogate import Measured, main, measured, ordered
from spacedsl import api

_KERNEL = LIBRARY / "matmul_small.yaml"


def test_what_was_faster_stands_first_where_needs_say_so() -> None:
    random = np.random.default_rng(0)
    needs_ns = [list(map(float, row)) for row in random.uniform(1.0, 20.0, (150, 3))]
    times_ns = [50.0 - 0.2 * place + row[0] for place, row in enumerate(needs_ns)]
    found = ordered(Measured(needs_ns, times_ns, times_ns))
    (by_sum, sums), (learnt, correlations) = found["needs"], found["learnt"]
    assert all(correlation == pytest.approx(1.0) for correlation in found["bound"][1])
    assert len(by_sum) == len(learnt) > 0
    assert np.mean(learnt) < np.mean(by_sum)
    assert np.mean(correlations) > max(0.7, float(np.mean(sums)))


def test_a_run_is_read_as_it_was_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = api.explore(_KERNEL, sizes={"m": 32, "n": 32}, evaluations=4, runs=tmp_path)
    found = measured(result.run)
    assert len(found.needs_ns) == len(found.bound_ns) == len(found.times_ns) == result.progress.valid
    assert all(sum(needs) > 0 for needs in found.needs_ns)
    assert main([str(tmp_path)]) == 0
    assert result.run.name in capsys.readouterr().out


def test_a_folder_without_a_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(tmp_path)])
    assert ended.value.code == 2
    assert f"{tmp_path} holds no run" in capsys.readouterr().err
