"""Processes that compile with NVRTC: code that breaks the compiler costs one of them, and not the run.

In: text, a compute capability and options. Out: what `nvrtc.compile_cubin` gives or raises; of a process
that ends or takes too long, `BuildError`. A process compiles texts one by one, and ends with the one that
began it.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any

from spacedsl.codegen.c.build import BuildError
from spacedsl.processes import die_with_parent, start_module

LIMIT_S = 300.0
"""Of one text."""


class Compiler:
    """A process of its own."""

    def __init__(self) -> None:
        self._process = start_module(__name__, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, code: str, compute_capability: str, options: Sequence[str] = ()) -> Any:
        """What became of it, a value or an exception; raises `BuildError` where the process is lost."""
        answers, questions = self._process.stdout, self._process.stdin
        assert answers is not None and questions is not None
        try:
            pickle.dump((code, compute_capability, options), questions)
            questions.flush()
            if not select.select([answers], [], [], LIMIT_S)[0]:
                self.close()
                raise BuildError(f"the compiler took longer than {LIMIT_S:g} s", timed_out=True)
            return pickle.load(answers)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            self.close()
            raise BuildError(f"the compiler broke: it ended with status {self._process.returncode}") from None

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):
                assert pipe is not None
                pipe.close()


_idle: list[Compiler] = []
_lock = threading.Lock()
_owner = os.getpid()


def compiled_apart(code: str, compute_capability: str, options: Sequence[str]) -> Any:
    """By a process that is idle, or a new one; as `Compiler.ask`."""
    compiler = _taken() or Compiler()
    try:
        answer = compiler.ask(code, compute_capability, options)
    except BaseException:
        # Whatever it would still answer is for nobody else.
        compiler.close()
        raise
    with _lock:
        _idle.append(compiler)
    return answer


def _taken() -> Compiler | None:
    """After a fork, those of the other process are not ours."""
    global _owner  # noqa: PLW0603 - what a fork copies has to be told apart
    with _lock:
        if _owner != os.getpid():
            _owner = os.getpid()
            _idle.clear()
        while _idle:
            compiler = _idle.pop()
            if compiler.is_alive:
                return compiler
            compiler.close()
        return None


def _serve(questions: IO[bytes], answers: IO[bytes]) -> None:
    from spacedsl.codegen.cuda.nvrtc import compile_here

    while True:
        try:
            code, compute_capability, options = pickle.load(questions)
        except EOFError:
            return
        answer: Any
        try:
            answer = compile_here(code, compute_capability, options)
        except Exception as error:
            answer = error
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(os.dup(1), "wb") as made:
        os.dup2(2, 1)  # what the compiler prints is no answer
        _serve(sys.stdin.buffer, made)
