"""Workers for corners of a kernel, each for one use: test cases made for a corner serve all of them.

In: a kernel, options, then parts of the kernel. Out: workers with the cases of these. A part has a server of
its own (`fork_server.py`), which is kept for who asks for the same part again.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from spacedsl.codegen.checks import Part
from spacedsl.codegen.running.measurement import Options
from spacedsl.codegen.running.process import ForkServer, WorkerProcess
from spacedsl.codegen.running.workers import Workers, started
from spacedsl.kernels.backbones import MeasurableKernel

KEPT = 16
"""Servers that nobody uses at the moment."""


@dataclass(slots=True, eq=False)
class _Corner:
    key: str
    server: ForkServer
    users: int = 0


@dataclass(slots=True, eq=False)
class CornerWorkers:
    """For any number of threads."""

    kernel: MeasurableKernel
    options: Options
    _workers: Workers = field(init=False)
    _corners: dict[str, _Corner] = field(default_factory=dict, init=False)
    """By the part of the kernel, those that were used last at the end."""
    _turn: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self._workers = Workers(self.kernel, 0, self.options, has_cases=False)

    @contextmanager
    def fresh(self, part: Part) -> Iterator[tuple[WorkerProcess, int]]:
        """A worker, and how many cases there are.

        Raises what `Workers.ready` does; `NotFiniteError` where the results of the corner are no numbers,
        and `WorkerFailure` where its cases cannot be made.
        """
        corner = self._taken(part)
        try:
            cases = corner.server.cases
            worker = started(corner.server)
            try:
                yield worker, cases
            finally:
                worker.close()
        finally:
            self._give_back(corner)

    def close(self) -> None:
        with self._turn:
            for corner in self._corners.values():
                corner.server.close()
            self._corners.clear()
            self._workers.close()

    def _taken(self, part: Part) -> _Corner:
        key = json.dumps(part, sort_keys=True)
        with self._turn:
            corner = self._corners.pop(key, None)
            if corner is not None and not corner.server.is_alive:
                self._leave(corner)
                corner = None
            corner = corner or _Corner(key, self._workers.server().corner(part))
            self._corners[key] = corner
            corner.users += 1
            return corner

    def _give_back(self, corner: _Corner) -> None:
        with self._turn:
            corner.users -= 1
            if self._corners.get(corner.key) is corner and not corner.server.is_alive:
                del self._corners[corner.key]
            if self._corners.get(corner.key) is not corner:
                self._leave(corner)
            idle = [each for each in self._corners.values() if not each.users]
            for each in idle[: max(0, len(idle) - KEPT)]:
                del self._corners[each.key]
                self._leave(each)

    def _leave(self, corner: _Corner) -> None:
        """One that is taken no more is closed when it has no users."""
        if not corner.users:
            corner.server.close()
