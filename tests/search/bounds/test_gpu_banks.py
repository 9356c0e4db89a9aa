"""Conflicts between the banks of shared memory in the bound of GPUs: by hand, and against every warp."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.cuda.prediction import USUAL, predict
from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.tree.expressions import Load
from spacedsl.codegen.tree.parts import expressions
from spacedsl.codegen.tree.program import Grid, Program
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.decision import Decision
from spacedsl.kernels.banks import passes
from spacedsl.search.bounds.certain import footprints
from spacedsl.search.bounds.domains import linalg_kernel
from spacedsl.search.bounds.gpu.banks import passes_of_warp
from spacedsl.search.bounds.gpu.bound import GpuBound
from spacedsl.search.bounds.gpu.nests import nests
from tests.codegen.cuda.grids import device, space_of
from tests.codegen.kernels import parse
from tests.products import product
from tests.search.bounds.ways_down import way_down

SHARED = "shared memory"


@pytest.mark.parametrize(
    ("threads", "neighbours", "item_bytes", "least"),
    [
        pytest.param([(1, 32, 1)], 1, 4, 1, id="a row"),
        pytest.param([(1, 32, 32)], 1, 4, 32, id="a column"),
        pytest.param([(1, 32, 32)], 32, 4, 8, id="a column, by vectors of four"),
        pytest.param([(1, 32, 32)], 2, 4, 16, id="a column, by vectors of two"),
        pytest.param([(1, 32, 33)], 32, 4, 1, id="a column with a word between rows: no vectors"),
        pytest.param([(1, 32, 36)], 1, 4, 4, id="a column with room for a vector, one by one"),
        pytest.param([(1, 32, 36)], 32, 4, 1, id="a column with room for a vector, by vectors"),
        pytest.param([(1, 8, 32)], 1, 4, 8, id="few threads"),
        pytest.param([(4, 8, 32)], 1, 4, 8, id="of four threads, the same element"),
        pytest.param([(16, 16, 32)], 1, 4, 2, id="two of many rows"),
        pytest.param([(32, 8, 32)], 1, 4, 1, id="one of many rows"),
        pytest.param([(1, 8, 1), (8, 4, 8)], 1, 4, 1, id="short rows, one behind the other"),
        pytest.param([(1, 8, 1), (8, 4, 32)], 1, 4, 4, id="parts of rows"),
        pytest.param([(1, 8, 1), (8, 4, 40)], 1, 4, 1, id="parts of rows of 40"),
        pytest.param([(1, 32, 32)], 3, 4, 8, id="rows of three may end within a vector"),
        pytest.param([(1, 32, 1)], 1, 2, 1, id="halves of words"),
        pytest.param([(1, 32, 64)], 64, 2, 4, id="a column of halves of words, by vectors of eight"),
        pytest.param([(1, 32, 66)], 64, 2, 0.5, id="the same with a word between rows, by words"),
        pytest.param([(1, 32, 1)], 1, 8, 2, id="two words each"),
        pytest.param([(1, 32, 16)], 16, 8, 16, id="a column of two words each"),
        pytest.param([(1, 24, 1)], 1, 4, 0, id="no power of two"),
    ],
)
def test_passes_for_an_element_of_each_thread(
    threads: list[tuple[int, int, int]], neighbours: int, item_bytes: int, least: float
) -> None:
    assert passes_of_warp(tuple(threads), neighbours, item_bytes) == least


@pytest.mark.parametrize("item_bytes", [2, 4, 8])
def test_no_warp_takes_less(item_bytes: int) -> None:
    """Wherever it begins, however many threads there are besides, whatever vectors are loaded."""
    random = np.random.default_rng(item_bytes)
    for _ in range(300):
        threads, span, step = [], 2 ** int(random.integers(4)), int(random.integers(1, 9))
        for size in 2 ** random.integers(1, 4, size=int(random.integers(1, 4))):
            threads.append((span, int(size), step))
            span *= int(size) * 2 ** int(random.integers(2))
            step *= int(size) * int(random.integers(1, 4))
        neighbours = 2 ** int(random.integers(4))
        of_element = passes_of_warp(tuple(threads), neighbours, item_bytes)
        span = max(apart * size for apart, size, _ in threads)
        for count in (span, span * 2, span * 8):
            for begin in range(0, min(count, 128), 32):
                numbers = range(begin, min(begin + 32, count))
                places = [sum(t // apart % size * step for apart, size, step in threads) for t in numbers]
                width = 1
                while width <= neighbours and width * item_bytes <= 16:
                    if all(place % width == 0 for place in places):
                        first = width * int(random.integers(64))
                        firsts = [first + place for place in places]
                        found = passes(firsts, width * item_bytes, item_bytes, is_shared_load=True)
                        assert of_element * width <= found
                    width *= 2


STAGED = parse(product(64, 64, 1024, "{i: [[32]], j: [[1]], p: [[32]]}")).made_for("gpu")


def decided(candidate: Candidate | None, choice: str, about: str, value: str | int) -> Candidate:
    assert candidate is not None
    objects = tuple(about.split())
    found = candidate.instance.decide(candidate, Decision(choice, objects, (value,)))
    assert found is not None, (choice, about, value)
    return found


def down_a_column() -> Candidate:
    """Each thread of a warp reads a row of a tile of A, 32 floats that lie one behind the other."""
    candidate = space_of(STAGED).root()
    decisions: list[tuple[str, str, str | int]] = [
        ("storage", "load_A", "SHARED"),
        ("storage", "load_B", "REGISTERS"),
        ("dim_kind", "fma.i1", "THREAD"),
        ("dim_kind", "load_A.p1", "THREAD"),
        *(("dim_kind", f"fma.{dim}", "LOOP") for dim in ("i0", "j0", "p0", "p1")),
        *(("size", f"fma.{dim}", 32) for dim in ("i1", "p1")),
        *(("order", f"load_A.{dim} reload_A.{dim}", "MERGED") for dim in ("i0", "p0")),
        *(("order", f"load_A.{dim} reload_A.{dim}", "BEFORE") for dim in ("i1", "p1")),
        ("order", "reload_A.i1 reload_A.p1", "OUTER"),
        ("thread_stride", "reload_A.i1", 1),
    ]
    for choice, about, value in decisions:
        candidate = decided(candidate, choice, about, value)
    assert candidate is not None
    return candidate


def shared_ns(candidate: Candidate) -> float:
    bound = GpuBound(candidate.instance, device())
    begun_ns = bound.launches(candidate) * device().launch_ns
    return next(t.bound_ns for t in bound.explain(candidate) if t.resource == SHARED) - begun_ns


def test_threads_go_down_a_column_of_what_they_share() -> None:
    """One by one, each load would take 32 passes, by vectors of four 32 for the four; with a word between
    rows there are no vectors, and no conflicts.
    """
    candidate = down_a_column()
    elements = 64 * 64 * 1024 / 32
    pass_ns = 1 / device().clock_ghz
    least = shared_ns(candidate)
    assert shared_ns(decided(candidate, "padding", "load_A", "NONE")) == pytest.approx(8 * least)
    for padding in ("WORD", "VECTOR"):
        assert shared_ns(decided(candidate, "padding", "load_A", padding)) == pytest.approx(least)
    # What 255 registers keep of 1024 terms is not loaded again.
    assert least == pytest.approx(elements * (1024 - 255) / 1024 * pass_ns, rel=0.01)


TILES = "{i: [[8, 16, 32], [1, 4]], j: [[8, 16, 32], [1, 4]], p: [[8, 32]]}"
PRODUCTS = {
    "f32": product(128, 128, 512, TILES),
    "bf16": product(128, 128, 512, TILES, "bf16"),
    "f64": product(128, 128, 512, TILES, "f64"),
    "uneven": product(96, 64, 200, "{i: [[8, 16, 20], [1, 4]], j: [[16, 24]], p: [[8, 24]]}"),
}
ORDERS = (None, "rollout", "layout, padding, order, dim_kind, size")


@pytest.mark.parametrize("name", PRODUCTS)
def test_no_term_falls_and_programs_take_all_these_passes(name: str) -> None:
    """Of random tiles of both operands, which the threads of blocks share."""
    kernel = parse(PRODUCTS[name]).made_for("gpu")
    root = space_of(kernel).root()
    for operand in "AB":
        root = decided(root, "storage", f"load_{operand}", "SHARED")
        root = decided(root, "order", f"load_{operand}.p0 reload_{operand}.p0", "MERGED")
    for index in "ij":
        root = decided(root, "dim_kind", f"fma.{index}0", "BLOCK")
        root = decided(root, "dim_kind", f"fma.{index}1", "THREAD")
    assert root is not None
    bound, found = GpuBound(root.instance, device()), 0
    for seed in range(18):
        way = list(way_down(root, ORDERS[seed % 3], np.random.default_rng(seed)))
        seen = [bound.terms_ns(candidate) for candidate in way]
        for before, after in pairwise(seen):
            assert all(b <= a * (1 + 1e-9) for b, a in zip(before, after, strict=True))
        # What is remembered is no older than what it depends on.
        assert seen[-1] == GpuBound(root.instance, device()).terms_ns(way[-1])
        if not way[-1].is_complete:
            continue
        program = lower_grids(kernel.backbone, CandidateImplementation(way[-1]))
        predicted = predict(program, device())
        counts = (t.time_ns for _, terms in predicted.terms for t in terms if t.resource == SHARED)
        assert shared_ns(way[-1]) <= sum(counts) * USUAL[SHARED] * (1 + 1e-9)
        least = least_passes(way[-1])
        found += any(least.values())
        ends = [way[-1].value(v.choice, *v.objects) for v in root.instance.variables_of("remainder")]
        assert set(ends) <= {"NONE"} or not any(least.values())
        for name_of, of_element in passes_of_warps(program):
            assert least.get(name_of, 0.0) <= of_element
    assert found > 2


def least_passes(candidate: Candidate) -> dict[str, float]:
    """What the bound says, by copy."""
    instance = candidate.instance
    found = nests(instance, device(), footprints(linalg_kernel(instance)))
    return {
        operand.load.name.replace("load", "temporary"): operand.banks.passes(candidate.vector)
        for nest in found
        for operand in nest.operands
        if operand.banks is not None
    }


def passes_of_warps(program: Program) -> Iterator[tuple[str, float]]:
    """Of each load of a copy by each warp, those for an element of each thread, and the copy."""
    for grid in (g for g in program.body if isinstance(g, Grid)):
        nbytes = {tensor.name: tensor.dtype.nbytes for tensor in grid.shared}
        for load in (e for e in expressions(grid.body) if isinstance(e, Load) and e.tensor in nbytes):
            strides = dict(load.index.terms)
            threads = [c for c in grid.coordinates if not c.is_block and c.variable in strides]
            for begin in range(0, min(grid.threads, 256), 32):
                numbers = range(begin, min(begin + 32, grid.threads))
                firsts = [
                    load.index.constant + sum(t // c.stride % c.extent * strides[c.variable] for c in threads)
                    for t in numbers
                ]
                item, lanes = nbytes[load.tensor], load.type.lanes
                yield load.tensor, passes(firsts, lanes * item, item, is_shared_load=True) / lanes


def test_memory_with_other_banks_is_left_alone() -> None:
    instance = space_of(STAGED)
    kepler = device().model_copy(update={"shared_bytes_per_cycle": 256.0})
    found = nests(instance, kepler, footprints(linalg_kernel(instance)))
    assert all(operand.banks is None for nest in found for operand in nest.operands)
