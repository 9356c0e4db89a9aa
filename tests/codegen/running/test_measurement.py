"""What counts of an implementation's samples, and when they are enough."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from spacedsl.codegen.c.build import find_compiler
from spacedsl.codegen.running.harness import harness_library
from spacedsl.codegen.running.measurement import Measurement, Options
from spacedsl.codegen.running.process import WorkerProcess
from spacedsl.codegen.running.worker import Worker, are_disturbed
from tests.codegen.kernels import matmul

MS = 1e6


@dataclass
class Scripted:
    """A worker whose calls take what somebody says: of each round, undisturbed samples and disturbed ones."""

    rounds: Iterator[tuple[Sequence[float], Sequence[float]]]
    call_ns: float
    """Of a call that is checked."""
    first_ns: float
    """Of the first one."""
    is_cold: bool = False
    asked: int = 0
    checked: list[int] = field(default_factory=list)
    """Cases."""

    def request(self, op: str, timeout_s: float, why: str = "", **arguments: Any) -> Mapping[str, Any]:
        match op:
            case "load":
                return {"handle": 1}
            case "run":
                return {"ns": self.call_ns if self.checked else self.first_ns}
            case "check":
                self.checked.append(arguments["case"])
                return {"wrong": ""}
            case "time":
                self.asked += 1
                quiet, disturbed = next(self.rounds)
                batch = 1 if self.is_cold else arguments["batch"]
                times = {"batch": batch, "samples_ns": [*quiet], "disturbed_ns": [*disturbed]}
                return {**times, "loops_ns": [float(np.median(quiet or disturbed))]}
        return {}


def measured(
    rounds: Sequence[tuple[Sequence[float], Sequence[float]]],
    best_ms: float | None = None,
    call_ms: float = 5.0,
    cases: int = 1,
    *,
    first_ms: float | None = None,
    is_cold: bool = False,
) -> tuple[Measurement, Scripted]:
    worker = Scripted(iter(rounds), call_ms * MS, (call_ms if first_ms is None else first_ms) * MS, is_cold)
    best_ns = None if best_ms is None else best_ms * MS
    options = Options(budget_s=1e9)
    process = cast("WorkerProcess", worker)
    measurement = Measurement(process, cases, Path("a.so"), "a", options, best_ns, loops=1)
    measurement.timing()
    return measurement, worker


def of(ms: float, count: int) -> list[float]:
    return [ms * MS] * count


def test_samples_in_which_others_had_a_cpu_do_not_count() -> None:
    measurement, worker = measured([(of(2, 3), of(9, 6))] * 6 + [([], [])] * 9)
    assert worker.asked < 7
    assert set(measurement.counted_ns) == {2 * MS} and len(measurement.disturbed_ns) == 2 * len(
        measurement.samples_ns
    )
    assert measurement.loops_ns == [2 * MS]


def test_they_count_where_there_are_no_others() -> None:
    measurement, _ = measured([([], of(9, 20))] * 20)
    assert set(measurement.counted_ns) == {9 * MS} and measurement.loops_ns == [9 * MS]


def test_what_is_disturbed_is_not_taken_to_be_slow() -> None:
    """Undisturbed, it is the best."""
    rounds = [([], of(9, 1)), ([], of(9, 1)), *[(of(1.5, 2), of(9, 1))] * 30]
    measurement, _ = measured(rounds, best_ms=2)
    assert min(measurement.counted_ns) == 1.5 * MS and len(measurement.samples_ns) > 10


def test_what_is_slow_is_known_by_its_first_sample_that_is_not_disturbed() -> None:
    measurement, worker = measured([([], of(9, 1)), (of(9, 1), [])], best_ms=2)
    assert worker.asked == 2 and measurement.counted_ns == of(9, 1)


def test_what_its_first_calls_show_to_be_hopeless_is_not_timed() -> None:
    """What takes less than twice the time of the best may be timed; what would be the best has all cases."""
    measurement, worker = measured([], best_ms=20, call_ms=51, cases=6)
    assert (worker.asked, worker.checked, measurement.counted_ns) == (0, [1, 1], of(51, 1))
    _, worker = measured([(of(49, 1), [])] * 9, best_ms=20, call_ms=49, cases=6)
    assert worker.asked and worker.checked == [1, 0, 0]
    _, worker = measured([(of(19, 5), [])] * 9, best_ms=20, call_ms=49, cases=6)
    assert worker.checked == [1, 0, 0, 2, 3, 4, 5]


def test_what_is_slow_while_its_memory_becomes_real_is_called_again_before_it_is_judged() -> None:
    measurement, worker = measured([(of(19, 5), [])] * 9, best_ms=20, call_ms=19, first_ms=249, cases=6)
    assert worker.checked == [1, 1, 0, 0, 2, 3, 4, 5] and set(measurement.counted_ns) == {19 * MS}
    measurement, worker = measured([], best_ms=20, call_ms=51, first_ms=249)
    assert worker.checked == [0, 0] and measurement.counted_ns == of(51, 1)
    measurement, worker = measured([], best_ms=20, call_ms=19, first_ms=251)
    assert worker.checked == [0] and measurement.counted_ns == of(251, 1)


@pytest.mark.parametrize(("is_cold", "batch"), [(False, 4), (True, 1)])
def test_a_sample_of_what_finds_cold_caches_is_one_call(is_cold: bool, batch: int) -> None:
    """So many seconds of samples are not those of several calls each."""
    none: list[float] = []
    rounds = [(of(0.003, 5), none), *[(of(0.003, 2000), none)] * 9]
    measurement, _ = measured(rounds, call_ms=0.003, is_cold=is_cold)
    assert measurement.batch == batch


def test_where_all_are_disturbed_it_takes_four_for_one() -> None:
    measurement, worker = measured([([], of(9, 1))] * 9, best_ms=2)
    assert worker.asked == 4 and measurement.counted_ns == of(9, 4)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="nothing can be pinned to a CPU here")
def test_that_a_thread_has_to_leave_its_cpu_is_seen(tmp_path: Path) -> None:
    """Two programs that compute all the time share a CPU."""
    library = ctypes.CDLL(str(harness_library(matmul(8, 8, 8).backbone, find_compiler(), tmp_path)))
    library.harness_time.restype = ctypes.c_int64
    allowed = os.sched_getaffinity(0)
    place = min(allowed)
    busy = f"import os\nos.sched_setaffinity(0, {{{place}}})\nprint(flush=True)\nwhile True: pass"
    other = subprocess.Popen([sys.executable, "-c", busy], stdout=subprocess.PIPE)
    assert other.stdout is not None
    try:
        other.stdout.readline()
        os.sched_setaffinity(0, {place})
        samples, lost = np.zeros(8, np.int64), np.zeros(8, np.int64)
        none = ctypes.c_void_p(None)
        spin = ctypes.CFUNCTYPE(None)(lambda: sum(range(2_000_000)) and None)
        found = (ctypes.c_void_p(each.ctypes.data) for each in (samples, lost))
        limits = (ctypes.c_int64(n) for n in (1, 8, 1 << 40))
        count = library.harness_time(
            ctypes.cast(spin, ctypes.c_void_p), (ctypes.c_void_p * 4)(), *limits, none, ctypes.c_int64(0),
            *found, none, ctypes.c_int64(0), none,
        )  # fmt: skip
    finally:
        os.sched_setaffinity(0, allowed)
        other.kill()
        other.wait()
        other.stdout.close()
    assert count == 8 and are_disturbed(samples, lost).any()


@pytest.mark.parametrize(("nbytes", "batch"), [(0, 31), (64, 1)])
def test_behind_displaced_caches_one_call_is_timed(nbytes: int, batch: int) -> None:
    """Others behind it would find in them what it has loaded."""
    asked: list[int] = []

    def harness_time(function: object, arguments: object, calls: ctypes.c_int64, *_: object) -> int:
        asked.append(calls.value)
        return 1

    worker = Worker.__new__(Worker)
    worker.flush = cast("Any", SimpleNamespace(address=0, nbytes=nbytes) if nbytes else None)
    worker.libraries, worker.arguments = cast("Any", {1: (None, None)}), cast("Any", {0: None})
    worker.harness = cast("Any", SimpleNamespace(harness_time=harness_time))
    answer = worker.op_time(1, 0, most=4, batch=31, budget_ns=1000, loops=0)
    assert asked == [batch]
    assert answer["samples_ns"] == [0.0]
