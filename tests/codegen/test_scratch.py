"""Folders for temporary files end with their process, at the latest when the next one begins."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from spacedsl.codegen.lack import EnvironmentLack
from spacedsl.codegen.scratch import scratch_folder, sweep, temporary_root

HOLDING = """
import sys, time
from pathlib import Path
from spacedsl.codegen.scratch import scratch_folder
with scratch_folder(Path(sys.argv[1])) as folder:
    (folder / "library.so").write_text("code")
    print(folder, flush=True)
    time.sleep(60)
"""


def test_a_folder_ends_with_its_use(tmp_path: Path) -> None:
    with scratch_folder(tmp_path) as folder:
        (folder / "file").write_text("text")
        assert folder.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_killed_process_is_swept_and_that_of_a_living_one_is_not(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDING, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        with scratch_folder(tmp_path) as mine:
            sweep(tmp_path)
            assert (left / "library.so").exists() and mine.exists()
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert left.exists()
            sweep(tmp_path)
            assert list(tmp_path.iterdir()) == [mine]


def test_what_is_not_known_to_be_left_behind_stays(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "owner.lock").touch()
    parent = tmp_path / "parent"
    (parent / "spacedsl-unlocked").mkdir(parents=True)
    (parent / "another-folder").mkdir()
    (parent / "another-folder" / "owner.lock").touch()
    (parent / "spacedsl-file").touch()
    (parent / "spacedsl-link").symlink_to(elsewhere)
    (parent / "spacedsl-linked-lock").mkdir()
    (parent / "spacedsl-linked-lock" / "owner.lock").symlink_to(elsewhere / "owner.lock")
    before = sorted(tmp_path.rglob("*"))
    sweep(parent)
    assert sorted(tmp_path.rglob("*")) == before
    sweep(tmp_path / "nowhere")


def test_without_a_folder_for_temporary_files_the_environment_lacks_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc/nowhere"])
    with pytest.raises(EnvironmentLack, match=r"/proc/nowhere.*TMPDIR"):
        temporary_root()


def test_a_folder_that_cannot_be_made_is_a_lack_that_names_the_place() -> None:
    place = Path("/proc/nowhere")
    with pytest.raises(EnvironmentLack, match=f"{place}: temporary files cannot be"), scratch_folder(place):
        pass
