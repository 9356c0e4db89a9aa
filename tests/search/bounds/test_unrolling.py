"""Vectors beside which there would be too many copies: by hand, and never those of an implementation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.engine.native.rollouts import CompiledBound
from spacedsl.search.bounds.cpu import CpuBound
from spacedsl.search.bounds.domains import Domains
from spacedsl.search.bounds.protocol import BoundTerm
from spacedsl.search.bounds.rates import Rates
from spacedsl.search.descent import Descent
from spacedsl.search.rollouts import Bounded, Cut, Implementation
from tests.products import product
from tests.search.linalg import (
    DEVICE,
    FEW,
    MATMUL,
    ODD,
    SCALED,
    decide,
    instance_of,
    instance_under,
    ordering_of,
    root,
)

DEEP = product(64, 256, 32, "{i: [], j: [[2, 4, 8, 16], [2, 4, 8, 16]], p: [[2, 4, 8, 16]]}")
SMALL = product(256, 256, 32)
_COPIES = 'where "$dim.instruction.free_dims and $dim.logical.extent >= $device.vector_registers"'
_NOT_EARLY = (_COPIES, 'where "False"')


def unrolled(instance: Instance, *dims: str, start: Candidate | None = None) -> Candidate:
    candidate = start or root(instance)
    for dim in dims:
        candidate = decide(instance, candidate, "dim_kind", f"fma.{dim}", "UNROLL")
    return candidate


@pytest.mark.parametrize(("registers", "is_vector"), [(32, True), (128, False)])
def test_what_registers_cannot_keep_as_copies_is_a_vector(
    registers: int, is_vector: bool, tmp_path: Path
) -> None:
    """Single elements are faster here, if 64 copies are possible. The rule that says so early is left out."""
    slow = [
        r.model_copy(update={"lanes": lanes, "instructions_per_ns": 0.1})
        for r in DEVICE.arithmetic
        if r.lanes == 16
        for lanes in (4, 16)
    ]
    rates = (*(r for r in DEVICE.arithmetic if r.lanes == 1), *slow)
    slow_vectors = DEVICE.model_copy(update={"arithmetic": rates, "vector_registers": registers})
    text = product(64, 64, 2048, "{i: [], j: [[4, 16]], p: []}")
    instance = instance_under(tmp_path, text, _NOT_EARLY, device=slow_vectors)
    candidate = unrolled(instance, "j0")
    kind = instance.variable("dim_kind", next(d for d in instance.objects.objects if str(d) == "fma.j1"))
    assert kind.values(candidate.mask(kind)) == ("UNROLL", "VECTOR")
    bound = CpuBound(instance, slow_vectors)
    before, after = (
        {term.resource: term.bound_ns for term in bound.explain(c)}["floating-point multipliers"]
        for c in (candidate, decide(instance, candidate, "dim_kind", "fma.j1", "VECTOR"))
    )
    assert (before == after) is is_vector
    assert after >= before


def test_where_any_vector_leaves_too_many_copies_nothing_is_implemented() -> None:
    instance = instance_of(DEEP)
    bound = CpuBound(instance, DEVICE)
    candidate = unrolled(instance, "j0", "j1", "p1")
    candidate = decide(instance, candidate, "dim_kind", "fma.j2", "VECTOR")
    assert bound(candidate) < math.inf, "terms may lie in a loop"
    candidate = unrolled(instance, "p0", start=candidate)
    # 256 sums in vectors of up to 16, with 32 terms each: 16 x 32 copies, and 4 x 32 are allowed.
    assert bound(candidate) == math.inf == max(bound.terms_ns(candidate))
    (term,) = bound.explain(candidate)
    assert term.resource == "unrolled copies"
    assert term.detail == "fma has more than are allowed, whichever of its dimensions is the vector"
    assert not any(has_sizes(instance, candidate))


def has_sizes(instance: Instance, candidate: Candidate) -> list[bool]:
    """For each combination of sizes of a product's terms and columns, whether the constraints allow it."""
    variables = [instance.variable("size", d) for d in instance.objects.objects if str(d) in _TILED]
    found = []
    for sizes in itertools.product(*(v.values(candidate.mask(v)) for v in variables)):
        here: Candidate | None = candidate
        for variable, size in zip(variables, sizes, strict=True):
            bit = 1 << variable.universe.index(size)
            here = here and (instance.restrict(here, variable, bit) if here.mask(variable) & bit else None)
        found.append(here is not None)
    return found


_TILED = {f"fma.{dim}" for dim in ("j0", "j1", "j2", "p0", "p1")}


@pytest.mark.parametrize(
    "counted",
    ["mul size($dim) when: dim_kind($dim) is LOOP", 'mul "1" when: dim_kind($dim) is UNROLL'],
)
def test_a_counter_of_something_else_excludes_nothing(tmp_path: Path, counted: str) -> None:
    start = "choice counter unroll_factor($inst in Instructions):\n  forall $dim in OwnDims($inst):\n    "
    end = "mul size($dim) when: dim_kind($dim) is UNROLL"
    instance = instance_under(tmp_path, DEEP, (start + end, start + counted))
    candidate = unrolled(instance, "j0", "j1", "p0", "p1")
    candidate = decide(instance, candidate, "dim_kind", "fma.j2", "VECTOR")
    assert CpuBound(instance, DEVICE)(candidate) < math.inf


class Flat:
    """A bound that says nothing, so that nothing is excluded."""

    compiled: CompiledBound | None = None

    def of_all(self, candidates: Sequence[Candidate]) -> list[float]:
        return [0.0] * len(candidates)

    def __call__(self, candidate: Candidate) -> float:
        return 0.0

    def terms_ns(self, candidate: Candidate) -> list[float]:
        return []

    def explain(self, candidate: Candidate) -> tuple[BoundTerm, ...]:
        return ()


def leaves(instance: Instance, random: np.random.Generator) -> Iterator[Candidate]:
    """Random implementations, many of whose dimensions are unrolled or vectors."""
    way = Descent(instance, ordering_of(instance), Flat())
    kinds = [v for v in instance.variables if v.choice == "dim_kind"]
    bits = Domains(instance, Rates.of(DEVICE)).kind_bits
    while True:
        start = root(instance)
        for place in random.permutation(len(kinds)):
            mask = start.mask(kinds[place]) & (bits["UNROLL"] | bits["VECTOR"])
            if mask and random.random() < 0.7:
                start = instance.restrict(start, kinds[place], mask) or start
        found = way.rollout(way.expand(Bounded(start, 0.0)), Cut(None, 1.0), random)
        if isinstance(found, Implementation):
            yield found.end.candidate


@pytest.mark.parametrize("text", [MATMUL, DEEP, SMALL, ODD, SCALED, FEW])
def test_no_way_to_an_implementation_loses_its_vectors(text: str) -> None:
    """From the root to a random implementation: its kinds first, in random order, then all else."""
    instance = instance_of(text)
    bound, domains = CpuBound(instance, DEVICE), Domains(instance, Rates.of(DEVICE))
    reference = CpuBound(instance, DEVICE, is_native=False)
    random = np.random.default_rng(13)
    narrowed = 0
    for leaf in itertools.islice(leaves(instance, random), 4):
        vectors = {
            d.dimension for d in domains.places if leaf.vector[d.kind_offset] == domains.kind_bits["VECTOR"]
        }
        candidate, before = root(instance), 0.0
        variables = [instance.variables[i] for i in random.permutation(len(instance.variables))]
        for step, variable in enumerate(sorted(variables, key=lambda v: v.choice != "dim_kind")):
            some = int(random.integers(1 << 62)) if random.random() < 0.5 else 0
            kept = candidate.mask(variable) & (some | leaf.mask(variable))
            below = instance.restrict(candidate, variable, kept)
            assert below is not None
            candidate = below
            view = domains.view(candidate)
            assert view.overfull is None
            for d in domains.places:
                freedom, kinds = view.freedoms[d.dimension], candidate.vector[d.kind_offset]
                bit = domains.kind_bits["VECTOR"]
                assert freedom.elements_per_ns if d.dimension in vectors else not freedom.is_vector
                narrowed += bool(kinds & bit) != bool(freedom.elements_per_ns)
                narrowed += (kinds == bit) != freedom.is_vector
            if step % 16 == 0:
                assert bound.terms_ns(candidate) == pytest.approx(reference.terms_ns(candidate), rel=1e-12)
            assert before <= bound(candidate) * (1 + 1e-12)
            before = bound(candidate)
    assert narrowed or text != SMALL, "some vectors must be impossible on the way, or certain"
