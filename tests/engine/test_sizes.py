"""Numbers of implementations: counted, and estimated, against walks through whole trees and against CP-SAT.

Thresholds of random tests are inequalities that hold for any distribution, at a level of one in 10^9; seeds
are fixed all the same.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from spacedsl.diagnostics import DiagnosticError
from spacedsl.engine import sizes
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.enumerate import EnumerationLimitError
from spacedsl.engine.instance import Instance
from spacedsl.engine.native.sizes import Probes, chen_probes, count_leaves, knuth_probes
from spacedsl.engine.streams import Stream
from spacedsl.oracle.cp_sat import CpSatModel, NotTranslatedError
from spacedsl.search.orderings import (
    DECLARATION_ORDER,
    Ordering,
    branches_of,
    native_ordering,
    select_ordering,
)
from tests.engine.examples import Example, example_of
from tests.engine.generated_objects import Machine
from tests.engine.generated_spaces import GeneratedSpace, generate_space
from tests.engine.native import Both, both, matmul_in, needs_compiler

LEAVES = range(10, 201)
"""Of the generated spaces that are taken."""

PROBES = 20_000
LEVEL = math.log(4 / 1e-9)
MOST = 1_000_000


@dataclass(slots=True)
class Tree:
    """What a walk through all nodes has met."""

    leaves: int = 0
    square: float = 0.0
    """The mean of the square of Knuth's estimate."""
    largest: int = 0
    """Of Knuth's estimates."""
    dead_end_probability: float = 0.0
    most_children: dict[int, int] = field(default_factory=dict)
    """By level."""

    @property
    def largest_by_strata(self) -> int:
        """No estimate of Chen's is larger."""
        return math.prod(max(1, children) for children in self.most_children.values())


def walk(tree: Tree, node: Candidate, ordering: Ordering, weight: int = 1, level: int = 0) -> None:
    """`weight`: the product of the numbers of children on the way; one in so many random walks comes here."""
    branching = ordering.next(node)
    if branching is None:
        tree.leaves += 1
        tree.square += weight
        tree.largest = max(tree.largest, weight)
        return
    tried = [node.instance.restrict(node, branching.variable, mask) for mask in branching.masks]
    children = [child for child in tried if child is not None]
    tree.most_children[level] = max(len(children), tree.most_children.get(level, 0))
    if not children:
        tree.dead_end_probability += 1 / weight
    for child in children:
        walk(tree, child, ordering, weight * len(children), level + 1)


@dataclass(frozen=True, slots=True)
class Known:
    example: Example
    both: Both
    ordering: Ordering
    tree: Tree

    @property
    def instance(self) -> Instance:
        return self.both.instance

    @property
    def root(self) -> Candidate:
        root = self.instance.root()
        assert root is not None
        return root

    def knuth(self, count: int) -> Probes:
        order = native_ordering(self.instance, self.ordering)
        assert order is not None
        return knuth_probes(self.both.native, self.root.vector, order, seed=1, count=count)

    def chen(self, count: int, most: int = MOST) -> Probes:
        order = native_ordering(self.instance, self.ordering)
        assert order is not None
        return chen_probes(self.both.native, self.root.vector, order, seed=1, count=count, most=most)


@cache
def walked(seed: int) -> tuple[Example, Instance, Ordering, Tree] | None:
    """A generated space with so many solutions, and the tree of its search."""
    try:
        example = example_of(generate_space(random.Random(seed)), most_values_tried=20_000)
        if len(example.solutions) not in LEAVES:
            return None
        instance = example.agreement().instance
    except (DiagnosticError, EnumerationLimitError):
        return None
    root = instance.root()
    assert root is not None
    ordering, tree = select_ordering(instance, example.space, DECLARATION_ORDER), Tree()
    walk(tree, root, ordering)
    return example, instance, ordering, tree


def generated(is_wanted: Callable[[GeneratedSpace, Tree], bool]) -> Known:
    """The first generated space of such a kind whose probes differ from each other."""
    for found in filter(None, map(walked, itertools.count())):
        example, instance, ordering, tree = found
        is_uneven = tree.square > tree.leaves**2
        if is_uneven and is_wanted(example.generated, tree) and _is_translated(example):
            engines = both(instance)
            engines.root()  # both alike; limits on quantities are known to the native engine from here on
            return Known(example, engines, ordering, tree)
    raise AssertionError("seeds end")


def _is_translated(example: Example) -> bool:
    try:
        CpSatModel(example.space, example.kernel, Machine())
    except NotTranslatedError:
        return False
    return True


KINDS: dict[str, Callable[[GeneratedSpace, Tree], bool]] = {
    "uneven": lambda space, tree: tree.square > 1.05 * tree.leaves**2,
    "with dead ends": lambda space, tree: tree.dead_end_probability > 0.01,
    "with triggers": lambda space, tree: "trigger" in space.text,
}


@pytest.fixture(scope="module", params=KINDS)
def known(request: pytest.FixtureRequest) -> Known:
    return generated(KINDS[request.param])


@needs_compiler
def test_a_count_is_that_of_the_enumerator_and_of_cp_sat(known: Known) -> None:
    order = native_ordering(known.instance, known.ordering)
    assert order is not None
    native, vector = known.both.native, known.root.vector
    wanted = len(known.example.solutions)
    assert CpSatModel(known.example.space, known.example.kernel, Machine()).count() == wanted
    assert count_leaves(native, vector, order, MOST) == wanted
    assert sizes.count_leaves(known.root, branches_of(known.ordering), MOST) == wanted
    assert count_leaves(native, vector, order, 3) is None
    assert sizes.count_leaves(known.root, branches_of(known.ordering), 3) is None


@needs_compiler
def test_the_mean_of_knuths_estimates_is_the_count(known: Known) -> None:
    """Bernstein's inequality, with the variance and the largest estimate of the whole tree."""
    variance = known.tree.square - known.tree.leaves**2
    allowed = math.sqrt(2 * variance * LEVEL / PROBES) + 2 * known.tree.largest * LEVEL / (3 * PROBES)
    assert abs(known.knuth(PROBES).m.mean() - known.tree.leaves) <= allowed < 0.2 * known.tree.leaves


@needs_compiler
def test_the_mean_of_chens_estimates_is_the_count(known: Known) -> None:
    """The inequality of Maurer and Pontil, with the variance of the sample and what no estimate exceeds."""
    found = known.chen(PROBES).m
    assert len(found) == PROBES
    largest = known.tree.largest_by_strata
    assert found.max() <= largest
    allowed = math.sqrt(2 * found.var(ddof=1) * LEVEL / PROBES) + 7 * largest * LEVEL / (3 * (PROBES - 1))
    assert abs(found.mean() - known.tree.leaves) <= allowed < known.tree.leaves


@needs_compiler
def test_walks_come_to_dead_ends_as_often_as_the_tree_says(known: Known) -> None:
    """Hoeffding's inequality."""
    rate = float((known.knuth(PROBES).m == 0).mean())
    assert abs(rate - known.tree.dead_end_probability) <= math.sqrt(LEVEL / (2 * PROBES))


@needs_compiler
def test_probes_in_c_are_those_of_the_reference_with_the_same_stream(known: Known) -> None:
    branches = branches_of(known.ordering)

    def open_decisions(candidate: Candidate) -> int:
        return sum(candidate.is_open(v) for v in known.instance.variables)

    streams = [Stream(1, number) for number in range(20)]
    wanted = [sizes.knuth_probe(known.root, branches, stream) for stream in streams]
    assert known.knuth(20).exactly() == wanted
    streams = [Stream(1, number) for number in range(20)]
    wanted = [sizes.chen_probe(known.root, branches, open_decisions, stream) for stream in streams]
    assert known.chen(20).exactly() == wanted


@needs_compiler
def test_a_probe_is_the_same_in_any_batch(known: Known) -> None:
    order = native_ordering(known.instance, known.ordering)
    assert order is not None
    native, vector = known.both.native, known.root.vector
    later = knuth_probes(native, vector, order, seed=1, first=7, count=5)
    assert later.exactly() == known.knuth(12).exactly()[7:]
    strata = chen_probes(native, vector, order, seed=1, first=7, count=5, most=MOST)
    assert strata.exactly() == known.chen(12).exactly()[7:]


@needs_compiler
def test_probes_that_would_expand_too_many_nodes_are_not_begun_or_left(known: Known) -> None:
    all_of_them = known.chen(50)
    some = known.chen(50, most=60)
    assert 0 < len(some) < 50
    assert some.exactly() == all_of_them.exactly()[: len(some)]
    assert len(known.chen(50, most=0)) == 0


@needs_compiler
def test_a_matrix_product_is_probed_as_the_reference_does(tmp_path: Path) -> None:
    """Groups of values, relations in bit rows, pairs in two orientations, hundreds of decisions."""
    matmul = matmul_in(tmp_path)
    root = matmul.instance.root()
    assert root is not None
    ordering = select_ordering(matmul.instance, matmul.instance.space)
    order = native_ordering(matmul.instance, ordering)
    assert order is not None
    found = knuth_probes(matmul.native, root.vector, order, seed=3, count=4).exactly()
    branches = branches_of(ordering)
    assert found == [sizes.knuth_probe(root, branches, Stream(3, number)) for number in range(4)]


def test_estimates_beyond_a_float_are_kept() -> None:
    probes = Probes(np.array([3.0, 0.0]), np.array([3, 0], np.int32))
    assert probes.exactly() == [3 * 2**1536, 0]
