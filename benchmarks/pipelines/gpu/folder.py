"""The folder that goes to a machine with a GPU: runs of each application, and libraries from Halide.

In: runs, schedulers. Out: a batch; in the folder of each of its problems, `halide.json` and what it names:

    FOLDER/APPLICATION/halide/algorithm.py      what Halide schedules
    FOLDER/APPLICATION/halide/NAME.schedule     what a scheduler makes of it
    FOLDER/APPLICATION/halide/NAME.so           its code, with Halide's runtime in it
    FOLDER/APPLICATION/halide.json              all schedulers, with the reasons where there is no code

`run_benchmark.py` in the folder is the one command. Nothing needs a GPU here, nor Halide over there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.gpu.folder import write_runner
from benchmarks.pipelines import halide
from benchmarks.pipelines.cases import signature
from benchmarks.pipelines.halide import Prepared, Scheduler, Workplace
from spacedsl import api
from spacedsl.codegen.cuda.batches.cases import kernel_of
from spacedsl.codegen.halide.export import algorithm_text
from spacedsl.files import replace_text
from spacedsl.kernels.pipeline.kernel_file import PipelineFile

HERE = Path(__file__).parent
HALIDE = "halide.json"

Say = Callable[[str], None]
"""Tells a person what is going on."""


def write(
    folder: Path,
    runs: Sequence[Path],
    top: int,
    others: int,
    schedulers: Sequence[Scheduler],
    at: Workplace,
    say: Say,
    *,
    has_cases: bool,
) -> api.Batch:
    """Writes the folder; raises as `api.batch` does."""
    written = api.batch(runs, folder, top=top, others=others, has_cases=has_cases)
    for name in json.loads((folder / "batch.json").read_text(encoding="utf-8"))["problems"]:
        for made in add_halide(folder / name, schedulers, at, say):
            took = f"scheduled in {made.schedule_s:.1f} s, compiled in {made.compile_s:.1f} s"
            say(f"{name}: {made.scheduler}: {made.absent or took}")
    write_benchmark(folder)
    return written


def write_benchmark(folder: Path) -> None:
    """What runs over there, but for what a batch has anyway."""
    modules = [HERE.parent / name for name in ("buffers.py", "signature.py")]
    write_runner(HERE / "run_benchmark.py", folder, *modules)


def add_halide(folder: Path, schedulers: Sequence[Scheduler], at: Workplace, say: Say) -> list[Prepared]:
    """What Halide makes of the problem of a folder; what has been made of the same is taken."""
    kernel = kernel_of(json.loads((folder / "problem.json").read_text(encoding="utf-8")))
    assert isinstance(kernel, PipelineFile)
    place, called = folder / "halide", signature(kernel)
    place.mkdir(exist_ok=True)
    algorithm = place / "algorithm.py"
    algorithm.write_text(algorithm_text(kernel), encoding="utf-8")
    found = []
    for scheduler in schedulers:
        say(f"{folder.name}: {scheduler.name}")
        found.append(halide.prepare(algorithm, scheduler, called, place, at))
    keep(folder, found, kernel, at)
    return found


def keep(folder: Path, found: Sequence[Prepared], kernel: PipelineFile, at: Workplace) -> None:
    """`halide.json`, for the machine with the GPU and for the report."""
    document = {
        "version": at.version,
        "target": at.target,
        "signature": asdict(signature(kernel)),
        "schedulers": [
            {
                "name": made.scheduler,
                "library": f"halide/{made.scheduler}.so",
                "absent": made.absent,
                "schedule_s": made.schedule_s,
                "compile_s": made.compile_s,
                "rooms": made.rooms,
            }
            for made in found
        ],
    }
    replace_text(folder / HALIDE, json.dumps(document, indent=2) + "\n")
