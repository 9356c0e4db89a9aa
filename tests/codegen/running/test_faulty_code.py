"""Whatever code does, its evaluation ends in a failure of its class, and the next one works."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from spacedsl.codegen.evaluator import CpuEvaluator
from spacedsl.diagnostics import DiagnosticError
from spacedsl.kernels.evaluation import Failure, Lowered
from tests.codegen.devices import DEVICE
from tests.codegen.evaluating import (
    COLD_AXPY,
    KERNEL,
    OPTIONS,
    RIGHT,
    assert_times,
    changed,
    ends,
    first,
    last,
    lowered,
)
from tests.codegen.kernels import parse
from tests.codegen.listings import AXPY_VECTOR


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
    with CpuEvaluator(kernel, DEVICE, OPTIONS) as evaluator, pytest.raises(DiagnosticError) as raised:
        evaluator.workers.ready()
    (found,) = raised.value.diagnostics
    assert (found.code, found.span.line, found.span.column) == ("KF047", 12, 5)
    assert found.message == "`far` is not finite on random inputs: no implementation could be checked"
    assert found.span.text == "far[i] = x[i] / (y[i] - y[i])"


WRONG_CODE = {
    "a wrong stride": changed("A[i0 * 144", "A[i0 * 135"),
    "a dropped initialisation": changed(
        "init_at_0_1 = f32x16_broadcast(0.0f)", "init_at_0_1 = init_at_0_0 + 1"
    ),
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


ENDLESS = "for (;;) sleep(1);"
"""A loop that leaves the CPUs to others."""

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


def test_a_timeout_says_how_much_slower_than_the_best_the_code_was(evaluator: CpuEvaluator) -> None:
    outcome = evaluator.run(first(ENDLESS), 1e7)
    assert outcome.failure is Failure.RUN_TIMEOUT
    assert outcome.message == "stopped after 2.25 s: slower than 200 times the best (10 ms)"


def test_after_a_crash_the_next_worker_comes_from_the_same_server(evaluator: CpuEvaluator) -> None:
    assert_times(evaluator.run(RIGHT, None))
    server = evaluator.workers._server
    assert evaluator.run(first("__builtin_trap();"), None).failure is Failure.CRASH
    assert_times(evaluator.run(RIGHT, None))
    assert evaluator.workers._server is server


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
    outcome = evaluator.run(first(ENDLESS), 1000.0)
    assert outcome.failure is Failure.RUN_TIMEOUT
    assert time.monotonic() - start < 25, "longer than what a better time allows"


def test_a_library_that_never_unloads_is_killed(evaluator: CpuEvaluator) -> None:
    code = RIGHT.code + "__attribute__((destructor)) static void forever(void) { for (;;) sleep(1); }\n"
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


def test_writes_between_and_next_to_the_elements_of_an_output_are_caught() -> None:
    kernel = parse(COLD_AXPY.replace("shape: [n], output", "shape: [n], strides: [2], output"))
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
