"""Compilers in processes of their own: what breaks one costs its own text."""

from __future__ import annotations

import os
import signal

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
