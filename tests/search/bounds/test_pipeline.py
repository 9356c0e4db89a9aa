"""The bound of pipelines: bytes that all implementations move, at the rates of the device."""

from __future__ import annotations

import pytest

from spacedsl.codegen.cuda.prediction import predict
from spacedsl.kernels.device import DEVICES, load_device
from spacedsl.search.bounds.pipeline import GpuPipelineBound, PipelineBound, certain_bytes
from tests.codegen.cuda.grids import device as gpu
from tests.codegen.pipeline import on_gpus
from tests.kernels.pipeline.cases import instance
from tests.kernels.pipeline.files import pipeline
from tests.kernels.pipeline.test_library import load

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
    assert certain_bytes(load(name, sizes).algorithm) == expected


def test_the_bound_is_the_largest_term_and_the_same_for_all() -> None:
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
