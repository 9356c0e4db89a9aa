"""The process from which workers are forked: it holds the test cases, so that each worker starts at once.

In: a `Setup` on standard input, requests on a socket, with the descriptors of a worker's pipes. Out: worker
processes, and how they ended. It never runs generated code. All workers share the pages of its arrays, which
they can only read; its outputs are untouched pages, which each worker gets anew.

    fork + descriptors (source, sink, report, errors) -> pid          status(pid, wait) -> status or null
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
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from spacedsl.codegen.running.buffers import guarded_buffer
from spacedsl.codegen.running.cases import NotFiniteError
from spacedsl.codegen.running.loaded_cases import load_cases, output_buffers
from spacedsl.codegen.running.messages import Message, read_message, write_message
from spacedsl.codegen.running.worker import Worker
from spacedsl.kernels.backbones import check_recorded
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
    """Else each worker makes those of a corner of the kernel, when it is told of one."""


@dataclass(frozen=True, slots=True, eq=False)
class _Channels:
    """A worker's descriptors."""

    source: int
    sink: int
    report: int
    errors: int


def main() -> None:
    """Arguments: the descriptor of the socket, the number of the process that asks. Workers return from
    `_serve` and end here as well.
    """
    descriptor, parent = map(int, sys.argv[1:])
    die_with_parent(parent)
    server = socket.socket(fileno=descriptor)
    setup: Setup = pickle.load(sys.stdin.buffer)
    path, sizes = str(setup.kernel_path), MappingProxyType(setup.sizes)
    kernel = check_recorded(path, setup.kernel_text, sizes, setup.kernel_kind)
    try:
        cases = load_cases(kernel, setup.seed) if setup.has_cases else []
        outputs = output_buffers(kernel) if setup.has_cases else {}
        flush = guarded_buffer(setup.flush_bytes) if setup.flush_bytes else None
        harness = ctypes.CDLL(str(setup.harness))
    except MemoryError as error:
        _answer(server, {"failure": "memory", "message": str(error)})
        return
    except NotFiniteError as error:
        _answer(server, {"not_finite": error.line})
        return
    _answer(server, {"cases": len(cases)})
    own = os.getpid()
    channels = _serve(server)
    if channels is not None:
        server.close()
        _become_worker(channels, own)
        worker = Worker(kernel, setup.seed, flush, harness)
        worker.enter(kernel, cases, outputs)
        _work(worker, channels, setup.memory_headroom_bytes)


def _serve(server: socket.socket) -> _Channels | None:
    """Answers requests until the socket ends: None then, and in a forked worker its channels."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(server, MOST_BYTES, _DESCRIPTORS)
        if not data:
            return None
        request: Message = json.loads(data)
        if request["op"] == "fork":
            pid = os.fork()
            if pid == 0:
                return _Channels(*descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            _answer(server, {"number": request["number"], "pid": pid})
        else:
            pid, status = os.waitpid(request["pid"], 0 if request["wait"] else os.WNOHANG)
            code = os.waitstatus_to_exitcode(status) if pid else None
            _answer(server, {"number": request["number"], "status": code})


def _answer(server: socket.socket, message: Message) -> None:
    server.send(json.dumps(message).encode())


# ---- In the worker -----------------------------------------------------------------------------------------


def _become_worker(channels: _Channels, server: int) -> None:
    """A process group of its own, that ends with the server; output goes to the file of errors."""
    os.setsid()
    die_with_parent(server)
    Path("/proc/self/oom_score_adj").write_text(_OUT_OF_MEMORY_SCORE, encoding="ascii")
    for descriptor in (1, 2):
        os.dup2(channels.errors, descriptor)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _work(worker: Worker, channels: _Channels, headroom_bytes: int) -> None:
    limit = _address_space_bytes() + headroom_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    worker.harness.harness_watch(channels.report)
    write_message(channels.sink, {"memory_limit_bytes": limit})
    with os.fdopen(channels.source, "rb") as stream:
        while (message := read_message(stream.read)) is not None:
            write_message(channels.sink, worker.answer(message))


def _address_space_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * mmap.PAGESIZE


if __name__ == "__main__":
    main()
