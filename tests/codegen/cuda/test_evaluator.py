"""What the compiler and the twin are spared, and what they are not."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from spacedsl.codegen.c.build import find_compiler
from spacedsl.codegen.cuda import checking, evaluator, kernels_apart
from spacedsl.codegen.cuda.evaluator import PROMISING, SPILLS, PredictingEvaluator
from spacedsl.codegen.cuda.nvrtc import Cubin, Resources, compile_cubin
from spacedsl.codegen.cuda.printer import print_cuda
from spacedsl.codegen.generation import generation
from spacedsl.codegen.machine import processor
from spacedsl.codegen.tree.errors import LoweringError
from spacedsl.codegen.tree.program import Program
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.device import DEVICES, load_gpu
from spacedsl.kernels.evaluation import Failure, Lowered, Outcome, Timing
from spacedsl.kernels.kernel_file import load_kernel
from tests.codegen.cuda.grids import device, random_candidates, space_of
from tests.codegen.kernels import parse
from tests.codegen.pipeline import on_gpus
from tests.kernels.pipeline.files import pipeline
from tests.products import product

KERNEL = load_kernel(Path("kernels/library/row_sum.yaml"), {"m": 64, "n": 256}, "gpu")


@pytest.fixture
def evaluating() -> Iterator[PredictingEvaluator]:
    made = PredictingEvaluator(KERNEL, device())
    made.open()
    yield made
    made.close()


def drawn(evaluating: PredictingEvaluator) -> list[Lowered]:
    """The fastest first, by the estimate."""
    found = [evaluating.lower(candidate) for candidate in random_candidates(space_of(KERNEL), 12, seed=2)]
    kept = {each.digest: each for each in found if isinstance(each, Lowered)}
    return sorted(kept.values(), key=lambda each: each.estimate_ns)


def test_where_time_is_over_contenders_are_watched_until_one_is_right(
    evaluating: PredictingEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    contenders = drawn(evaluating)[:5]
    monkeypatch.setattr(evaluator, "MOST_WATCHING_S", 0.0)
    monkeypatch.setattr(processor, "usable_cpus", lambda: (0,))
    wrong = Outcome(None, Failure.CRASH, "a race")
    watched: list[bool] = []

    def check(checker: checking.Checker, candidate: Candidate, *, is_watched: bool = False) -> Outcome | None:
        watched.extend([is_watched] * is_watched)
        return wrong if is_watched and len(watched) < 3 else None

    monkeypatch.setattr(checking.Checker, "check", check)
    outcomes = evaluating.compare(contenders)
    assert outcomes[:2] == [wrong, wrong]
    assert len(watched) == 3
    assert all(outcome.is_valid for outcome in outcomes[2:]), "as they were, or watched and right"
    evaluating.compare(contenders)
    assert len(watched) == 3, "one is known to be right"


def test_what_is_clearly_slower_is_not_compiled(
    evaluating: PredictingEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []

    def counted(code: str, architecture: str) -> Cubin:
        compiled.append(code)
        return compile_cubin(code, architecture)

    monkeypatch.setattr(kernels_apart, "compile_cubin", counted)
    best, *others = drawn(evaluating)
    evaluating.build([best])
    best_ns = time_ns(evaluating, best)
    assert len(compiled) == 1
    slower = [each for each in others if each.estimate_ns > PROMISING * best_ns]
    evaluating.build(others)
    assert slower and {each.code for each in slower}.isdisjoint(compiled)
    assert [time_ns(evaluating, each, best_ns) for each in slower] == [each.estimate_ns for each in slower]
    assert len(compiled) == 1 + len(others) - len(slower)


def time_ns(evaluating: PredictingEvaluator, program: Lowered, best_ns: float | None = None) -> float:
    timing = evaluating.run(program, best_ns).timing
    assert timing is not None
    return timing.time_ns


@pytest.mark.parametrize("cpus", [1, 2, 3])
def test_outcomes_depend_neither_on_the_cpus_nor_on_what_was_built_before(
    cpus: int, evaluating: PredictingEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With three CPUs, the second program is examined beside the first, which alone would have said that it
    promises nothing; a run that goes on knows of nothing that was built before.
    """
    estimated = {"first": 100.0, "second": 120.0, "third": 130.0}
    compiled = {"first": 80.0, "second": 70.0, "third": 75.0}

    def examined(self: PredictingEvaluator, lowered: Lowered) -> Outcome:
        return outcome(compiled[lowered.code])

    monkeypatch.setattr(PredictingEvaluator, "_examined", examined)
    monkeypatch.setattr(processor, "usable_cpus", lambda: range(cpus))
    programs = [Lowered.of(name, estimate_ns=ns) for name, ns in estimated.items()]
    evaluating.build(programs)
    best_ns, found = None, []
    for program in programs:
        found.append(time_ns(evaluating, program, best_ns))
        best_ns = min(found)
    assert found == [80.0, 120.0, 130.0]


def outcome(time_ns: float) -> Outcome:
    return Outcome(Timing(time_ns, time_ns, time_ns, 0))


def test_what_may_be_handed_out_is(evaluating: PredictingEvaluator) -> None:
    programs = drawn(evaluating)
    evaluating.build(programs[:1])
    assert all(outcome.failure is None for outcome in evaluating.compare(programs[-2:]))
    assert all(program.digest in evaluating._known for program in programs[-2:])


def test_what_keeps_registers_in_memory_is_marked_and_what_no_sm_has_room_for_is_refused(
    evaluating: PredictingEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = drawn(evaluating)[0]
    assert evaluating.run(best, None).message == ""

    def said(registers: int, spilled_bytes: int) -> Outcome:
        def compiled(code: str, architecture: str) -> Cubin:
            cubin = compile_cubin(code, architecture)
            taken = {name: Resources(registers, spilled_bytes, 0) for name in cubin.resources}
            return replace(cubin, resources=taken)

        monkeypatch.setattr(kernels_apart, "compile_cubin", compiled)
        evaluating._known.clear()
        evaluating._compiler._known.clear()
        return evaluating.run(best, None)

    spilling = said(64, 40)
    assert spilling.is_valid and spilling.message == SPILLS
    narrow = device().model_copy(update={"registers_per_sm": 1 << 5})
    monkeypatch.setattr(evaluating, "device", narrow)
    refused = said(255, 0)
    assert refused.failure is Failure.BUILD_ERROR
    assert "no SM has room for one" in refused.message


@pytest.mark.parametrize(
    ("text", "gpu", "said"),
    [
        (product(64, 64, 64, dtype="bf16") + "precision: tensor\n", "h100", []),
        (product(64, 64, 64, dtype="bf16"), "k4000", []),
        (product(64, 64, 64) + "precision: tensor\n", "h100", ["products of two tensors of bf16 or f16"]),
        (
            product(64, 64, 64) + "precision: tf32\n",
            "v100",
            ["has no tensor cores that code is made for"],
        ),
    ],
)
def test_tensor_cores_that_have_nothing_to_do_are_said(text: str, gpu: str, said: list[str]) -> None:
    heard: list[str] = []
    made = PredictingEvaluator(
        parse(text).made_for("gpu"), load_gpu(DEVICES / f"{gpu}.yaml"), warn=heard.append
    )
    made.open()
    made.close()
    about = [message for message in heard if "precision" in message]
    assert len(about) == len(said)
    assert all(words in message for words, message in zip(said, about, strict=True))


def test_an_estimate_is_what_lowering_says_and_infinite_where_it_says_nothing(
    evaluating: PredictingEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for candidate in random_candidates(space_of(KERNEL), 3, seed=5):
        lowered = evaluating.lower(candidate)
        assert isinstance(lowered, Lowered)
        assert evaluating.estimate_ns(candidate) == lowered.estimate_ns

    def refuse(kernel: object, candidate: object) -> NoReturn:
        raise LoweringError("decisions that are no program")

    made = replace(generation(KERNEL), lower_grids=refuse)
    monkeypatch.setattr(evaluator, "generation", lambda kernel: made)
    assert evaluating.estimate_ns(candidate) == math.inf


def test_races_of_what_may_be_handed_out_are_seen_although_all_values_are_right(
    evaluating: PredictingEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = drawn(evaluating)[0]
    assert evaluating.compare([best])[0].failure is None

    def racing(program: Program) -> str:
        """All threads store the same to one place."""
        head, *others = re.split(r"(?<=\) \{\n)", print_cuda(program), maxsplit=1)
        return f"float met = 2;\n{head}  met = 1;\n{''.join(others)}"

    monkeypatch.setattr(checking, "print_cuda", racing)
    candidate = evaluating._programs[best.digest].candidate
    assert evaluating._checker.check(candidate) is None
    if find_compiler().is_clang:
        pytest.skip("races are seen by twins that GCC builds")
    evaluating._watched.clear()
    (outcome,) = evaluating.compare([best])
    assert outcome.failure is Failure.CRASH
    assert "race: thread" in outcome.message
    slowest = drawn(evaluating)[-1]
    assert slowest.estimate_ns > PROMISING * best.estimate_ns
    evaluating.build([slowest])
    assert slowest.digest in evaluating._known, "beside what is wrong, nothing is slow"


def test_neighbours_of_one_byte_are_no_race() -> None:
    """Threads that store bytes beside each other, in an array that another kernel reads."""
    file = pipeline(
        "q(x, y) = u8(sqrt(f32(image(x, y))) * 3.3)\n"
        "hist(i) = u32(0)\n"
        "hist(i32(q(r, s))) += 1 for r in 0:96, s in 0:8",
        "{hist: {i: 64}}",
        "{image: {dtype: u8, extents: [96, 8]}}",
    )
    evaluating = PredictingEvaluator(file, device())
    evaluating.open()
    try:
        programs = [evaluating.lower(candidate) for candidate in on_gpus.drawn(file, 8, 3)]
        found = evaluating.compare([each for each in programs if isinstance(each, Lowered)])
    finally:
        evaluating.close()
    assert len(found) > 4
    assert not [outcome.message for outcome in found if outcome.failure is Failure.CRASH]


def test_what_may_be_handed_out_is_run_in_several_orders_of_threads(
    evaluating: PredictingEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = drawn(evaluating)[0]
    assert evaluating.compare([best])[0].failure is None
    candidate = evaluating._programs[best.digest].candidate
    for order in (checking.ASCENDING, checking.DESCENDING):

        def idle(program: Program, order: int = order) -> str:
            """In one order, nothing is done at all."""
            text = re.sub(
                r"= (LAUNCH\(.*?\));", rf"= twin_order != {order} ? \1 : error;", print_cuda(program)
            )
            assert "twin_order" in text
            return text

        monkeypatch.setattr(checking, "print_cuda", idle)
        assert evaluating._checker.check(candidate) is None
        outcome = evaluating._checker.check(candidate, is_watched=True)
        assert outcome is not None and outcome.failure is Failure.WRONG_RESULT
