"""Compilers in processes of their own: what breaks one costs its own text."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spacedsl.codegen.c.build import BuildError
from spacedsl.codegen.cuda import compilers
from spacedsl.codegen.cuda.compilers import Compiler
from spacedsl.codegen.cuda.nvrtc import compile_cubin

KERNEL = 'extern "C" __global__ void k(float *x) { x[threadIdx.x] = 1.0f; }'


def test_a_compiler_that_ends_is_told() -> None:
    compiler = Compiler()
    os.kill(compiler._process.pid, signal.SIGSEGV)
    compiler._process.wait()
    with pytest.raises(BuildError, match="the compiler broke: it ended with status -11"):
        compiler.ask(KERNEL, "9.0")


def test_a_compiler_that_ends_while_it_is_idle_costs_no_text() -> None:
    assert compile_cubin(KERNEL, "9.0").resources["k"].registers > 0
    assert compilers._idle
    for compiler in compilers._idle:
        os.kill(compiler._process.pid, signal.SIGKILL)
        compiler._process.wait()
    assert compile_cubin(KERNEL, "9.0").code


def test_one_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilers, "LIMIT_S", 0.0)
    compiler = Compiler()
    with pytest.raises(BuildError, match="took longer than 0 s") as raised:
        compiler.ask(KERNEL, "9.0")
    assert compiler._process.poll() is not None and raised.value.timed_out


def test_what_it_refuses_is_said_as_it_says_it() -> None:
    with pytest.raises(BuildError, match='identifier "nothing" is undefined'):
        compile_cubin('extern "C" __global__ void k() { nothing(); }', "9.0")


_KILLED = f"""
import os, signal
from spacedsl.codegen.cuda.compilers import Compiler
compiler = Compiler()
compiler.ask({KERNEL!r}, "9.0")
os.kill(compiler._process.pid, signal.SIGSTOP)  # it cannot see that nobody asks any more
print(compiler._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_whatever_ends_the_process_that_asks_ends_its_compilers() -> None:
    ran = subprocess.run([sys.executable, "-c", _KILLED], stdout=subprocess.PIPE, text=True, check=False)
    assert ran.returncode == -signal.SIGKILL
    until = time.monotonic() + 60
    while is_running(int(ran.stdout)):
        assert time.monotonic() < until
        time.sleep(0.01)


def is_running(process: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
