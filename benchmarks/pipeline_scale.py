"""What large pipelines take: to be read, instantiated and descended, and until a first schedule is measured.

    python -m benchmarks.pipeline_scale [PIPELINE ..] [--seconds 5] [--time 60s] [--json FILE]

A pipeline is a kernel file or `FILE.py:FUNCTION`, with sizes behind it: `stencil_chain.py:build,stages=300`.
Each is looked at in a process of its own, so that its peak of memory is its own. Reading and the instance
(with its root, propagated) are processor seconds; descents are random, in the order of the space, and counted
for `--seconds`. Then a search of `--time` begins: wall seconds until its first program was measured, with all
set-up, and what the first and the best one take.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import LIBRARY
from benchmarks.arguments import duration_s, new_file, run, write_document
from benchmarks.engine import batches, descended, peak_mb
from benchmarks.tables import console, headed
from spacedsl import api
from spacedsl.api.problem import apply, load_rules
from spacedsl.api.targets import TARGETS
from spacedsl.cli.options import parse_sizes
from spacedsl.kernels.backbones import load_measurable
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.search.events import NewBest

_PIPELINES = LIBRARY / "pipelines"
_CASES = (
    f"{_PIPELINES / 'harris.yaml'}",
    f"{_PIPELINES / 'stencil_chain.yaml'}",
    f"{_PIPELINES / 'local_laplacian.yaml'}",
    f"{_PIPELINES / 'python' / 'stencil_chain.py'}:build,stages=150",
    f"{_PIPELINES / 'python' / 'stencil_chain.py'}:build,stages=300",
)


@dataclass(frozen=True, slots=True)
class Scale:
    """Of one pipeline. None: nothing was measured in time."""

    pipeline: str
    stages: int
    steps: int
    open_decisions: int
    reading_s: float
    instance_s: float
    peak_mb: float
    descents_per_s: float
    dead_end_rate: float
    first_s: float | None
    first_ms: float | None
    best_ms: float | None


def measure(pipeline: str, seconds: float, time_s: float) -> Scale:
    path, *given = pipeline.split(",")
    sizes, target = parse_sizes(given), TARGETS["cpu"]
    started = time.process_time()
    kernel = load_measurable(Path(path), sizes)
    reading_s = time.process_time() - started
    if not isinstance(kernel, PipelineFile):
        raise SystemExit(f"{path} is no pipeline")
    # The compiled rules and the description of the machine are there for whoever comes next.
    device = target.device(None, lambda event: None)
    rules = load_rules(kernel.space_for("cpu"), kernel, device.kind, lambda event: None)
    apply(rules, kernel, device, lambda event: None)
    started = time.process_time()
    problem = apply(rules, kernel, device, lambda event: None)
    instance_s = time.process_time() - started
    counts, spent_s = descended(batches(problem.instance), seconds)
    memory_mb = peak_mb()
    found: list[tuple[float, float]] = []
    begun = time.monotonic()

    def heard(event: object) -> None:
        if isinstance(event, NewBest):
            found.append((time.monotonic() - begun, event.timing.time_ns / 1e6))

    with tempfile.TemporaryDirectory() as folder:
        api.explore(kernel, time=time_s, runs=Path(folder), on_event=heard)
    return Scale(
        pipeline=Path(path).name + "".join(f",{size}" for size in given),
        stages=len(kernel.algorithm.stages),
        steps=len(kernel.backbone.steps),
        open_decisions=sum(problem.root.is_open(v) for v in problem.instance.variables),
        reading_s=reading_s,
        instance_s=instance_s,
        peak_mb=memory_mb,
        descents_per_s=counts.complete / spent_s,
        dead_end_rate=counts.dead_end_rate,
        first_s=found[0][0] if found else None,
        first_ms=found[0][1] if found else None,
        best_ms=min(ms for _, ms in found) if found else None,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pipeline_scale", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("pipelines", nargs="*", default=_CASES, metavar="PIPELINE")
    parser.add_argument("--seconds", type=duration_s, default="5s", metavar="TIME", help="of descents")
    parser.add_argument("--time", type=duration_s, default="60s", help="of each search")
    parser.add_argument("--json", type=new_file)
    options = parser.parse_args(arguments)
    table = headed(
        "Large pipelines",
        (
            "pipeline", "stages", "steps", "open", "read, s", "instance, s", "peak, MB", "descents/s",
            "dead ends", "first after, s", "first, ms", "best, ms",
        ),
        words=("pipeline",),
    )  # fmt: skip
    tasks = [(pipeline, options.seconds, options.time) for pipeline in options.pipelines]
    # No daemons: searches have children of their own.
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawning, max_tasks_per_child=1) as pool:
        rows: list[Scale] = []
        for row in pool.map(measure, *zip(*tasks, strict=True)):
            rows.append(row)
            print(f"{row.pipeline} is done", file=sys.stderr)
    for row in rows:
        table.add_row(
            row.pipeline,
            *(f"{count:,}" for count in (row.stages, row.steps, row.open_decisions)),
            *(f"{each:.2f}" for each in (row.reading_s, row.instance_s)),
            f"{row.peak_mb:.0f}",
            f"{row.descents_per_s:,.1f}",
            f"{row.dead_end_rate:.1%}",
            *("-" if each is None else f"{each:.1f}" for each in (row.first_s, row.first_ms, row.best_ms)),
        )
    console().print(table)
    if options.json is not None:
        document = {"schema": 1, "pipelines": [asdict(row) for row in rows]}
        write_document(document, options.json)
    return 0


if __name__ == "__main__":
    run(main)
