"""How fast a parallel loop can start at best.

In: a compiler and CPUs. Out: ns between the call and its end, of what `start_peaks.c` prints, with a
margin. It runs the pool of threads that candidates run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from spacedsl.codegen.c.build import Compiler
from spacedsl.codegen.c.printer import POOL
from spacedsl.codegen.machine.peaks import SHARED_MARGIN, output
from spacedsl.codegen.machine.processor import Vectors

START_SOURCE = Path(__file__).with_suffix(".c")


def measure_start(compiler: Compiler, vectors: Vectors, cpus: Sequence[int], folder: Path) -> float | None:
    """Builds and runs `start_peaks.c`: the least ns of a parallel loop; None on one CPU."""
    if len(cpus) < 2:
        return None
    best = min(
        float(line.split()[1])
        for line in output(START_SOURCE, compiler, vectors, folder, [], _with_pool(len(cpus)))
    )
    return round(best / SHARED_MARGIN, 1)


def _with_pool(threads: int) -> str:
    """What stands before a program that runs parallel loops, as in candidates."""
    pool = POOL.read_text(encoding="utf-8")
    return f"#define _GNU_SOURCE\n#define POOL_THREADS {threads}\n#include <stdint.h>\n{pool}\n"
