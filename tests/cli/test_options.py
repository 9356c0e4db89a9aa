"""Budgets, sizes and defaults: what the command line accepts, and what wins over what."""

from __future__ import annotations

from pathlib import Path

import pytest

from spacedsl.cli.faults import CommandError, ExitCode
from spacedsl.cli.options import Settings, configuration, parse_duration, parse_sizes


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("3m", 180), ("1h30m", 5400), ("1.5s", 1.5), ("45", 45), ("0.25", 0.25)],
)
def test_lengths_of_time_are_read_with_and_without_units(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "m", "3 minutes", "-3m", "0", "0s", "3x", "3m!", "inf", "nan"])
def test_what_is_no_length_of_time_is_a_usage_error(text: str) -> None:
    with pytest.raises(CommandError) as caught:
        parse_duration(text)
    assert caught.value.code is ExitCode.USAGE


def test_sizes_are_given_one_by_one_or_in_a_list() -> None:
    assert parse_sizes(["m=97", "n=61,k=1_000"]) == {"m": 97, "n": 61, "k": 1000}


@pytest.mark.parametrize(
    "items",
    [["m"], ["m="], ["=3"], ["m=x"], ["m=1.5"], ["m=1,"], ["m=1", "m=2"], ["m=1_"], ["m=" + "1" * 5000]],
)
def test_sizes_of_another_form_are_refused(items: list[str]) -> None:
    with pytest.raises(CommandError):
        parse_sizes(items)


def test_a_budget_replaces_a_budget_and_other_settings_are_filled_in() -> None:
    given = Settings(evaluations=20, seed=3)
    below = Settings(time_s=600, seed=1, policy="tag")
    assert given.over(below) == Settings(evaluations=20, seed=3, policy="tag")
    assert Settings(seed=3).over(below) == Settings(time_s=600, seed=3, policy="tag")


def test_the_nearest_pyproject_gives_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.spacedsl]\ntime = "10m"\nseed = 7\nruns = "out"\n')
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert configuration(None) == Settings(time_s=600, seed=7, runs=tmp_path / "out")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.spacedsl]\ntme = 3", "no key `tme`"),
        ("[tool.spacedsl]\nevaluations = 0", "at least 1"),
        ("[tool.spacedsl]\nevaluations = true", "whole number"),
        ("[tool.spacedsl]\ntime = [3]", "length of time"),
        ("[tool.spacedsl]\ntime = '-3'", "`time` must be a length of time such as '3m', not '-3'"),
        ("[tool.spacedsl]\npolicy = 3", "must be text"),
        ("[tool]\nspacedsl = 3", "must be a table"),
        ("[tool.spacedsl", "not TOML"),
    ],
)
def test_a_wrong_configuration_is_named_with_its_file(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(text)
    with pytest.raises(CommandError) as caught:
        configuration(file)
    assert said in str(caught.value)
    assert str(file) in str(caught.value)
    assert caught.value.code is ExitCode.USAGE
