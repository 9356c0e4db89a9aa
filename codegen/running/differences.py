"""Where an array differs from what it should be.

In: two arrays of numbers of one shape, and how far all elements, or each of them, may be apart. Out: words
for the first difference, none where there is none. How large a tolerance has to be is for
`kernels/rounding.py`, and for pipelines `kernels/pipeline/rounding.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_BLOCK_ELEMENTS = 1 << 20


def first_difference(found: Array, expected: Array, tolerance: float | Array) -> str:
    """The first element that is off by more than `tolerance`, and how many are; empty for none.

    An infinite tolerance lets anything pass; where no number is expected, there must be none.
    """
    first, differing = "", 0
    rows = max(1, _BLOCK_ELEMENTS // max(1, found[0].size)) if found.ndim else 1
    starts: Sequence[int] = range(0, found.shape[0], rows) if found.ndim else [0]
    for start in starts:
        part = (slice(start, start + rows),) if found.ndim else ()
        a, b = found[part], expected[part]
        own = tolerance[part] if isinstance(tolerance, np.ndarray) else tolerance
        good = _is_near(a, b, own)
        if bool(np.all(good)):
            continue
        differing += int(np.size(good) - np.count_nonzero(good))
        if not first:
            where = np.unravel_index(int(np.argmin(good)), np.shape(good))
            place = [int(i) + (start if axis == 0 else 0) for axis, i in enumerate(where)]
            first = f"{place} is {a[where]!s}, expected {b[where]!s}"
    return f"{first}; {differing} of {found.size} elements differ" if first else ""


def _is_near(found: Array, expected: Array, tolerance: float | Array) -> Array:
    """Integers of 64 bits are equal or not, and rounded where they are not."""
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(found.astype(np.float64) - expected.astype(np.float64))
        near = (found == expected) | ((tolerance > 0) & (apart <= tolerance)) | np.isinf(tolerance)
    if np.issubdtype(expected.dtype, np.floating):
        near |= np.isnan(found) & np.isnan(expected)
    return np.asarray(near)
