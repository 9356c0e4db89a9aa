"""Banks: how often memory that threads of a warp access together has to be accessed for all of them.

In: the element that each thread begins at, and how wide its access is. Out: *passes*, in each of which every
bank gives a word. So are shared memory and the L1 cache of GPUs from compute capability 5.0 on. Read by the
model of a GPU's time and by its bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

BANKS, BANK_BYTES = 32, 4


def parts(firsts: Sequence[int], width: int, warp: int | None = None) -> list[Sequence[int]]:
    """Of a warp, what is served at a time: a quarter of it for 16 bytes, a half for 8.

    `warp`: its threads, where these are some of them.
    """
    part = max(1, (warp or len(firsts)) * BANK_BYTES // max(width, BANK_BYTES))
    return [firsts[begin : begin + part] for begin in range(0, len(firsts), part)]


def passes(
    firsts: Sequence[int], width: int, nbytes: int, *, is_shared_load: bool = False, warp: int | None = None
) -> int:
    """Times that memory with banks is accessed for a warp: each bank gives one word at a time.

    Wide accesses are served for a part of the warp at a time. Of loads from shared memory, two of these are
    served together where each needs 64 bytes at most (measured on an H200). `nbytes`: of an element.
    """
    served = parts(firsts, width, warp)
    if not is_shared_load or len(served) % 2:
        return sum(conflicts(each, width, nbytes) for each in served)
    total = 0
    for one, other in zip(served[::2], served[1::2], strict=True):
        are_few = all(len(set(each)) * width <= BANKS * BANK_BYTES // 2 for each in (one, other))
        together = [[*one, *other]] if are_few else [one, other]
        total += sum(conflicts(each, width, nbytes) for each in together)
    return total


def conflicts(firsts: Sequence[int], width: int, nbytes: int) -> int:
    """The most words of one bank that these threads need at a time."""
    words = {
        word
        for first in firsts
        for word in range(first * nbytes // BANK_BYTES, -(-(first * nbytes + width) // BANK_BYTES))
    }
    return max(Counter(word % BANKS for word in words).values())
