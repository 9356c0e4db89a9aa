"""Random implementations for GPUs are right where their twins run, on a CPU, and CUDA to its compiler."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from spacedsl.codegen.c.names import c_name
from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.cuda.nvrtc import compile_cubin
from spacedsl.codegen.cuda.printer import print_cuda
from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.tree.expressions import Shuffle
from spacedsl.codegen.tree.parts import expressions, own_memory
from spacedsl.codegen.tree.program import Grid
from spacedsl.codegen.tree.verify import verify
from spacedsl.engine.decision import Decision
from spacedsl.kernels.kernel_file import KernelFile, load_kernel
from tests.codegen.cuda.grids import device, orders, random_candidates, random_from, space_of, twin
from tests.codegen.kernels import parse
from tests.codegen.runs import integer_case, run_difference
from tests.codegen.zoo import zoo

ZOO = zoo()
LIBRARY = Path("kernels/library")


def checked(kernel: KernelFile, count: int, folder: Path) -> Counter[str]:
    """Random implementations, each with its threads in two orders; what they were made of."""
    case, met = integer_case(kernel), Counter[str]()
    for number, candidate in enumerate(random_candidates(space_of(kernel), count, seed=5)):
        program = verify(lower_grids(kernel.backbone, CandidateImplementation(candidate)))
        met.update(f"{d.choice} {d.values[0]}" for d in candidate.decisions() if len(d.values) == 1)
        met["shuffles"] += any(isinstance(e, Shuffle) for e in expressions(program.body))
        met["exchanges"] += any("exchange" in t.name for t in own_memory(program))
        library = twin(program, folder)
        for _ in orders(library, (number % 2, 2 + number)):
            assert run_difference(kernel, library, case) == ""
        if number < 2:
            cubin = compile_cubin(print_cuda(program), device().compute_capability)
            assert set(cubin.resources) == {c_name(s.name) for s in program.body if isinstance(s, Grid)}
    return met


@pytest.mark.parametrize("name", ZOO)
def test_random_candidates_are_right(name: str, tmp_path: Path) -> None:
    checked(ZOO[name].made_for("gpu"), 3, tmp_path)


def test_vectors_of_floats_are_no_longer_than_those_of_the_doubles_that_they_become(tmp_path: Path) -> None:
    text = """
kernel: scaled
backbone: linalg
sizes: {b: 16, m: 8, n: 8}
tensors:
  u: {dtype: f64, shape: [b, m]}
  v: {dtype: f32, shape: [b, n], strides: [1, b]}
  O: {dtype: f64, shape: [b, m, n], output: true}
compute:
  - O[q, i, j] = u[q, i] * v[q, j]
"""
    kernel = parse(text).made_for("gpu")
    instance = space_of(kernel)
    candidate = instance.root()
    for choice, about, value in (
        ("storage", "load_v", "REGISTERS"),
        ("dim_kind", "load_v.q1", "VECTOR"),
        ("size", "load_v.q1", 2),
    ):
        assert candidate is not None
        if choice == "size":
            assert instance.decide(candidate, Decision(choice, (about,), (4,))) is None
        candidate = instance.decide(candidate, Decision(choice, (about,), (value,)))
    assert candidate is not None
    case = integer_case(kernel)
    for each in random_from(candidate, 3, seed=5):
        program = verify(lower_grids(kernel.backbone, CandidateImplementation(each)))
        compile_cubin(print_cuda(program), device().compute_capability)
        assert run_difference(kernel, twin(program, tmp_path), case) == ""


def test_a_product_is_made_in_every_way(tmp_path: Path) -> None:
    kernel = load_kernel(LIBRARY / "matmul.yaml", {"m": 64, "n": 64, "k": 64}, "gpu")
    met = checked(kernel, 12, tmp_path)
    for wanted in (
        "storage SHARED",
        "storage GLOBAL",
        "dim_kind THREAD",
        "dim_kind BLOCK",
        "dim_kind VECTOR",
        "shuffles",
        "exchanges",
    ):
        assert met[wanted], wanted
    assert any(met[f"thread_stride {stride}"] for stride in (2, 4, 8, 16))
