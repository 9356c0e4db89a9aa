"""Tries random schedules of applications for long: `python -m tests.codegen.pipeline.soak [--names A,B] ..`.

Schedule by schedule, the applications in turns, each is lowered, verified, built as it is for users, and
compared with the reference on a case at a small size, until of each application `--count` have passed or time
is over. A record on disk holds how many that are: the next soak goes on where this one ended. Out: a table;
of the first schedule that fails its number, its message and its loops, and exit status 1. Code runs in this
process: where it crashes, the schedule that was named last is the one. With `--target cuda` it is code for
a GPU, whose twin runs in a process of its own; every fifth is compiled as for users, and runs under
sanitizers.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from spacedsl.codegen.c.build import BuildError
from spacedsl.codegen.cuda.nvrtc import compile_cubin
from spacedsl.codegen.cuda.printer import print_cuda
from spacedsl.codegen.pipeline.grids import lower_grids
from spacedsl.codegen.pipeline.lower import lower
from spacedsl.codegen.pipeline.schedule import CandidateDecisions, schedule, text
from spacedsl.codegen.tree.errors import VerificationError
from spacedsl.codegen.tree.parts import statements
from spacedsl.codegen.tree.program import Program
from spacedsl.codegen.tree.verify import verify
from spacedsl.engine.descent import DescentCounts
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from tests.codegen.cuda.grids import ORDERS, device, twins
from tests.codegen.cuda.sanitized import FLAGS, Call, complaints, preloaded
from tests.codegen.cuda.thorough import compiler_options, is_thorough
from tests.codegen.pipeline import on_gpus
from tests.codegen.pipeline.running import compiled_difference
from tests.codegen.pipeline.test_cases import cases_of
from tests.kernels.pipeline.cases import drawn
from tests.kernels.pipeline.test_library import NAMES

VECTOR_BYTES = (16, 32, 64)
MOST_STATEMENTS = 5_000
"""Of a program; what is longer takes its compiler minutes, and is left out."""


def fault(name: str, seed: int) -> str | None:
    """What is wrong with a schedule of an application: empty for nothing, None where it is not tried."""
    file, (case, *_) = cases_of(name)
    candidate = next(drawn(file, 1, seed, DescentCounts()), None)
    if candidate is None:
        return None
    decisions = CandidateDecisions(candidate)
    program = lower(file.backbone, decisions, VECTOR_BYTES[seed % 3])

    def difference(folder: Path) -> str:
        return compiled_difference(file, program, case, folder / "program.so")

    return tried(file, decisions, program, difference)


def gpu_fault(name: str, seed: int) -> str | None:
    """The same for a GPU: compiled for it, and run on the CPU, watched for races where that is little."""
    file, (case, *_) = cases_of(name)
    candidate = next(on_gpus.drawn(file, 1, seed), None)
    if candidate is None:
        return None
    decisions = CandidateDecisions(candidate)
    program = lower_grids(file.backbone, decisions)

    def difference(folder: Path) -> str | None:
        try:
            compile_cubin(print_cuda(program), device().compute_capability, *compiler_options(seed))
        except BuildError as error:
            return str(error)
        if on_gpus.computed(candidate) > on_gpus.MOST_COMPUTED:
            return None
        ((_, found),) = on_gpus.twin_differences(file, case, [(candidate, program)], folder)
        is_sanitized = is_thorough(seed) and on_gpus.computed(candidate) <= on_gpus.MOST_WATCHED
        if found or not is_sanitized or preloaded() is None:
            return found
        call = Call.of_pipeline("program_0", file, case)
        return complaints(twins([verify(program)], folder, *FLAGS), [call], ORDERS)

    return tried(file, decisions, program, difference)


def tried(
    file: PipelineFile,
    decisions: CandidateDecisions,
    program: Program,
    difference: Callable[[Path], str | None],
) -> str | None:
    """What is wrong with a program, and its loops."""
    if sum(1 for _ in statements(program.body)) > MOST_STATEMENTS:
        return None
    loops = text(schedule(file.backbone.steps, decisions))
    try:
        verify(program)
    except VerificationError as error:
        return f"{error}\n{loops}"
    with tempfile.TemporaryDirectory() as folder:
        found = difference(Path(folder))
    return found and f"{found}\n{loops}"


FAULTS = {"cpu": fault, "cuda": gpu_fault}


def main() -> int:
    asked = argparse.ArgumentParser(prog="make soak-pipelines", description="random schedules")
    minutes = float(os.environ.get("SOAK_MINUTES", "5"))
    asked.add_argument("--names", default=",".join(NAMES), help="of applications, with commas (all)")
    asked.add_argument("--count", type=int, default=200, help="schedules of each that pass (200)")
    asked.add_argument("--first", type=int, default=0, help="number of the first schedule that is drawn (0)")
    asked.add_argument("--seconds", type=float, default=60 * minutes, help="($SOAK_MINUTES, or 300)")
    asked.add_argument("--target", choices=FAULTS, default="cpu", help="of the code (cpu)")
    asked.add_argument("--record", type=Path, help="(build/soak-pipelines-TARGET.json)")
    options = asked.parse_args()
    options.record = options.record or Path(f"build/soak-pipelines-{options.target}.json")
    names = options.names.split(",")
    record: dict[str, dict[str, int]] = (
        json.loads(options.record.read_text(encoding="utf-8")) if options.record.exists() else {}
    )
    until = time.monotonic() + options.seconds
    while time.monotonic() < until:
        name = min(names, key=lambda n: record.get(n, {}).get("passed", 0))
        known = record.setdefault(name, {"tried": 0, "passed": 0})
        number = options.first + known["tried"]
        if known["passed"] >= options.count:
            break
        print(f"\r{name}:{number:<8}", end="", file=sys.stderr, flush=True)
        found = FAULTS[options.target](name, number)
        if found:
            print(f"\n{name}:{number}: {found}")
            return 1
        known["tried"] += 1
        known["passed"] += found == ""
        options.record.parent.mkdir(parents=True, exist_ok=True)
        options.record.write_text(json.dumps(record), encoding="utf-8")
    for name in names:
        known = record.get(name, {"tried": 0, "passed": 0})
        print(f"{name:<26} {known['passed']:>6,} passed of {known['tried']:,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
