"""What an exception means to the user of the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spacedsl.cli.console import Console
from spacedsl.cli.faults import ExitCode, explain
from tests.cli.conftest import ROOT

REGISTERS = ROOT / "kernels" / "library" / "plain" / "registers.yaml"


def test_a_package_that_is_missing_is_a_lack_of_the_environment() -> None:
    fault = explain(ModuleNotFoundError("No module named 'scipy.stats'", name="scipy.stats"))
    assert fault.code is ExitCode.ENVIRONMENT
    assert "scipy.stats" in fault.message
    assert fault.hint is not None and "make setup" in fault.hint


def test_a_line_of_a_file_is_no_picture(capsys: pytest.CaptureFixture[str]) -> None:
    Console().warn("k.yaml:100:5: of the second line")
    assert "k.yaml:100:5: of" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_terminal_that_lacks_characters_is_shown_others(encoding: str, tmp_path: Path) -> None:
    """Here those of a tree, or bytes in the name of a file that are no text."""
    name = b"k\xe9.space"
    (tmp_path / "k.space").write_text("set Items iterator")
    (tmp_path / "k.space").rename(tmp_path.joinpath(name.decode("utf-8", "surrogateescape")))
    for arguments, code in ((["check", name], 1), (["explain", REGISTERS, "spilled() <= 1"], 0)):
        ran = subprocess.run(
            [sys.executable, "-c", "from spacedsl.cli.app import main; main()", *arguments],
            check=False, cwd=tmp_path,
            env={**os.environ, "PYTHONIOENCODING": encoding}, capture_output=True,
        )  # fmt: skip
        assert ran.returncode == code, ran.stderr
        assert b"Traceback" not in ran.stderr


def test_a_module_of_the_project_that_is_missing_is_a_bug() -> None:
    assert explain(ModuleNotFoundError(name="spacedsl.nothing")).code is ExitCode.INTERNAL
