"""Bounds of implementations whose values go through temporaries: below what simulated machines do, monotone.

Reloads are mapped in registers to their user. Their loops are fused with loops of the user's nest, so that
the threads of a nest are those of its own dimensions: no term has to look at the dimensions of reloads.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.linalg.lower import lower
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.decision import Decision
from spacedsl.engine.instance import Instance
from spacedsl.kernels.device import CpuDevice
from spacedsl.kernels.linalg.backbone import Kernel
from spacedsl.search.bounds import loop_orders
from spacedsl.search.bounds.cpu import CpuBound
from spacedsl.search.bounds.memory import LoopOrder
from spacedsl.search.orderings import Branching, select_ordering
from tests.products import product
from tests.search.cache import beside_a_cache
from tests.search.executed import executed_time_ns
from tests.search.linalg import DEVICE, any_descent, compiled, native, root, with_caches

SMALL = product(16, 32, 32, "{i: [[2, 4]], j: [[8, 16]], p: [[4, 8]]}")
LONG = SMALL.replace("k: 32", "k: 1024")
STRIDED = SMALL.replace("shape: [m, k]", "shape: [m, k], strides: [20 * k, 20]")
CENTRED = SMALL.replace("  B:", "  x: {dtype: f32, shape: [k]}\n  B:").replace("A[i, p]", "(A[i, p] - x[p])")
SPREAD = """
kernel: spread
backbone: linalg
sizes: {m: 32, n: 64}
tensors:
  a: {dtype: f32, shape: [m]}
  C: {dtype: f32, shape: [m, n], output: true}
compute:
  - C[i, j] = exp(a[i])
tiling: {i: [[2, 16]], j: [[8, 16]]}
"""
"""What is stored along an index that the result does not depend on."""

ALL = {"small": SMALL, "long": LONG, "strided": STRIDED, "centred": CENTRED, "spread": SPREAD}


def mostly_copied(
    instance: Instance, random: np.random.Generator, ordering: str | None = None
) -> Iterator[Candidate]:
    """A random descent in which most values go through memory; it may end early."""

    def copies_first(branching: Branching, masks: list[int]) -> None:
        if branching.variable.choice == "storage" and random.random() < 0.6:
            masks.sort(key=lambda mask: "TEMPORARY" not in branching.variable.values(mask))

    return any_descent(instance, random, ordering, arrange=copies_first)


def leaves(instance: Instance, seed: int, count: int) -> Iterator[Candidate]:
    random = np.random.default_rng(seed)
    orderings = (None, "order, storage, dim_kind, size")
    for number in range(count):
        *_, leaf = mostly_copied(instance, random, orderings[number % 2])
        if leaf.is_complete:
            yield leaf


def copies(leaf: Candidate) -> int:
    kernel = leaf.instance.kernel
    assert isinstance(kernel, Kernel)
    return sum(leaf.value("storage", maker) == "TEMPORARY" for maker in kernel.storable)


# ---- Instructions --------------------------------------------------------------------------------------


def assert_not_above_what_is_executed(leaf: Candidate, device: CpuDevice = DEVICE) -> dict[str, float]:
    """Answers what is executed, by resource."""
    kernel = leaf.instance.kernel
    assert isinstance(kernel, Kernel)
    executed_ns = executed_time_ns(lower(kernel, CandidateImplementation(leaf)), device)
    found = {term.resource: term.bound_ns for term in CpuBound(leaf.instance, device).explain(leaf)}
    for resource, time_ns in executed_ns.items():
        assert found.get(resource, 0.0) <= time_ns * (1 + 1e-9), resource
    return executed_ns


@pytest.mark.parametrize("text", ALL.values(), ids=ALL)
def test_no_resource_is_asked_for_more_than_programs_with_copies_execute(text: str) -> None:
    copied = 0
    for leaf in leaves(native(text), 3, 24):
        copied += copies(leaf) > 0
        assert_not_above_what_is_executed(leaf)
    assert copied > 5


def test_elements_may_be_taken_out_of_the_vectors_that_are_copied() -> None:
    """A compiler keeps such a vector in a register: A is loaded once for eight terms, without reloads."""
    instance = native(LONG)
    candidate = root(instance)
    for choice, names, value in (
        ("storage", ("load_A",), "TEMPORARY"),
        ("storage", ("load_B",), "REGISTERS"),
        ("size", ("fma.i1",), 2),
        ("size", ("fma.p1",), 8),
        ("size", ("fma.j1",), 16),
        ("dim_kind", ("load_A.p1",), "VECTOR"),
        ("dim_kind", ("fma.p1",), "UNROLL"),
        ("dim_kind", ("fma.j1",), "VECTOR"),
        ("dim_kind", ("fma.i1",), "LOOP"),
        ("order", ("load_A.i0", "fma.i0"), "MERGED"),
        ("order", ("load_A.i1", "fma.i1"), "MERGED"),
        ("order", ("load_A.p0", "fma.p0"), "MERGED"),
        ("order", ("load_A", "fma.j0"), "INNER"),
        ("order", ("load_B", "fma.p0"), "INNER"),
    ):
        decided = instance.decide(candidate, Decision(choice, names, (value,)))
        assert decided is not None, (choice, names, value)
        candidate = decided
    random = np.random.default_rng(1)
    chosen = select_ordering(instance, compiled().space, "rollout")
    while (branching := chosen.next(candidate)) is not None:
        masks = [branching.masks[i] for i in random.permutation(len(branching.masks))]
        children = (instance.restrict(candidate, branching.variable, mask) for mask in masks)
        candidate = next(child for child in children if child is not None)
    even = tuple(a.model_copy(update={"instructions_per_ns": 1}) for a in DEVICE.accesses)
    device = DEVICE.model_copy(update={"accesses": even})
    executed_ns = assert_not_above_what_is_executed(candidate, device)["load instructions"]
    # For 8 terms of 16 sums: 8 loads of B and one of A, and no reload.
    assert executed_ns == 16 * 32 * 1024 / 16 * (8 + 1) / 8


def test_threads_that_load_a_copy_are_those_of_its_users_nest() -> None:
    instance = native(SMALL)
    kernel = instance.kernel
    assert isinstance(kernel, Kernel)
    shared = 0
    for leaf in leaves(instance, 5, 40):
        reloads = [r for m in kernel.storable if leaf.value("storage", m) == "TEMPORARY" for r in m.reloads]
        for dim in (d for reload in reloads for d in reload.dims):
            if leaf.value("dim_kind", dim) == "PARALLEL":
                (used,) = dim.mapped_to
                shared += 1
                assert used in kernel.dimensions
                assert leaf.value("order", dim, used) == "MERGED"
    assert shared


# ---- Bytes ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_window")
@pytest.mark.parametrize("text", [SMALL, STRIDED, CENTRED], ids=["small", "strided", "centred"])
def test_no_more_bytes_are_certain_than_come_in_beside_copies(text: str) -> None:
    instance = native(text)
    compared = 0
    for number, leaf in enumerate(leaves(instance, 7, 16)):
        simulated = beside_a_cache(leaf, (256, 512, 1024, 2048)[number % 4])
        for resource in simulated.bound.resources:
            if isinstance(resource, LoopOrder):
                view = loop_orders.NestView(resource.nest, simulated.bound._domains.view(leaf))
                least = view._least(lambda inner, view=view: [view._bytes(inner, view.nest.borders[-1])])
                compared += 1
                certain = least.segments * max(0.0, least.amount - simulated.kept_bytes)
                assert certain <= simulated.brought_bytes
    assert compared > 8


# ---- Along descents ------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ALL.values(), ids=ALL)
@pytest.mark.parametrize(
    "ordering", [None, "order, storage, dim_kind, size", "dim_kind, size, order, storage"]
)
def test_no_term_falls_and_compiled_code_says_the_same(text: str, ordering: str | None) -> None:
    instance = native(text)
    bound = CpuBound(instance, with_caches(512, 2048))
    assert bound.native is not None, bound.no_native
    random = np.random.default_rng(11)
    for _ in range(2):
        before = [0.0] * len(bound.resources)
        for candidate in mostly_copied(instance, random, ordering):
            found = bound.reference_ns(candidate)
            assert bound.native.terms(candidate) == pytest.approx(found, rel=1e-12)
            for resource, was, now in zip(bound.resources, before, found, strict=True):
                assert now >= was * (1 - 1e-12), resource.name
            before = found
