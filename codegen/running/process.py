"""The other end of a fork server and of its workers: starts them, speaks with them, says how they ended.

In: a setup, then messages. Out: answers, or a `WorkerFailure` when a worker crashed, hung, ran out of
memory or was killed. After a failure the worker is gone, with its whole process group.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import pickle
import select
import signal
import socket
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import IO, Any, Protocol, Self

from spacedsl.codegen.checks import Part
from spacedsl.codegen.running.cases import NotFiniteError
from spacedsl.codegen.running.fork_server import MOST_BYTES, Setup
from spacedsl.codegen.running.messages import Message, read_message, write_message
from spacedsl.kernels.evaluation import Failure
from spacedsl.processes import start_module

_LACKS_MEMORY = "bytes of intermediate values"
"""What implementations say where they get no memory of their own (`c/runtime/scratch.h`)."""

_MEMORY_IS_SHORT = 0.97
"""Part of the limit on the address space from which on a crash is put down to it."""

_KILLED_BY_OTHERS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
_LOST = -signal.SIGKILL
"""How a process ends whose server has ended."""

_SERVER_START_TIMEOUT_S = 600.0
"""The reference of a large kernel takes its time."""
_CORNER_TIMEOUT_S = 60.0
_WORKER_START_TIMEOUT_S = 60.0
_MESSAGE_CHARACTERS = 2000


class WorkerFailure(Exception):  # noqa: N818 (named after what it carries)
    """What became of a request: the class of the failure and a message."""

    def __init__(self, failure: Failure, message: str) -> None:
        super().__init__(message)
        self.failure = failure
        self.message = message


class _Process(Protocol):
    """As much of `subprocess.Popen` as there is of a forked process, too."""

    pid: int

    def poll(self) -> int | None: ...

    def wait(self) -> int: ...

    def kill(self) -> None: ...


class ForkServer:
    """One fork server, for any number of threads that each have workers of their own.

    It makes its cases while the caller does something else.
    """

    def __init__(self, process: _Process, requests: socket.socket, errors: IO[bytes], limit_s: float) -> None:
        self._process = process
        self._socket = requests
        self._errors = errors
        self._asked = 0
        self._turn = threading.Lock()
        self._cases: int | None = None
        self._failure: WorkerFailure | NotFiniteError | None = None
        self._limit_s = limit_s
        self._waits_until_s = time.monotonic() + limit_s

    @classmethod
    def started(cls, setup: Setup) -> Self:
        requests, other = _sockets()
        errors = _words()
        process = start_module(
            "spacedsl.codegen.running.fork_server",
            str(other.fileno()),
            stdin=subprocess.PIPE,
            stdout=errors,
            stderr=errors,
            pass_fds=(other.fileno(),),
            start_new_session=True,
            # A process that forks has one thread.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        other.close()
        server = cls(process, requests, errors, _SERVER_START_TIMEOUT_S)
        try:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError), process.stdin as stream:
                pickle.dump(setup, stream)
        except KeyboardInterrupt:
            server.close()
            raise
        return server

    def corner(self, part: Part) -> ForkServer:
        """Another one, with the cases of a corner of the kernel; it ends with this one."""
        requests, other = _sockets()
        errors = _words()
        request = {"op": "corner", "part": part}
        try:
            with other:
                pid: int = self._ask(request, [other.fileno(), errors.fileno()])["pid"]
        except (WorkerFailure, KeyboardInterrupt):
            requests.close()
            errors.close()
            raise
        return ForkServer(_Forked(self, pid), requests, errors, _CORNER_TIMEOUT_S)

    @property
    def cases(self) -> int:
        """How many there are, once they are made.

        Raises `WorkerFailure` where the server cannot be started, `NotFiniteError` for a kernel without any.
        """
        with self._turn:
            if self._failure is not None:
                raise self._failure
            if self._cases is None:
                self._socket.settimeout(max(0.001, self._waits_until_s - time.monotonic()))
                try:
                    self._cases = self._answer()["cases"]
                except (WorkerFailure, NotFiniteError) as error:
                    self._failure = error
                    raise
                self._socket.settimeout(None)
            return self._cases

    def is_ready(self, within_s: float) -> bool:
        """Whether the cases are made before so much time is over, or will never be."""
        return self._cases is not None or bool(select.select([self._socket], [], [], within_s)[0])

    @property
    def is_alive(self) -> bool:
        """Whether it may be asked: also for cases that it may not have made, which says why."""
        if self._cases is None:
            return self._failure is None
        return self._process.poll() is None

    def fork(self, descriptors: list[int]) -> int:
        """The process id of a new worker that has these descriptors."""
        pid: int = self._ask({"op": "fork"}, descriptors)["pid"]
        return pid

    def status(self, pid: int, *, wait: bool) -> int | None:
        """How a worker ended (a signal's number as a negative one); None while it runs."""
        status: int | None = self._ask({"op": "status", "pid": pid, "wait": wait}, [])["status"]
        return status

    def close(self) -> None:
        """Ends the server, and with it its workers."""
        self._process.kill()
        self._process.wait()
        self._socket.close()
        self._errors.close()

    def _ask(self, request: Message, descriptors: list[int]) -> Message:
        """The answer to this request: one to an earlier request, which was interrupted, is dropped."""
        with self._turn:
            self._asked += 1
            with contextlib.suppress(BrokenPipeError):
                data = json.dumps({**request, "number": self._asked}).encode()
                socket.send_fds(self._socket, [data], descriptors)
            while (answer := self._answer())["number"] != self._asked:
                pass
            return answer

    def _answer(self) -> Message:
        try:
            data = self._socket.recv(MOST_BYTES)
        except TimeoutError:
            message = f"no test cases after {self._limit_s:g} s"
            raise WorkerFailure(Failure.WORKER_LOST, message) from None
        except ConnectionResetError:
            data = b""
        if not data:
            was_killed = self._process.wait() == -signal.SIGKILL
            words = (
                ": it was killed, as happens where memory ends" if was_killed else _last_words(self._errors)
            )
            raise WorkerFailure(Failure.WORKER_LOST, f"the server of workers ended{words}")
        answer: Message = json.loads(data)
        if "failure" in answer:
            raise WorkerFailure(Failure(answer["failure"]), answer["message"])
        if "not_finite" in answer:
            raise NotFiniteError(answer["not_finite"])
        return answer


@dataclass(slots=True)
class _Forked:
    """A process that a server has forked, as the server knows it."""

    server: ForkServer
    pid: int
    status: int | None = None

    def poll(self) -> int | None:
        return self._ended(wait=False)

    def wait(self) -> int:
        status = self._ended(wait=True)
        assert status is not None
        return status

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _ended(self, *, wait: bool) -> int | None:
        if self.status is None:
            try:
                self.status = self.server.status(self.pid, wait=wait) if self.server.is_alive else _LOST
            except WorkerFailure:
                self.status = _LOST
        return self.status


class WorkerProcess:
    """One worker of a server."""

    def __init__(self, server: ForkServer) -> None:
        self._server = server
        read_end, self._sink = os.pipe()
        self._source, write_end = os.pipe()
        self._report, report_end = os.pipe()
        self._errors = _words()
        self._status: int | None = None
        self._limit_bytes = 0
        self.pid = 0
        try:
            self.pid = server.fork([read_end, write_end, report_end, self._errors.fileno()])
        finally:
            for descriptor in (read_end, write_end, report_end):
                os.close(descriptor)
            if not self.pid:
                self._close_descriptors()
        try:
            self._limit_bytes = self._receive(_WORKER_START_TIMEOUT_S, "")["memory_limit_bytes"]
        except (WorkerFailure, KeyboardInterrupt):
            self.close()
            raise

    @property
    def is_alive(self) -> bool:
        if self._status is None:
            self._status = self._server.status(self.pid, wait=False)
            if self._status is not None:
                self._kill_group()
        return self._status is None

    def request(self, op: str, timeout_s: float, why: str = "", **arguments: Any) -> Message:
        """The answer; raises `WorkerFailure` where there is none in time or it tells of a failure.

        `why` explains the limit to whoever reads of a time-out.
        """
        with contextlib.suppress(BrokenPipeError):
            write_message(self._sink, {"op": op, **arguments})
        return self._receive(timeout_s, why)

    def close(self) -> None:
        """Ends the process and all that it started."""
        self._end()
        self._close_descriptors()

    def _close_descriptors(self) -> None:
        for descriptor in (self._sink, self._source, self._report):
            os.close(descriptor)
        self._errors.close()

    def _receive(self, timeout_s: float, why: str) -> Message:
        deadline = time.monotonic() + timeout_s
        try:
            answer = read_message(lambda count: self._read(count, deadline))
        except TimeoutError:
            if not self.is_alive:
                # A child of it holds the pipe open.
                raise self._post_mortem() from None
            self._end()
            raise WorkerFailure(Failure.RUN_TIMEOUT, f"stopped after {timeout_s:.3g} s{why}") from None
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

    def _end(self) -> None:
        with contextlib.suppress(WorkerFailure):
            self._wait()

    def _wait(self) -> int:
        """Kills what is left of the process and its group; a process that had ended keeps its status."""
        if self._status is None:
            self._kill_group()
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)  # Just forked, it does not lead its group yet.
            self._status = self._server.status(self.pid, wait=True)
        assert self._status is not None
        return self._status

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def _post_mortem(self) -> WorkerFailure:
        """Why the pipe ended."""
        status = self._wait()
        words = _last_words(self._errors)
        if status >= 0:
            return WorkerFailure(Failure.CRASH, f"the worker ended with status {status}{words}")
        name = signal.Signals(-status).name
        if -status in _KILLED_BY_OTHERS:
            return WorkerFailure(Failure.WORKER_LOST, f"the worker was killed from outside ({name})")
        if _LACKS_MEMORY in words:
            return WorkerFailure(Failure.MEMORY, f"{name}{words}")
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


def _sockets() -> tuple[socket.socket, socket.socket]:
    """Two ends; what is sent is received as a whole."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _words() -> IO[bytes]:
    """A file in memory for what a process writes: it can do so on a full disk, too."""
    return os.fdopen(os.memfd_create("words"), "w+b")


def _last_words(errors: IO[bytes]) -> str:
    """What a process wrote before it ended."""
    errors.seek(0)
    text = errors.read().decode(errors="replace").strip()
    return f": {text[-_MESSAGE_CHARACTERS:]}" if text else ""
