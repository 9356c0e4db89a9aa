"""The soak of schedules goes on where it ended; that of generated pipelines finds mistakes."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.codegen.pipeline import soak, soak_generated
from tests.codegen.pipeline.test_cases import cases_of
from tests.codegen.soaks import Batch


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_what_has_passed_is_not_tried_again(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "record.jsonl"
    monkeypatch.setitem(soak.TOGETHER, target, 1)
    for count in ("1", "2", "2"):
        chosen = ["--target", target, "--kernels", "toy_blur,blur", "--count", count]
        monkeypatch.setattr(sys, "argv", ["soak", *chosen, "--record", str(record)])
        assert soak.main() == 0
    batches = [json.loads(line)["batch"] for line in record.read_text(encoding="utf-8").splitlines()]
    assert sorted((each["kernel"], each["seed"]) for each in batches) == [
        (name, seed) for name in ("blur", "toy_blur") for seed in (0, 1)
    ]
    assert capsys.readouterr().out.count("passed 1 of 1") == 4


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_a_schedule_that_computes_something_else_fails(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file, (case, *_) = cases_of("toy_blur")
    wrong = replace(case, expected={name: value + 1 for name, value in case.expected.items()})
    monkeypatch.setattr(soak, "cases_of", lambda name: (file, (wrong,)))
    found = soak.examined(target, Batch("toy_blur", 0, 1))
    (failed,) = found.failed
    assert failed.cause == "wrong" and "toy_blur" in failed.code and found.counts["failed"] == 1
    assert "for " in failed.message


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
