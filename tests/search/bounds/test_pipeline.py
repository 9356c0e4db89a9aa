"""The bound of pipelines: bytes that all implementations move, at the rates of the device."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from spacedsl.codegen.cuda.prediction import predict
from spacedsl.codegen.pipeline.lower import lower
from spacedsl.codegen.pipeline.schedule import CandidateDecisions
from spacedsl.codegen.tree.expressions import Expression, Fma, Mul, type_of
from spacedsl.codegen.tree.parts import expressions
from spacedsl.codegen.tree.program import Program
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.decision import Decision
from spacedsl.engine.descent import DescentCounts
from spacedsl.engine.instance import Instance
from spacedsl.kernels.device import DEVICES, MemoryLevel, Mixture, load_device
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.pipeline.backbone import FULL
from spacedsl.kernels.pipeline.footprints import certain_points
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.search.bounds.pipeline import GpuPipelineBound, PipelineBound, certain_bytes
from spacedsl.search.bounds.traffic import costs, least_ns
from tests.codegen.cuda.grids import device as gpu
from tests.codegen.pipeline import on_gpus
from tests.kernels.pipeline.cases import drawn, instance
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.test_library import CASES, load
from tests.search.bounds.ways_down import way_down

DEVICE = load_device(DEVICES / "generic-x86-64.yaml")


@pytest.mark.parametrize(
    ("name", "sizes", "expected"),
    [
        ("blur", {"width": 64, "height": 32}, (2 * 64 * 32, 2 * 64 * 32)),
        ("matmul", {"n": 16}, (2 * 4 * 256, 4 * 256)),
        ("harris", {"width": 20, "height": 10}, (4 * 16 * 6, 4 * 16 * 6)),
        ("hist_eq", {"width": 20, "height": 10}, (0, 20 * 10 * 3)),
        ("camera_pipe", {"width": 32, "height": 16}, (0, 3 * 32 * 16)),
    ],
)
def test_inputs_are_loaded_and_outputs_are_stored(
    name: str, sizes: dict[str, int], expected: tuple[int, int]
) -> None:
    """Of several reads of an array, one counts; none of those behind a branch."""
    algorithm = load(name, sizes).algorithm
    found = certain_bytes(algorithm, certain_points(algorithm))
    assert (found.loaded, found.stored) == expected


def test_what_one_value_is_made_of_is_loaded() -> None:
    algorithm = pipeline(
        "s() = sum[r in 0:99](a(r))", "{s: {}}", "{a: {dtype: f64, extents: [99]}}"
    ).algorithm
    found = certain_bytes(algorithm, certain_points(algorithm))
    assert (found.loaded, found.stored) == (8 * 99, 8)


def test_the_bound_is_the_largest_term() -> None:
    here = instance(load("blur", {"width": 6400, "height": 4800}).backbone)
    root = here.root()
    assert root is not None
    bound = PipelineBound(here, DEVICE)
    terms = bound.explain(root)
    assert [t.bound_ns for t in terms] == sorted(bound.terms_ns(root), reverse=True)
    assert bound(root) == terms[0].bound_ns > 0
    assert bound.of_all([root, root]) == [bound(root)] * 2
    moved = 2 * 2 * 6400 * 4800
    caches = sum(level.capacity_bytes or 0 for level in DEVICE.memory)
    memory = next(t for t in terms if t.resource == f"{DEVICE.memory[-1].name} bandwidth")
    slowest = (moved - caches) / (2 * DEVICE.memory[-1].bytes_per_ns_all)
    assert memory.bound_ns >= slowest > 0


def test_small_outputs_need_nothing_of_memory_that_caches_keep() -> None:
    here = instance(load("blur", {"width": 16, "height": 8}).backbone)
    root = here.root()
    assert root is not None
    by_name = {t.resource: t.bound_ns for t in PipelineBound(here, DEVICE).explain(root)}
    assert by_name["L1 bandwidth"] > 0 == by_name["DRAM bandwidth"]


# ---- Stages at ROOT ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["blur", "harris", "unsharp", "iir_blur", "interpolate"])
def test_what_is_decided_never_lowers_a_term(name: str) -> None:
    file = load(name)
    here, start = rooted(file)
    bound, rises = PipelineBound(here, DEVICE), 0
    for end in drawn(file, 16, 3, DescentCounts()):
        on_the_way = start
        terms = bound.terms_ns(on_the_way)
        for step in file.backbone.inner:
            on_the_way = at(here, on_the_way, step.name, end.value("site", step))
            later = bound.terms_ns(on_the_way)
            assert all(a <= b for a, b in zip(terms, later, strict=True))
            rises += later > terms
            terms = later
        assert all(a <= b for a, b in zip(terms, bound.terms_ns(end), strict=True))
    assert rises


@pytest.mark.parametrize("name", ["blur", "harris", "unsharp", "iir_blur", "hist_eq", "camera_pipe"])
def test_arrays_that_are_counted_are_those_of_programs(name: str) -> None:
    """None is counted that a program has not, and none is larger than there."""
    file = load(name, CASES[name].sizes)
    memory = level("DRAM", None)
    bound = PipelineBound(instance(file.backbone), DEVICE.model_copy(update={"memory": (memory,)}))
    outside, are_counted = certain_bytes(file.algorithm, certain_points(file.algorithm)), set()

    def time_ns(more: int) -> float:
        return least_ns(costs(memory, 1, 1), outside.loaded + more, outside.stored + more, 0)

    for end in drawn(file, 12, 1, DescentCounts()):
        program = lower(file.backbone, CandidateDecisions(end), 32)
        in_memory = sum(scratch.tensor.nbytes for scratch in program.scratch)
        moved_ns, _ = bound.terms_ns(end)
        assert time_ns(0) <= moved_ns <= time_ns(in_memory)
        are_counted.add(moved_ns > time_ns(0))
    assert True in are_counted


def test_a_stage_that_caches_keep_costs_nothing_beyond_them() -> None:
    """A row of 128 KiB goes through the first level, and 64 KiB of it, twice, through the next one."""
    file = pipeline(
        "f(x) = a(x) + f32(1)\ng(x) = f(x) * f(x)", f"{{g: {{x: {1 << 15}}}}}", "{a: {dtype: f32, rank: 1}}"
    )
    here, start = rooted(file)
    levels = (level("L1", 1 << 16), level("L2", 1 << 18), level("DRAM", None))
    bound = PipelineBound(here, DEVICE.model_copy(update={"memory": levels}))
    before = bound.terms_ns(start)
    after = bound.terms_ns(at(here, start, "f", "ROOT"))
    rates = [each.bytes_per_ns_all for each in levels]
    added = [(b - a) * rate for a, b, rate in zip(before, after[:3], rates, strict=False)]
    assert added == pytest.approx([2 << 17, 2 << 16, 0])


# ---- Parallelism and vectors -------------------------------------------------------------------------------

SHARES = {
    "all of it": ({}, 1),
    "two tasks of four threads": ({"g.x.TASK": 128, "g.y.TASK": FULL}, 2),
    "boxes of two points": ({"g.x.REG": 2, "g.y.LANE": 1}, 4),
    "boxes of four points in two tasks": (
        {"g.x.LANE": 4, "g.y.LANE": 1, "g.x.TASK": 128, "g.y.TASK": FULL}, 4,
    ),
    "columns of eight points": ({"g.x.REG": 1, "g.y.REG": FULL}, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", SHARES)
def test_arithmetic_has_the_threads_and_lanes_that_are_left(name: str) -> None:
    decisions, slower = SHARES[name]
    file = pipeline("g(x, y) = a(x, y) * a(x + 1, y)", "{g: {x: 256, y: 8}}", "{a: {dtype: f32, rank: 2}}")
    here, candidate = rooted(file)
    bound = PipelineBound(here, DEVICE)
    before = arithmetic(bound, candidate)
    for box, size in decisions.items():
        found = here.decide(candidate, Decision("tile", (box,), (size,)))
        assert found is not None, box
        candidate = found
    assert arithmetic(bound, candidate) == pytest.approx(slower * before)


def test_a_product_may_be_added_by_what_it_is_inlined_in() -> None:
    """At ROOT it is stored, and an instruction of its own on one of four threads."""
    inputs = "{a: {dtype: f32, rank: 1}}"
    file = pipeline("f(x) = a(x) * 3\ng(x) = f(x) + a(x)", "{g: {x: 4096}}", inputs)
    here, start = rooted(file)
    bound = PipelineBound(here, DEVICE)
    before = arithmetic(bound, start)
    assert before == pytest.approx(4096 / 64 / DEVICE.threads)
    apart = at(here, start, "f", "ROOT")
    whole = here.decide(apart, Decision("tile", ("f.x.TASK",), (FULL,)))
    assert whole is not None
    assert arithmetic(bound, apart) == pytest.approx(before)
    assert arithmetic(bound, whole) == pytest.approx(4 * before)


ALONE = {
    "a stencil": ("g(x, y) = a(x, y) * a(x + 1, y)", "{x: 40, y: 9}"),
    "a sum for a point": ("g(x, y) = f32(0)\ng(x, y) += a(k, y) * a(x, k) for k in 0:40", "{x: 20, y: 9}"),
    "a sum of rows": ("g(y) = f32(0)\ng(y) += a(k, y) * a(k, y + 1) for k in 0:64", "{y: 9}"),
    "even and odd": ("g(x, y) = a(x / 2, y) * a(x / 2 + 1, y)", "{x: 40, y: 9}"),
}


@pytest.mark.parametrize("name", ALONE)
def test_programs_have_no_wider_vectors_than_the_bound_leaves(name: str) -> None:
    """On one thread, with as many instructions of each width, the time says how wide they may be."""
    stages, extents = ALONE[name]
    file = pipeline(stages, f"{{g: {extents}}}", "{a: {dtype: f32, rank: 2}}")
    here, start = rooted(file)
    bound = PipelineBound(here, DEVICE.model_copy(update={"threads": 1}))
    seen = set()
    for end in drawn(file, 40, 5, DescentCounts()):
        program = lower(file.backbone, CandidateDecisions(end), 32)
        widest = max(type_of(e).lanes for e in multiplied(program))
        assert widest <= 8 * arithmetic(bound, start) / arithmetic(bound, end) * (1 + 1e-9)
        seen.add(widest)
    assert len(seen) > 2


def multiplied(program: Program) -> Iterator[Expression]:
    """Products of floats, also those that are added at once."""
    for each in expressions(program.body):
        if isinstance(each, Mul | Fma) and type_of(each).dtype is DType.F32:
            yield each


@pytest.mark.parametrize("name", ["blur", "harris", "matmul", "conv_layer", "iir_blur"])
def test_no_term_falls_on_the_way_to_a_schedule(name: str) -> None:
    """On a CPU and on a GPU. Where all is decided, steps at ROOT have less than all of it."""
    file = load(name, CASES[name].sizes)
    here, there = instance(file.backbone), on_gpus.instance(file)
    for bound, space in ((PipelineBound(here, DEVICE), here), (GpuPipelineBound(there, gpu()), there)):
        root, is_held = space.root(), name in ("blur", "iir_blur")  # which have integers only, or no sums
        assert root is not None
        for seed in range(4):
            way = list(way_down(root, None, np.random.default_rng(seed)))
            seen = [bound.terms_ns(candidate) for candidate in way]
            for before, after in pairwise(seen):
                assert all(b <= a * (1 + 1e-9) for b, a in zip(before, after, strict=True))
            is_held = is_held or any("part of the machine" in t.detail for t in bound.explain(way[-1]))
        assert is_held


def test_blocks_and_threads_of_a_kernel_are_all_that_compute() -> None:
    """Blocks of 16 threads, which are half of a warp."""
    here = on_gpus.instance(PRODUCT)
    candidate, bound = here.root(), GpuPipelineBound(here, gpu().model_copy(update={"launch_ns": 0.0}))
    assert candidate is not None
    before = arithmetic(bound, candidate)
    tiles = {"x.TASK": 16, "x.CHUNK": FULL, "x.LANE": FULL, "y.TASK": 32, "y.CHUNK": FULL, "y.LANE": 2}
    for box, size in (tiles | dict.fromkeys(("k.TASK", "k.CHUNK", "k.LANE"), FULL)).items():
        found = here.decide(candidate, Decision("tile", (f"p.1.{box}",), (size,)))
        assert found is not None, box
        candidate = found
    assert arithmetic(bound, candidate) == pytest.approx(2 * before)


def arithmetic(bound: PipelineBound | GpuPipelineBound, candidate: Candidate) -> float:
    (term,) = (term for term in bound.explain(candidate) if term.resource == "arithmetic")
    return term.bound_ns


def rooted(file: PipelineFile) -> tuple[Instance, Candidate]:
    here = instance(file.backbone)
    start = here.root()
    assert start is not None
    return here, start


def at(here: Instance, candidate: Candidate, step: str, site: str | int) -> Candidate:
    decided = here.decide(candidate, Decision("site", (step,), (site,)))
    assert decided is not None
    return decided


def level(name: str, capacity_bytes: int | None) -> MemoryLevel:
    half = Mixture(stored=0.5, bytes_per_ns=8, bytes_per_ns_all=16)
    return MemoryLevel(
        name=name, capacity_bytes=capacity_bytes, bytes_per_ns=8, bytes_per_ns_all=16, mixtures=(half,)
    )


# ---- GPUs -------------------------------------------------------------------------------------------------

PRODUCT = pipeline(
    "p(x, y) = f32(0)\np(x, y) += a(k, y) * b(x, k) for k in 0:512",
    "{p: {x: 512, y: 512}}",
    "{a: {dtype: f32, rank: 2}, b: {dtype: f32, rank: 2}}",
)


def test_of_a_product_of_matrices_all_instructions_are_needed_on_a_gpu() -> None:
    bound = GpuPipelineBound(on_gpus.instance(PRODUCT), gpu())
    root = on_gpus.instance(PRODUCT).root()
    assert root is not None
    (term,) = (term for term in bound.explain(root) if term.resource == "arithmetic")
    cycles = 512**3 / gpu().throughput.f32 / gpu().sms
    assert term.bound_ns == pytest.approx(gpu().launch_ns + cycles / gpu().clock_ghz)
    assert bound(root) == term.bound_ns
    assert "134,217,728 products and 133,955,584 sums" in term.detail


def test_no_prediction_is_below_the_bound_of_a_gpu() -> None:
    bound = GpuPipelineBound(on_gpus.instance(PRODUCT), gpu())
    for candidate in on_gpus.drawn(PRODUCT, 6, 4):
        assert predict(on_gpus.grids_of(PRODUCT, candidate), gpu(), {}).time_ns > bound(candidate)


def test_what_kernels_leave_to_each_other_goes_through_the_second_cache() -> None:
    """A kernel for each step at ROOT, of which the first one stores a row that the other one loads."""
    stages = "f(x) = a(x) + f32(1)\ng(x) = f(x) * f(x)"
    file = pipeline(stages, f"{{g: {{x: {1 << 16}}}}}", "{a: {dtype: f32, rank: 1}}")
    here = on_gpus.instance(file)
    start = here.root()
    assert start is not None
    bound = GpuPipelineBound(here, gpu().model_copy(update={"l2_bytes": 3 << 16}))
    before, after = (
        {term.resource: term.bound_ns for term in bound.explain(candidate)}
        for candidate in (start, at(here, start, "f", "ROOT"))
    )
    assert after["launch"] - before["launch"] == gpu().launch_ns
    added = {name: after[name] - before[name] - gpu().launch_ns for name in ("L2", "DRAM")}
    assert added["L2"] * gpu().l2_bytes_per_ns == pytest.approx(1 << 18)
    assert added["DRAM"] * gpu().dram_bytes_per_ns == pytest.approx(2 << 16)


@pytest.mark.parametrize("name", ["harris", "iir_blur", "hist_eq"])
def test_no_prediction_of_an_application_is_below_its_bound(name: str) -> None:
    file = load(name, CASES[name].sizes)
    bound = GpuPipelineBound(on_gpus.instance(file), gpu())
    for candidate in on_gpus.drawn(file, 4, 2):
        assert predict(on_gpus.grids_of(file, candidate), gpu(), {}).time_ns > bound(candidate)
