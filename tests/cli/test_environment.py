"""What this machine lacks or refuses: said in words, with exit code 5 where it stops a command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spacedsl.codegen import characterize
from spacedsl.kernels.device import CpuDevice, load_device
from tests.cli.conftest import ROOT, SMALL
from tests.cli.running import run

MATMUL = ROOT / "kernels" / "library" / "matmul.yaml"


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> CpuDevice:
    """What measuring this machine gives, at once."""
    described = load_device(ROOT / "kernels" / "devices" / "generic-x86-64.yaml")
    monkeypatch.setattr(characterize, "_measure", lambda progress: described)
    return described


@pytest.fixture
def no_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where no description can be kept: a folder inside a file."""
    file = tmp_path / "file"
    file.write_text("no folder")
    monkeypatch.setenv("XDG_DATA_HOME", str(file))
    return file


def test_a_data_folder_that_cannot_be_written_stops_no_exploration(
    device: CpuDevice, no_data_folder: Path, tmp_path: Path
) -> None:
    ran = run("explore", MATMUL, *SMALL, "--evaluations", 1, "--runs", tmp_path / "runs", "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["device"] == device.name
    assert f"warning: the description of this machine is used but not kept, since {no_data_folder}" in ran.err


def test_a_data_folder_that_cannot_be_written_stops_no_characterization(
    device: CpuDevice, no_data_folder: Path
) -> None:
    ran = run("device", "characterize")
    assert ran.code == 0, ran.err
    assert ran.out.startswith(device.name)
    assert f"{no_data_folder}/spacedsl/devices/" in ran.err


def test_doctor_says_that_descriptions_cannot_be_kept(no_data_folder: Path) -> None:
    ran = run("doctor", "--json")
    (finding,) = (f for f in json.loads(ran.out)["findings"] if f["subject"] == "device")
    assert finding["state"] == "note"
    assert f"{no_data_folder}/spacedsl/devices cannot be written" in finding["detail"]
    assert "XDG_DATA_HOME" in finding["remedy"]
