"""Commands that are suggested are found by the shell that they are pasted into."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spacedsl.commands import command


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed program that prints its arguments, in a folder beside which the user works."""
    place = tmp_path / "a venv" / "bin" / "spacedsl"
    place.parent.mkdir(parents=True)
    place.write_text('#!/bin/sh\nprintf "%s|" "$0" "$@"\n')
    place.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(sys, "argv", ["a venv/bin/spacedsl", "explore"])
    return place


def printed(line: str) -> list[str]:
    ran = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=True)
    return ran.stdout.split("|")[:-1]


def test_a_program_that_is_not_on_the_path_is_named_by_its_place(program: Path) -> None:
    place = str(program.relative_to(Path.cwd()))
    assert printed(command("resume", Path("runs/a b"), "--time")) == [place, "resume", "runs/a b", "--time"]


def test_a_program_that_is_on_the_path_is_named_by_its_name(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    assert command("doctor") == "spacedsl doctor"
    assert printed(command("doctor")) == [str(program), "doctor"]


def test_another_program_of_the_same_name_is_not_taken_for_it(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "spacedsl"
    other.write_bytes(program.read_bytes())
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert printed(command("doctor")) == ["a venv/bin/spacedsl", "doctor"]


def test_a_library_call_names_the_program_by_its_name(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["script.py"])
    assert command("resume", Path.cwd() / "runs") == "spacedsl resume runs"
