"""One contender's side of a contest: a process that calls one function when it is asked to.

In: what can be called, and then lines from the parent (`contest.py`). Out, a line of JSON each: first what
there is to say of the side and its variants, each with what is wrong with its result and how long a call
takes, or why the side is absent; for a line `VARIANT MS`, a `Turn` of about that long; for a line
`VARIANT check`, what is wrong with the result now. What is computed, and what is right, is for others. Needs
nothing but Python, so that peers can live in another environment.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

_TASKS = Path("/proc/self/task")
_WARM_S = 0.2
_SAMPLE_NS = 200_000
"""Calls that are shorter are timed together."""


class AbsentError(Exception):
    """The side cannot run here; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Caller:
    """One way to call what a side has. `run` is what is timed."""

    run: Callable[[], object]
    error: Callable[[], str]
    """Of one more call, what is wrong with its result; empty: nothing."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What a side begins with."""

    callers: Mapping[str, Caller]
    """By variant."""
    told: Mapping[str, object]
    """What the parent is to know beside times; JSON can hold it."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Wall times of calls in ns; of the whole turn, processor time of all threads per call, and CPUs busy."""

    wall_ns: list[float]
    cpu_ns: float
    cpus_busy: float


def serve(opening: Callable[[], Opening], cpus: tuple[int, ...]) -> None:
    """Opens, then answers until there are no more lines."""
    try:
        opened = opening()
        errors = {name: caller.error() for name, caller in opened.callers.items()}
    except ImportError as error:
        _answer({"absent": f"{error.name} is not installed"})
        return
    except AbsentError as error:
        _answer({"absent": str(error)})
        return
    calls_ns = {name: _pin(opened.callers[name].run, cpus) for name, error in errors.items() if not error}
    variants = {name: {"error": error, "call_ns": calls_ns.get(name, 0.0)} for name, error in errors.items()}
    _answer({"variants": variants, "told": opened.told})
    for line in sys.stdin:
        name, _, order = line.rstrip("\n").rpartition("\t")
        caller = opened.callers[name]
        _answer(caller.error() if order == "check" else asdict(_turn(caller.run, int(order) / 1e3)))


def _answer(value: object) -> None:
    print(json.dumps(value), flush=True)


def _pin(run: Callable[[], object], cpus: tuple[int, ...]) -> float:
    """Gives each of the busiest threads a CPU of its own, the calling one the first.

    Which threads work and how many there are differs between libraries, and some pin their own. What counts
    is who was busy. Returned is the least time of a call, in ns.
    """
    before, least_ns = _busy_ns(), float("inf")
    began = time.perf_counter_ns()
    ends = began + _WARM_S * 1e9
    while began < ends:
        run()
        now = time.perf_counter_ns()
        least_ns, began = min(least_ns, now - began), now
    spent = {task: ns - before.get(task, 0) for task, ns in _busy_ns().items()}
    caller = os.getpid()
    order = sorted(spent, key=lambda task: (task != caller, -spent[task]))
    for task, cpu in zip(order, cpus, strict=False):
        os.sched_setaffinity(task, {cpu})
    return least_ns


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
