"""Parts of sums on a GPU: blocks and threads add to memory, and none of what they add is lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spacedsl.codegen.c.build import find_compiler
from spacedsl.codegen.cuda.nvrtc import QUICKLY, compile_cubin
from spacedsl.codegen.cuda.prediction import predict
from spacedsl.codegen.cuda.printer import print_cuda
from spacedsl.codegen.pipeline.cases import make_cases
from spacedsl.codegen.pipeline.schedule import CandidateDecisions, text
from spacedsl.codegen.pipeline.schedule import schedule as nests_of
from spacedsl.codegen.tree.errors import VerificationError
from spacedsl.codegen.tree.expressions import Load, Register, type_of
from spacedsl.codegen.tree.parts import combined_into, statements, with_blocks
from spacedsl.codegen.tree.program import Assign, AtomicCombine, PerThread, Program, Statement, Store
from spacedsl.codegen.tree.verify import verify
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Engine, instantiate
from spacedsl.kernels.device import DEVICES, load_gpu
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.search.costs.gpu_pipeline import GpuPipelineCosts
from spacedsl.search.costs.model import time_ns
from tests.codegen.cuda.grids import device
from tests.codegen.pipeline.on_gpus import (
    built,
    drawn,
    grids_of,
    instance,
    rules,
    schedule,
    twin_difference,
)
from tests.kernels.pipeline.cases import named
from tests.kernels.pipeline.files import pipeline

SHARED: Mapping[str, Mapping[str, int]] = {
    "a histogram": {"h.1.r.TASK": 2, "h.1.i.LANE": 1, "rows.1.r.LANE": 1, "rows.1.y.TASK": 2},
    "a histogram of each column": {"h.1.r.LANE": 2, "h.1.x.LANE": 1},
    "a product": {"f_sum.1.k.TASK": 3, "f_sum.1.k.LANE": 1, "f_sum.1.x.LANE": 1},
    "two updates": {"f.1.r.TASK": 2},
    "one value": {"t.1.q.TASK": 2, "t.1.r.TASK": 4, "t.1.r.LANE": 2},
    "floats": {"s.1.x.LANE": 3, "s.1.y.TASK": 1, "d.1.x.TASK": 8},
}  # fmt: skip


def file_of(case: str) -> PipelineFile:
    if case != "floats":
        return named(case)
    stages = (
        "s(i) = f32(i)\ns(photo(x, y) % 3) += f32(photo(x, y)) * 0.5 for x in 0:40, y in 0:3 where x != y\n"
        "d() = f64(3)\nd() += f64(photo(x, 1)) for x in 0:40\ng(i) = f64(s(i)) + d()"
    )
    return pipeline(stages, "{g: {i: 3}}", "{photo: {dtype: u8, extents: [40, 3]}}")


def sound(case: str) -> tuple[PipelineFile, Candidate, Program]:
    file = file_of(case)
    candidate = schedule(file, {}, SHARED[case])
    return file, candidate, grids_of(file, candidate)


def differences(file: PipelineFile, programs: Sequence[Program], folder: Path) -> list[str]:
    (case, *_) = make_cases(file, np.random.default_rng(3))
    library = built(programs, folder)
    return [twin_difference(file, library, f"program_{n}", case) for n in range(len(programs))]


@pytest.mark.skipif(find_compiler().is_clang, reason="only twins built by GCC see races")
@pytest.mark.parametrize("case", SHARED)
def test_parts_of_ranges_are_added_up(case: str, tmp_path: Path) -> None:
    file, _, program = sound(case)
    assert combined_into(program.body)
    assert differences(file, [program], tmp_path) == [""]


def test_code_is_taken_by_the_compiler_of_cuda() -> None:
    for case in ("a histogram", "floats"):
        compile_cubin(print_cuda(sound(case)[2]), device().compute_capability, QUICKLY)


def test_what_is_shared_out_is_shown() -> None:
    file, candidate, _ = sound("a histogram")
    shown = text(nests_of(file.backbone.steps, CandidateDecisions(candidate)), "gpu").splitlines()
    assert "  for r in 3 of 2 (TASK, ATOMIC)" in shown
    assert "    for r in 6 of 1 (LANE, ATOMIC)" in shown


def test_random_schedules_share_sums_out(tmp_path: Path) -> None:
    file = file_of("a histogram")
    found = [grids_of(file, candidate) for candidate in drawn(file, 60, 2)]
    added = [program for program in found if combined_into(program.body)]
    assert len(added) > 5
    assert len(added) < len(found)


@pytest.mark.parametrize(("name", "ways"), [("titan", {"s.1"}), ("v100", {"s.1", "d.1"})])
def test_numbers_of_64_bits_are_added_to_memory_where_the_device_can(name: str, ways: set[str]) -> None:
    file = file_of("floats")
    here = instantiate(rules(), file.backbone, load_gpu(DEVICES / f"{name}.yaml"), Engine.NATIVE)
    root = here.root()
    assert root is not None
    variables = {step.name: here.variable("reduce", step) for step in file.backbone.reductions}
    assert {
        s for s, variable in variables.items() if "ATOMIC" in variable.values(root.mask(variable))
    } == ways


def test_only_sums_of_what_memory_adds_up_are_added_to_memory() -> None:
    file = file_of("reductions of every kind")
    here = instance(file)
    root = here.root()
    assert root is not None
    for step in file.backbone.reductions:
        ways = here.variable("reduce", step).values(root.mask(here.variable("reduce", step)))
        assert {"SERIAL", "PARTIAL"} <= {*ways} <= {"SERIAL", "PARTIAL", "SHUFFLE"}


# ---- Mistakes ---------------------------------------------------------------------------------------------

Edit = Callable[[Statement], Sequence[Statement]]


def edited(body: Sequence[Statement], edit: Edit) -> tuple[Statement, ...]:
    return tuple(e for s in body for e in edit(with_blocks(s, lambda inner: edited(inner, edit))))


def apart(statement: Statement) -> Sequence[Statement]:
    """Loaded, added to and stored: what others add in between is lost."""
    match statement:
        case AtomicCombine(tensor, index, value):
            return (Store(tensor, index, value),)
    return (statement,)


@pytest.mark.parametrize("case", SHARED)
def test_what_is_stored_in_place_of_added_is_refused(case: str) -> None:
    _, _, program = sound(case)
    with pytest.raises(VerificationError, match="may store to the same"):
        verify(replace(program, body=edited(program.body, apart)))


@pytest.mark.parametrize("case", SHARED)
def test_what_is_added_to_is_begun_before(case: str) -> None:
    _, _, program = sound(case)
    first = next(n for n, s in enumerate(program.body) if combined_into((s,)))
    (name, *_) = sorted(combined_into((program.body[first],)))
    body = tuple(s for s in program.body if not _stores(s, name))
    with pytest.raises(VerificationError, match=f"has a sum in {name}, not all of which starts from"):
        verify(replace(program, body=body))


def _stores(statement: Statement, name: str) -> bool:
    return any(isinstance(s, Store) and s.tensor == name for s in statements((statement,)))


@pytest.mark.parametrize("case", SHARED)
def test_what_is_added_to_is_not_read_or_stored_to_beside(case: str) -> None:
    _, _, program = sound(case)

    def edit(make: Callable[[AtomicCombine], Statement]) -> tuple[Statement, ...]:
        def one(statement: Statement) -> Sequence[Statement]:
            return (make(statement), statement) if isinstance(statement, AtomicCombine) else (statement,)

        return edited(program.body, one)

    def seen(added: AtomicCombine) -> Statement:
        kind = type_of(added.value)
        return Assign(Register("seen", kind), Load(added.tensor, added.index, kind))

    for make in (seen, lambda added: Store(added.tensor, added.index, added.value)):
        with pytest.raises(
            VerificationError, match=r"has a sum in .*, and does something else with it as well"
        ):
            verify(replace(program, body=edit(make)))


@pytest.mark.skipif(find_compiler().is_clang, reason="only twins built by GCC see races")
@pytest.mark.parametrize("case", ["a histogram", "floats"])
def test_mistakes_are_seen(case: str, tmp_path: Path) -> None:
    file, _, program = sound(case)

    def twice(statement: Statement) -> Sequence[Statement]:
        return (statement, statement) if isinstance(statement, AtomicCombine) else (statement,)

    def fewer(statement: Statement) -> Sequence[Statement]:
        match statement:
            case PerThread((outermost, *others)) if combined_into((statement,)) and outermost.extent > 1:
                return (
                    replace(
                        statement, coordinates=(replace(outermost, extent=outermost.extent - 1), *others)
                    ),
                )
        return (statement,)

    def beside(statement: Statement) -> Sequence[Statement]:
        if isinstance(statement, AtomicCombine):
            return (
                replace(statement, index=replace(statement.index, constant=statement.index.constant - 1)),
            )
        return (statement,)

    mutants = [replace(program, body=edited(program.body, edit)) for edit in (twice, fewer, beside)]
    with pytest.raises(VerificationError, match="is accessed"):
        verify(mutants[2])
    assert all(differences(file, mutants[:2], tmp_path))


# ---- Models -----------------------------------------------------------------------------------------------


def histogram(bins: int) -> PipelineFile:
    stages = f"h(i) = 0\nh(i32(levels(x, y)) % {bins}) += 1 for x in 0:1024, y in 0:2048"
    return pipeline(stages, f"{{h: {{i: {bins}}}}}", "{levels: {dtype: u8, rank: 2}}")


TILES = {"h.1.x.TASK": 256, "h.1.x.LANE": 1, "h.1.y.TASK": 4}


def times_ns(bins: int, tiles: Mapping[str, int]) -> tuple[float, float]:
    """By the cost model, and by the prediction of its code."""
    file = histogram(bins)
    candidate = schedule(file, {}, tiles)
    predicted = predict(grids_of(file, candidate), device(), {})
    return time_ns(GpuPipelineCosts(candidate.instance, device()), candidate), predicted.time_ns


def test_sums_that_are_shared_out_take_less_and_those_of_few_elements_more() -> None:
    for serial, few, many in zip(times_ns(256, {}), times_ns(2, TILES), times_ns(256, TILES), strict=True):
        assert many < serial / 50
        assert many < few
