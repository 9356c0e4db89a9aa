"""The processes in which generated code runs: a server that holds the test cases, and workers.

In: a kernel, how many bytes displace the caches, options. Out: a server and a worker that are alive. A worker
is replaced after every failure, since its memory may be corrupt. What is run there is for whoever asks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from spacedsl.codegen.c.build import find_compiler
from spacedsl.codegen.checks import finite
from spacedsl.codegen.lack import EnvironmentLack
from spacedsl.codegen.running.fork_server import Setup
from spacedsl.codegen.running.harness import harness_library
from spacedsl.codegen.running.measurement import Options
from spacedsl.codegen.running.memory import check_memory, scratch_bytes
from spacedsl.codegen.running.process import ForkServer, WorkerFailure, WorkerProcess
from spacedsl.codegen.scratch import scratch_folder
from spacedsl.diagnostics import DiagnosticError
from spacedsl.kernels.backbones import MeasurableKernel

UNTOLD_S = 2.0
"""Of waiting, in which nobody wonders."""


def unheard(_: object) -> None:
    """Takes what nobody wants to hear."""


@dataclass(slots=True, eq=False)
class Workers:
    kernel: MeasurableKernel
    flush_bytes: int
    """Of an array whose reading displaces the caches before a sample; 0 for warm runs."""
    options: Options
    has_cases: bool = True
    """Else workers are those of corners of the kernel (`corner_workers.py`)."""
    tell: Callable[[str], None] = unheard
    """Hears what takes long."""
    _turn: threading.Lock = field(default_factory=threading.Lock, init=False)
    _server: ForkServer | None = field(default=None, init=False)
    _worker: WorkerProcess | None = field(default=None, init=False)
    _kept: ExitStack = field(default_factory=ExitStack, init=False)
    """What the server needs as long as there is one."""

    def ready(self) -> tuple[ForkServer, WorkerProcess]:
        """Both alive; after `close` and after a death they are started again.

        Raises `EnvironmentLack` without a compiler, `TooLargeError` without enough memory, `DiagnosticError`
        for a kernel whose results are not finite.
        """
        server = self.server()
        if self._worker is not None and not self._worker.is_alive:
            self.drop()
        if self._worker is None:
            self._worker = started(server)
        return server, self._worker

    def begin(self) -> None:
        """Has a server begin to make its cases, which `ready` waits for.

        Raises `EnvironmentLack` without a compiler, `TooLargeError` without enough memory.
        """
        with self._turn:
            self._begun()

    def server(self) -> ForkServer:
        """It alone; raises what `ready` does."""
        with self._turn:
            server = self._begun()
            try:
                if not server.is_ready(within_s=UNTOLD_S):
                    self.tell("making the test cases")
                with finite(self.kernel):
                    _ = server.cases
            except WorkerFailure as error:
                self.close()
                raise _not_started(error) from None
            except DiagnosticError:
                self.close()
                raise
            return server

    def _begun(self) -> ForkServer:
        if self._server is None or not self._server.is_alive:
            self.close()
            if self.has_cases:
                check_memory(self.kernel, self.flush_bytes)
            self._server = ForkServer.started(self._setup())
        return self._server

    def drop(self) -> None:
        """Ends the worker, whatever it does."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def close(self) -> None:
        self.drop()
        if self._server is not None:
            self._server.close()
            self._server = None
        self._kept.close()

    def _setup(self) -> Setup:
        # The server loads what lies in the folder, once it has its cases.
        folder = self._kept.enter_context(scratch_folder())
        return Setup(
            kernel_text=self.kernel.text,
            kernel_path=self.kernel.path,
            kernel_kind=self.kernel.kind,
            sizes=dict(self.kernel.sizes),
            seed=self.options.seed,
            harness=harness_library(self.kernel, find_compiler(), folder),
            flush_bytes=self.flush_bytes,
            memory_headroom_bytes=self.options.memory_headroom_bytes + scratch_bytes(self.kernel),
            has_cases=self.has_cases,
        )


def started(server: ForkServer) -> WorkerProcess:
    """A worker of a server; raises `EnvironmentLack`."""
    try:
        return WorkerProcess(server)
    except WorkerFailure as error:
        raise _not_started(error) from None


def _not_started(error: WorkerFailure) -> EnvironmentLack:
    return EnvironmentLack(f"a worker process cannot be started: {error.message}")
