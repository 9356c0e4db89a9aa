"""How fast a parallel loop can start at best.

In: a compiler and CPUs. Out: ns between the call and its end, of what `runtime/peaks_start.c` prints, with a
margin. It runs the pool of threads that candidates run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from spacedsl.codegen.build import Compiler
from spacedsl.codegen.peaks import RUNTIME, SHARED_MARGIN, output
from spacedsl.codegen.processor import Vectors

START_SOURCE = RUNTIME / "peaks_start.c"
POOL_SOURCE = RUNTIME / "pool.h"


def measure_start(compiler: Compiler, vectors: Vectors, cpus: Sequence[int], folder: Path) -> float | None:
    """Builds and runs `peaks_start.c`: the least ns of a parallel loop; None on one CPU."""
    if len(cpus) < 2:
        return None
    best = min(
        float(line.split()[1])
        for line in output(START_SOURCE, compiler, vectors, folder, [], _with_pool(len(cpus)))
    )
    return round(best / SHARED_MARGIN, 1)


def _with_pool(threads: int) -> str:
    """What stands before a program that runs parallel loops, as in candidates."""
    pool = POOL_SOURCE.read_text(encoding="utf-8")
    return f"#define _GNU_SOURCE\n#define POOL_THREADS {threads}\n#include <stdint.h>\n{pool}\n"
