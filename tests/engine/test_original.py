"""The space of the first implementation on a kernel of two nests: its leaves satisfy what the space means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest

from spacedsl.compiler import compile_space
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.denotation import Denotations
from spacedsl.engine.descent import DescentCounts, random_descent
from spacedsl.engine.instance import Instance, Variable, instantiate
from spacedsl.engine.meaning import Meaning
from spacedsl.engine.streams import Stream
from spacedsl.language.loader import check_file
from spacedsl.language.space import Space
from tests.engine.original import Gpu, Kernel, two_nests
from tests.engine.real_spaces import assigned

TEXT = Path(__file__).parents[1] / "language/corpus/original.space"


@pytest.fixture(scope="module")
def space() -> Space:
    loaded, found = check_file(TEXT)
    assert loaded is not None and found == ()
    return loaded


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return two_nests(depth=1)


@pytest.fixture(scope="module")
def instance(space: Space, kernel: Kernel) -> Instance:
    return instantiate(compile_space(space), kernel, Gpu())


@pytest.fixture(scope="module")
def meaning(space: Space, kernel: Kernel) -> Denotations:
    return Denotations(space, kernel, Gpu())


@pytest.fixture(scope="module")
def requirements(meaning: Denotations) -> list[Meaning[bool]]:
    return list(meaning.requirements())


def branches(candidate: Candidate) -> tuple[Variable, Sequence[int]] | None:
    """The first open decision, value by value."""
    for variable in candidate.instance.variables:
        if candidate.is_open(variable):
            mask = candidate.mask(variable)
            return variable, [1 << bit for bit in range(mask.bit_length()) if mask >> bit & 1]
    return None


def leaves(instance: Instance, mapping: str, count: int) -> list[Candidate]:
    """The ends of the first random descents that reach one, with x mapped in one way."""
    ends = (leaf(instance, mapping, number) for number in range(40))
    return list(islice((found for found in ends if found is not None), count))


def leaf(instance: Instance, mapping: str, number: int) -> Candidate | None:
    root = instance.root()
    assert root is not None
    first = instance.variables_of("dim_mapping")[0]
    candidate = instance.restrict(root, first, 1 << first.universe.index(mapping))
    if candidate is None:
        return None
    return random_descent(instance, candidate, branches, Stream(1, number), DescentCounts())


@pytest.mark.parametrize("mapping", ["NOT_MAPPED", "UNROLL_MAP", "THREAD_MAP"])
def test_random_leaves_satisfy_every_requirement(
    instance: Instance, meaning: Denotations, requirements: list[Meaning[bool]], mapping: str
) -> None:
    found = leaves(instance, mapping, 2)
    assert len(found) == 2
    for candidate in found:
        assignment = assigned(meaning, candidate)
        assert all(requirement.of(assignment) for requirement in requirements)
        solution = meaning.solution(assignment)
        threads = solution.derived["num_threads", ()]
        assert candidate.interval("num_threads") == (threads, threads)


def test_what_is_mapped_nowhere_goes_through_a_block_with_the_dimensions_that_are_not_merged(
    space: Space,
) -> None:
    instance = instantiate(compile_space(space), two_nests(depth=2), Gpu())
    objects = instance.objects
    block = objects.objects[objects.names.index("block")]
    counts = set()
    for candidate in leaves(instance, "NOT_MAPPED", 8):
        decided = {(d.choice, d.objects): d.values[0] for d in candidate.decisions()}
        assert decided["mem_space", ("block",)] == "SHARED"
        assert decided["inst_flag", ("store_x",)] == decided["inst_flag", ("load_x",)] == "NO_CACHE"
        assert decided["order", ("load", "store_x")] == "BEFORE"
        stored = [i for i in range(2) if decided["order", (f"made{i}", f"used{i}")] != "MERGED"]
        sizes = math.prod(int(decided["size", (f"made{i}",)]) for i in stored)
        assert candidate.interval("mem_size", block) == (4 * sizes, 4 * sizes)
        assert (("layout", ("x0", "x1")) in decided) == (len(stored) == 2)
        counts.add(len(stored))
    assert 2 in counts and len(counts) > 1


def test_what_stays_in_registers_needs_no_block(space: Space) -> None:
    instance = instantiate(compile_space(space), two_nests(depth=2), Gpu())
    for candidate in leaves(instance, "UNROLL_MAP", 2):
        present = {d.objects for d in candidate.decisions() if d.choice in ("mem_space", "inst_flag")}
        assert present == {("given",), ("result",), ("load",), ("store",)}
