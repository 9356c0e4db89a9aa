"""The CPU's bound: values computed by hand, monotone along descents, below what lowered programs execute."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.linalg.lower import lower
from spacedsl.codegen.tree.parts import shared_loops
from spacedsl.codegen.tree.program import ParallelLoop
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.decision import Decision
from spacedsl.engine.instance import Instance
from spacedsl.kernels.device import AccessRate, ChainLatency
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.linalg.backbone import Kernel
from spacedsl.search.bounds import reductions
from spacedsl.search.bounds.cpu import CpuBound
from spacedsl.search.bounds.rates import Rates
from spacedsl.search.bounds.reductions import WINDOW
from tests.search.executed import executed_time_ns
from tests.search.linalg import (
    AXPY,
    DEVICE,
    DOT,
    FEW,
    LONG,
    MATMUL,
    ONE_PASS,
    SCALED,
    decide,
    descent,
    instance_of,
    instance_under,
    mixtures,
    root,
)

AXPY_BYTES = 4 * 2**20
CACHED_BYTES = 2**16 + 2**20


HALVES = [AXPY.replace("dtype: f32", "dtype: bf16"), MATMUL.replace("dtype: f32", "dtype: f16")]
"""Of 16 bits in memory, and computed with as f32."""


def terms(bound: CpuBound, candidate: Candidate) -> dict[str, float]:
    return {term.resource: term.bound_ns for term in bound.explain(candidate)}


# ---- By hand -------------------------------------------------------------------------------------------


def test_the_root_of_axpy_waits_for_what_the_caches_cannot_keep() -> None:
    instance = instance_of(AXPY)
    bound = CpuBound(instance, DEVICE)
    found = terms(bound, root(instance))
    loaded, moved = 2 * AXPY_BYTES - CACHED_BYTES, 3 * AXPY_BYTES - CACHED_BYTES
    assert found["DRAM bandwidth"] == pytest.approx(max(loaded / 20, moved / 24))
    assert found["L2 bandwidth"] == pytest.approx((3 * AXPY_BYTES - 2**16) / 100)
    assert found["floating-point multipliers"] == pytest.approx(2**20 / (16 * 2) / 2)
    assert found["load instructions"] == pytest.approx(2 * 2**20 / (16 * 2) / 2)
    assert found["store instructions"] == pytest.approx(2**20 / (16 * 1) / 2)
    assert bound(root(instance)) == max(found.values())


def test_threads_that_share_the_terms_of_a_sum_wait_for_their_own_part() -> None:
    instance = instance_of(DOT)
    candidate = decide(instance, root(instance), "dim_kind", "fma.p0", "PARALLEL")
    candidate = decide(instance, candidate, "dim_kind", "fma.p1", "LOOP")
    found = terms(CpuBound(instance, DEVICE), candidate)
    assert found["latency of fma"] == pytest.approx(2**19 - WINDOW)


def test_what_the_kernel_itself_has_stored_as_a_whole_is_loaded_again() -> None:
    instance = instance_of(SCALED)
    bound = CpuBound(instance, DEVICE)
    nbytes, l1 = 64 * 4096 * 4, 2**16
    candidate = root(instance)
    fused = terms(bound, candidate)
    assert fused["L2 bandwidth"] == pytest.approx((nbytes + 4 * 64 - l1) / 100)
    for dim in ("i0", "i1"):
        decided = instance.decide(candidate, Decision("order", (f"store_T.{dim}", "load_T"), ("BEFORE",)))
        assert decided is not None
        candidate = decided
    early = 2 * (64 * (64 + 64) + 256 * 64)
    again, stored = nbytes - l1 - early, nbytes + 4 * 64
    assert terms(bound, candidate)["L2 bandwidth"] == pytest.approx((nbytes + stored - l1 + again) / 100)


def test_without_parallel_and_vector_dimensions_one_thread_works_on_single_elements() -> None:
    instance = instance_of(AXPY)
    bound = CpuBound(instance, DEVICE)
    candidate = root(instance)
    for instruction in ("load_x", "load_y", "fma", "store_z"):
        for level in range(3):
            candidate = decide(instance, candidate, "dim_kind", f"{instruction}.i{level}", "LOOP")
    found = terms(bound, candidate)
    loaded, moved = 2 * AXPY_BYTES - CACHED_BYTES, 3 * AXPY_BYTES - CACHED_BYTES
    assert found["DRAM bandwidth"] == pytest.approx(max(loaded / 10, moved / 12))
    assert found["floating-point multipliers"] == pytest.approx(2**20 / 4)
    assert found["load instructions"] == pytest.approx(2 * 2**20 / 4)
    assert found["store instructions"] == pytest.approx(2**20 / 2)


def test_a_certain_vector_has_the_lanes_and_the_rate_of_its_size() -> None:
    instance = instance_of(MATMUL)
    bound = CpuBound(instance, DEVICE)
    candidate = decide(instance, root(instance), "size", "fma.j2", 16)
    candidate = decide(instance, candidate, "dim_kind", "fma.j2", "VECTOR")
    assert terms(bound, candidate)["floating-point multipliers"] == pytest.approx(
        64 * 64 * 2048 / (16 * 2) / 2
    )


def test_types_that_were_not_measured_move_as_others_of_as_many_bytes_do() -> None:
    """What is only loaded and stored, as bf16 is, has no figures of its own."""
    accesses = (
        AccessRate(kind="load", dtype="f32", nbytes=4, instructions_per_ns=4),
        AccessRate(kind="load", dtype="f64", nbytes=64, instructions_per_ns=2),
        AccessRate(kind="load", dtype="f32", nbytes=64, instructions_per_ns=3),
        AccessRate(kind="store", dtype="f32", nbytes=4, instructions_per_ns=1),
    )
    tables = Rates.of(DEVICE.model_copy(update={"accesses": accesses})).tables
    assert tables["load", DType.BF16] == {2: 4, 32: 3}
    assert tables["load", DType.F64] == {8: 2}
    assert tables["store", DType.F16] == {2: 1}


def test_single_elements_count_while_a_dimension_need_not_be_a_vector() -> None:
    rates = [
        r.model_copy(update={"instructions_per_ns": 0.1}) if r.lanes == 16 else r for r in DEVICE.arithmetic
    ]
    slow_vectors = DEVICE.model_copy(update={"arithmetic": tuple(rates)})
    instance = instance_of(MATMUL, slow_vectors)
    bound = CpuBound(instance, slow_vectors)
    candidate = decide(instance, root(instance), "size", "fma.j2", 16)
    iterations = 64 * 64 * 2048
    assert terms(bound, candidate)["floating-point multipliers"] == pytest.approx(iterations / 4 / 2)
    candidate = decide(instance, candidate, "dim_kind", "fma.j2", "VECTOR")
    assert terms(bound, candidate)["floating-point multipliers"] == pytest.approx(iterations / 1.6 / 2)


def test_vectors_wider_than_the_machine_come_in_pieces(tmp_path: Path) -> None:
    """A changed rule may allow them, and the compiler splits them: they are not slower than what fits."""
    rule = '    requires size($dim) <= "$device.vector_bytes // $dim.item_bytes"\n'
    text = AXPY.replace("[[64], [16]]", "[[64], [64]]")
    wide = instance_under(tmp_path, text, (rule, ""))
    candidate = decide(wide, root(wide), "dim_kind", "fma.i2", "VECTOR")
    fits = instance_of(AXPY)
    narrow = decide(fits, root(fits), "dim_kind", "fma.i2", "VECTOR")
    found, expected = (terms(CpuBound(i, DEVICE), c) for i, c in ((wide, candidate), (fits, narrow)))
    assert found["floating-point multipliers"] == expected["floating-point multipliers"]
    assert found["load instructions"] == expected["load instructions"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mul size($dim) when: dim_kind($dim) is UNROLL", "mul size($dim) when: dim_kind($dim) is VECTOR"),
        ("mul size($dim) when: dim_kind($dim) is UNROLL", 'mul "1" when: dim_kind($dim) is UNROLL'),
        ("forall $dim in FreeDims($inst):", 'forall $dim in FreeDims($inst) where "$dim.level > 9":'),
    ],
)
def test_a_counter_that_counts_something_else_under_a_known_name_is_not_believed(
    tmp_path: Path, old: str, new: str
) -> None:
    start = "choice counter accumulators($inst in Reductions):\n"
    body = "  forall $dim in FreeDims($inst):\n    mul size($dim) when: dim_kind($dim) is UNROLL\n"
    instance = instance_under(tmp_path, MATMUL, (start + body, start + body.replace(old, new)))
    plain = instance_of(MATMUL)
    found, expected = (terms(CpuBound(i, DEVICE), root(i)) for i in (instance, plain))
    # What is left is the counter of all unrolled copies, which allows more.
    assert found["latency of fma"] <= expected["latency of fma"]
    assert found["load instructions"] <= expected["load instructions"]


def test_three_iterations_keep_two_threads_busy_for_two() -> None:
    text = AXPY.replace("1048576", "3145728").replace("[[64], [16]]", "[[1024], [1024]]")
    instance = instance_of(text)
    bound = CpuBound(instance, DEVICE)
    candidate = decide(instance, root(instance), "dim_kind", "fma.i0", "PARALLEL")
    # Sizes 3 x 1024 x 1024: no vectors, and a speedup of 3 / 2.
    assert terms(bound, candidate)["floating-point multipliers"] == pytest.approx(3 * 2**20 / 4 / 1.5)


def test_a_last_tile_that_is_smaller_may_keep_threads_as_busy_as_whole_ones() -> None:
    text = AXPY.replace("1048576", "33").replace("[[64], [16]]", "[[16]]")
    instance = instance_of(text)
    bound = CpuBound(instance, DEVICE.model_copy(update={"start_ns": 500.0}))
    candidate = decide(instance, root(instance), "dim_kind", "fma.i0", "PARALLEL")
    candidate = decide(instance, candidate, "dim_kind", "fma.i1", "VECTOR")
    # Tiles of 16, 16 and 1: 2 x 16 is not much less than all of it. Nor is it certain that shares are even.
    assert terms(bound, candidate)["floating-point multipliers"] == pytest.approx(33 / 32 / 2)


def test_accumulations_without_other_sums_at_hand_wait_for_each_other() -> None:
    text = MATMUL.replace("k: 2048", "k: 4096")
    instance = instance_of(text)
    bound = CpuBound(instance, DEVICE)
    candidate = root(instance)
    for dim in ("i0", "i1", "j0", "j1", "j2"):
        candidate = decide(instance, candidate, "dim_kind", f"fma.{dim}", "LOOP")
    # One sum at a time; the last WINDOW terms of each may overlap with the next sum.
    assert terms(bound, candidate)["latency of fma"] == pytest.approx(64 * 64 * (4096 - WINDOW) * 1.0)
    # Every term takes a load of A and one of B; a few values may stay in registers.
    kept = 32 + reductions.OTHER_REGISTERS
    assert terms(bound, candidate)["load instructions"] == pytest.approx(64 * 64 * (2 * 4096 - kept) / 4)


def test_terms_that_are_split_wait_only_for_those_in_their_register() -> None:
    text = MATMUL.replace("k: 2048", "k: 4096").replace("p: []", "p: [[4]]")
    instance = instance_of(text)
    bound = CpuBound(instance, DEVICE)
    candidate = decide(instance, root(instance), "dim_kind", "fma.p1", "UNROLL")
    for dim in ("i0", "i1", "j0", "j1", "j2"):
        candidate = decide(instance, candidate, "dim_kind", f"fma.{dim}", "LOOP")
    ways = {way: decide(instance, candidate, "accumulation", "fma", way) for way in ("CHAINED", "SPLIT")}
    times = {way: terms(bound, decided)["latency of fma"] for way, decided in ways.items()}
    one_by_one = 64 * 64 * (4096 - WINDOW) * 1.0
    assert times["CHAINED"] == pytest.approx(one_by_one)
    assert terms(bound, candidate)["latency of fma"] == times["SPLIT"] == pytest.approx(one_by_one / 4)
    assert bound(ways["SPLIT"]) == pytest.approx(max(bound.reference_ns(ways["SPLIT"])))


def test_a_sum_that_memory_may_add_up_waits_for_nothing_certain() -> None:
    instance = instance_of(LONG)
    bound, start = CpuBound(instance, DEVICE), root(instance)
    ways = {name: decide(instance, start, "summing", "fma.p0", name) for name in ("KEPT", "ADDED")}
    assert terms(bound, start)["latency of fma"] == terms(bound, ways["ADDED"])["latency of fma"] == 0
    assert terms(bound, ways["KEPT"])["latency of fma"] > 0
    for candidate in (start, *ways.values()):
        assert bound(candidate) == pytest.approx(max(bound.reference_ns(candidate)))


def test_unrolled_copies_share_loads_and_hide_latency() -> None:
    instance = instance_of(MATMUL)
    bound = CpuBound(instance, DEVICE)
    candidate = decide(instance, root(instance), "size", "fma.j2", 1)
    kinds = {"i0": "LOOP", "j0": "LOOP", "i1": "UNROLL", "j1": "UNROLL", "j2": "UNROLL"}
    for dim, kind in kinds.items():
        candidate = decide(instance, candidate, "dim_kind", f"fma.{dim}", kind)
    tile = {}
    for size in (2, 4):
        tiled = decide(instance, candidate, "size", "fma.i1", size)
        tiled = decide(instance, tiled, "size", "fma.j1", size)
        tile[size] = terms(bound, tiled)
    # A sweep of a tile loads a row of it and a column in each step; registers keep 64 of these.
    assert tile[2]["load instructions"] == pytest.approx(64 * 64 / 4 * (2048 * (2 + 2) - 64) / 4)
    assert tile[4]["load instructions"] == pytest.approx(64 * 64 / 16 * (2048 * (4 + 4) - 64) / 4)
    assert tile[4]["latency of fma"] < tile[2]["latency of fma"]


def test_a_large_device_file_without_optional_figures_gives_a_weaker_bound() -> None:
    bare = DEVICE.model_copy(update={"accesses": (), "latencies": ()})
    instance = instance_of(MATMUL, bare)
    full, weaker = CpuBound(instance, DEVICE), CpuBound(instance, bare)
    for candidate in descent(instance, np.random.default_rng(1)):
        assert weaker(candidate) <= full(candidate)


def test_a_single_multiplication_has_a_bound_without_any_dimension() -> None:
    text = MATMUL.replace("m: 64, n: 64, k: 2048", "m: 1, n: 1, k: 1")
    instance = instance_of(text.split("tiling")[0])
    found = terms(CpuBound(instance, DEVICE), root(instance))
    assert found["floating-point multipliers"] == pytest.approx(1 / 4)
    assert found["load instructions"] == pytest.approx(2 / 4)


def test_a_dimension_is_a_vector_or_copies_and_never_both() -> None:
    text = MATMUL.replace("k: 2048", "k: 4096").replace("[[1, 2, 4], [1, 16]]", "[[16]]")
    instance = instance_of(text)
    bound = CpuBound(instance, DEVICE)
    candidate = root(instance)
    for dim in ("i0", "i1", "j0"):
        candidate = decide(instance, candidate, "dim_kind", f"fma.{dim}", "LOOP")
    # Sixteen lanes of one sum each, or sixteen copies, for all 64 x 64 sums.
    steps = reductions.sum_steps(4096, 1, WINDOW)
    assert terms(bound, candidate)["latency of fma"] == pytest.approx(64 * 64 / 16 * steps)


def test_a_sum_of_products_waits_for_a_fused_multiply_add_where_that_is_what_is_built() -> None:
    chains = tuple(ChainLatency(dtype="f32", op=op, latency_ns=ns) for op, ns in (("add", 0.5), ("fma", 2.0)))
    device = DEVICE.model_copy(update={"latencies": chains, "window": 100})
    text = MATMUL.replace("k: 2048", "k: 4096")
    found = {}
    for name, body in (("products", "A[i, p] * B[p, j]"), ("same", "A[i, p] * A[i, p] + B[p, j]")):
        instance = instance_of(text.replace("A[i, p] * B[p, j]", body), device)
        candidate = root(instance)
        for reduction in instance.kernel.reductions:  # type: ignore[attr-defined]
            for dim in ("i0", "i1", "j0", "j1", "j2"):
                candidate = decide(instance, candidate, "dim_kind", f"{reduction.name}.{dim}", "LOOP")
        (found[name],) = (
            ns for term, ns in terms(CpuBound(instance, device), candidate).items() if "latency" in term
        )
    # A processor that sees 100 terms of the next sum; a plain sum of what was fused before it waits less.
    assert found["products"] == pytest.approx(64 * 64 * (4096 - 100) * 2.0)
    assert found["same"] == pytest.approx(64 * 64 * (4096 - 100) * 0.5)


def test_threads_begin_their_share_when_they_are_awake() -> None:
    device = DEVICE.model_copy(update={"start_ns": 500.0})
    instance = instance_of(AXPY, device)
    before, after = CpuBound(instance, DEVICE), CpuBound(instance, device)
    candidate = root(instance)
    assert terms(before, candidate) == terms(after, candidate), "no loop needs to be parallel"
    candidate = decide(instance, candidate, "dim_kind", "store_z.i0", "PARALLEL")
    later = terms(after, candidate)
    for name, time_ns in terms(before, candidate).items():
        assert later[name] == time_ns + (500 if time_ns and "bandwidth" not in name else 0)


def test_stores_that_go_through_the_caches_share_a_slower_rate(tmp_path: Path) -> None:
    level = DEVICE.memory[-1].model_copy(
        update={"mixtures": (*mixtures(6, 12, 1), *mixtures(12, 24, 1 / 6, 1, is_streamed=True))}
    )
    device = DEVICE.model_copy(update={"memory": (*DEVICE.memory[:-1], level)})
    loaded, stored = 2 * AXPY_BYTES, AXPY_BYTES - CACHED_BYTES
    choice = "choice enum route($inst in Singular):\n  value NONE:\n  value NT:\nend\n\nchoice enum dim_kind("
    # Another choice that streams, beside the one that the space has.
    free = instance_under(tmp_path, AXPY, ("choice enum dim_kind(", choice))
    bound = CpuBound(free, device)
    cached = decide(free, root(free), "caching", "store_z", "CACHED")
    assert terms(bound, cached)["DRAM bandwidth"] == pytest.approx((loaded + stored) / 24)
    through = decide(free, cached, "route", "store_z", "NONE")
    assert terms(bound, through)["DRAM bandwidth"] == pytest.approx(loaded / 20 + stored / 12)


def test_lanes_that_are_terms_of_one_sum_are_added_up() -> None:
    """Four additions make one of sixteen lanes, at the best rate of any width."""
    instance = instance_of(MATMUL.replace("p: []", "p: [[16]]"))
    bound = CpuBound(instance, DEVICE)
    free = terms(bound, root(instance))["floating-point arithmetic"]
    assert free == pytest.approx(64 * 64 * 2048 / 16 / 4 / 2)
    along = decide(instance, root(instance), "dim_kind", "fma.p1", "VECTOR")
    assert terms(bound, along)["floating-point arithmetic"] == pytest.approx(free + 64 * 64 * 4 / 8 / 2)


SUMMED = """
kernel: rows
backbone: linalg
tensors:
  x: {dtype: f32, shape: [64, 32]}
  y: {dtype: f32, shape: [64], output: true}
compute:
  - y[i] = sum[p](x[i, p])
tiling: {i: [], p: [[16]]}
"""


def test_the_first_terms_of_all_lanes_are_no_additions() -> None:
    """A row of two vectors of sixteen takes one addition of both, and four that make one sum of it."""
    instance = instance_of(SUMMED)
    bound = CpuBound(instance, DEVICE)
    along = decide(instance, root(instance), "dim_kind", "add.p1", "VECTOR")
    assert terms(bound, along)["floating-point arithmetic"] <= 64 * (1 / 4 + 4 / 8) / 2
    native = CpuBound(instance, DEVICE).native
    assert native is None or native.terms(along) == pytest.approx(bound.terms_ns(along), rel=1e-12)


def test_the_lanes_that_make_terms_fast_are_those_that_are_added_up() -> None:
    """Sixteen take four additions, two take one: no rate goes with the additions of other lanes."""
    instance = instance_of(MATMUL.replace("p: []", "p: [[2, 16]]"))
    bound = CpuBound(instance, DEVICE)
    along = decide(instance, root(instance), "dim_kind", "fma.p1", "VECTOR")
    iterations, sums = 64 * 64 * 2048, 64 * 64
    sixteen, two = iterations / 16 / 4 + sums * 4 / 8, iterations / 2 / 8 + sums * 1 / 8
    assert terms(bound, along)["floating-point arithmetic"] == pytest.approx(min(sixteen, two) / 2)
    decided = decide(instance, along, "size", "fma.p1", 2)
    assert terms(bound, decided)["floating-point arithmetic"] == pytest.approx(two / 2)
    native = CpuBound(instance, DEVICE).native
    assert native is None or native.terms(along) == pytest.approx(bound.terms_ns(along), rel=1e-12)


# ---- Along descents ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", [AXPY, MATMUL, SCALED, LONG, ONE_PASS, *HALVES, MATMUL.replace("p: []", "p: [[2, 4], [4]]")]
)
def test_the_bound_never_falls_on_the_way_to_an_implementation(text: str) -> None:
    instance = instance_of(text)
    bound = CpuBound(instance, DEVICE)
    random = np.random.default_rng(7)
    rises = 0
    for _ in range(4):
        before: dict[str, float] = {}
        bounds: list[float] = []
        for candidate in descent(instance, random):
            found = terms(bound, candidate)
            assert all(found[name] >= value for name, value in before.items())
            before = found
            bounds.append(bound(candidate))
            assert bounds[-1] == max(found.values())
        rises += bounds[-1] > bounds[0]
    assert rises, "decisions that cost time must raise the bound"


# ---- Against programs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", [AXPY, MATMUL, SCALED, FEW, LONG, ONE_PASS, *HALVES, MATMUL.replace("k: 2048", "k: 8")]
)
def test_no_resource_is_asked_for_more_than_the_lowered_program_executes(text: str) -> None:
    instance: Instance = instance_of(text)
    kernel = instance.kernel
    assert isinstance(kernel, Kernel)
    bound = CpuBound(instance, DEVICE)
    random = np.random.default_rng(3)
    for _ in range(6):
        *_, leaf = descent(instance, random)
        executed_ns = executed_time_ns(lower(kernel, CandidateImplementation(leaf)), DEVICE)
        found = terms(bound, leaf)
        for resource, time_ns in executed_ns.items():
            assert found[resource] <= time_ns * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_threads_share_the_iterations_of_several_loops(seed: int) -> None:
    """3 x 5 of them: 8 for the slower thread, where one loop alone has 2 of 3, or 3 of 5."""
    instance = instance_of(FEW)
    kernel = instance.kernel
    assert isinstance(kernel, Kernel)
    bound, random = CpuBound(instance, DEVICE), np.random.default_rng(seed)
    candidate = root(instance)
    for dim in ("fma.b0", "fma.i0"):
        candidate = decide(instance, candidate, "dim_kind", dim, "PARALLEL")
    before: dict[str, float] = {}
    for here in descent(instance, random, candidate):
        found = terms(bound, here)
        assert all(found[name] >= value * (1 - 1e-12) for name, value in before.items())
        before = found
    assert here.is_complete
    program = lower(kernel, CandidateImplementation(here))
    for resource, time_ns in executed_time_ns(program, DEVICE).items():
        assert before[resource] <= time_ns * (1 + 1e-9)
    parallel = [s for s in program.body if isinstance(s, ParallelLoop) and len(shared_loops(s)) > 1]
    assert any(math.prod(loop.extent for loop in shared_loops(s)) % 15 == 0 for s in parallel)


# ---- Against a machine ---------------------------------------------------------------------------------


def simulated_ns(sweeps: Sequence[int], terms_of_sum: int, window: int) -> float:
    """Time of sweeps of so many accumulators, with accumulations of 1 ns each, on a machine with any number
    of units: an accumulation starts when the one before it in its sum has finished and the instruction
    `window` before it retired."""
    retired: list[float] = []
    last = 0.0
    for accumulators in sweeps:
        ready = [0.0] * accumulators
        for _ in range(terms_of_sum):
            for a in range(accumulators):
                seen = retired[-window] if len(retired) >= window else 0.0
                ready[a] = max(ready[a], seen) + 1.0
                last = max(last, ready[a])
                retired.append(last)
    return last


@pytest.mark.parametrize("accumulators", [1, 2, 3, 8])
@pytest.mark.parametrize("terms_of_sum", [20, 60, 200, 700])
@pytest.mark.parametrize("split", [1, 2, 4])
def test_latency_is_never_more_than_on_a_machine_with_any_number_of_units(
    accumulators: int, terms_of_sum: int, split: int
) -> None:
    sweeps = 6
    bound_ns = sweeps * accumulators * reductions.sum_steps(float(terms_of_sum), accumulators, 64) / split
    simulated = simulated_ns([accumulators * split] * sweeps, terms_of_sum // split, 64)
    assert bound_ns <= simulated
    if terms_of_sum > 2 * 64:
        assert bound_ns > simulated / 3, "the bound should not be idle either"


@pytest.mark.parametrize("terms_of_sum", [33, 64, 130])
@pytest.mark.parametrize("whole", [2, 3, 8])
def test_latency_is_never_more_where_the_last_tile_has_fewer_accumulators(
    whole: int, terms_of_sum: int
) -> None:
    for rest in range(1, whole):
        for pattern in ([whole, rest], [whole, rest, rest], [whole] * 5 + [rest], [rest, whole, whole]):
            sweeps = 3 * pattern
            bound_ns = sum(sweeps) * reductions.sum_steps(float(terms_of_sum), whole, 64)
            assert bound_ns <= simulated_ns(sweeps, terms_of_sum, 64)


def test_two_operands_divide_the_accumulators_among_them() -> None:
    found = reductions.loads_per_term((8, 8), (1, 1), 16, are_disjoint=True)
    assert (
        found
        == min(1 / a + 1 / b for a in range(1, 9) for b in range(1, 9) if a * b <= 16)
        == pytest.approx(0.5)
    )
    assert reductions.loads_per_term((8, 8), (1, 1), 16, are_disjoint=False) == pytest.approx(0.25)
