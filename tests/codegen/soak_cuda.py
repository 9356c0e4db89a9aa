"""Tries random implementations for GPUs for long: `python -m tests.codegen.soak_cuda [SEED [NAMES]]`.

The kernels of the library take turns, in their own sizes. Each implementation is compiled for the GPU, and
its corner runs as a twin in every order of threads; every few rounds that is under sanitizers, too. Out: how
many of each kernel were right, and what became of the others; for the first that is wrong its kernel, seed
and number, and exit status 1. `SOAK_MINUTES` as for the other soaks.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path

from spacedsl.codegen.build import BuildError
from spacedsl.codegen.cuda.checking import EASILY_EXECUTED, executed
from spacedsl.codegen.cuda.corners import PARTS_OF_TILES, WHOLE_TILES, on_corner
from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.cuda.nvrtc import compile_cubin
from spacedsl.codegen.cuda.printer import print_cuda
from spacedsl.codegen.implementation import CandidateImplementation
from spacedsl.codegen.program import Program
from spacedsl.codegen.verify import verify
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.kernels.kernel_file import KernelFile, load_kernel
from tests.codegen.grids import device, random_candidates, space_of, twins
from tests.codegen.running import brief_case
from tests.codegen.sanitized import FLAGS, complaints, preloaded
from tests.kernels.library_formulas import DIRECT
from tests.kernels.samples import LIBRARY

BATCH = 10
SANITIZED_EVERY = 5
"""Rounds."""
ORDERS = (0, 1, 3)


@cache
def problem(name: str) -> tuple[KernelFile, Instance]:
    kernel = load_kernel(LIBRARY / f"{name}.yaml", {}, "gpu")
    return kernel, space_of(kernel)


class WrongError(Exception):
    """What is wrong with an implementation of a batch."""


def corners(kernel: KernelFile, candidate: Candidate) -> Iterator[tuple[KernelFile, Program]]:
    """Those that a CPU runs easily, the larger one first."""
    for kept in (WHOLE_TILES, PARTS_OF_TILES):
        smaller, made = on_corner(kernel, candidate, kept)
        program = verify(lower_grids(smaller.backbone, made))
        if executed(program.body) <= EASILY_EXECUTED:
            yield smaller, program


def attempt(name: str, seed: int, *, is_sanitized: bool, met: Counter[str]) -> None:
    """A batch of implementations of a kernel; raises `WrongError`."""
    kernel, instance = problem(name)
    programs: list[Program] = []
    calls = []
    for number, candidate in enumerate(random_candidates(instance, BATCH, seed)):
        try:
            whole = verify(lower_grids(kernel.backbone, CandidateImplementation(candidate)))
            cubin = compile_cubin(print_cuda(whole), device().compute_capability)
        except BuildError as error:
            if "uses too much shared data" not in str(error):
                raise WrongError(f"program_{number} is not compiled: {error}") from None
            met["too much shared memory"] += 1
            continue
        met["spilling"] += any(r.spilled_bytes for r in cubin.resources.values())
        found = next(corners(kernel, candidate), None)
        if found is None:
            met["too large to run"] += 1
            continue
        calls.append((f"program_{len(programs)}", found[0], brief_case(found[0])))
        programs.append(found[1])
    if not programs:
        return
    with tempfile.TemporaryDirectory() as folder:
        flags = FLAGS if is_sanitized else ("-O0", "-DTWIN_STACK_BYTES=(256<<10)")
        library = twins(programs, Path(folder), *flags)
        wrong = complaints(library, calls, ORDERS, is_sanitized=is_sanitized)
    if wrong:
        raise WrongError(wrong)
    met["sanitized"] += is_sanitized * len(programs)
    met["right"] += len(programs)


def main() -> int:
    first = int(sys.argv[1]) if len(sys.argv) > 1 else random.randrange(1 << 32)
    names = sys.argv[2:] or list(DIRECT)
    until = time.monotonic() + 60 * float(os.environ.get("SOAK_MINUTES", "5"))
    met: dict[str, Counter[str]] = {name: Counter() for name in names}
    for turn in count():
        for name in names:
            if time.monotonic() > until:
                break
            print(f"\r{name} {first + turn}            ", end="", file=sys.stderr, flush=True)
            is_sanitized = turn % SANITIZED_EVERY == 0 and preloaded() is not None
            try:
                attempt(name, first + turn, is_sanitized=is_sanitized, met=met[name])
            except WrongError as error:
                print(f"\n{name}, seed {first + turn}: {error}")
                return 1
        else:
            continue
        break
    print(file=sys.stderr)
    total: Counter[str] = sum(met.values(), Counter())
    for name, counts in {**met, "all": total}.items():
        print(f"{name:<24}", ", ".join(f"{what} {n}" for what, n in counts.most_common()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
