"""The other end of a worker process: starts it, speaks with it, and says how it ended.

In: a setup, then messages. Out: answers, or a `WorkerFailure` when the process crashed, hung, ran out of
memory or was killed. After a failure the process is gone, with its whole process group.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

from spacedsl.codegen.worker import Message, read_message, write_message
from spacedsl.kernels.evaluation import Failure

_MEMORY_IS_SHORT = 0.97
"""Part of the limit on the address space from which on a crash is put down to it."""

_KILLED_BY_OTHERS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
_START_TIMEOUT_S = 300.0
_MESSAGE_CHARACTERS = 2000


class WorkerFailure(Exception):  # noqa: N818 (named after what it carries)
    """What became of a request: the class of the failure and a message."""

    def __init__(self, failure: Failure, message: str) -> None:
        super().__init__(message)
        self.failure = failure
        self.message = message


class WorkerProcess:
    """One worker. `descriptor` is the file of test cases that it reads."""

    def __init__(self, setup: Message, descriptor: int) -> None:
        read_end, self._sink = os.pipe()
        self._source, write_end = os.pipe()
        self._report, report_end = os.pipe()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "spacedsl.codegen.worker", *map(str, (read_end, write_end, descriptor))],
            stdin=subprocess.DEVNULL,
            stdout=self._errors,
            stderr=self._errors,
            pass_fds=(read_end, write_end, report_end, descriptor),
            start_new_session=True,
            # NumPy's own threads have nothing to do here.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        for descriptor_ in (read_end, write_end, report_end):
            os.close(descriptor_)
        self._limit_bytes = 0
        try:
            answer = self._ask({**setup, "report_descriptor": report_end}, _START_TIMEOUT_S)
        except WorkerFailure:
            self.close()
            raise
        self._limit_bytes = answer["memory_limit_bytes"]

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def request(self, op: str, timeout_s: float, **arguments: Any) -> Message:
        """The answer; raises `WorkerFailure` where there is none in time or it tells of a failure."""
        return self._ask({"op": op, **arguments}, timeout_s)

    def close(self) -> None:
        """Ends the process and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for descriptor in (self._sink, self._source, self._report):
            os.close(descriptor)
        self._errors.close()

    def _ask(self, message: Message, timeout_s: float) -> Message:
        deadline = time.monotonic() + timeout_s
        try:
            write_message(self._sink, message)
            answer = read_message(lambda count: self._read(count, deadline))
        except BrokenPipeError:
            answer = None
        except TimeoutError:
            self._kill()
            raise WorkerFailure(Failure.RUN_TIMEOUT, f"killed after {timeout_s:.3g} s") from None
        if answer is None:
            raise self._post_mortem()
        if "failure" in answer:
            raise WorkerFailure(Failure(answer["failure"]), answer["message"])
        return answer

    def _read(self, count: int, deadline: float) -> bytes:
        """`count` bytes, or fewer at the end of the pipe; raises `TimeoutError` at the deadline."""
        data = b""
        while len(data) < count:
            ready, _, _ = select.select([self._source], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            part = os.read(self._source, count - len(data))
            if not part:
                break
            data += part
        return data

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _post_mortem(self) -> WorkerFailure:
        """Why the pipe ended."""
        status = self.process.wait()
        words = self._last_words()
        if status >= 0:
            return WorkerFailure(Failure.CRASH, f"the worker ended with status {status}{words}")
        name = signal.Signals(-status).name
        if -status in _KILLED_BY_OTHERS:
            return WorkerFailure(Failure.WORKER_LOST, f"the worker was killed from outside ({name})")
        used_bytes = self._reported_bytes()
        if used_bytes >= _MEMORY_IS_SHORT * self._limit_bytes > 0:
            return WorkerFailure(
                Failure.MEMORY, f"{name} with {used_bytes >> 20} MiB of address space in use"
            )
        return WorkerFailure(Failure.CRASH, f"{name}{words}")

    def _reported_bytes(self) -> int:
        """The address space in use when a crash was reported; 0 without a report."""
        ready, _, _ = select.select([self._report], [], [], 0)
        fields = os.read(self._report, 4096).split() if ready else []
        return int(fields[1]) * mmap.PAGESIZE if len(fields) > 1 else 0

    def _last_words(self) -> str:
        self._errors.seek(0)
        text = self._errors.read().decode(errors="replace").strip()
        return f": {text[-_MESSAGE_CHARACTERS:]}" if text else ""
