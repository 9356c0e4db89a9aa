"""Orders of loops: values by hand, below a simulated cache, equal in compiled code, monotone in any order."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.decision import Decision
from spacedsl.engine.instance import Instance
from spacedsl.kernels.device import CpuDevice
from spacedsl.kernels.linalg.backbone import Kernel
from spacedsl.search.bounds import loop_orders, nests
from spacedsl.search.bounds.cpu import CpuBound
from spacedsl.search.bounds.memory import LoopOrder
from spacedsl.search.orderings import select_ordering
from tests.products import product
from tests.search.cache import beside_a_cache
from tests.search.linalg import (
    AXPY,
    DEVICE,
    DOT,
    FEW,
    MATMUL,
    ODD,
    SCALED,
    any_descent,
    compiled,
    decide,
    instance_under,
    native,
    root,
    with_caches,
)

DENSE = product(16, 32, 32, "{i: [[2, 4]], j: [[8, 16]], p: [[4, 8]]}")
STRIDED = DENSE.replace("shape: [m, k]", "shape: [m, k], strides: [20 * k, 20]")
MATVEC = """
kernel: matvec
backbone: linalg
sizes: {m: 64, k: 64}
tensors:
  A: {dtype: f32, shape: [m, k]}
  x: {dtype: f32, shape: [k]}
  y: {dtype: f32, shape: [m], output: true}
compute:
  - y[i] = sum[p](A[i, p] * x[p])
tiling: {i: [[2, 8]], p: [[2, 8]]}
"""
OUTER = """
kernel: outer
backbone: linalg
sizes: {m: 128, n: 256}
tensors:
  a: {dtype: f32, shape: [m], strides: [32]}
  b: {dtype: f32, shape: [n]}
  C: {dtype: f32, shape: [m, n], output: true}
compute:
  - C[i, j] = a[i] * b[j]
tiling: {i: [[2, 8]], j: [[8, 16]]}
"""


ODD_DENSE = DENSE.replace("m: 16, n: 32, k: 32", "m: 13, n: 37, k: 29")
ODD_STRIDED = STRIDED.replace("m: 16, n: 32, k: 32", "m: 13, n: 37, k: 29")
ODD_MATVEC = MATVEC.replace("m: 64, k: 64", "m: 61, k: 67")
ODD_OUTER = OUTER.replace("m: 128, n: 256", "m: 121, n: 243")


def uncopied(instance: Instance) -> Candidate:
    """All operands come from where they are."""
    candidate = root(instance)
    for variable in instance.variables_of("storage"):
        candidate = decide(instance, candidate, "storage", variable.names[0], "REGISTERS")
    return candidate


def order(bound: CpuBound) -> LoopOrder:
    (found,) = (r for r in bound.resources if isinstance(r, LoopOrder))
    return found


# ---- By hand -------------------------------------------------------------------------------------------


def matmul_in_order(instance: Instance, *dims: str) -> Candidate:
    """A product without tiles of more than one level, its loops nested as listed."""
    candidate = root(instance)
    for outer, inner in itertools.pairwise(dims):
        decided = instance.decide(candidate, Decision("order", (f"fma.{outer}", f"fma.{inner}"), ("OUTER",)))
        assert decided is not None
        candidate = decided
    return candidate


PLAIN = MATMUL.replace("i: [[1, 2, 4]], j: [[1, 2, 4], [1, 16]], p: []", "i: [], j: [], p: []").replace(
    "m: 64, n: 64, k: 2048", "m: 128, n: 64, k: 64"
)


@pytest.mark.usefixtures("no_window")
def test_a_row_of_results_reads_all_of_the_second_operand_again() -> None:
    instance = native(PLAIN)
    device = with_caches(4096, 8192)
    candidate = matmul_in_order(instance, "i0", "j0", "p0")
    view = CpuBound(instance, device)._domains.view(candidate)
    found = order(CpuBound(instance, device)).pressure(view)
    # 64 x 64 elements of B and a row of A for each i: the caches of one core keep 12 KB of these 16.25 KB.
    assert (found.resource, found.segments) == ("DRAM", 128)
    assert found.amount == 64 * 64 * 4 + 64 * 4
    assert found.time_ns == pytest.approx(128 * (64 * 64 * 4 + 64 * 4 - 4096 - 8192) / 20)


@pytest.mark.usefixtures("no_window")
@pytest.mark.parametrize(
    ("text", "sums", "nbytes"),
    [
        # Of B, a column lies in as many lines as it has elements; of A, a row does where it is strided.
        (DENSE, 16 * 32, 32 * 4 + 32 * 64),
        (STRIDED, 16 * 32, (32 + 32) * 64),
        (ODD_STRIDED, 13 * 37, (29 + 29) * 64),
    ],
    ids=["dense", "strided", "odd strided"],
)
def test_lines_of_indices_that_lie_inside_as_a_whole_count_before_any_size_is_known(
    text: str, sums: int, nbytes: int
) -> None:
    instance = native(text)
    bound = CpuBound(instance, with_caches(256, 512))
    candidate = uncopied(instance)
    for inner in ("p0", "p1"):
        for outer in ("i0", "i1", "j0", "j1"):
            decided = instance.decide(
                candidate, Decision("order", (f"fma.{outer}", f"fma.{inner}"), ("OUTER",))
            )
            assert decided is not None
            candidate = decided
    found = order(bound).pressure(bound._domains.view(candidate))
    assert found.time_ns == pytest.approx(sums * (nbytes - 256 - 512) / 20)


def test_what_cores_share_may_be_read_from_the_cache_of_another(tmp_path: Path) -> None:
    private, shared = with_caches(4096, 8192), DEVICE
    instance = native(PLAIN)
    kept = [[b.kept_bytes for b in order(CpuBound(instance, d)).nest.borders] for d in (private, shared)]
    early = 64 * (64 + 64) + nests.EARLY_LOADS * 64
    assert kept[0] == [4096 + early, 4096 + 8192 + early]
    assert kept[1] == [2**16 + 2 * early, 2**16 + 2**20 + 2 * early]


def test_what_siblings_bring_in_counts_once_for_those_that_share_a_cache() -> None:
    """Two cores of two threads each, which share all of the third cache or a half of it each."""

    def device(third: int) -> CpuDevice:
        caches = ((4096, 8192), (16384, 32768), (third, 1 << 20))
        levels = [
            DEVICE.memory[0].model_copy(update={"core_bytes": of_one, "capacity_bytes": of_all})
            for of_one, of_all in caches
        ]
        return DEVICE.model_copy(update={"threads": 4, "memory": (*levels, DEVICE.memory[-1])})

    instance = native(PLAIN)
    early = 64 * (64 + 64) + nests.EARLY_LOADS * 64
    of_core, of_all = 4096 + 16384, 8192 + 32768 + (1 << 20)
    for third, behind in ((1 << 20, (of_all, 4)), (1 << 19, (of_core + (1 << 19), 2))):
        borders = order(CpuBound(instance, device(third))).nest.borders
        expected = [(4096, 2), (of_core, 2), behind]
        assert [(b.kept_bytes, b.sharers) for b in borders] == [(n + s * early, s) for n, s in expected]


def test_elements_of_a_window_that_slides_lie_side_by_side() -> None:
    """As many as lines that the signal has: taps of a 16th of it."""
    text = """
kernel: fir
backbone: linalg
sizes: {n: 65536, k: 4096, m: 61441}
tensors:
  x: {dtype: f32, shape: [n]}
  h: {dtype: f32, shape: [k]}
  y: {dtype: f32, shape: [m], output: true}
compute:
  - y[t] = sum[p](x[t + p] * h[p])
tiling: {t: [], p: []}
"""
    (x, h) = order(CpuBound(native(text), DEVICE)).nest.operands
    assert (x.element_bytes, h.element_bytes) == (4, 4)


def test_a_parallel_dimension_that_may_lie_inside_others_shares_a_segment_out(tmp_path: Path) -> None:
    rules = (
        ("\n    || dim_kind($outer) is PARALLEL\n", " || true\n"),
        ('"not $outer.is_free_outermost or $outer.logical.extent >= 4 * $device.threads"', '"False"'),
        ('"not $inner.is_free_outermost"', '"False"'),
    )
    instance = instance_under(tmp_path, PLAIN, *rules)
    device = with_caches(4096, 8192)
    borders = order(CpuBound(instance, device)).nest.borders
    early = 64 * (64 + 64) + nests.EARLY_LOADS * 64
    assert [b.kept_bytes for b in borders] == [2 * (4096 + early), 2 * (4096 + 8192 + early)]


def test_accumulators_need_not_be_copies_where_no_rule_says_so(tmp_path: Path) -> None:
    rule = " || order($made, $used) is MERGED || dim_kind($made) is UNROLL | VECTOR\n"
    assert any(order(CpuBound(native(DENSE), DEVICE)).nest.copied)
    loose = instance_under(tmp_path, DENSE, (rule, " || true\n"))
    assert not any(order(CpuBound(loose, DEVICE)).nest.copied)


# ---- Against a simulated cache -------------------------------------------------------------------------


SIMULATED = {
    "dense": (DENSE, 0.7),
    "strided": (STRIDED, 0.8),
    "matvec": (MATVEC, 0.35),
    "outer": (OUTER, 0.5),
    "odd dense": (ODD_DENSE, 0.4),
    "odd strided": (ODD_STRIDED, 0.65),
    "odd matvec": (ODD_MATVEC, 0.3),
    "odd outer": (ODD_OUTER, 0.25),
    "few": (FEW.replace("k: 600", "k: 24"), 0.3),
}
"""With the share of what bad loops bring in that should be certain, at least. Copies of the body for last
tiles have registers of their own, which count as memory."""


def traffic(instance: Instance, leaf: Candidate, cache_bytes: int) -> tuple[float, int]:
    """Bytes that certainly come in by the loops of an implementation, and those of a simulation."""
    simulated = beside_a_cache(leaf, cache_bytes)
    nest = order(simulated.bound).nest
    behind = loop_orders.NestView(nest, simulated.bound._domains.view(leaf))
    certain = max(
        p.segments * max(0.0, p.amount - simulated.kept_bytes)
        for p in (behind._bytes(inner, nest.borders[-1]) for inner in chain(behind))
    )
    return certain, simulated.brought_bytes


@pytest.mark.usefixtures("no_window")
@pytest.mark.parametrize("name", SIMULATED)
def test_no_more_bytes_are_certain_than_a_cache_that_drops_the_oldest_line_brings_in(name: str) -> None:
    instance = native(SIMULATED[name][0])
    random = np.random.default_rng(5)
    for number in range(24):
        ordering = ("size, dim_kind, order", "order, dim_kind, size")[number % 2]
        *_, leaf = any_descent(instance, random, ordering, None if number % 3 == 0 else uncopied(instance))
        if leaf.is_complete:
            certain, brought = traffic(instance, leaf, (256, 512, 1024, 2048)[number % 4])
            assert certain <= brought


@pytest.mark.usefixtures("no_window")
@pytest.mark.parametrize("name", SIMULATED)
def test_most_of_what_bad_loops_bring_in_is_certain(name: str) -> None:
    """Plain loops, nested as the kernel names its indices: what the inner ones read fits no cache."""
    text, share = SIMULATED[name]
    instance = native(text)
    kernel = instance.kernel
    assert isinstance(kernel, Kernel)
    (user,) = (i for i in kernel.instructions if i.name in ("fma", "mul"))
    candidate = uncopied(instance)
    for dim in user.dims:
        candidate = decide(instance, candidate, "dim_kind", dim.name, "LOOP")
    for outer, inner in itertools.pairwise(sorted(user.dims, key=lambda dim: (dim.index, dim.level))):
        decided = instance.decide(candidate, Decision("order", (outer.name, inner.name), ("OUTER",)))
        assert decided is not None
        candidate = decided
    chosen = select_ordering(instance, compiled().space, "order, dim_kind, size")
    while (branching := chosen.next(candidate)) is not None:
        children = (instance.restrict(candidate, branching.variable, mask) for mask in branching.masks)
        candidate = next(child for child in children if child is not None)
    certain, brought = traffic(instance, candidate, 256)
    assert share * brought <= certain <= brought


def chain(behind: loop_orders.NestView) -> list[int]:
    """The cuts of a complete order."""
    bits, vector = behind.view.order_bits, behind.view.vector
    found = [0]
    while found[-1] != behind.nest.all_dims:
        inner = found[-1]
        (dim,) = (
            d
            for d in range(len(behind.nest.dims))
            if not inner >> d & 1
            and all(
                vector[behind.nest.order_cells[d, e]] & (bits.outer if inner >> e & 1 else bits.inner)
                for e in range(len(behind.nest.dims))
                if e != d
            )
        )
        found.append(inner | 1 << dim)
    return found


# ---- Along descents ------------------------------------------------------------------------------------

TIGHT = with_caches(512, 2048)


@pytest.mark.parametrize("text", [DENSE, STRIDED, MATVEC, OUTER, AXPY, MATMUL, ODD, ODD_STRIDED, SCALED, FEW])
@pytest.mark.parametrize("ordering", [None, "order, dim_kind, size", "dim_kind, order, size"])
def test_no_term_falls_whatever_is_decided_first(
    text: str, ordering: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nests, "EARLY_LOADS", 0)
    instance = native(text)
    bound = CpuBound(instance, TIGHT)
    assert bound.native is not None, bound.no_native
    random = np.random.default_rng(11)
    for _ in range(3):
        before = [0.0] * len(bound.resources)
        for candidate in any_descent(instance, random, ordering):
            found = bound.native.terms(candidate)
            for resource, was, now in zip(bound.resources, before, found, strict=True):
                assert now >= was * (1 - 1e-12), resource.name
            before = found
            assert bound(candidate) == max(found)


@pytest.mark.parametrize("text", [DENSE, STRIDED, MATVEC, OUTER, AXPY, MATMUL, DOT, SCALED, FEW])
@pytest.mark.parametrize("device", [DEVICE, TIGHT], ids=["round", "tight"])
def test_compiled_code_computes_what_the_reference_does(text: str, device: CpuDevice) -> None:
    instance = native(text)
    bound = CpuBound(instance, device)
    reference = CpuBound(instance, device, is_native=False)
    assert bound.native is not None, bound.no_native
    random = np.random.default_rng(2)
    met = [
        candidate
        for ordering in (None, "order, dim_kind, size")
        for candidate in any_descent(instance, random, ordering)
    ]
    for candidate in met:
        assert bound.native.terms(candidate) == pytest.approx(reference.reference_ns(candidate), rel=1e-12)
    assert bound.of_all(met) == pytest.approx([reference(c) for c in met], rel=1e-12)


def test_a_certain_bad_order_is_explained_by_what_it_reads_again() -> None:
    """Before kinds are known: all of B lies inside, for one row of results after another."""
    text = MATMUL.replace("m: 64, n: 64, k: 2048", "m: 1024, n: 1024, k: 1024")
    instance = native(text.split("tiling")[0] + "tiling: {i: [], j: [], p: []}\n")
    bound = CpuBound(instance, with_caches(2**15, 2**18))
    candidate = matmul_in_order(instance, "i0", "j0", "p0")
    explained = {term.resource: term for term in bound.explain(candidate)}
    term = explained["loop order of fma"]
    assert term.bound_ns == pytest.approx(1024 * (4_198_400 - 319_488) / 20)
    assert term.detail == (
        "even in the best order left, the loops fma.j0, fma.p0 run 1,024 times inside the others and touch "
        "4,198,400 bytes each time, of which the caches inside DRAM keep at most 319,488"
    )
