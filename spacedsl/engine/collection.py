"""Work that makes much that lives on, without looking for garbage in it meanwhile.

Python looks for unreachable cycles each time that a quarter more objects are alive than before: while an
instance is made that is a walk through everything that the process holds, several times, and finds nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused() -> Iterator[None]:
    """No garbage is collected inside, as far as this call decides; afterwards all is as it was before.

    Objects without references are freed at once all the same: only cycles wait.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
