"""The bound of pipelines: bytes that all implementations move, at the rates of the device."""

from __future__ import annotations

import pytest

from spacedsl.codegen.cuda.prediction import predict
from spacedsl.codegen.pipeline.lower import lower
from spacedsl.codegen.pipeline.schedule import CandidateDecisions
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.decision import Decision
from spacedsl.engine.descent import DescentCounts
from spacedsl.engine.instance import Instance
from spacedsl.kernels.device import DEVICES, MemoryLevel, Mixture, load_device
from spacedsl.kernels.pipeline.footprints import certain_points
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.search.bounds.pipeline import GpuPipelineBound, PipelineBound, certain_bytes
from spacedsl.search.bounds.traffic import costs, least_ns
from tests.codegen.cuda.grids import device as gpu
from tests.codegen.pipeline import on_gpus
from tests.kernels.pipeline.cases import drawn, instance
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.test_library import CASES, load

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
        assert terms == bound.terms_ns(end)
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
    """A row of 2 MiB goes through the first level, and 1 MiB of it, twice, through the next one."""
    file = pipeline(
        "f(x) = a(x) + f32(1)\ng(x) = f(x) * f(x)", f"{{g: {{x: {1 << 19}}}}}", "{a: {dtype: f32, rank: 1}}"
    )
    here, start = rooted(file)
    levels = (level("L1", 1 << 20), level("L2", 1 << 22), level("DRAM", None))
    bound = PipelineBound(here, DEVICE.model_copy(update={"memory": levels}))
    before = bound.terms_ns(start)
    after = bound.terms_ns(at(here, start, "f", "ROOT"))
    rates = [each.bytes_per_ns_all for each in levels]
    added = [(b - a) * rate for a, b, rate in zip(before, after[:3], rates, strict=False)]
    assert added == pytest.approx([2 << 21, 2 << 20, 0])


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
    file = pipeline(stages, f"{{g: {{x: {1 << 20}}}}}", "{a: {dtype: f32, rank: 1}}")
    here = on_gpus.instance(file)
    start = here.root()
    assert start is not None
    bound = GpuPipelineBound(here, gpu().model_copy(update={"l2_bytes": 3 << 20}))
    before, after = (
        {term.resource: term.bound_ns for term in bound.explain(candidate)}
        for candidate in (start, at(here, start, "f", "ROOT"))
    )
    assert after["launch"] - before["launch"] == gpu().launch_ns
    added = {name: after[name] - before[name] - gpu().launch_ns for name in ("L2", "DRAM")}
    assert added["L2"] * gpu().l2_bytes_per_ns == pytest.approx(1 << 22)
    assert added["DRAM"] * gpu().dram_bytes_per_ns == pytest.approx(2 << 20)


@pytest.mark.parametrize("name", ["harris", "iir_blur", "hist_eq"])
def test_no_prediction_of_an_application_is_below_its_bound(name: str) -> None:
    file = load(name, CASES[name].sizes)
    bound = GpuPipelineBound(on_gpus.instance(file), gpu())
    for candidate in on_gpus.drawn(file, 4, 2):
        assert predict(on_gpus.grids_of(file, candidate), gpu(), {}).time_ns > bound(candidate)
