"""Processes that work for another one, which may be ended at any time: they end with it.

In: modules to run, or nothing where a process is forked. Out: processes, and an arrangement with the system.
What processes do is not known here.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG

_starter = ThreadPoolExecutor(1, "starter of processes")
"""A thread that ends when the process does."""


def _renew() -> None:
    global _starter  # noqa: PLW0603 - a fork has none of the threads of the other process
    _starter = ThreadPoolExecutor(1, "starter of processes")


os.register_at_fork(after_in_child=_renew)


def start_module(module: str, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """`python -m module arguments`, then the number of this process, for `die_with_parent`.

    Any thread may ask for it: one that ends before its process would take what it has started along. Modules
    are not looked for in the working folder. `options` are those of `subprocess.Popen`.
    """

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", module, *arguments, str(os.getpid())]
        return subprocess.Popen(command, **options)

    is_lasting = threading.current_thread() is threading.main_thread()
    return start() if is_lasting else _starter.submit(start).result()


def die_with_parent(parent: int) -> None:
    """Whatever ends the parent, this process is killed then: else it would go on, and hold its locks.

    `parent`: its number, which another process has once it has ended. The system goes by the thread that has
    started this process.
    """
    libc: Any = ctypes.CDLL(None)
    libc.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit()
