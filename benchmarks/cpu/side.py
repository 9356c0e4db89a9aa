"""One contender of a comparison: a process that calls one function when it is asked to.

In: one argument, a `Side` as JSON; then lines. Out, a line of JSON each: first the work of a call and the
variants, each with what is wrong with its result, or why the peer is absent; for a line `VARIANT MS`, a
`Turn` of about that long; for a line `VARIANT check`, what is wrong with the result now.
Needs NumPy and the peer, and nothing of the product.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.cpu import peers
from benchmarks.cpu.peers import AbsentError, Variant, product
from benchmarks.cpu.problems import Problem, make

_TASKS = Path("/proc/self/task")
_WARM_S = 0.2
_SAMPLE_NS = 200_000
"""Calls that are shorter are timed together."""


@dataclass(frozen=True, slots=True)
class Side:
    """What a process is to run. `product`: a `peers.product.Product`, for the product itself."""

    peer: str
    problem: str
    sizes: Mapping[str, int]
    cpus: tuple[int, ...]
    product: Mapping[str, Any] | None = None
    folder: str | None = None
    """Where a peer keeps what it has prepared, if it prepares anything."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Wall times of calls in ns; of the whole turn, processor time of all threads per call, and CPUs busy."""

    wall_ns: list[float]
    cpu_ns: float
    cpus_busy: float


def main(text: str) -> None:
    side = Side(**json.loads(text))
    problem = make(side.problem, side.sizes)
    try:
        variants = _variants(side, problem)
    except ImportError as error:
        _answer({"absent": f"{error.name or side.peer} is not installed"})
        return
    except AbsentError as error:
        _answer({"absent": str(error)})
        return
    checks = side.peer != peers.LIMITS
    errors = {name: problem.error(v.result()) if checks else "" for name, v in variants.items()}
    _answer(
        {"variants": errors, "flops": problem.flops, "nbytes": problem.read_bytes + problem.written_bytes}
    )
    for name, variant in variants.items():
        if not errors[name]:
            _pin(variant.run, side.cpus)
    for line in sys.stdin:
        name, _, order = line.rstrip("\n").rpartition("\t")
        if order == "check":
            _answer(problem.error(variants[name].result()) if checks else "")
        else:
            _answer(asdict(_turn(variants[name].run, int(order) / 1e3)))


def _answer(value: object) -> None:
    print(json.dumps(value), flush=True)


def _variants(side: Side, problem: Problem) -> dict[str, Variant]:
    if side.product is not None:
        return {"": product.variant(product.Product.of(side.product), problem)}
    module = peers.MODULES.get(side.peer, side.peer)
    make_variants = importlib.import_module(f"benchmarks.cpu.peers.{module}").variants
    settings = {} if side.folder is None else {"folder": Path(side.folder)}
    found: dict[str, Variant] = make_variants(side.problem, side.sizes, problem, len(side.cpus), **settings)
    return found


def _pin(run: Callable[[], object], cpus: tuple[int, ...]) -> None:
    """Gives each of the busiest threads a CPU of its own, the calling one the first.

    Which threads work and how many there are differs between libraries, and some pin their own. What counts
    is who was busy.
    """
    before = _busy_ns()
    ends = time.perf_counter() + _WARM_S
    while time.perf_counter() < ends:
        run()
    spent = {task: ns - before.get(task, 0) for task, ns in _busy_ns().items()}
    caller = os.getpid()
    order = sorted(spent, key=lambda task: (task != caller, -spent[task]))
    for task, cpu in zip(order, cpus, strict=False):
        os.sched_setaffinity(task, {cpu})


def _busy_ns() -> dict[int, int]:
    """Time on a CPU by thread."""
    found = {}
    for task in _TASKS.iterdir():
        try:
            found[int(task.name)] = int((task / "schedstat").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            continue  # the thread has just ended, or the kernel does not say
    return found


def _turn(run: Callable[[], object], seconds: float) -> Turn:
    began = time.perf_counter_ns()
    run()
    calls = max(1, _SAMPLE_NS // max(1, time.perf_counter_ns() - began))
    samples: list[float] = []
    cpu, start = time.process_time_ns(), time.perf_counter_ns()
    deadline = start + int(seconds * 1e9)
    while time.perf_counter_ns() < deadline or not samples:
        began = time.perf_counter_ns()
        for _ in range(calls):
            run()
        samples.append((time.perf_counter_ns() - began) / calls)
    spent_ns, elapsed_ns = time.process_time_ns() - cpu, time.perf_counter_ns() - start
    return Turn(samples, spent_ns / (calls * len(samples)), spent_ns / elapsed_ns)


if __name__ == "__main__":
    main(sys.argv[1])
