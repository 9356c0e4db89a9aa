"""The engine on dense linear algebra: small kernels counted, a matrix product judged value by value."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from spacedsl.compiler import CompiledSpace, compile_space
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.enumerate import enumerate_solutions
from spacedsl.engine.instance import Instance, instantiate
from spacedsl.kernels.kernel_file import load_kernel
from spacedsl.kernels.linalg.backbone import Kernel
from spacedsl.language.host import exposed
from spacedsl.language.loader import load_space
from spacedsl.oracle.cp_sat import CpSatModel, Narrowed
from tests.engine.agreement import Agreement, random_step
from tests.products import product

SPACE = Path("kernels/spaces/linalg.space")

OUTER = """
kernel: outer
backbone: linalg
sizes: {m: 2, n: 2}
tensors:
  a: {dtype: f32, shape: [m]}
  b: {dtype: f32, shape: [n]}
  C: {dtype: f32, shape: [m, n], output: true}
compute:
  - C[i, j] = a[i] * b[j]
tiling: {i: [], j: []}
"""

SCALE = """
kernel: scale
backbone: linalg
sizes: {n: 8}
tensors:
  x: {dtype: f32, shape: [n]}
  z: {dtype: f32, shape: [n], output: true}
params: {alpha: f32}
compute:
  - z[i] = alpha * x[i]
tiling: {i: [[2, 4]]}
"""

RAGGED = SCALE.replace("n: 8", "n: 7")
"""Tiles of 2 and 4 end beyond the index, and may be peeled off or guarded."""

LEVELS = SCALE.replace("[[2, 4]]", "[[1, 2], [2]]")
"""The level in the middle may be none."""

MATMUL = product(16, 8, 4, "{i: [[2, 4]], j: [], p: []}")


@exposed("vector_bytes", "vector_registers", "threads")
@dataclass(frozen=True, slots=True)
class SmallCpu:
    vector_bytes: int = 16
    vector_registers: int = 8
    threads: int = 2


@cache
def compiled() -> CompiledSpace:
    return compile_space(load_space(SPACE))


def backbone(folder: Path, text: str) -> Kernel:
    path = folder / "kernel.yaml"
    path.write_text(text)
    return load_kernel(path).backbone


def everything(kernel: Kernel) -> dict[str, object]:
    statements = {x.name: x for x in kernel.statements}
    return {**statements, **{x.name: x for x in kernel.logical_dims}}


@pytest.mark.parametrize("text", [OUTER, SCALE, RAGGED, LEVELS], ids=["outer", "scale", "ragged", "levels"])
def test_small_kernels_have_exactly_the_implementations_that_both_oracles_count(
    tmp_path: Path, text: str
) -> None:
    kernel = backbone(tmp_path, text)
    space = compiled().space
    solutions = tuple(enumerate_solutions(space, kernel, SmallCpu(), limit=500_000))
    assert CpSatModel(space, kernel, SmallCpu()).count() == len(solutions)
    instance = instantiate(compiled(), kernel, SmallCpu())
    compared = Agreement(space, instance, solutions, everything(kernel))
    compared.check_exhaustively()
    for seed in range(10):
        compared.check_descent(random.Random(seed))
        compared.check_order(random.Random(seed))
        compared.check_monotone(random.Random(seed))
    assert compared.tally.decisions > 30
    assert compared.tally.leaves > 5


class Judged:
    """A matrix product, with what triggers may add to it, and CP-SAT as the judge of the engine."""

    def __init__(self, folder: Path) -> None:
        kernel = backbone(folder, MATMUL)
        assert [i.name for i in kernel.storable] == ["load_A", "load_B"]
        self.instance: Instance = instantiate(compiled(), kernel, SmallCpu())
        self.judge = CpSatModel(compiled().space, kernel, SmallCpu())

    def removed_values(self, candidate: Candidate, rng: random.Random, count: int) -> list[Narrowed]:
        """Some of the values that the candidate no longer has."""
        removed: list[Narrowed] = [
            (v.choice, v.objects, v.values(1 << bit))
            for v in self.instance.variables
            for bit in range(len(v.universe))
            if not candidate.mask(v) >> bit & 1
        ]
        return rng.sample(removed, min(count, len(removed)))

    def domains(self, candidate: Candidate) -> list[Narrowed]:
        return [
            (v.choice, v.objects, candidate.possible(v.choice, *v.objects))
            for v in self.instance.variables
            if candidate.is_present(v)
        ]

    def has_solution(self, narrowed: Sequence[Narrowed]) -> bool:
        return self.judge.is_satisfiable(narrowed)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    return Judged(tmp_path_factory.mktemp("matmul"))


def test_values_that_the_root_of_a_matrix_product_lacks_have_no_solution(judged: Judged) -> None:
    root = judged.instance.root()
    assert root is not None
    removed = judged.removed_values(root, random.Random(1), 8)
    assert len(removed) == 8
    for narrowed in removed:
        assert not judged.has_solution([narrowed]), narrowed


@pytest.mark.parametrize("seed", range(3))
def test_a_random_descent_of_a_matrix_product_is_right_at_every_step_looked_at(
    judged: Judged, seed: int
) -> None:
    """Removed values have no solution beside the decisions, dead ends are dead, the leaf is valid."""
    rng = random.Random(seed)
    candidate = judged.instance.root()
    taken: list[Narrowed] = []
    looked_at = 0
    while candidate is not None and not candidate.is_complete:
        variable, mask = random_step(candidate, rng)
        child = judged.instance.restrict(candidate, variable, mask)
        decision = (variable.choice, variable.objects, variable.values(mask))
        if child is None:
            assert not judged.has_solution([*taken, decision]), "a dead end has a solution"
            mask = candidate.mask(variable) & ~mask
            child = judged.instance.restrict(candidate, variable, mask)
            decision = (variable.choice, variable.objects, variable.values(mask))
        taken.append(decision)
        if child is not None and looked_at < 3 and rng.random() < 0.3:
            looked_at += 1
            for narrowed in judged.removed_values(child, rng, 2):
                assert not judged.has_solution([*taken, narrowed]), (narrowed, taken)
        candidate = child
    if candidate is None:
        assert not judged.has_solution(taken), "a dead end has a solution"
    else:
        assert judged.has_solution(judged.domains(candidate)), "a leaf is no solution"
