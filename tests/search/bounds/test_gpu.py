"""The bound of GPUs: never falling as decisions are made, and never above what lowered programs count."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.cuda.prediction import USUAL, predict
from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.tree.program import Grid
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Engine, Instance, instantiate
from spacedsl.kernels.device import DEVICES, load_gpu
from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.kernels.kernel_file import KernelFile, load_kernel
from spacedsl.search.bounds.gpu.bound import GpuBound
from spacedsl.search.bounds.gpu.ways import IndexPlaces
from tests.codegen.cuda.grids import compiled, in_blocks, on_tensor_cores, space_of
from tests.codegen.kernels import parse
from tests.products import product
from tests.search.bounds.ways_down import way_down

LIBRARY = Path("kernels/library")

TURNED = """
kernel: turned
backbone: linalg
sizes: {m: 64, n: 64}
tensors:
  A: {dtype: f32, shape: [m, n]}
  B: {dtype: f32, shape: [n, m], output: true}
compute:
  - B[j, i] = A[i, j]
tiling: {i: [[1, 4, 32]], j: [[1, 2, 32]]}
"""

TF32 = parse(product(64, 64, 128) + "precision: tf32\n").made_for("gpu")

SIZES = {
    "matmul": {"m": 256, "n": 128, "k": 1024}, "matmul_strided": {"m": 64, "n": 64, "k": 64},
    "axpy": {"n": 4096}, "softmax": {"m": 32, "n": 64}, "column_sum_i32": {"m": 64, "n": 64},
    "chain_sigmoid": {"m": 32, "n": 32, "k": 32, "l": 32}, "transpose": {"m": 64, "n": 96},
    "conv2d_nhwc": {"y": 14, "x": 14, "c": 16, "f": 32}, "dot_f64": {"n": 8192},
    "dot": {"n": 1 << 20}, "max_all": {"m": 256, "n": 256}, "column_sum": {"m": 512, "n": 32},
    "matmul_bias_gelu_bf16": {"m": 48, "n": 40, "k": 64}, "matmul_bf16_tensor": {"m": 64, "n": 128, "k": 256},
}  # fmt: skip

COUNTED = {
    "f32 units": "f32", "f64 units": "f64", "i32 units": "i32", "special units": "special",
    "tensor cores": "tensor cores", "issue": "issue",
    "memory units": "memory units", "L1": "L1", "L2, loads": "L2", "shared memory": "shared memory",
    "threads": "latency", "sums": "latency", "latency": "latency",
}  # fmt: skip
"""Terms of the bound, and those of the prediction that count the same in the program."""


@cache
def gpu(name: str) -> GpuDevice:
    return load_gpu(DEVICES / f"{name}.yaml")


@cache
def made(name: str) -> KernelFile:
    return load_kernel(LIBRARY / f"{name}.yaml", SIZES[name], "gpu")


@cache
def instance_of(name: str, device: str) -> Instance:
    return instantiate(compiled(), made(name).backbone, gpu(device), Engine.NATIVE)


ON_ANOTHER = ("matmul", "softmax", "column_sum_i32", "dot_f64", "transpose", "matmul_bias_gelu_bf16")
"""Of each kind one: devices differ in rates and limits, not in what is counted."""


@pytest.mark.parametrize(
    ("name", "device"), [*((name, "h100") for name in SIZES), *((name, "k4000") for name in ON_ANOTHER)]
)
def test_no_term_falls_and_none_is_above_what_a_program_counts(name: str, device: str) -> None:
    root, random = instance_of(name, device).root(), np.random.default_rng(2)
    assert root is not None
    for order in (None, None, "order, dim_kind, size"):
        check_way(made(name), gpu(device), list(way_down(root, order, random)))


NORM = parse("""
kernel: norm
backbone: linalg
tensors:
  x: {dtype: f32, shape: [1048576]}
  s: {dtype: f32, shape: [], output: true}
compute:
  - s = sqrt(sum[p](x[p] * x[p]))
""").made_for("gpu")


def test_what_blocks_combine_is_started_by_a_kernel_and_read_by_another() -> None:
    instance = instantiate(compiled(), NORM.backbone, gpu("h100"), Engine.NATIVE)
    root, bound = instance.root(), GpuBound(instance, gpu("h100"))
    assert root is not None and bound.launches(root) == 1
    (shared,) = in_blocks(instance)
    assert bound.launches(shared) == 3
    for seed in range(6):
        way = list(way_down(shared, None, np.random.default_rng(seed)))
        check_way(NORM, gpu("h100"), way)
        if way[-1].is_complete:
            program = lower_grids(NORM.backbone, CandidateImplementation(way[-1]))
            assert sum(isinstance(s, Grid) for s in program.body) == 3


def test_what_stores_move_is_of_stores_alone() -> None:
    """Where what a nest loads goes through the L2 cache as well, each load has sectors of its own."""
    kernel = parse(TURNED).made_for("gpu")
    instance = instantiate(compiled(), kernel.backbone, gpu("k4000"), Engine.NATIVE)
    root = instance.root()
    assert root is not None
    for seed in range(12):
        check_way(kernel, gpu("k4000"), list(way_down(root, "rollout", np.random.default_rng(seed))))


@pytest.mark.parametrize("name", ["matmul_bf16_tensor", "tf32"])
def test_nor_on_tensor_cores(name: str) -> None:
    kernel = TF32 if name == "tf32" else made(name)
    root, random = on_tensor_cores(kernel), np.random.default_rng(3)
    for order in (None, None, "rollout", "rollout", "order, dim_kind, size"):
        check_way(kernel, gpu("h100"), list(way_down(root, order, random)))


def check_way(kernel: KernelFile, device: GpuDevice, way: Sequence[Candidate]) -> None:
    bound = GpuBound(way[0].instance, device)
    seen = [bound.terms_ns(candidate) for candidate in way]
    for before, after in pairwise(seen):
        assert all(b <= a * (1 + 1e-9) for b, a in zip(before, after, strict=True))
    if way[-1].is_complete:
        program = lower_grids(kernel.backbone, CandidateImplementation(way[-1]))
        predicted = predict(program, device)
        assert max(seen[-1]) <= predicted.time_ns
        for term in bound.explain(way[-1]):
            if counted := COUNTED.get(term.resource):
                counts = (t for _, terms in predicted.terms for t in terms if t.resource == counted)
                # Of what the device could do at most.
                grids = (t.time_ns * USUAL.get(counted, 1.0) for t in counts)
                begun_ns = bound.launches(way[-1]) * device.launch_ns
                assert term.bound_ns - begun_ns <= sum(grids) * (1 + 1e-9), term
        assert bound.launches(way[-1]) <= sum(isinstance(s, Grid) for s in program.body)


@pytest.mark.parametrize("name", ["matmul", "axpy", "softmax"])
def test_the_way_of_an_implementation_is_left_on_all_of_its_path(name: str) -> None:
    """Blocks, threads and copies of each index, as the decisions say."""
    instance = instance_of(name, "h100")
    root, random = instance.root(), np.random.default_rng(5)
    assert root is not None
    for instruction in (*made(name).backbone.reductions, *made(name).backbone.stores):
        copied = "VECTOR" if instruction.is_access else "UNROLL"
        for logical in instruction.logical_dims:
            index = IndexPlaces.of(instance, logical, (copied,), 32, only_most=False)
            path = list(way_down(root, None, random))
            if not path[-1].is_complete:
                continue
            sizes = dict.fromkeys(("BLOCK", "THREAD", copied), 1)
            for dim in logical.dims:
                kind, size = str(path[-1].value("dim_kind", dim)), path[-1].value("size", dim)
                sizes[kind] = sizes.get(kind, 1) * int(size)
            for candidate in path:
                ways = index.ways(candidate.vector)
                assert ways is not None
                numbers = set(zip(ways.blocks, ways.threads, ways.copies, strict=True))
                assert tuple(sizes[kind] for kind in ("BLOCK", "THREAD", copied)) in numbers


def test_what_no_access_reaches_takes_no_time() -> None:
    """Of elements that lie 32 apart, a sector is fetched each; the rest of what lies between them is not."""
    kernel = load_kernel(LIBRARY / "matmul_strided.yaml", {}, "gpu")
    instance = space_of(kernel)
    root, device = instance.root(), gpu("h100")
    assert root is not None
    (read,) = (t.bound_ns for t in GpuBound(instance, device).explain(root) if t.resource == "L2")
    elements = 1024 * 1024
    assert read == pytest.approx(device.launch_ns + elements * (32 + 4) / device.l2_bytes_per_ns)
