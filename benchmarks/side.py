"""One side of a comparison: a process that calls one function of one library when it is asked to.

In: arguments (library, symbol, kernel file, sizes as JSON), then numbers of milliseconds, one a line. Out: a
line of JSON: whether the result is right; then, for each number, samples of wall time and of CPU time of all
threads, in ns a call, taken for about that long.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from pathlib import Path

import numpy as np

from spacedsl.kernels.kernel_file import load_kernel

_ALIGNMENT = 4096


def aligned(elements: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """An array that begins with a page."""
    spare = np.empty(elements + _ALIGNMENT // 4, np.float32)
    start = -spare.ctypes.data % _ALIGNMENT // 4
    return spare[start : start + elements]


def main(library: str, symbol: str, kernel_path: str, sizes: str) -> None:
    kernel = load_kernel(Path(kernel_path), json.loads(sizes)).backbone
    random = np.random.default_rng(0)
    arrays = {}
    for tensor in kernel.tensors:
        arrays[tensor.name] = aligned(tensor.elements)
        arrays[tensor.name][:] = 0 if tensor.is_output else random.uniform(-1, 1, tensor.elements)
    function = ctypes.CDLL(library)[symbol]
    function.restype = None
    arguments = [ctypes.c_void_p(a.ctypes.data) for a in arrays.values()]
    scalars = [ctypes.c_float(2.5) for _ in kernel.parameters]
    function(*arguments, *scalars)
    shaped = {t.name: arrays[t.name].reshape(t.shape) for t in kernel.tensors}
    if kernel.name == "matmul":
        is_right = np.allclose(shaped["C"], shaped["A"] @ shaped["B"], rtol=1e-4, atol=1e-3)
    else:
        is_right = np.allclose(shaped["z"], np.float32(2.5) * shaped["x"] + shaped["y"], rtol=1e-5, atol=1e-5)
    print(json.dumps(bool(is_right)), flush=True)
    # The pools have seen all CPUs and keep off the first: it is the calling thread's.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for line in sys.stdin:
        deadline = time.perf_counter_ns() + int(line) * 1_000_000
        samples: list[tuple[int, int]] = []
        while time.perf_counter_ns() < deadline or not samples:
            cpu, wall = time.process_time_ns(), time.perf_counter_ns()
            function(*arguments, *scalars)
            samples.append((time.perf_counter_ns() - wall, time.process_time_ns() - cpu))
        print(json.dumps(samples), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
