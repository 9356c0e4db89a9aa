"""Pipelines in a worker: built, checked element by element, timed, called from Python."""

from __future__ import annotations

import fcntl
import gc
import threading
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spacedsl.codegen.c import units
from spacedsl.codegen.c.build import build_object
from spacedsl.codegen.evaluator import CpuEvaluator
from spacedsl.codegen.lock import machine_lock
from spacedsl.codegen.native import build_function
from spacedsl.codegen.pipeline.cases import make_cases
from spacedsl.codegen.running import harness
from spacedsl.codegen.running.memory import TooLargeError, check_memory, needed_bytes
from spacedsl.diagnostics import DiagnosticError
from spacedsl.engine.descent import DescentCounts
from spacedsl.kernels.evaluation import Failure, Lowered, Outcome
from spacedsl.kernels.pipeline.reference import evaluate
from tests.codegen.devices import DEVICE
from tests.codegen.evaluating import OPTIONS, assert_times
from tests.kernels.pipeline.cases import drawn
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.test_library import load

FILE = pipeline(
    """
    mean(x, y) = (image(x, y) + image(x + 1, y) + image(x, y + 1)) * scale
    bright(x, y) = u8(mean(x, y) * 255)
    total(y) = sum[r in 0:30](mean(r, y))
    best(y) = (argmax[r in 0:30](bright(r, y)), bright(0, y))
    """,
    "{bright: {x: 30, y: 3:20}, total: {y: 20}, best: {y: 19}}",
    "{image: {dtype: f32, rank: 2}}",
    "params: {scale: {dtype: f32, value: 0.3}}\n",
)


@pytest.fixture(scope="module")
def evaluator() -> Iterator[CpuEvaluator]:
    with CpuEvaluator(FILE, DEVICE, OPTIONS) as opened:
        yield opened


@pytest.fixture(scope="module")
def lowered(evaluator: CpuEvaluator) -> Lowered:
    candidate = next(drawn(FILE, 20, 3, DescentCounts()))
    found = evaluator.lower(candidate)
    assert isinstance(found, Lowered), found
    return found


def run(evaluator: CpuEvaluator, code: str) -> Outcome:
    return evaluator.run(Lowered.of(code), None)


def test_a_candidate_is_built_checked_and_timed(evaluator: CpuEvaluator, lowered: Lowered) -> None:
    assert_times(evaluator.run(lowered, None))


def last(lowered: Lowered, statement: str) -> str:
    """The code with a statement behind everything."""
    code = lowered.code.rstrip()
    assert code.endswith("}")
    return f"{code[:-1]}{statement}\n}}\n"


WRONG = {
    "an integer by one": ("bright[7 * 30 + 4] ^= 1;", "bright[7, 4] is "),
    "a float by a thousandth": ("total[5] *= 1.001f;", "total[5] is "),
    "the place of a maximum": ("best_0[2] += 1;", "best_0[2] is "),
    "what is no number": ("total[19] = 0.0f / 0.0f;", "total[19] is nan"),
    "memory that is none of its own": ("((char *)total)[-1] = 1;", "memory next to total was written"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_in_one_element_is_found(evaluator: CpuEvaluator, lowered: Lowered, name: str) -> None:
    statement, words = WRONG[name]
    outcome = run(evaluator, last(lowered, statement))
    assert outcome.failure is Failure.WRONG_RESULT
    assert words in outcome.message


def test_what_rounding_may_do_passes(evaluator: CpuEvaluator, lowered: Lowered) -> None:
    assert_times(run(evaluator, last(lowered, "total[5] *= 1.0000002f;")))


def test_code_is_a_function_on_arrays(lowered: Lowered) -> None:
    image = np.random.default_rng(1).random((23, 32), np.float32)
    bright, total, *best = build_function(FILE, lowered.code)(image[:, :31][:21].copy(), 0.3)
    box = FILE.boxes["image"]
    assert [e.size for e in box] == [31, 21]
    expected = evaluate(FILE.algorithm, FILE.boxes, {"image": image[:21, :31]})
    np.testing.assert_array_equal(bright, expected["bright"][0][3:20])
    np.testing.assert_allclose(total, expected["total"][0], rtol=1e-5)
    np.testing.assert_array_equal(best[0], expected["best"][0])
    np.testing.assert_array_equal(best[1], expected["best"][1])


TYPES = ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64", "bool"]


def test_arrays_and_parameters_are_of_all_types() -> None:
    file = pipeline(
        "\n".join(f"f{t}(x) = select(a{t}(x) == p{t}, a{t}(x + 1), a{t}(x))" for t in TYPES),
        "{" + ", ".join(f"f{t}: {{x: 70}}" for t in TYPES) + "}",
        "{" + ", ".join(f"a{t}: {{dtype: {t}, rank: 1}}" for t in TYPES) + "}",
        "params: {" + ", ".join(f"p{t}: {{dtype: {t}, value: 1}}" for t in TYPES) + "}\n",
    )
    with CpuEvaluator(file, DEVICE, OPTIONS) as evaluator:
        found = evaluator.lower(next(drawn(file, 20, 3, DescentCounts())))
        assert isinstance(found, Lowered), found
        assert_times(evaluator.run(found, None))
        flips = "".join(f"((char *)(f{t} + 70))[-1] ^= 1;" for t in TYPES)
        outcome = run(evaluator, last(found, flips))
        assert [f"f{t}[69] is " in outcome.message for t in TYPES] == [True] * len(TYPES)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_rounded_results_of_all_floats_are_compared(dtype: str) -> None:
    """Also where they are no numbers, or where it depends on their order what is left of them."""
    file = pipeline(
        "f(x) = a(x) * a(x)\ng(x) = max(sqrt(a(x)), 0.0)\nh(x) = max[r in 0:3](sqrt(a(x + r)))",
        "{f: {x: 70}, g: {x: 70}, h: {x: 60}}",
        f"{{a: {{dtype: {dtype}, extents: [70]}}}}",
    )
    with CpuEvaluator(file, DEVICE, OPTIONS) as evaluator:
        found = evaluator.lower(next(drawn(file, 20, 3, DescentCounts())))
        assert isinstance(found, Lowered), found
        assert_times(evaluator.run(found, None))
        outcome = run(evaluator, last(found, "((char *)(f + 70))[-1] ^= 64;"))
        assert "f[69] is " in outcome.message


@pytest.mark.parametrize("more", ["", "tolerance: 0.01\n"])
def test_integers_that_were_floats_and_what_is_no_number_pass_where_they_are_right(more: str) -> None:
    file = pipeline(
        "f(x) = u8(clamp(exp(a(x)) * 90.0, 0, 255))\ng(x) = exp(a(x)) > 1.5\nh(x) = sqrt(a(x))",
        "{f: {x: 70}, g: {x: 70}, h: {x: 70}}",
        "{a: {dtype: f32, extents: [70]}}",
        more,
    )
    with CpuEvaluator(file, DEVICE, OPTIONS) as evaluator:
        found = evaluator.lower(next(drawn(file, 20, 3, DescentCounts())))
        assert isinstance(found, Lowered), found
        assert_times(evaluator.run(found, None))


def test_without_a_cache_folder_the_harness_is_there_as_long_as_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "_cache_folder", lambda: tmp_path / "missing")
    file = pipeline("f(x) = a(x) + 1", "{f: {x: 70}}", "{a: {dtype: f32, extents: [70]}}")
    with CpuEvaluator(file, DEVICE, OPTIONS) as evaluator:
        found = evaluator.lower(next(drawn(file, 20, 3, DescentCounts())))
        assert isinstance(found, Lowered), found
        assert_times(evaluator.run(found, None))


def test_an_output_that_is_not_finite_is_told_where_it_stands() -> None:
    file = pipeline("f(x) = a(x) / 0.0", "{f: {x: 4}}", "{a: {dtype: f32, rank: 1}}")
    with CpuEvaluator(file, DEVICE, OPTIONS) as evaluator, pytest.raises(DiagnosticError) as raised:
        evaluator.workers.ready()
    (found,) = raised.value.diagnostics
    assert (found.code, found.span.line) == ("KF047", 4)


def test_a_pipeline_that_is_too_large_is_refused_at_its_largest_array() -> None:
    file = pipeline("f(x) = a(x) + 1", "{f: {x: 2147483000}}", "{a: {dtype: u64, rank: 1}}")
    with pytest.raises(TooLargeError) as raised:
        check_memory(file, 0)
    (found,) = raised.value.diagnostics
    assert (found.code, found.span.line) == ("KF046", 3) and "its 2 test cases" in found.message


def test_memory_to_make_the_cases_counts() -> None:
    """Measured: making those of max_filter at its full size takes 2.4 GB, its arrays included."""
    full = load("max_filter")
    arrays = sum(t.nbytes for t in full.tensors)
    assert needed_bytes(full, 0) - 3 * arrays > 1.8e9
    assert needed_bytes(load("blur"), 0) < 5 * sum(t.nbytes for t in load("blur").tensors)


@pytest.mark.parametrize(
    ("stages", "outputs"),
    [
        ("f(x, y) = u8_sat(f32(a(x, y)) * 255 / 7)\ng(x) = x", "{f: {x: 900, y: 400}, g: {x: 3}}"),
        ("f(x, y) = f32(a(x, y)) * 0.3 + sqrt(f32(a(x, y)))", "{f: {x: 900, y: 400}}"),
        ("f(x, y) = mirror_interior(a, x - 3, y + 2)\ng(x) = x", "{f: {x: 900, y: 400}, g: {x: 3}}"),
        ("f(i) = u32(0)\nf(a(r, s)) += 1 for r in 0:900, s in 0:400", "{f: {i: 256}}"),
        ("f(y) = argmax[r in 0:900](a(r, y))", "{f: {y: 400}}"),
    ],
    ids=["saturated", "floats", "mirrored", "counted", "found"],
)
def test_making_the_cases_takes_no_more_memory_than_is_said(stages: str, outputs: str) -> None:
    file = pipeline(stages, outputs, "{a: {dtype: u8, extents: [900, 400]}}")
    gc.collect()
    tracemalloc.start()
    cases = list(make_cases(file, np.random.default_rng(0)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(cases) > 1
    assert peak <= needed_bytes(file, 0)


def test_nests_are_timed_by_themselves_too(evaluator: CpuEvaluator) -> None:
    """Where a library is built for it, which that of the same text without phases is not."""
    programs = [evaluator.lower(candidate) for candidate in drawn(FILE, 20, 5, DescentCounts())]
    several = [p for p in programs if isinstance(p, Lowered) and len(set(p.phases)) > 2]
    assert several
    outcome = evaluator.run(several[0], None)
    assert outcome.timing is not None
    names = {step.name for step in FILE.backbone.steps}
    assert {name for name, _ in outcome.phases_ns} == set(several[0].phases) - {""} <= names
    assert all(time_ns > 0 for _, time_ns in outcome.phases_ns)
    again = evaluator.run(Lowered(several[0].digest, several[0].code), None)
    assert again.timing is not None
    assert not again.phases_ns


def test_units_of_which_one_is_wrong_are_a_failure(evaluator: CpuEvaluator) -> None:
    programs = [evaluator.lower(candidate) for candidate in drawn(FILE, 20, 5, DescentCounts())]
    several = next(p for p in programs if isinstance(p, Lowered) and len(p.units) > 2)
    broken = replace(several, digest="broken", units=(*several.units[:-1], "nonsense"))
    assert evaluator.run(broken, None).failure is Failure.BUILD_ERROR
    evaluator.build([broken, several])
    assert evaluator.run(broken, None).failure is Failure.BUILD_ERROR
    assert_times(evaluator.run(several, None))


def test_what_was_only_begun_keeps_others_waiting_and_is_there_when_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until something is measured, which ends it. Where others build or measure, nothing is begun."""
    lock, threads = tmp_path / "lock", threading.active_count()
    built: list[str] = []

    def counting(code: str, target: Path, *, timeout_s: float) -> Path:
        built.append(code)
        return build_object(code, target, timeout_s=timeout_s)

    monkeypatch.setattr(units, "build_object", counting)
    with CpuEvaluator(FILE, DEVICE, replace(OPTIONS, lock=lock)) as evaluator:
        programs = [evaluator.lower(candidate) for candidate in drawn(FILE, 20, 5, DescentCounts())]
        begun = [p for p in programs if isinstance(p, Lowered) and len(p.units) > 2]
        wanted = {unit for program in begun[:2] for unit in program.units[1:]}
        with machine_lock(lock):
            evaluator.begin(begun[0])
        assert not built
        for program in begun[:2]:
            evaluator.begin(program)
        while len(built) < len(wanted):
            time.sleep(0.001)
        with lock.open() as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        evaluator.build(begun[:2])
        assert set(built) == wanted and len(built) == len(wanted)
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert_times(evaluator.run(begun[0], None))
        evaluator.begin(begun[2])
        assert_times(*evaluator.compare([begun[1]]))
        # As witnesses of a run that is gone on with: built for nothing else.
        assert len(evaluator.glance([begun[3]])) == 1
        evaluator.begin(begun[4])
    assert threading.active_count() == threads
