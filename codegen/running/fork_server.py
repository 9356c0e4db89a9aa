"""The process from which workers are forked: it holds the test cases, so that each worker starts at once.

In: a `Setup` on standard input, requests on a socket, with the descriptors of a worker's pipes. Out: worker
processes, and how they ended. It never runs generated code. All workers share the pages of its arrays, which
they can only read; its outputs are untouched pages, which each worker gets anew. For a corner of the kernel
it forks another server, whose requests come on a socket of their own.

    fork + descriptors (source, sink, report, errors) -> pid          status(pid, wait) -> status or null
    corner(part) + descriptors (socket, errors) -> pid
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import pickle
import resource
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from spacedsl.codegen.checks import Part, checks
from spacedsl.codegen.running.buffers import TensorBuffer, guarded_buffer
from spacedsl.codegen.running.cases import NotFiniteError
from spacedsl.codegen.running.loaded_cases import LoadedCase, load_cases, output_buffers
from spacedsl.codegen.running.messages import Message, read_message, write_message
from spacedsl.codegen.running.worker import Worker
from spacedsl.kernels.backbones import MeasurableKernel, check_recorded
from spacedsl.kernels.kernel_file import Kind
from spacedsl.processes import die_with_parent

MOST_BYTES = 1 << 16
"""Of a request or an answer."""
_DESCRIPTORS = 4
_OUT_OF_MEMORY_SCORE = "500"
"""Added for workers: where memory ends, the kernel of the machine shall take them and not the server."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What all workers of an evaluator have in common: plain values, to be pickled."""

    kernel_text: str
    kernel_path: Path
    kernel_kind: Kind
    sizes: dict[str, int]
    seed: int
    """Of the values of the test cases."""
    harness: Path
    flush_bytes: int
    """Of an array whose reading displaces the caches before a sample; 0 for warm runs."""
    memory_headroom_bytes: int
    has_cases: bool = True
    """Else only servers for corners of the kernel have any."""


@dataclass(frozen=True, slots=True, eq=False)
class _Channels:
    """A worker's descriptors."""

    source: int
    sink: int
    report: int
    errors: int


@dataclass(frozen=True, slots=True, eq=False)
class _Corner:
    """What a server for a corner is told of, and where it is asked."""

    part: Part
    requests: socket.socket
    errors: int


Cases = tuple[Sequence[LoadedCase], Mapping[str, TensorBuffer]]
"""With arrays for outputs."""


def main() -> None:
    """Arguments: the descriptor of the socket, the number of the process that asks. What is forked returns
    from `_serve`, and workers end here as well.
    """
    descriptor, parent = map(int, sys.argv[1:])
    die_with_parent(parent)
    requests = socket.socket(fileno=descriptor)
    setup: Setup = pickle.load(sys.stdin.buffer)
    path, sizes = str(setup.kernel_path), MappingProxyType(setup.sizes)
    kernel = check_recorded(path, setup.kernel_text, sizes, setup.kernel_kind)
    harness = ctypes.CDLL(str(setup.harness))
    try:
        flush = guarded_buffer(setup.flush_bytes) if setup.flush_bytes else None
    except MemoryError as error:
        _answer(requests, _memory(error))
        return
    cases = _made(requests, kernel, setup) if setup.has_cases else _none(requests)
    forked = None if cases is None else _serve(requests)
    while isinstance(forked, _Corner):
        requests.close()
        requests = forked.requests
        _confine(forked.errors, setup.memory_headroom_bytes)
        kernel = checks(kernel).corner(kernel, forked.part)
        cases = _made(requests, kernel, setup, is_brief=True)
        forked = None if cases is None else _serve(requests)
    if cases is not None and forked is not None:
        requests.close()
        os.setsid()
        Path("/proc/self/oom_score_adj").write_text(_OUT_OF_MEMORY_SCORE, encoding="ascii")
        _confine(forked.errors, setup.memory_headroom_bytes)
        _work(Worker(kernel, *cases, flush, harness), forked)


def _made(
    requests: socket.socket, kernel: MeasurableKernel, setup: Setup, *, is_brief: bool = False
) -> Cases | None:
    """The cases of a kernel; None where there are none, which is answered."""
    try:
        cases = load_cases(kernel, setup.seed, is_brief=is_brief)
        outputs = output_buffers(kernel)
    except MemoryError as error:
        _answer(requests, _memory(error))
        return None
    except NotFiniteError as error:
        _answer(requests, {"not_finite": error.line})
        return None
    _answer(requests, {"cases": len(cases)})
    return cases, outputs


def _none(requests: socket.socket) -> Cases:
    _answer(requests, {"cases": 0})
    return (), {}


def _memory(error: MemoryError) -> Message:
    return {"failure": "memory", "message": str(error)}


def _serve(requests: socket.socket) -> _Channels | _Corner | None:
    """Answers requests until the socket ends: None then, and in a forked process what it is for."""
    own = os.getpid()
    while True:
        data, descriptors, _, _ = socket.recv_fds(requests, MOST_BYTES, _DESCRIPTORS)
        if not data:
            return None
        request: Message = json.loads(data)
        if request["op"] == "status":
            pid, status = os.waitpid(request["pid"], 0 if request["wait"] else os.WNOHANG)
            code = os.waitstatus_to_exitcode(status) if pid else None
            _answer(requests, {"number": request["number"], "status": code})
            continue
        pid = os.fork()
        if pid == 0:
            die_with_parent(own)
            if request["op"] == "fork":
                return _Channels(*descriptors)
            return _Corner(request["part"], socket.socket(fileno=descriptors[0]), descriptors[1])
        for descriptor in descriptors:
            os.close(descriptor)
        _answer(requests, {"number": request["number"], "pid": pid})


def _answer(server: socket.socket, message: Message) -> None:
    server.send(json.dumps(message).encode())


# ---- In what is forked ------------------------------------------------------------------------------------


def _confine(errors: int, headroom_bytes: int) -> None:
    """Output goes to the file of errors, and memory is limited."""
    for descriptor in (1, 2):
        os.dup2(errors, descriptor)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_address_space_bytes() + headroom_bytes, most))


def _work(worker: Worker, channels: _Channels) -> None:
    worker.harness.harness_watch(channels.report)
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    write_message(channels.sink, {"memory_limit_bytes": limit})
    with os.fdopen(channels.source, "rb") as stream:
        while (message := read_message(stream.read)) is not None:
            write_message(channels.sink, worker.answer(message))


def _address_space_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * mmap.PAGESIZE


if __name__ == "__main__":
    main()
