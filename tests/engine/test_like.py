"""As like a known candidate as the constraints allow: what thousands of variables keep at once, and one by
one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.domain_table import DomainTable
from spacedsl.engine.instance import Engine, Instance, Variable, instantiate
from spacedsl.engine.layout import INTEGER_WORDS
from tests.codegen.cuda import grids
from tests.engine.native import needs_compiler
from tests.search.linalg import DEVICE, MATMUL, SHIFTED, compiled, descent, native, parse, root

KERNELS = {"a product": MATMUL, "sums of neighbours": SHIFTED}


def one_by_one(
    instance: Instance, candidate: Candidate, known: Candidate, variables: Sequence[Variable]
) -> Candidate:
    """What it means: of objects that are present, in this order; then of those that are present by then."""
    waiting = list(variables)
    while True:
        before = candidate
        here = [variable for variable in waiting if candidate.is_present(variable)]
        waiting = [variable for variable in waiting if not candidate.is_present(variable)]
        for variable in here:
            if candidate.is_open(variable):
                candidate = instance.restrict(candidate, variable, known.mask(variable)) or candidate
        if not waiting or candidate.vector == before.vector:
            return candidate


def known(instance: Instance, seed: int) -> Candidate:
    """An implementation."""
    rng = np.random.default_rng(seed)
    while True:
        *_, last = descent(instance, rng)
        if last.is_complete:
            return last


@needs_compiler
@pytest.mark.parametrize("kernel", KERNELS)
def test_all_at_once_is_one_by_one(kernel: str) -> None:
    """Decisions on copies, which are no part of the root, are kept as well."""
    instance = native(KERNELS[kernel])
    start, rng, added = root(instance), np.random.default_rng(5), 0
    assert any(not start.is_present(variable) for variable in instance.variables) == (kernel == "a product")
    for seed in range(6):
        other = known(instance, seed)
        variables = [instance.variables[n] for n in rng.permutation(len(instance.variables))]
        changed = next(v for v in variables if start.is_open(v))
        values = start.mask(changed) & ~other.mask(changed)
        near = instance.restrict(start, changed, values & -values) if seed % 2 and values else None
        for begin in (start, near or start):
            found = instance.like(begin, other, variables)
            assert found.vector == one_by_one(instance, begin, other, variables).vector
        assert instance.like(start, other, variables).vector == other.vector, "nothing is refused"
        added += any(found.is_present(v) and not start.is_present(v) for v in variables)
    assert bool(added) == (kernel == "a product")


@needs_compiler
def test_what_counters_and_limits_refuse_is_found_among_many() -> None:
    """They are computed once for many restrictions; of values drawn at random they refuse most."""
    instance = grids.space_of(parse(MATMUL))
    start, rng, refused = root(instance), np.random.default_rng(7), 0
    for _ in range(16):
        variables = [instance.variables[n] for n in rng.permutation(len(instance.variables))]
        drawn = [(v, 1 << int(rng.integers(len(v.universe)))) for v in variables if start.is_present(v)]
        found, expected = instance.restrict_allowed(start, drawn), start
        for variable, mask in drawn:
            if expected.is_open(variable):
                child = instance.restrict(expected, variable, mask)
                refused += child is None and bool(expected.mask(variable) & mask)
                expected = child or expected
        assert found.vector == expected.vector
    assert refused > 60


@needs_compiler
def test_both_engines_are_like_it_in_the_same_way() -> None:
    text = KERNELS["sums of neighbours"]
    here = native(text)
    reference = instantiate(compiled(), parse(text).backbone, DEVICE, Engine.PYTHON)
    other = known(here, 3)
    order = np.random.default_rng(2).permutation(len(here.variables))
    found = here.like(root(here), other, [here.variables[n] for n in order])
    again = reference.like(
        root(reference), Candidate(reference, other.vector), [reference.variables[n] for n in order]
    )
    assert found.vector == again.vector


def test_domains_are_read_as_candidates_read_them() -> None:
    instance = native(MATMUL)
    candidate = known(instance, 1)
    numbers = np.arange(len(instance.variables))
    table = DomainTable.of(
        ((v.offset, len(v.universe)) for v in instance.variables), instance.presence, len(candidate.vector)
    )
    words = table.masks(candidate.vector, numbers)
    present = table.present(candidate.vector, numbers)
    for variable, row, is_present in zip(instance.variables, words, present, strict=True):
        assert sum(int(word) << 64 * n for n, word in enumerate(row)) == candidate.mask(variable)
        assert bool(is_present) is candidate.is_present(variable)
    assert words.shape == (len(instance.variables), INTEGER_WORDS)
    assert 0 < present.sum() < len(present)
