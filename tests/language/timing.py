"""A limit on the processor time of a block, so that a test of what must be quick fails and does not hang."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises `TimeoutError` in the block after so much processor time: other load does not count, nor does
    what it takes to find out which of all objects of the tests before are still in use.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"more than {seconds} s")

    before, is_collecting = signal.signal(signal.SIGVTALRM, stop), gc.isenabled()
    gc.disable()
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        if is_collecting:
            gc.enable()
