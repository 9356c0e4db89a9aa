"""The soak of schedules goes on where it ended."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

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
