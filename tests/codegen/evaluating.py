"""What tests of evaluations share: a product, its right code, and code with one change."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from spacedsl.codegen.c.printer import print_c
from spacedsl.codegen.running.measurement import Options
from spacedsl.kernels.evaluation import Lowered, Outcome
from spacedsl.kernels.kernel_file import KernelFile
from tests.codegen import scripts
from tests.codegen.kernels import AXPY, matmul
from tests.codegen.listings import MATMUL_TILED

LOCK = Path(tempfile.gettempdir(), f"spacedsl-test-{os.getpid()}.lock")
"""Tests make no claims about time that another measurement would spoil: they do not wait for the machine."""
OPTIONS = Options(budget_s=0.05, memory_headroom_bytes=512 << 20, lock=LOCK)
KERNEL = matmul(32, 64, 9, "{i: [[2], [8]], j: [[2], [16]], p: []}")


def lowered(kernel: KernelFile, text: str) -> Lowered:
    code = print_c(scripts.scripted(kernel, text), 2)
    return Lowered(f"{abs(hash(code)):016x}", code)


RIGHT = lowered(KERNEL, MATMUL_TILED.format(i0=2, i1=2, j0=2, k=9))
COLD_AXPY = AXPY.format(n=480, tiling="{i: [[10], [16]]}") + "cache: cold\n"
ENTRY = "void matmul(const float *restrict A, const float *restrict B, float *restrict C) {\n"


def changed(old: str, new: str) -> Lowered:
    """The right code with one change."""
    assert old in RIGHT.code
    return Lowered(RIGHT.digest, RIGHT.code.replace(old, new, 1))


def first(statement: str) -> Lowered:
    """The right code with a statement in front of everything."""
    return changed(ENTRY, f"{ENTRY}{statement}\n")


def last(statement: str) -> Lowered:
    code = RIGHT.code.rstrip()
    assert code.endswith("}")
    return Lowered(RIGHT.digest, f"{code[:-1]}{statement}\n}}\n")


def assert_times(outcome: Outcome) -> None:
    assert outcome.failure is None, outcome.message
    assert outcome.timing is not None
    assert 0 < outcome.timing.low_ns <= outcome.timing.time_ns <= outcome.timing.high_ns


def ends(pid: int) -> bool:
    """Whether a process that nobody may have waited for is soon no more, or no more than an entry."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.01)
    return False
