"""What this machine lacks or refuses: said in words, with exit code 5 where it stops a command."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from spacedsl.codegen.c.build import find_compiler
from spacedsl.codegen.evaluator import CpuEvaluator
from spacedsl.codegen.machine import characterize
from spacedsl.kernels.device import CpuDevice, load_device
from spacedsl.kernels.evaluation import Lowered, Outcome
from tests.cli.conftest import ROOT, SMALL
from tests.cli.running import run

MATMUL = ROOT / "kernels" / "library" / "matmul.yaml"


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> CpuDevice:
    """What measuring this machine gives, at once."""
    described = load_device(ROOT / "kernels" / "devices" / "generic-x86-64.yaml")
    first = described.model_copy(update={"window": 100, "start_ns": 400.0})
    second = described.model_copy(update={"window": 125, "start_ns": 400.0})
    measured = characterize.Characterization(described, first, second)
    monkeypatch.setattr(characterize, "_measure", lambda progress: measured)
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
    figures = len(device.arithmetic) + len(device.accesses) + len(device.latencies) + 2
    count = figures + sum(2 + 2 * len(level.mixtures) for level in device.memory)
    table = ran.out.splitlines()[-3:]
    assert (
        table[0]
        == f"measured twice: of {count} figures, 1 differ by more than 5 %, the largest of them first"
    )
    assert table[1].split() == ["first", "second", "difference"]
    assert table[2].split() == ["window", "of", "a", "core,", "accumulations", "100", "125", "25.0", "%"]
    assert f"{no_data_folder}/spacedsl/devices/" in ran.err


def test_doctor_says_that_temporary_files_cannot_be_written(
    tmp_path: Path, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    ran = run("doctor")
    assert ran.code == 5
    assert f"lack  temporary  {tmp_path}/nowhere: temporary files cannot be written" in ran.out


def test_doctor_says_that_descriptions_cannot_be_kept(no_data_folder: Path) -> None:
    ran = run("doctor", "--json")
    (finding,) = (f for f in json.loads(ran.out)["findings"] if f["subject"] == "device")
    assert finding["state"] == "note"
    assert f"{no_data_folder}/spacedsl/devices cannot be written" in finding["detail"]
    assert "XDG_DATA_HOME" in finding["remedy"]


@pytest.fixture
def full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Once this file exists, the machine's compiler, before which another of its name is found, finds the
    disk full.
    """
    name, *words = find_compiler().command
    own = shlex.join([str(shutil.which(name)), *words])
    find_compiler.cache_clear()
    script, full = tmp_path / "bin" / Path(name).name, tmp_path / "full"
    script.parent.mkdir()
    script.write_text(
        f"""#!/bin/sh
        if [ -e '{full}' ]; then echo "as: code.o: No space left on device" >&2; exit 1; fi
        exec {own} "$@"
        """
    )
    script.chmod(0o755)
    if Path(name).name == name:
        monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    else:
        monkeypatch.setenv("CC", str(script))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    yield full
    find_compiler.cache_clear()


def test_a_full_disk_ends_a_run_that_can_be_resumed(
    device: CpuDevice, full: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = CpuEvaluator.run

    def fill_the_disk(
        evaluator: CpuEvaluator, lowered: Lowered, best_ns: float | None, limit_s: float | None = None
    ) -> Outcome:
        outcome = measure(evaluator, lowered, best_ns, limit_s)
        full.touch()
        return outcome

    with monkeypatch.context() as patch:
        patch.setattr(CpuEvaluator, "run", fill_the_disk)
        ran = run("explore", MATMUL, *SMALL, "--evaluations", 3, "--runs", tmp_path / "runs")
    assert ran.code == 5
    assert "temporary files cannot be written: No space left on device" in ran.err
    assert "build_error" not in ran.err
    (folder,) = (tmp_path / "runs").iterdir()
    assert f"spacedsl resume {folder}" in ran.err
    full.unlink()
    again = run("resume", folder, "--json")
    assert again.code == 0, again.err
    assert json.loads(again.out)["evaluations"] == 3


@pytest.mark.parametrize("command", [["device", "show"], ["explore", MATMUL]])
def test_a_cc_that_is_no_compiler_is_named(command: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    find_compiler.cache_clear()
    monkeypatch.setenv("CC", "true")
    try:
        ran = run(*command)
        assert ran.code == 5
        assert "the C compiler that CC names, `true`, builds no library" in ran.err
        assert "lack  compiler" in run("doctor").out
    finally:
        find_compiler.cache_clear()


def test_results_that_cannot_be_written_are_named_with_the_command_that_goes_on(
    device: CpuDevice, machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", refuse)
    ran = run("explore", MATMUL, *SMALL, "--evaluations", 1, "--runs", tmp_path / "runs")
    assert ran.code == 5
    (folder,) = (tmp_path / "runs").iterdir()
    assert f"{folder}/best.c: no room is left on the disk" in ran.err
    assert f"spacedsl resume {folder}" in ran.err
    assert not list(folder.glob(".best*"))


def test_a_kernel_that_is_too_large_for_this_machine_leaves_no_run(machine: Path, tmp_path: Path) -> None:
    sizes = (f"--size={name}={2**19}" for name in "mnk")
    ran = run("explore", MATMUL, *sizes, "--runs", tmp_path / "runs")
    assert ran.code == 5
    assert f"{MATMUL}:" in ran.err and "error KF046: this machine is too small" in ran.err
    assert "7,696,581," in ran.err, "seven times 2**38 elements of 4 bytes, and some guard pages"
    assert not (tmp_path / "runs").exists()


def test_a_description_that_cannot_be_read_hides_no_other(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    other = tmp_path / "spacedsl" / "devices" / "other.yaml"
    other.parent.mkdir(parents=True)
    other.write_text("name: other\nthreads: 2\n")
    unreadable = [other.with_name(name) for name in ("folder.yaml", "gone.yaml", "loop.yaml")]
    unreadable[0].mkdir()
    unreadable[1].symlink_to("nowhere.yaml")
    unreadable[2].symlink_to("loop.yaml")
    listed = run("device", "list")
    assert listed.code == 0
    for path in unreadable:
        assert f"warning: {path} is passed over: `spacedsl device show {path}` says why" in listed.err
    assert "generic-x86-64  (cpu" in listed.out and "NVIDIA H100" in listed.out
    assert "other" not in listed.out
    assert f"warning: {other} is passed over" in listed.err
    assert run("device", "show", "generic-x86-64").code == 0
    assert run("device", "show", "nothing").code == 2
    shown = run("device", "show", other)
    assert shown.code == 1
    assert "error DV006: the key `arithmetic` is missing" in shown.err


def test_a_description_is_shown_with_a_row_for_each_kind_and_width(machine: Path, tmp_path: Path) -> None:
    text = (ROOT / "kernels" / "devices" / "generic-x86-64.yaml").read_text()
    file = tmp_path / "device.yaml"
    rates = [("i32", 8), ("f32", 64), ("f32", 8)]
    rows = [f"  - {{kind: load, dtype: {t}, nbytes: {n}, instructions_per_ns: {n}}}" for t, n in rates]
    head, accesses, tail = text.partition("accesses:")
    comment, tail = tail.split("\n", 1)
    file.write_text("\n".join((head + accesses + comment, *rows, tail)))
    shown = run("device", "show", file).out
    names = [line.split("  ")[1] for line in shown.splitlines() if "bytes  " in line]
    assert names == [
        "4 bytes",
        "8 bytes",
        "16 bytes",
        "32 bytes",
        "f32, 8 bytes",
        "f32, 64 bytes",
        "i32, 8 bytes",
    ]
