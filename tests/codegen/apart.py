"""Code that may end its process runs in one of its own.

In: what says something, line by line. Out: all that was said, and how the process ended.
"""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import time
from collections.abc import Callable, Iterable

ENDED = "\nended\n"
"""Behind the last line of what has come to its end."""


def said_apart(work: Callable[[], Iterable[str]], timeout_s: float = 300.0) -> str:
    """What `work` says, and what its process has to complain of; where that is killed, by which signal.

    It ends with `ENDED` where `work` did.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.dup2(write, 2)
        faulthandler.disable()
        try:
            for line in work():
                os.write(write, line.encode())
            os.write(write, ENDED.encode())
        finally:
            os._exit(0)
    os.close(write)
    parts: list[bytes] = []
    until = time.monotonic() + timeout_s
    while select.select([read], [], [], max(0.0, until - time.monotonic()))[0]:
        if not (part := os.read(read, 1 << 16)):
            break
        parts.append(part)
    else:
        parts.append(b"timed out\n")
        os.kill(child, signal.SIGKILL)
    os.close(read)
    _, status = os.waitpid(child, 0)
    said = b"".join(parts).decode(errors="replace")
    return said + (f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "")
