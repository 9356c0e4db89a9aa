"""Room for operands and results that begins with a page, as all contenders of a contest get it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

PAGE_BYTES = 4096


def aligned(shape: Sequence[int], dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """Zeros."""
    nbytes = math.prod(shape) * np.dtype(dtype).itemsize
    spare = np.zeros(nbytes + PAGE_BYTES, np.uint8)
    start = -spare.ctypes.data % PAGE_BYTES
    return spare[start : start + nbytes].view(dtype).reshape(shape)
