"""Processes that work for another one end with it, whatever its number is, and not before."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spacedsl.processes import start_module

_WORKER = """
import os, sys
from spacedsl.processes import die_with_parent
die_with_parent(os.getppid() + int(sys.argv[1]))
print("alive")
"""

_WAITING = """
import sys
from spacedsl.processes import die_with_parent
die_with_parent(int(sys.argv[1]))
print("begun", flush=True)
sys.stdin.read()
print("ended")
"""


def test_a_process_goes_on_while_the_one_that_it_works_for_is_there() -> None:
    for off, said in ((0, "alive\n"), (1, "")):
        ran = subprocess.run(
            [sys.executable, "-c", _WORKER, str(off)], capture_output=True, text=True, check=True
        )
        assert ran.stdout == said


def test_a_process_goes_on_where_the_thread_has_ended_that_asked_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "waiting.py").write_text(_WAITING)
    # What a user has in the working folder is none of its modules.
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "socket.py").write_text("raise SystemExit('of the user')")
    (tmp_path / "here" / "signal.py").write_text("raise SystemExit('of the user')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.chdir(tmp_path / "here")
    with ThreadPoolExecutor(1) as threads:
        started = threads.submit(start_module, "waiting", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process = started.result()
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    time.sleep(0.1)  # for a signal that may be under way
    said, _ = process.communicate()
    assert (said, process.returncode) == (b"ended\n", 0)
