"""What is shown of schedules that walks come to: how long their programs take to make, what a model says."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from benchmarks import cost_model, lowering


def rows(text: str, name: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("│")] for line in text.splitlines() if name in line]


def test_the_same_programs_have_the_same_digest(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["toy_blur", "--count", "2", "--steps", "3"]
    assert lowering.main([*arguments, "--profile", str(tmp_path / "profile")]) == 0
    assert lowering.main(arguments) == 0
    first, second = rows(capsys.readouterr().out, "toy_blur")
    assert first[-2] == second[-2] != ""
    assert (tmp_path / "profile").stat().st_size > 0


def test_each_implementation_is_predicted_and_measured(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kept = tmp_path / "kept.csv"
    assert cost_model.main(["toy_blur", "--count", "3", "--steps", "3", "--csv", str(kept)]) == 0
    (row,) = rows(capsys.readouterr().out, "toy_blur")
    assert row[2:4] == ["3", "0"]
    assert -1 <= float(row[4]) <= 1 <= float(row[5])
    with kept.open(encoding="utf-8", newline="") as file:
        found = [*csv.DictReader(file)]
    assert len(found) == 3
    assert all(float(each["predicted_ns"]) > 0 < float(each["measured_ns"]) for each in found)


@pytest.mark.parametrize("benchmark", [lowering, cost_model])
def test_an_unknown_application_is_a_usage_error(
    benchmark: object, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        benchmark.main(["no_such"])  # type: ignore[attr-defined]
    assert ended.value.code == 2
    assert "no application is called `no_such`" in capsys.readouterr().err
