"""The soak of schedules goes on where it ended; that of generated pipelines finds mistakes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.codegen.pipeline import soak_generated
from tests.codegen.pipeline.soak import main


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_what_has_passed_is_not_tried_again(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "record.json"
    for count in ("1", "2", "2"):
        arguments = [
            "--target",
            target,
            "--names",
            "toy_blur,blur",
            "--count",
            count,
            "--record",
            str(record),
        ]
        monkeypatch.setattr(sys, "argv", ["soak", *arguments])
        assert main() == 0
    assert json.loads(record.read_text(encoding="utf-8")) == {
        name: {"tried": 2, "passed": 2} for name in ("toy_blur", "blur")
    }
    assert capsys.readouterr().err.count(":1 ") == 2


@pytest.mark.parametrize("is_wrong", [False, True])
def test_generated_pipelines_are_tried_until_time_is_over_or_one_is_wrong(
    is_wrong: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["soak", "7"])
    monkeypatch.setenv("SOAK_MINUTES", "0.001")
    monkeypatch.setattr(soak_generated, "TOGETHER", 2)
    if is_wrong:
        monkeypatch.setattr(soak_generated, "disagreement", lambda *given: "other values")
    assert soak_generated.main() == int(is_wrong)
    said = capsys.readouterr().out
    if is_wrong:
        assert "seed 7: " in said and "other values" in said and "outputs: " in said
    else:
        assert "'pipelines': 2" in said
