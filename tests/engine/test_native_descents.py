"""Descents in C against those of the reference with the same random numbers."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import numpy as np
import pytest

from spacedsl.compiler import compile_space
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.descent import DescentCounts, random_descent
from spacedsl.engine.instance import Engine, Instance, Variable, instantiate
from spacedsl.engine.native.descents import NativeOrdering, Place, Rule, native_ordering, random_descents
from spacedsl.engine.streams import Stream
from spacedsl.kernels.kernel_file import load_kernel
from spacedsl.language.loader import load_space
from spacedsl.search.orderings import StaticOrdering, select_ordering
from tests.engine.native import Both, both, matmul_in, needs_compiler, places, single_values
from tests.engine.small import Things, things, world
from tests.engine.test_linalg_against_oracles import MATMUL, SmallCpu


@pytest.fixture(scope="module")
def matmul(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return matmul_in(tmp_path_factory.mktemp("native"))


def declared(instance: Instance) -> NativeOrdering:
    ordering = select_ordering(instance, instance.space)
    assert isinstance(ordering, StaticOrdering)
    found = [Place(s.variable.offset, len(s.variable.universe), s.groups) for s in ordering._splits]
    return native_ordering(found, instance.presence)


@needs_compiler
def test_descents_in_c_take_the_decisions_that_the_reference_takes_with_the_same_stream(matmul: Both) -> None:
    instance, ordering = matmul.instance, select_ordering(matmul.instance, matmul.instance.space)
    root = instance.root()
    assert root is not None

    def branches(candidate: Candidate) -> tuple[Variable, tuple[int, ...]] | None:
        branching = ordering.next(candidate)
        return None if branching is None else (branching.variable, branching.masks)

    counts = DescentCounts()
    for number in range(6):
        leaf = random_descent(instance, root, branches, Stream(5, number), counts)
        found = random_descents(
            matmul.native, root.vector, declared(instance), seed=5, first=number, count=1, wants_leaf=True
        )
        assert found.leaf == (None if leaf is None else leaf.vector)
    batch = random_descents(matmul.native, root.vector, declared(instance), seed=5, count=6)
    assert batch.counts == counts


@needs_compiler
def test_descents_over_any_open_decision_take_those_of_the_reference_too(matmul: Both) -> None:
    instance = matmul.instance
    root = instance.root()
    assert root is not None
    counts = DescentCounts()
    for number in range(6):
        stream = Stream(9, number)

        def branches(candidate: Candidate, stream: Stream = stream) -> tuple[Variable, list[int]] | None:
            chosen = None
            open_variables = (v for v in instance.variables if candidate.is_open(v))
            for place, variable in enumerate(open_variables, 1):
                if stream.integers(place) == 0:
                    chosen = variable
            if chosen is None:
                return None
            return chosen, single_values(candidate.mask(chosen))

        random_descent(instance, root, branches, stream, counts)
    ordering = native_ordering(places(instance), instance.presence, Rule.ANY)
    assert random_descents(matmul.native, root.vector, ordering, seed=9, count=6).counts == counts


@needs_compiler
def test_descents_over_the_smallest_domain_take_those_of_the_reference_too(matmul: Both) -> None:
    instance, root = matmul.instance, matmul.instance.root()
    assert root is not None

    def branches(candidate: Candidate) -> tuple[Variable, list[int]] | None:
        open_variables = [v for v in instance.variables if candidate.is_open(v)]
        if not open_variables:
            return None
        variable = min(open_variables, key=lambda v: candidate.mask(v).bit_count())
        return variable, single_values(candidate.mask(variable))

    counts = DescentCounts()
    for number in range(4):
        random_descent(instance, root, branches, Stream(4, number), counts)
    ordering = native_ordering(places(instance), instance.presence, Rule.SMALLEST)
    assert random_descents(matmul.native, root.vector, ordering, seed=4, count=4).counts == counts


@needs_compiler
def test_an_ordering_names_the_same_decisions_on_both_engines(tmp_path: Path) -> None:
    path = tmp_path / "matmul.yaml"
    path.write_text(MATMUL)
    compiled, kernel = (
        compile_space(load_space(Path("kernels/spaces/linalg.space"))),
        load_kernel(path).backbone,
    )
    orderings = []
    for engine in Engine:
        instance = instantiate(compiled, kernel, SmallCpu(), engine)
        orderings.append((instance, select_ordering(instance, instance.space)))
    native, ordering = orderings[1]
    candidate = native.root()
    rng = random.Random(0)
    named = 0
    while candidate is not None and named < 40:
        found = [rule.next(Candidate(instance, candidate.vector)) for instance, rule in orderings]
        spelled = [None if b is None else (b.variable.choice, b.variable.names, b.masks) for b in found]
        assert spelled[0] == spelled[1]
        named += 1
        branching = ordering.next(candidate)
        child = None
        if branching is not None:
            child = native.restrict(candidate, branching.variable, rng.choice(branching.masks))
        candidate = child or native.root()
    assert named == 40


@needs_compiler
def test_a_descent_is_the_same_in_any_batch_and_on_any_thread(matmul: Both) -> None:
    root = matmul.instance.root()
    assert root is not None
    ordering = declared(matmul.instance)

    def digests(first: int, count: int) -> list[int]:
        found = random_descents(
            matmul.native, root.vector, ordering, seed=1, first=first, count=count, wants_digests=True
        )
        return list(map(int, found.digests))

    whole = digests(0, 40)
    assert len(set(whole)) > 30
    parts: dict[int, list[int]] = {}
    threads = [
        threading.Thread(target=lambda first=first: parts.update({first: digests(first, 10)}))
        for first in range(0, 40, 10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [d for first in sorted(parts) for d in parts[first]] == whole


@needs_compiler
def test_descents_of_spaces_with_triggers_decide_only_what_is_present() -> None:
    text = """
choice enum kind($x in Things):
  value A:
  value B:
  value C:
end
trigger forall $x in Things: "$kernel.add_spare($x)" when kind($x) is A
require forall $x in Things: forall $y in Things: kind($x) != kind($y) || kind($x) is B
"""
    nodes = things(3)
    for number, node in enumerate(nodes):
        node.spare = things(10)[5 + number]
    here = both(world(text, Things(nodes)).instance)
    root = here.root()
    assert root is not None
    ordering = native_ordering(places(here.instance), here.instance.presence)
    sizes = set()
    for number in range(40):
        found = random_descents(
            here.native, root.vector, ordering, seed=2, first=number, count=1, wants_leaf=True
        )
        if found.leaf is not None:
            leaf = Candidate(here.instance, found.leaf)
            assert leaf.is_complete
            sizes.add(len(leaf.decisions()))
    assert len(sizes) > 1


def test_the_numbers_of_a_stream_are_those_of_splitmix64() -> None:
    # The first outputs for the state 0, as published with the algorithm.
    stream = Stream(0, 0)
    stream._state = 0
    assert [stream._word() for _ in range(3)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    draws = [Stream(1, number).integers(7) for number in range(7000)]
    assert np.abs(np.bincount(draws, minlength=7) - 1000).max() < 150
