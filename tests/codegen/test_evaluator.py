"""An evaluation times right code, no longer than it must, and nothing stays of it; the next one works."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spacedsl.codegen.c.build import build_library
from spacedsl.codegen.evaluator import CpuEvaluator
from spacedsl.codegen.lock import machine_lock
from spacedsl.codegen.running import workers
from spacedsl.codegen.running.measurement import Measurement
from spacedsl.codegen.running.process import WorkerFailure, WorkerProcess
from spacedsl.codegen.running.turns import Turns
from spacedsl.kernels.evaluation import Evaluator, Failure, Lowered, Outcome, Timing
from tests.codegen.devices import DEVICE
from tests.codegen.evaluating import (
    COLD_AXPY,
    KERNEL,
    LOCK,
    OPTIONS,
    RIGHT,
    assert_times,
    ends,
    first,
    lowered,
)
from tests.codegen.kernels import axpy, parse
from tests.codegen.listings import AXPY_VECTOR

SLOW = first("for (volatile int spin = 0; spin < 20000; ++spin);")


def test_right_code_is_timed(evaluator: CpuEvaluator) -> None:
    protocol: Evaluator = evaluator
    outcome = protocol.run(RIGHT, None)
    assert_times(outcome)
    assert outcome.timing is not None and outcome.timing.time_ns < 1e7


@pytest.mark.parametrize(
    ("best_ns", "seen_ns", "counted_ns"),
    [
        (None, [50, 100], 100),
        (None, [100, 50], 100),
        (110, [50, 100], 100),
        (110, [100, 120], 120),
        (50, [50], 50),
        (10, [50], 50),
    ],
)
def test_what_would_be_the_best_is_timed_twice_and_built_once(
    best_ns: float | None,
    seen_ns: list[float],
    counted_ns: float,
    evaluator: CpuEvaluator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built: list[Path] = []
    timings = iter([Timing(t, t, t, 9) for t in seen_ns])
    build = build_library

    def counting(code: str, library: Path, **options: Any) -> Path:
        built.append(library)
        return build(code, library, **options)

    monkeypatch.setattr("spacedsl.codegen.evaluator.build_library", counting)
    monkeypatch.setattr(Measurement, "timing", lambda measurement: next(timings))
    outcome = evaluator.run(RIGHT, best_ns)
    assert outcome.timing is not None
    assert outcome.timing.time_ns == counted_ns
    assert len(built) == 1
    assert next(timings, None) is None


def test_of_what_takes_all_the_time_for_timing_one_sample_counts(
    evaluator: CpuEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    timings = iter([Timing(1e9, 1e9, 1e9, 1), Timing(2e9, 2e9, 2e9, 1)])
    monkeypatch.setattr(Measurement, "timing", lambda measurement: next(timings))
    outcome = evaluator.run(RIGHT, None)
    assert outcome.timing is not None and outcome.timing.time_ns == 1e9


@pytest.mark.parametrize(("disturbed", "heard"), [(24, []), (30, ["30%"])])
def test_who_is_interrupted_often_hears_of_it_once(
    disturbed: int, heard: list[str], evaluator: CpuEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def timing(measurement: Measurement) -> Timing:
        measurement.samples_ns, measurement.disturbed_ns = [9.0] * (100 - disturbed), [9.0] * disturbed
        return Timing(9.0, 9.0, 9.0, 100)

    told: list[str] = []
    for name, value in (("warn", told.append), ("_samples", 0), ("_disturbed", 0), ("_is_told", False)):
        monkeypatch.setattr(evaluator, name, value)
    monkeypatch.setattr(Measurement, "timing", timing)
    evaluator.build([RIGHT])
    for turn in range(12):
        evaluator.run(RIGHT, 1.0)
        assert len(told) == (len(heard) if turn >= 9 else 0)
    evaluator.build([])
    assert [message.split()[3] for message in told] == heard


def test_while_no_time_is_known_a_call_may_take_as_long_as_is_said(evaluator: CpuEvaluator) -> None:
    hangs = first("for (volatile int spin = 0; ; ++spin);")
    outcome = evaluator.run(hangs, None, 0.1)
    assert outcome.failure is Failure.RUN_TIMEOUT
    assert outcome.message == "stopped after 0.35 s, the limit of one call while no time is known"
    assert_times(evaluator.run(RIGHT, None, 20.0))


def test_what_was_built_ahead_is_not_built_again(
    evaluator: CpuEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = first("nonsense;")
    evaluator.build([wrong, RIGHT])
    with monkeypatch.context() as patch:
        patch.setattr("spacedsl.codegen.evaluator.build_library", None)
        assert_times(evaluator.run(RIGHT, None))
        assert evaluator.run(wrong, None).failure is Failure.BUILD_ERROR
    evaluator.build([])
    assert_times(evaluator.run(RIGHT, None))


def test_code_that_surely_is_somewhat_slower_is_not_timed_exactly(evaluator: CpuEvaluator) -> None:
    patient = replace(OPTIONS, budget_s=20.0, relative_error=1e-9, least_run_timeout_s=20.0)
    slow = first("for (volatile int spin = 0; spin < 20000000; ++spin);")
    evaluator.options = patient
    try:
        outcome = evaluator.run(slow, 2e6)
    finally:
        evaluator.options = OPTIONS
    assert_times(outcome)
    assert outcome.timing is not None and outcome.timing.samples <= 20


def test_a_server_that_died_is_replaced_in_silence(evaluator: CpuEvaluator) -> None:
    assert_times(evaluator.run(RIGHT, None))
    server, worker = evaluator.workers._server, evaluator.workers._worker
    assert server is not None and worker is not None
    os.kill(server._process.pid, signal.SIGKILL)
    server._process.wait()
    assert_times(evaluator.run(RIGHT, None))
    assert ends(worker.pid)


def test_a_worker_that_died_between_evaluations_is_replaced_in_silence(evaluator: CpuEvaluator) -> None:
    assert_times(evaluator.run(RIGHT, None))
    worker = evaluator.workers._worker
    assert worker is not None
    os.kill(worker.pid, signal.SIGKILL)
    assert_times(evaluator.run(RIGHT, None))


def test_code_far_slower_than_the_best_is_not_timed_for_long(evaluator: CpuEvaluator) -> None:
    slow = first("for (volatile int spin = 0; spin < 120000000; ++spin);")
    evaluator.options = replace(OPTIONS, least_run_timeout_s=20.0)
    try:
        outcome = evaluator.run(slow, 1000.0)
    finally:
        evaluator.options = OPTIONS
    assert_times(outcome)
    assert outcome.timing is not None and outcome.timing.samples == 1


def test_contenders_are_compared_although_one_of_them_falls(evaluator: CpuEvaluator) -> None:
    outcomes = evaluator.compare([RIGHT, first("__builtin_trap();"), SLOW, first("nonsense;")])
    assert_times(outcomes[0])
    assert_times(outcomes[2])
    assert outcomes[0].timing is not None and outcomes[2].timing is not None
    assert outcomes[0].timing.high_ns < outcomes[2].timing.low_ns
    assert [o.failure for o in outcomes] == [None, Failure.CRASH, None, Failure.BUILD_ERROR]


def test_a_contender_far_slower_than_another_costs_two_calls(evaluator: CpuEvaluator) -> None:
    slow = first("for (volatile int spin = 0; spin < 200000000; ++spin);")
    outcomes = evaluator.compare([slow, RIGHT])
    assert_times(outcomes[0])
    assert_times(outcomes[1])
    assert outcomes[0].timing is not None and outcomes[0].timing.samples == 2


def test_a_glance_says_how_long_programs_take_and_builds_each_once(
    evaluator: CpuEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast_ns, slow_ns = evaluator.glance([RIGHT, SLOW])
    assert 0 < fast_ns < slow_ns
    with monkeypatch.context() as patch:
        patch.setattr("spacedsl.codegen.evaluator.build_library", None)
        assert len(evaluator.glance([RIGHT, SLOW])) == 2
        evaluator.workers.drop()
        assert len(evaluator.glance([RIGHT, SLOW])) == 2


def test_what_is_no_longer_glanced_at_is_unloaded_and_gone(
    evaluator: CpuEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluator.glance([])
    asked: list[str] = []
    request = WorkerProcess.request

    def heard(self: WorkerProcess, op: str, *limits: Any, **arguments: Any) -> dict[str, Any]:
        asked.append(arguments["library"] if op == "load" else op)
        return request(self, op, *limits, **arguments)

    monkeypatch.setattr(WorkerProcess, "request", heard)
    evaluator.glance([RIGHT, SLOW])
    kept, dropped = (Path(each) for each in asked if each.endswith(".so"))
    evaluator.glance([RIGHT])
    assert asked.count("unload") == 1
    assert kept.exists() and not dropped.exists()


@pytest.mark.parametrize("code", [first("__builtin_trap();"), first("nonsense;")])
def test_a_glance_at_what_falls_says_nothing_and_the_next_one_does(
    evaluator: CpuEvaluator, code: Lowered
) -> None:
    assert not evaluator.glance([RIGHT, code])
    assert len(evaluator.glance([RIGHT, SLOW])) == 2


def test_what_is_glanced_at_is_a_copy_of_what_was_built(
    evaluator: CpuEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluator.build([RIGHT, SLOW])
    monkeypatch.setattr("spacedsl.codegen.evaluator.build_library", None)
    assert len(evaluator.glance([RIGHT, SLOW])) == 2
    evaluator.build([])
    assert len(evaluator.glance([RIGHT, SLOW])) == 2


def test_of_several_processes_the_middle_one_counts(
    evaluator: CpuEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen_ns = iter([(100.0, 90.0), (300.0, 80.0), (200.0, 85.0)])
    met: list[int] = []

    def interleaved(self: Turns, libraries: Mapping[int, Path]) -> tuple[None, dict[int, Timing]]:
        met.append(self.workers.ready()[1].pid)
        return None, {n: Timing(t, t, t, 9) for n, t in zip(libraries, next(seen_ns), strict=True)}

    monkeypatch.setattr(Turns, "_interleave", interleaved)
    outcomes = evaluator.compare([RIGHT, SLOW], 3)
    assert [outcome.timing and outcome.timing.time_ns for outcome in outcomes] == [200.0, 85.0]
    assert len(set(met)) == 3


def test_who_falls_in_a_later_process_is_out_and_the_others_begin_again(
    evaluator: CpuEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    interleave, calls = Turns._interleave, []

    def falling(self: Turns, libraries: Mapping[int, Path]) -> object:
        calls.append(sorted(libraries))
        if len(calls) == 2:
            self.workers.drop()
            return (1, WorkerFailure(Failure.CRASH, "it fell")), {}
        return interleave(self, libraries)

    monkeypatch.setattr(Turns, "_interleave", falling)
    outcomes = evaluator.compare([RIGHT, SLOW], 3)
    assert [outcome.failure for outcome in outcomes] == [None, Failure.CRASH]
    assert calls == [[0, 1], [0, 1], [0], [0], [0]]


ROOM = """
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
static char *room;
__attribute__((destructor)) static void leave(void) { free(room); }
static void enter(void) {
  if (!room) room = calloc(1, (size_t)%d << 20);
  if (!room) fprintf(stderr, "no memory for %d million bytes of intermediate values"), abort();
}
"""


def roomy(mib: int) -> Lowered:
    code = first("enter();").code
    return Lowered(f"room{mib:012}", ROOM % (mib, mib) + code)


def test_contenders_that_have_no_room_together_are_compared_in_groups(evaluator: CpuEvaluator) -> None:
    """Each of the first three takes more than half of what one may have; the last one, more than that."""
    programs = [roomy(mib) for mib in (300, 310, 320, 2000)]
    *outcomes, greedy = evaluator.compare(programs)
    for outcome in outcomes:
        assert_times(outcome)
    assert greedy.failure is Failure.MEMORY
    assert evaluator.run(programs[-1], None).failure is Failure.MEMORY


def test_a_contender_that_is_clearly_slower_leaves_the_comparison(
    evaluator: CpuEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its first round, which is too short to settle it; there is one more for the last check."""
    slow = first("for (volatile int spin = 0; spin < 200000; ++spin);")
    rounds: Counter[int] = Counter()
    round_of = Measurement.round

    def counted(self: Measurement, *, is_resumed: bool = False) -> None:
        rounds[self.handle] += 1
        round_of(self, is_resumed=is_resumed)

    monkeypatch.setattr(Measurement, "round", counted)
    monkeypatch.setattr(evaluator, "options", replace(OPTIONS, budget_s=0.5))
    assert all(outcome.is_valid for outcome in evaluator.compare([RIGHT, slow]))
    assert rounds[max(rounds)] == 2


def test_one_evaluation_at_a_time_on_a_machine() -> None:
    outcomes: list[Outcome] = []
    warnings: list[str] = []
    is_waiting = threading.Event()
    waited_s: list[float] = []
    waits: list[bool] = []

    def warn(message: str) -> None:
        warnings.append(message)
        is_waiting.set()

    def run() -> None:
        with CpuEvaluator(KERNEL, DEVICE, OPTIONS, warn, waits.append) as evaluator:
            outcomes.extend(evaluator.run(RIGHT, None) for _ in range(2))
            waited_s.append(evaluator.waited_s)

    waiting = threading.Thread(target=run)
    with machine_lock(LOCK):
        waiting.start()
        assert is_waiting.wait(60)
        waiting.join(0.5)
        assert waiting.is_alive() and not outcomes
    waiting.join()
    assert_times(outcomes[0])
    assert_times(outcomes[1])
    assert waited_s[0] >= 0.5
    assert waits == [True, False]
    assert warnings == ["another process builds or measures on this machine: this one waits for its turns"]


def test_parameters_and_cold_caches() -> None:
    kernel = parse(COLD_AXPY)
    text = AXPY_VECTOR.format(i0=3, i1=10)
    with CpuEvaluator(kernel, DEVICE, OPTIONS) as opened:
        assert_times(opened.run(lowered(kernel, text), None))


def test_an_evaluator_can_be_opened_again() -> None:
    kernel = axpy(480, "{i: [[10], [16]]}")
    code = lowered(kernel, AXPY_VECTOR.format(i0=3, i1=10))
    evaluator = CpuEvaluator(kernel, DEVICE, OPTIONS)
    for _ in range(2):
        evaluator.open()
        assert_times(evaluator.run(code, None))
        evaluator.close()


def test_nothing_is_left_behind(evaluator: CpuEvaluator) -> None:
    assert_times(evaluator.run(RIGHT, None))
    before = len(list(Path("/proc/self/fd").iterdir()))
    for code in (RIGHT, first("__builtin_trap();"), first("nonsense;"), RIGHT):
        evaluator.run(code, None)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_it_is_said_that_test_cases_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "UNTOLD_S", 0.0)
    said: list[str] = []
    with CpuEvaluator(axpy(64), DEVICE, tell=said.append) as evaluator:
        evaluator.workers.ready()
        evaluator.workers.ready()
    assert said == ["making the test cases"]
