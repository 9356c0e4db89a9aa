"""How fast a space of image pipelines is instantiated and descended, on graphs of 2 to 300 stages.

    python -m benchmarks.pipeline_spaces [--seconds 2] [--case harris ..] [--engine native ..] [--json FILE]

Each case runs in a process of its own, so that its peak of memory is its own. Times are processor time of one
thread. Descents are random, with refutation, in the order `stagewise` of the space; a rate counts those that
end in a complete candidate, and decisions, refutations and dead ends those of all.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from rich.table import Table

from benchmarks.arguments import duration_s, new_file, run, write_document
from benchmarks.engine import batches, descended, peak_mb
from benchmarks.tables import console, headed
from spacedsl.compiler import compile_space
from spacedsl.engine.instance import Engine, instantiate
from spacedsl.language.loader import load_space
from tests.engine.pipelines import BLUR, HARRIS, SPACE, Gpu, Graph, chain, local_laplacian, pipeline

CASES: dict[str, tuple[Callable[[], Graph], int, float]] = {
    "blur": (lambda: BLUR, 10_000, 0.1),
    "harris": (lambda: HARRIS, 5_000, 0.1),
    "laplacian": (local_laplacian, 200, 0.7),
    "chain": (lambda: chain(300), 20, 3.0),
}
"""Graphs, and what is aimed at: complete descents a second, and seconds for an instance."""


@dataclass(frozen=True, slots=True)
class Measured:
    case: str
    engine: str
    stages: int
    open_decisions: int
    setup_s: float
    """From the kernel to the propagated root, with the library in the cache."""
    setup_target_s: float
    added_mb: float
    """Peak of memory over that before the instance was made."""
    descents: int
    descents_per_s: float
    target_per_s: float
    decisions_per_descent: float
    refutations_per_descent: float
    dead_end_rate: float


def measure(case: str, engine: Engine, seconds: float) -> Measured:
    graph, target_per_s, setup_target_s = CASES[case]
    kernel, compiled = pipeline(graph()), compile_space(load_space(SPACE))
    instantiate(compiled, pipeline(BLUR), Gpu(), engine)
    before = peak_mb()
    started = time.process_time()
    instance = instantiate(compiled, kernel, Gpu(), engine)
    root = instance.root()
    setup_s = time.process_time() - started
    added_mb = peak_mb() - before
    if instance.engine is not engine:
        raise SystemExit(f"no {engine.value} engine here: {instance.no_native}")
    assert root is not None
    counts = descended(batches(instance), seconds)
    return Measured(
        case=case,
        engine=engine.value,
        stages=len(kernel.stages),
        open_decisions=sum(root.is_open(v) for v in instance.variables),
        setup_s=setup_s,
        setup_target_s=setup_target_s,
        added_mb=added_mb,
        descents=counts[0].descents,
        descents_per_s=counts[0].complete / counts[1],
        target_per_s=target_per_s,
        decisions_per_descent=counts[0].decisions / counts[0].descents,
        refutations_per_descent=counts[0].refutations / counts[0].descents,
        dead_end_rate=counts[0].dead_end_rate,
    )


def table(rows: Sequence[Measured]) -> Table:
    headings = (
        *("case", "engine", "stages", "open", "set-up", "aim at most", "memory"),
        *("complete/s", "aim at least", "decisions", "refuted", "dead ends"),
    )
    made = headed("Random descents through pipelines", headings, words=("case", "engine"))
    for row in rows:
        made.add_row(
            row.case,
            row.engine,
            f"{row.stages}",
            f"{row.open_decisions:,}",
            f"{row.setup_s:.3f} s",
            f"{row.setup_target_s:.1f} s",
            f"{row.added_mb:.0f} MB",
            f"{row.descents_per_s:,.1f}",
            f"{row.target_per_s:,}",
            f"{row.decisions_per_descent:.1f}",
            f"{row.refutations_per_descent:.2f}",
            f"{row.dead_end_rate:.2%}",
        )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pipeline_spaces",
        description="How fast spaces of image pipelines are propagated.",
    )
    parser.add_argument("--seconds", type=duration_s, default=2.0)
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--engine", action="append", choices=[e.value for e in Engine])
    parser.add_argument("--json", type=new_file)
    options = parser.parse_args()
    tasks = [
        (case, Engine(engine), options.seconds)
        for case in options.case or CASES
        for engine in options.engine or [Engine.NATIVE.value]
    ]
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        rows = pool.starmap(measure, tasks, chunksize=1)
    console().print(table(rows))
    if options.json is not None:
        document = {"schema": 1, "cases": [asdict(row) for row in rows]}
        write_document(document, options.json)


if __name__ == "__main__":
    run(main)
