"""How fast spaces are propagated: both engines on matrix products of several sizes.

    python -m benchmarks.engine [--seconds 2] [--case matmul-once ..] [--json FILE]

Times are processor time, for descents that of one thread; the ratio of two threads to one is in wall time,
and for it both cores must be free. Descents are random, with refutation, in the space's own order; a rate
counts those that end in a complete candidate. A new process finds the library in the cache; its space is
parsed and checked before the clock starts. Prints tables, and JSON.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from rich.table import Table

from benchmarks import LIBRARY
from benchmarks.arguments import duration_s, new_file, run, write_document
from benchmarks.tables import console, headed
from spacedsl.api.solving import DEVICE
from spacedsl.compiler import CompiledSpace, compile_space
from spacedsl.compiler.c import print_c
from spacedsl.compiler.c.build import build, find_compiler
from spacedsl.compiler.c.kept import library_of
from spacedsl.engine.descent import DescentCounts, random_descent
from spacedsl.engine.instance import Engine, Instance, instantiate
from spacedsl.engine.native.descents import random_descents
from spacedsl.engine.native.library import load
from spacedsl.engine.packing import Packing
from spacedsl.engine.streams import Stream
from spacedsl.kernels.device import load_device
from spacedsl.kernels.kernel_file import LINALG_SPACE, load_kernel
from spacedsl.kernels.linalg.backbone import Kernel
from spacedsl.language.loader import load_space
from spacedsl.search.orderings import branches_of, native_ordering, select_ordering

SIZES = "[2, 4, 8, 16, 32]"
SETUP_ROUNDS = 5
PROCESSES = 5
BATCH_DESCENTS = 100
KIBIBYTES_PER_MEGABYTE = 1e6 / 1024
CONSTANTS = {"OBJECT_WORDS": 1, "ROW_WORDS": 1, "MASK_WORDS": 1}
MATMUL = (LIBRARY / "matmul.yaml").read_text(encoding="utf-8")
CHAIN = """
kernel: chain
backbone: linalg
sizes: {m: 1024, n: 1024, k: 1024}
tensors:
  A: {dtype: f32, shape: [m, k]}
  B: {dtype: f32, shape: [k, n]}
  D: {dtype: f32, shape: [n, n]}
  T: {dtype: f32, shape: [m, n], output: true}
  C: {dtype: f32, shape: [m, n], output: true}
compute:
  - T[i, j] = sum[p](A[i, p] * B[p, j])
  - C[i, j] = sum[q](T[i, q] * D[q, j])
"""
CASES = {
    "matmul-once": (MATMUL, {"i": 1, "j": 1, "p": 1}),
    "matmul-twice": (MATMUL, {"i": 2, "j": 2, "p": 1}),
    "matmul-inferred": (MATMUL, {}),
    "two-products": (CHAIN, {"i": 2, "j": 2, "p": 2, "q": 3}),
}


@dataclass(frozen=True, slots=True)
class Compilation:
    """Of the space's propagators, without the cache."""

    compiler: str
    print_s: float
    compile_s: float


@dataclass(frozen=True, slots=True)
class Start:
    """What a new process computes, the C compiler that it asks for its version included; medians."""

    case: str
    load_ms: float
    """From the checked space to the functions of its library, which is in the cache."""
    setup_ms: float
    """From there to the propagated root of its first instance."""
    first_descent_ms: float
    """From the checked space to the end of the first descent: all of that, and the ordering."""


@dataclass(frozen=True, slots=True)
class Measured:
    case: str
    engine: str
    statements: int
    added: int
    """Further statements that triggers may add."""
    open_decisions: int
    descents: int
    descents_per_s: float
    decisions_per_descent: float
    refutations_per_descent: float
    dead_end_rate: float
    setup_ms: float
    """From the kernel to the propagated root, the least of some rounds."""
    vector_bytes: int
    packed_bytes: int
    two_threads: float | None
    """Descents of two threads over those of one, in the same wall time; None: not measured."""


def compilation(compiled: CompiledSpace) -> Compilation:
    started = time.process_time()
    source = print_c(compiled.module, compiled.complete).source
    print_s = time.process_time() - started
    with tempfile.TemporaryDirectory() as folder:
        started = spent_s()
        build(source, CONSTANTS, Path(folder))
        compile_s = spent_s() - started
    return Compilation(find_compiler().version.splitlines()[0], print_s, compile_s)


def starts(case: str) -> Start:
    """What new processes wait for, after one that leaves what they find in the cache."""
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        _, *found = pool.map(start, [case] * (1 + PROCESSES), chunksize=1)
    return Start(
        case,
        median(s.load_ms for s in found),
        median(s.setup_ms for s in found),
        median(s.first_descent_ms for s in found),
    )


def start(case: str) -> Start:
    """The same of this process, which has compiled nothing yet."""
    kernel, device, space = kernel_of(case), load_device(DEVICE), load_space(LINALG_SPACE)
    began = spent_s()
    compiled = compile_space(space)
    load(library_of(compiled, lambda _: CONSTANTS)[1])
    loaded = spent_s()
    instance = instantiate(compiled, kernel, device, Engine.NATIVE)
    made = spent_s()
    run = batches(instance)
    run(0, 1)
    ended = spent_s()
    if instance.native is None:
        raise SystemExit(f"no native engine here: {instance.no_native}")
    return Start(case, 1e3 * (loaded - began), 1e3 * (made - loaded), 1e3 * (ended - began))


def spent_s() -> float:
    """Processor time of this process and of those that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def kernel_of(case: str) -> Kernel:
    text, tiling = CASES[case]
    levels = ", ".join(f"{index}: [{', '.join([SIZES] * count)}]" for index, count in tiling.items())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.yaml")
        path.write_text(f"{text.lstrip()}tiling: {{{levels}}}\n")
        return load_kernel(path).backbone


def measure(case: str, compiled: CompiledSpace, engine: Engine, seconds: float) -> Measured:
    kernel, device = kernel_of(case), load_device(DEVICE)
    setup_s = []
    for _ in range(SETUP_ROUNDS):
        started = time.process_time()
        instance = instantiate(compiled, kernel, device, engine)
        setup_s.append(time.process_time() - started)
    if instance.engine is not engine:
        raise SystemExit(f"no {engine.value} engine here: {instance.no_native}")
    root = instance.root()
    assert root is not None
    run = batches(instance)
    run(0, 1)
    counts = DescentCounts()
    started = time.thread_time()
    while (took_s := time.thread_time() - started) < seconds:
        counts.add(run(counts.descents, BATCH_DESCENTS if engine is Engine.NATIVE else 1))
    return Measured(
        case=case,
        engine=engine.value,
        statements=len(kernel.statements),
        added=sum(1 + len(load.dims) for load in kernel.reloads),
        open_decisions=sum(root.is_open(v) for v in instance.variables),
        descents=counts.descents,
        descents_per_s=counts.complete / took_s,
        decisions_per_descent=counts.decisions / counts.descents,
        refutations_per_descent=counts.refutations / counts.descents,
        dead_end_rate=counts.dead_end_rate,
        setup_ms=1e3 * min(setup_s),
        vector_bytes=len(root.vector) * root.vector.itemsize,
        packed_bytes=Packing(root).size_bytes,
        two_threads=_two_threads(run, seconds) if engine is Engine.NATIVE else None,
    )


def batches(instance: Instance) -> Callable[[int, int], DescentCounts]:
    """Runs descents number `first` .. of one seed."""
    root, rule = instance.root(), select_ordering(instance, instance.space)
    assert root is not None
    native, ordering = instance.native, native_ordering(instance, rule)

    def compiled(first: int, count: int) -> DescentCounts:
        assert native is not None and ordering is not None
        return random_descents(native, root.vector, ordering, seed=0, first=first, count=count).counts

    def interpreted(first: int, count: int) -> DescentCounts:
        counts = DescentCounts()
        for number in range(first, first + count):
            random_descent(instance, root, branches_of(rule), Stream(0, number), counts)
        return counts

    return interpreted if native is None else compiled


def descended(run: Callable[[int, int], DescentCounts], seconds: float) -> tuple[DescentCounts, float]:
    """Batches that double, and the seconds that they took."""
    counts, size = DescentCounts(), 1
    started = time.thread_time()
    while (spent_s := time.thread_time() - started) < seconds or not counts.descents:
        counts.add(run(counts.descents, size))
        size = min(2 * size, 1 + counts.descents)
    return counts, spent_s


def peak_mb() -> float:
    """Of the memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIBIBYTES_PER_MEGABYTE


def _two_threads(run: Callable[[int, int], DescentCounts], seconds: float) -> float:
    def rate(threads: int) -> float:
        done = [0] * threads
        ends = time.perf_counter() + seconds

        def work(place: int) -> None:
            while time.perf_counter() < ends:
                done[place] += run(done[place], BATCH_DESCENTS).descents

        workers = [threading.Thread(target=work, args=(place,)) for place in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return sum(done) / seconds

    return rate(2) / rate(1)


def descents_table(rows: Sequence[Measured]) -> Table:
    headings = (
        *("case", "engine", "statements", "open", "complete/s", "decisions", "refuted"),
        *("dead ends", "set-up", "packed", "2 threads"),
    )
    made = headed("Random descents through matrix products", headings, words=("case", "engine"))
    for row in rows:
        made.add_row(
            row.case,
            row.engine,
            f"{row.statements} + {row.added}",
            f"{row.open_decisions:,}",
            f"{row.descents_per_s:,.0f}",
            f"{row.decisions_per_descent:.1f}",
            f"{row.refutations_per_descent:.2f}",
            f"{row.dead_end_rate:.2%}",
            f"{row.setup_ms:.1f} ms",
            f"{row.packed_bytes:,} B",
            "" if row.two_threads is None else f"{row.two_threads:.2f} x",
        )
    return made


def starts_table(rows: Sequence[Start]) -> Table:
    headings = ("case", "library loaded", "first set-up", "in all, to the first descent")
    made = headed("New processes, with the library in the cache", headings, words=("case",))
    for row in rows:
        times = (row.load_ms, row.setup_ms, row.first_descent_ms)
        made.add_row(row.case, *(f"{time_ms:.1f} ms" for time_ms in times))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.engine", description="How fast spaces are propagated."
    )
    parser.add_argument("--seconds", type=duration_s, default=2.0)
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--json", type=new_file)
    options = parser.parse_args()
    compiled = compile_space(load_space(LINALG_SPACE))
    made = compilation(compiled)
    rows = [
        measure(case, compiled, engine, options.seconds)
        for case in options.case or CASES
        for engine in Engine
    ]
    begun = [starts(case) for case in options.case or CASES]
    out = console()
    out.print(descents_table(rows))
    out.print(starts_table(begun))
    out.print(
        f"{made.compiler}: printed in {1e3 * made.print_s:.0f} ms, compiled in {made.compile_s:.1f} s",
        highlight=False,
    )
    if options.json is not None:
        document = {
            "schema": 2,
            "compilation": asdict(made),
            "cases": [asdict(row) for row in rows],
            "new_processes": [asdict(row) for row in begun],
        }
        write_document(document, options.json)


if __name__ == "__main__":
    run(main)
