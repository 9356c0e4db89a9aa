"""The physical limits of a problem: its operations in registers, its bytes moved with nothing computed."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path

from benchmarks.arrays import aligned
from benchmarks.cpu.peers import Variant
from benchmarks.cpu.peers.gcc import library
from benchmarks.cpu.problems import Problem

SOURCE = Path(__file__).with_suffix(".c")
ARITHMETIC = "multiply-add"
MOVES = ("move", "move, non-temporal")


def variants(name: str, sizes: Mapping[str, int], problem: Problem, threads: int) -> dict[str, Variant]:
    functions = library(SOURCE, ("-ffp-contract=fast",))
    read, written = problem.read_bytes // 4, problem.written_bytes // 4
    arrays = aligned((read,)), aligned((written,)), aligned((1,))
    inputs, out, sink = (ctypes.c_void_p(array.ctypes.data) for array in arrays)
    arrays[0].fill(1)
    count = ctypes.c_int64(problem.flops)
    bytes_moved = inputs, ctypes.c_int64(read), out, ctypes.c_int64(written), sink

    def move(symbol: str) -> Variant:
        # The closure holds the arrays, which nothing else does.
        return Variant(lambda: (functions[symbol](*bytes_moved), arrays))

    found = {ARITHMETIC: Variant(lambda: functions.fma_only(count, sink))}
    return found | dict(zip(MOVES, map(move, ("move_plain", "move_streamed")), strict=True))
