"""The bound of GPUs on micro-kernels that wait for one resource each: values by hand, on round numbers."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from spacedsl.diagnostics import Source
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.decision import Decision
from spacedsl.engine.instance import Engine, Instance, instantiate
from spacedsl.kernels.device import DEVICES, load_gpu
from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.kernels.kernel_file import check_kernel
from spacedsl.search.bounds.gpu.bound import GpuBound
from tests.codegen.cuda.grids import compiled
from tests.products import product

ROUND = {
    "sms": 10,
    "clock_ghz": 1.0,
    "launch_ns": 0.0,
    "l1_bytes_per_cycle": 128.0,
    "registers_per_sm": 1 << 15,
}
DEVICE = load_gpu(DEVICES / "h100.yaml").model_copy(update=ROUND)
LATENCY = DEVICE.latency
"""Of one SM: 128 threads compute in a cycle, 32 load, a load's 128 bytes come out of L1."""

SUM = """
kernel: total
backbone: linalg
sizes: {n: 65536}
tensors:
  x: {dtype: f32, shape: [n]}
  s: {dtype: f32, shape: [], output: true}
compute:
  - s = REDUCE[p](x[p])
tiling: {p: [[1, 4, 8, 32, 256]]}
"""

TWO = """
kernel: two
backbone: linalg
sizes: {m: 32, n: 4096}
tensors:
  A: {dtype: f32, shape: [n, m]}
  B: {dtype: f32, shape: [n, m]}
  y: {dtype: f32, shape: [m], output: true}
  z: {dtype: f32, shape: [m], output: true}
compute:
  - t[i] = sum[p](A[p, i])
  - y[i] = 2 * t[i]
  - z[i] = sum[q](B[q, i] * FACTOR)
tiling: {i: [], p: [], q: []}
"""

ROWS = """
kernel: rows
backbone: linalg
sizes: {m: MMM, n: 4096}
tensors:
  A: {dtype: f32, shape: [n, m]}
  y: {dtype: f32, shape: [m], output: true}
compute:
  - y[i] = sum[p](A[p, i])
tiling: {i: [[TTT], [1, 32]], p: []}
"""

SCALE = """
kernel: scale
backbone: linalg
sizes: {m: 64, n: 64}
tensors:
  A: {dtype: f32, shape: [m, n], strides: [SSS]}
  C: {dtype: f32, shape: [m, n], output: true}
compute:
  - C[i, j] = 3 * A[i, j]
tiling: {i: [[1, 32]], j: [[1, 8, 32]]}
"""


@cache
def instance_of(text: str) -> Instance:
    kernel = check_kernel(Source("kernel.yaml", text), Path("kernel.yaml"), {}, "gpu")
    return instantiate(compiled(), kernel.backbone, DEVICE, Engine.NATIVE)


def decided(instance: Instance, **nests: str) -> Candidate:
    """`fma="i0 BLOCK 8, i1 THREAD"`: kinds and sizes of dimensions; or `load_A="SHARED"`: storage."""
    candidate = instance.root()
    assert candidate is not None
    for nest, text in nests.items():
        for item in text.split(", "):
            first, *words = item.split()
            decisions = [] if words else [Decision("storage", (nest,), (first,))]
            for choice, word in zip(("dim_kind", "size"), words, strict=False):
                value = int(word) if choice == "size" else word
                decisions.append(Decision(choice, (f"{nest}.{first}",), (value,)))
            for decision in decisions:
                candidate = instance.decide(candidate, decision)
                assert candidate is not None, decision
    return candidate


def term(instance: Instance, candidate: Candidate, resource: str, device: GpuDevice = DEVICE) -> float:
    terms = GpuBound(instance, device).explain(candidate)
    return next(t.bound_ns for t in terms if t.resource == resource)


def test_what_the_l2_cache_keeps_of_an_intermediate_is_neither_written_nor_read() -> None:
    """The matrix between two others may stay there, where it has room; the others pass."""
    text = """
kernel: turned
backbone: linalg
sizes: {n: 1024}
tensors:
  X: {dtype: f32, shape: [n, n]}
  T: {dtype: f32, shape: [n, n], output: true}
  Y: {dtype: f32, shape: [n, n], output: true}
compute:
  - T[i, j] = X[i, j] * X[i, j]
  - Y[i, j] = T[j, i] * 2
tiling: {i: [], j: []}
"""
    instance, nbytes = instance_of(text), 4 << 20
    root = instance.root()
    assert root is not None
    for cached, moved in ((nbytes, 2 * nbytes), (nbytes // 2, 3 * nbytes), (2 * nbytes, nbytes)):
        device = DEVICE.model_copy(update={"l2_bytes": cached, "dram_bytes_per_ns": 1.0})
        assert term(instance, root, "DRAM", device) == moved


@pytest.mark.parametrize(
    ("reduce", "copies", "accumulation", "chained"),
    [
        pytest.param("sum", 1, None, 65536, id="a loop"),
        pytest.param("sum", 8, "CHAINED", 65536, id="a loop of eight terms"),
        pytest.param("prod", 4, "CHAINED", 65536, id="a loop of four factors"),
        pytest.param("prod", 32, "CHAINED", 65536, id="a loop of many factors"),
        pytest.param("sum", 8, "SPLIT", 8192, id="eight sums side by side"),
    ],
)
def test_a_thread_waits_for_its_own_sum(
    reduce: str, copies: int, accumulation: str | None, chained: int
) -> None:
    instance = instance_of(SUM.replace("REDUCE", reduce))
    nest, kind = ("add" if reduce == "sum" else "mul"), ("UNROLL" if accumulation else "LOOP")
    candidate = decided(instance, **{nest: f"p0 LOOP {65536 // copies}, p1 {kind} {copies}"})
    if accumulation:
        found = instance.decide(candidate, Decision("accumulation", (nest,), (accumulation,)))
        assert found is not None
        candidate = found
    # An addition and a load in two cycles are slower than split sums, and go on while the first load waits.
    waiting = max(chained * LATENCY.f32 + LATENCY.shared, 2 * 65536)
    assert term(instance, candidate, "latency") == waiting


@pytest.mark.parametrize(("factor", "sums"), [("2", 1), ("t[i]", 2)])
def test_sums_wait_one_after_the_other_where_one_follows_from_the_other(factor: str, sums: int) -> None:
    """Others may be summed in the same loop. Each thread has a row, or one thread has all of them."""
    instance = instance_of(TWO.replace("FACTOR", factor))
    for kind, rows in (("THREAD", 1), ("LOOP", 32)):
        candidate = decided(instance, add=f"i0 {kind}, p0 LOOP", fma=f"i0 {kind}, q0 LOOP")
        assert term(instance, candidate, "sums") == sums * rows * 4095 * LATENCY.f32


@pytest.mark.parametrize(
    ("threads", "accesses"), [(1, 0), (8, 3), (32, 5), pytest.param(256, 5 + 3 * 2.5, id="8 warps")]
)
def test_threads_that_share_a_sum_tell_each_other(threads: int, accesses: float) -> None:
    """By a shuffle for each halving, or through memory of the block."""
    instance = instance_of(SUM.replace("REDUCE", "sum"))
    kind = "THREAD" if threads > 1 else "LOOP"
    candidate = decided(instance, load_x="REGISTERS", add=f"p0 LOOP {65536 // threads}, p1 {kind} {threads}")
    loads = 65536 / threads
    warps = max(1, threads // 32)
    assert term(instance, candidate, "memory units") == warps * (loads + accesses)


@pytest.mark.parametrize(
    ("blocks", "threads", "copies", "waves"),
    [
        pytest.param(10, 32, 1, 1, id="one block on each SM"),
        pytest.param(11, 32, 1, 1, id="two of them on one SM, side by side"),
        pytest.param(20, 1024, 1, 1, id="as many threads as there is room for"),
        pytest.param(21, 1024, 1, 2, id="one block too many"),
        pytest.param(20, 1024, 32, 2, id="no registers for more than a block of them"),
    ],
)
def test_blocks_follow_each_other_where_an_sm_has_no_room(
    blocks: int, threads: int, copies: int, waves: int
) -> None:
    instance = instance_of(ROWS.replace("MMM", str(blocks * threads * copies)).replace("TTT", str(threads)))
    kind = "UNROLL" if copies > 1 else "LOOP"
    candidate = decided(
        instance,
        load_A="REGISTERS",
        add=f"i0 BLOCK {blocks}, i1 THREAD {threads}, i2 {kind} {copies}, p0 LOOP 4096",
    )
    executed = 4096 * copies * 2
    alone = max(executed, executed / 2 + LATENCY.shared, 4096 * LATENCY.f32 + LATENCY.shared)
    assert term(instance, candidate, "latency") == waves * alone
    busiest = -(-blocks // 10) * threads
    assert term(instance, candidate, "f32 units") == pytest.approx(busiest * 4096 * copies / 128)
    assert term(instance, candidate, "memory units") >= busiest * 4096 * copies / 32


@pytest.mark.parametrize(
    ("blocks", "copies", "waves"),
    [
        pytest.param(8, 1, 1, id="some of the SMs"),
        pytest.param(16, 1, 1, id="two blocks on an SM, side by side"),
        pytest.param(64, 1, 4, id="as many as there are threads for, and more"),
        pytest.param(16, 32, 1, id="parts so short that a compiler may arrange them as it likes"),
    ],
)
def test_blocks_have_parts_of_a_sum(blocks: int, copies: int, waves: int) -> None:
    """One for each of 1024 threads and its copies: all blocks of 10 SMs sum up the same rows."""
    rows = ROWS.replace("MMM", str(1024 * copies)).replace("TTT", "1024")
    instance = instance_of(rows.replace("p: []", "p: [[64, 256, 512]]"))
    kind, terms = "UNROLL" if copies > 1 else "LOOP", 4096 // blocks
    candidate = decided(
        instance,
        load_A="REGISTERS",
        add=f"i0 LOOP 1, i1 THREAD 1024, i2 {kind} {copies}, p0 BLOCK {blocks}, p1 LOOP {terms}",
    )
    busiest = -(-blocks // 10) * 1024
    assert term(instance, candidate, "f32 units") == pytest.approx(busiest * terms * copies / 128)
    alone = max(terms * copies * 2, terms * max(copies, LATENCY.f32) + LATENCY.shared)
    assert term(instance, candidate, "latency") == waves * alone


@pytest.mark.parametrize(
    ("strides", "kinds", "loaded", "stored"),
    [
        pytest.param("64, 1", "i0 LOOP 64, i1 LOOP 1, j0 LOOP 2, j1 THREAD 32", 4, 4, id="neighbours"),
        pytest.param("64, 1", "i0 LOOP 2, i1 THREAD 32, j0 LOOP 64, j1 LOOP 1", 32, 32, id="rows"),
        pytest.param("64, 1", "i0 LOOP 16, i1 LOOP 4, j0 THREAD 32, j1 LOOP 2", 8, 8, id="every other one"),
        pytest.param("512, 8", "i0 LOOP 64, i1 LOOP 1, j0 LOOP 2, j1 THREAD 32", 32, 4, id="one of each"),
        pytest.param("2048, 32", "i0 LOOP 64, i1 LOOP 1, j0 LOOP 2, j1 THREAD 32", 32, 4, id="of each line"),
        pytest.param("64, 1", "i0 LOOP 16, i1 THREAD 4, j0 LOOP 8, j1 THREAD 8", 4, 4, id="of four rows"),
        pytest.param("64, 1", "i0 LOOP, i1 THREAD, j0 LOOP, j1 THREAD", 4, 4, id="of rows, or not"),
        pytest.param("1, 64", "i0 LOOP 2, i1 THREAD 32, j0 LOOP 64, j1 LOOP 1", 4, 32, id="in columns"),
    ],
)  # fmt: skip
def test_threads_of_a_warp_share_sectors(strides: str, kinds: str, loaded: int, stored: int) -> None:
    tiling = SCALE.replace("SSS", strides).replace(
        "[[1, 32]], j: [[1, 8, 32]]", "[[1, 4, 32]], j: [[1, 2, 8, 32]]"
    )
    instance = instance_of(tiling)
    candidate = decided(instance, load_A="REGISTERS", mul=kinds)
    sectors = 64 * 64 / 32
    assert term(instance, candidate, "L1") == pytest.approx(sectors * loaded * 32 / 128)
    # Where an SM keeps nothing of it, all of it goes through the L2 cache.
    kepler = DEVICE.model_copy(update={"compute_capability": "3.0"})
    through_l2 = sectors * (loaded + stored) * 32 / DEVICE.l2_bytes_per_ns
    assert term(instance, candidate, "L2, loads", kepler) == pytest.approx(through_l2)


@pytest.mark.parametrize(
    ("strides", "sectors"),
    [
        pytest.param({}, 64 * 64 / 8, id="open"),
        pytest.param({"j1": 1, "i1": 8}, 64 * 64 / 8, id="columns side by side"),
        pytest.param({"i1": 1, "j1": 32}, 64 * 64, id="a warp in 32 rows"),
        pytest.param({"i1": 8}, 64 * 64 / 8, id="four rows of a warp"),
        pytest.param({"j1": 16}, 64 * 64 / 2, id="two columns of a warp"),
        pytest.param({"j1": 32}, 64 * 64, id="one column of a warp"),
    ],
)
def test_a_warp_loads_what_its_own_threads_lie_apart(strides: dict[str, int], sectors: float) -> None:
    """Eight columns of a row share a sector, if they are in the same warp."""
    tiling = SCALE.replace("[[1, 32]], j", "[[1, 16, 32]], j")
    instance = instance_of(tiling.replace("SSS", "n, 1"))
    rows = 16 if strides.get("j1") == 16 else 32
    nest = f"i0 LOOP {64 // rows}, i1 THREAD {rows}, j0 LOOP 8, j1 THREAD 8"
    candidate = decided(instance, load_A="REGISTERS", mul=nest)
    for dim, stride in strides.items():
        found = instance.decide(candidate, Decision("thread_stride", (f"mul.{dim}",), (stride,)))
        assert found is not None
        candidate = found
    assert term(instance, candidate, "L1") == pytest.approx(sectors * 32 / 128)


@pytest.mark.parametrize("copies", [1, 2, 4, 8])
def test_copies_of_a_product_share_its_loads(copies: int) -> None:
    """Of `copies` x `copies` products, each loads 2 / `copies` elements, less what registers keep."""
    tiling = "{i: [[16], [1, 2, 4, 8]], j: [[16], [1, 2, 4, 8]], p: []}"
    instance = instance_of(product(256, 256, 2048, tiling))
    kind = "UNROLL" if copies > 1 else "LOOP"
    rows = 256 // 16 // copies
    nest = ", ".join(f"{x}0 LOOP {rows}, {x}1 THREAD 16, {x}2 {kind} {copies}" for x in "ij")
    columns = f"j2 {kind} {copies}"
    candidate = decided(
        instance,
        load_A="REGISTERS",
        load_B=f"REGISTERS, {columns}",
        fma=f"{nest}, p0 LOOP 2048",
        store_C=columns,
    )
    segment = 2 * 2048 * copies - DEVICE.registers_per_thread
    loads = 256 * rows * rows * segment
    stores = 256 * 256
    assert term(instance, candidate, "memory units") == (loads + stores) / 32
    # The 16 rows of a warp's threads, or more, lie apart; its columns lie side by side.
    assert term(instance, candidate, "L1") >= rows * rows * (2048 * copies - 255) * 16 * 32 / 128


@pytest.mark.parametrize(("precision", "rate"), [("tensor", 2048), ("tf32", 1024)])
def test_tensor_cores_multiply_at_their_rate(precision: str, rate: int) -> None:
    dtype, terms = ("bf16", 8) if precision == "tensor" else ("f32", 4)
    text = product(160, 64, 512, f"{{i: [[8]], j: [[8]], p: [[{terms}]]}}", dtype)
    instance = instance_of(f"{text}precision: {precision}\n")
    nest = f"i0 BLOCK 20, i1 FRAGMENT 8, j0 LOOP 8, j1 FRAGMENT 8, p0 LOOP {512 // terms}"
    candidate = decided(instance, fma=f"{nest}, p1 FRAGMENT {terms}")
    assert term(instance, candidate, "tensor cores") == 160 * 64 * 512 / 10 / rate
    # Without them, 128 threads compute in a cycle.
    candidate = decided(instance, fma=f"{nest.replace('FRAGMENT', 'LOOP')}, p1 LOOP {terms}")
    assert term(instance, candidate, "f32 units") == 160 * 64 * 512 / 10 / 4


def test_passes_of_shared_memory_are_at_their_best() -> None:
    """Two for each warp and vector: banks may be free of conflicts, and vectors may be loaded."""
    tiling = "{i: [[16], [1, 4]], j: [[16], [1, 4]], p: [[32]]}"
    instance = instance_of(product(64, 64, 2048, tiling))
    nest = ", ".join(f"{x}0 LOOP 1, {x}1 THREAD 16, {x}2 UNROLL 4" for x in "ij")
    candidate = decided(instance, load_A="SHARED", load_B="SHARED", fma=f"{nest}, p0 LOOP 64, p1 LOOP 32")
    warps, vectors = 16 * 16 / 32, 2048 * 4 / 4
    assert term(instance, candidate, "shared memory") == 2 * 2 * vectors * warps


def test_what_a_block_shares_leaves_no_room_for_others() -> None:
    tiling = "{i: [[16]], j: [[16]], p: []}"
    instance = instance_of(product(64, 160, 1024, tiling))
    nest = "i0 BLOCK 4, i1 THREAD 16, j0 BLOCK 10, j1 THREAD 16, p0 LOOP 1024"
    loaded = decided(instance, load_A="REGISTERS", load_B="REGISTERS", fma=nest)
    copied = decided(instance, load_A="REGISTERS", load_B="SHARED", fma=nest)
    # Four blocks on an SM run side by side; each with 1024 x 16 elements of B, three of them.
    for order in ("BEFORE", "AFTER"):
        found = instance.decide(copied, Decision("order", ("load_B.p0", "fma.p0"), (order,)))
        copied = copied if found is None else found
    assert term(instance, copied, "latency") >= 1.9 * term(instance, loaded, "latency")
