"""Large pipelines are looked at before and at the beginning of a search."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.pipeline_scale import main
from tests.kernels.samples import LIBRARY


def test_each_pipeline_is_read_descended_and_explored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chain = f"{LIBRARY / 'pipelines' / 'python' / 'stencil_chain.py'}:build,stages=3,width=64,height=48"
    said = tmp_path / "scale.json"
    assert main([chain, "--seconds", "1s", "--time", "2s", "--json", str(said)]) == 0
    (row,) = json.loads(said.read_text())["pipelines"]
    # Each of the stages is a sum, which has a stage of its own.
    assert row["stages"] == 1 + 2 * 3
    assert row["descents_per_s"] > 0 and 0 <= row["dead_end_rate"] < 1 and row["peak_mb"] > 0
    assert 0 < row["best_ms"] <= row["first_ms"] and row["first_s"] > 0
    assert "stencil_chain.py:build,stages=3" in capsys.readouterr().out
