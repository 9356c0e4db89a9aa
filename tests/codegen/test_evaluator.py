"""Whatever code does, an evaluation ends in a time or in a failure of its class, and the next one works."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spacedsl.codegen.build import build_library
from spacedsl.codegen.c_printer import print_c
from spacedsl.codegen.evaluator import CpuEvaluator
from spacedsl.codegen.lock import machine_lock
from spacedsl.codegen.lower import lower
from spacedsl.codegen.measurement import Measurement, Options
from spacedsl.codegen.verify import verify
from spacedsl.diagnostics import DiagnosticError
from spacedsl.kernels.evaluation import Evaluator, Failure, Lowered, Outcome, Timing
from spacedsl.kernels.kernel_file import KernelFile
from tests.codegen.devices import DEVICE
from tests.codegen.kernels import axpy, matmul, parse
from tests.codegen.listings import AXPY_VECTOR, MATMUL_TILED
from tests.codegen.scripts import script

LOCK = Path(tempfile.gettempdir(), f"spacedsl-test-{os.getpid()}.lock")
"""Tests make no claims about time that another measurement would spoil: they do not wait for the machine."""
OPTIONS = Options(budget_s=0.05, memory_headroom_bytes=512 << 20, lock=LOCK)
KERNEL = matmul(32, 64, 9, "{i: [[2], [8]], j: [[2], [16]], p: []}")


def lowered(kernel: KernelFile, text: str) -> Lowered:
    code = print_c(verify(lower(kernel.backbone, script(kernel.backbone, text))), 2)
    return Lowered(f"{abs(hash(code)):016x}", code)


RIGHT = lowered(KERNEL, MATMUL_TILED.format(i0=2, i1=2, j0=2, k=9))
ENTRY = "void matmul(const float *restrict A, const float *restrict B, float *restrict C) {\n"


def changed(old: str, new: str) -> Lowered:
    """The right code with one change."""
    assert old in RIGHT.code
    return Lowered(RIGHT.digest, RIGHT.code.replace(old, new, 1))


def first(statement: str) -> Lowered:
    """The right code with a statement in front of everything."""
    return changed(ENTRY, f"{ENTRY}{statement}\n")


def last(statement: str) -> Lowered:
    code = RIGHT.code.rstrip()
    assert code.endswith("}")
    return Lowered(RIGHT.digest, f"{code[:-1]}{statement}\n}}\n")


@pytest.fixture(scope="module")
def evaluator() -> Iterator[CpuEvaluator]:
    with CpuEvaluator(KERNEL, DEVICE, OPTIONS) as opened:
        yield opened


def assert_times(outcome: Outcome) -> None:
    assert outcome.failure is None, outcome.message
    assert outcome.timing is not None
    assert 0 < outcome.timing.low_ns <= outcome.timing.time_ns <= outcome.timing.high_ns


def ends(pid: int) -> bool:
    """Whether a process that nobody may have waited for is soon no more, or no more than an entry."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.01)
    return False


def test_a_kernel_whose_results_are_not_finite_is_to_blame_itself() -> None:
    kernel = parse("""
kernel: ratio
backbone: linalg
sizes: {n: 8}
tensors:
  x: {dtype: f32, shape: [n]}
  y: {dtype: f32, shape: [n]}
  safe: {dtype: f32, shape: [n], output: true}
  far: {dtype: f32, shape: [n], output: true}
compute:
  - safe[i] = x[i] / y[i]
  - far[i] = x[i] / (y[i] - y[i])
""")
    with pytest.raises(DiagnosticError) as raised:
        CpuEvaluator(kernel, DEVICE, OPTIONS).open()
    (found,) = raised.value.diagnostics
    assert (found.code, found.span.line, found.span.column) == ("KF047", 12, 5)
    assert found.message == "`far` is not finite on random inputs: no implementation could be checked"
    assert found.span.text == "far[i] = x[i] / (y[i] - y[i])"


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

    def counting(code: str, library: Path, timeout_s: float) -> Path:
        built.append(library)
        return build(code, library, timeout_s=timeout_s)

    monkeypatch.setattr("spacedsl.codegen.evaluator.build_library", counting)
    monkeypatch.setattr(Measurement, "timing", lambda measurement: next(timings))
    outcome = evaluator.run(RIGHT, best_ns)
    assert outcome.timing is not None
    assert outcome.timing.time_ns == counted_ns
    assert len(built) == 1
    assert next(timings, None) is None


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


WRONG_CODE = {
    "a wrong stride": changed("A[i0 * 144", "A[i0 * 135"),
    "a dropped initialisation": changed("init_0_1 = f32x16_broadcast(0.0f)", "init_0_1 = init_0_0 + 1"),
    "a loop that is too short": changed("p0 < 9", "p0 < 8"),
    "an output that is not written": changed("for (int64_t j0 = 0; j0 < 2", "for (int64_t j0 = 1; j0 < 2"),
    "a result that was right before": last("static int calls; if (++calls > 3) C[5] += 1;"),
    "a value that is not a number": last("C[7] = C[7] * (0.0f / 0.0f);"),
}


@pytest.mark.parametrize("mistake", WRONG_CODE)
def test_wrong_results_are_caught(mistake: str, evaluator: CpuEvaluator) -> None:
    outcome = evaluator.run(WRONG_CODE[mistake], None)
    assert outcome.failure is Failure.WRONG_RESULT, outcome
    assert outcome.message


CRASHING_CODE = {
    "a bad pointer": (first("C -= 100000000;"), "SIGSEGV"),
    "a write past the output": (last("C[64 * 32] = 0;"), "SIGSEGV"),
    "a read past an input": (last("C[0] += 0 * A[32 * 9 + 16];"), "SIGSEGV"),
    "a write to an input": (first("((float *)A)[0] = 1;"), "SIGSEGV"),
    "an abort": (first("__builtin_trap();"), "SIGILL"),
    "an endless recursion": (
        first("volatile char x[4096]; x[0] = 1; matmul(A, B, C); x[1] = x[0];"),
        "SIGSEGV",
    ),
    "an exit": (first("_exit(3);"), "status 3"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", CRASHING_CODE)
def test_crashes_are_told_by_their_signal(mistake: str, evaluator: CpuEvaluator) -> None:
    code, words = CRASHING_CODE[mistake]
    outcome = evaluator.run(code, None)
    assert outcome.failure is Failure.CRASH, outcome
    assert words in outcome.message


WRONG_ON = {
    "zeros": last("if (A[0] == 0 && A[1] == 0 && B[0] == 0 && B[1] == 0) C[0] = C[0] + 1;"),
    "signs": last("if (A[0] == 1 && A[1] == -1 && A[2] == 1 && A[3] == -1 && A[4] == 1) C[0] += 1;"),
    "last element": last("if (A[32 * 9 - 1] == 1 && A[32 * 9 - 2] == 0) C[3] = 1;"),
}


@pytest.mark.parametrize("inputs", WRONG_ON)
def test_what_is_wrong_on_adversarial_inputs_alone_never_becomes_the_best(
    inputs: str, evaluator: CpuEvaluator
) -> None:
    wrong = WRONG_ON[inputs]
    for outcome in (evaluator.run(wrong, None), evaluator.run(wrong, 1e9), evaluator.compare([wrong])[0]):
        assert outcome.failure is Failure.WRONG_RESULT, outcome
        assert f"(inputs: {inputs})" in outcome.message
    assert_times(evaluator.run(wrong, 1.0))


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


def test_a_timeout_says_how_much_slower_than_the_best_the_code_was(evaluator: CpuEvaluator) -> None:
    outcome = evaluator.run(first("for (;;);"), 1e7)
    assert outcome.failure is Failure.RUN_TIMEOUT
    assert outcome.message == "stopped after 2.25 s: slower than 200 times the best (10 ms)"


def test_after_a_crash_the_next_worker_comes_from_the_same_server(evaluator: CpuEvaluator) -> None:
    assert_times(evaluator.run(RIGHT, None))
    server = evaluator._server
    assert evaluator.run(first("__builtin_trap();"), None).failure is Failure.CRASH
    assert_times(evaluator.run(RIGHT, None))
    assert evaluator._server is server


def test_a_server_that_died_is_replaced_in_silence(evaluator: CpuEvaluator) -> None:
    assert_times(evaluator.run(RIGHT, None))
    server, worker = evaluator._server, evaluator._worker
    assert server is not None and worker is not None
    os.kill(server._process.pid, signal.SIGKILL)
    server._process.wait()
    assert_times(evaluator.run(RIGHT, None))
    assert ends(worker.pid)


def test_children_of_a_crashed_worker_end_with_it(evaluator: CpuEvaluator, tmp_path: Path) -> None:
    path = tmp_path / "child"
    child = (
        f'if (!fork()) {{ int f = open("{path}", 65, 384); dprintf(f, "%d", getpid()); for (;;) pause(); }}'
    )
    declared = "int fork(void); int open(const char *, int, ...); int dprintf(int, const char *, ...);"
    wait = f'while (access("{path}", 0)); usleep(100000); __builtin_trap();'
    outcome = evaluator.run(first(f"{declared} int pause(void); {child} {wait}"), 1e6)
    assert outcome.failure is Failure.CRASH, outcome
    assert ends(int(path.read_text()))


def test_an_endless_loop_is_killed(evaluator: CpuEvaluator) -> None:
    start = time.monotonic()
    outcome = evaluator.run(first("for (;;);"), 1000.0)
    assert outcome.failure is Failure.RUN_TIMEOUT
    assert time.monotonic() - start < 25, "longer than what a better time allows"


def test_a_library_that_never_unloads_is_killed(evaluator: CpuEvaluator) -> None:
    code = RIGHT.code + "__attribute__((destructor)) static void forever(void) { for (;;) pool_pause(); }\n"
    outcome = evaluator.run(Lowered(RIGHT.digest, code), 1000.0)
    assert outcome.failure is Failure.RUN_TIMEOUT
    assert outcome.message == "stopped after 1 s, while it was unloaded"


def test_exhausted_memory_is_told_from_a_crash(evaluator: CpuEvaluator) -> None:
    greedy = first("for (;;) { volatile char *x = __builtin_malloc(1 << 20); x[0] = 1; }")
    assert evaluator.run(greedy, None).failure is Failure.MEMORY


def test_a_library_that_needs_too_much_memory_is_told_from_a_crash(evaluator: CpuEvaluator) -> None:
    code = RIGHT.code + "char room[1 << 30];\n"
    assert evaluator.run(Lowered(RIGHT.digest, code), None).failure is Failure.MEMORY


def test_code_that_does_not_compile_is_a_build_error_with_the_compilers_words(
    evaluator: CpuEvaluator,
) -> None:
    outcome = evaluator.run(first("nonsense;"), None)
    assert outcome.failure is Failure.BUILD_ERROR
    assert "nonsense" in outcome.message


def test_a_compiler_without_time_is_a_build_timeout() -> None:
    hasty = CpuEvaluator(KERNEL, DEVICE, replace(OPTIONS, build_timeout_s=0.001))
    assert hasty.run(RIGHT, None).failure is Failure.BUILD_TIMEOUT


def test_a_killed_worker_is_lost_and_replaced(evaluator: CpuEvaluator) -> None:
    # As the kernel does when memory is short: it looks as if the process had been killed from outside.
    outcome = evaluator.run(first("int kill(int, int); kill(getpid(), 9);"), None)
    assert outcome.failure is Failure.WORKER_LOST
    assert "SIGKILL" in outcome.message
    assert_times(evaluator.run(RIGHT, None))


def test_a_worker_that_died_between_evaluations_is_replaced_in_silence(evaluator: CpuEvaluator) -> None:
    assert_times(evaluator.run(RIGHT, None))
    worker = evaluator._worker
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
    assert outcome.timing is not None and outcome.timing.samples == 2


def test_contenders_are_compared_although_one_of_them_falls(evaluator: CpuEvaluator) -> None:
    slow = first("for (volatile int spin = 0; spin < 20000; ++spin);")
    outcomes = evaluator.compare([RIGHT, first("__builtin_trap();"), slow, first("nonsense;")])
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
    kernel = parse(_COLD)
    text = AXPY_VECTOR.format(i0=3, i1=10)
    with CpuEvaluator(kernel, DEVICE, OPTIONS) as opened:
        assert_times(opened.run(lowered(kernel, text), None))


_COLD = """
kernel: axpy
backbone: linalg
sizes: {n: 480}
cache: cold
tensors:
  x: {dtype: f32, shape: [n]}
  y: {dtype: f32, shape: [n]}
  z: {dtype: f32, shape: [n], output: true}
params: {alpha: f32}
compute:
  - z[i] = alpha * x[i] + y[i]
tiling: {i: [[10], [16]]}
"""


def test_writes_between_and_next_to_the_elements_of_an_output_are_caught() -> None:
    kernel = parse(_COLD.replace("shape: [n], output", "shape: [n], strides: [2], output"))
    text = AXPY_VECTOR.format(i0=3, i1=10).replace("V 16", "U 16")
    right = lowered(kernel, text)
    with CpuEvaluator(kernel, DEVICE, OPTIONS) as opened:
        assert_times(opened.run(right, None))
        for element, words in (
            (3, "between its elements"),
            (-1, "memory next to z"),
            (959, "memory next to z"),
        ):
            wrong = Lowered(right.digest, f"{right.code.rstrip()[:-1]}  z[{element}] = 1;\n}}\n")
            outcome = opened.run(wrong, None)
            assert outcome.failure is Failure.WRONG_RESULT
            assert words in outcome.message


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
