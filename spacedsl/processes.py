"""What processes that others are forked for have in common: they end with the one that they work for.

In: nothing. Out: an arrangement with the system. What processes do is not known here.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Any

_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


def die_with_parent(parent: int) -> None:
    """Whatever ends the parent, this process is killed then: else it would go on, and hold its locks.

    `parent`: its number, which another process has once it has ended.
    """
    libc: Any = ctypes.CDLL(None)
    libc.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit()
