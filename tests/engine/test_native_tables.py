"""Tables of the native engine: sparse ones say what dense ones do, and many objects fit."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from spacedsl.compiler import compile_space
from spacedsl.compiler.c import module
from spacedsl.engine.instance import instantiate
from spacedsl.engine.native import tables
from spacedsl.engine.native.bindings import Rows, rows
from spacedsl.engine.native.places import pairs
from spacedsl.language.loader import load_space
from tests.engine.examples import load_text
from tests.engine.generated_objects import Machine
from tests.engine.generated_spaces import generate_space
from tests.engine.native import both, needs_compiler
from tests.engine.pipelines import SPACE, Gpu, chain, pipeline


def relation(rng: random.Random, objects: int, size: int) -> list[tuple[int, int]]:
    found = {(rng.randrange(objects), rng.randrange(objects)) for _ in range(size)}
    return rng.sample(sorted(found), len(found))


def of(found: Rows, code: int) -> list[int]:
    return [int(x) for x in found.of(np.array([code]))[1]]


@pytest.mark.parametrize("size", [0, 1, 40])
def test_rows_and_their_inverse_hold_the_pairs_that_they_were_made_of(size: int) -> None:
    known = relation(random.Random(size), 9, size)
    columns = np.array(known, np.int64).reshape(-1, 2)
    found = rows(columns[:, 0], columns[:, 1])
    for left in range(10):
        assert of(found, left) == sorted(b for a, b in known if a == left)
        assert of(found.inverted, left) == sorted(a for a, b in known if b == left)
        for right in range(10):
            asked = found.holds(np.array([left]), np.array([right]))
            assert list(asked) == [(left, right) in known]


def test_all_rows_asked_for_come_in_order() -> None:
    found = rows(np.array([2, 0, 2]), np.array([7, 5, 1]))
    places, objects = found.of(np.array([2, 1, 0, 2]))
    assert (places.tolist(), objects.tolist()) == ([0, 0, 2, 3, 3], [1, 7, 5, 1, 7])


@pytest.mark.parametrize("size", [0, 1, 60])
def test_each_pair_has_a_place_of_its_own_where_c_looks_for_it(size: int) -> None:
    known = relation(random.Random(size), 16, size)
    keys = np.array(known, np.int32).reshape(-1, 2)
    found = pairs(keys, 16)
    (expected,) = found.of(keys)
    looked_for: Mapping[tuple[int, int], int] = {}
    for a in range(16):
        at = int(found.array[a])
        count, first, *seconds = found.array[at : at + 2 + found.array[at]].tolist() if at else (0, 0)
        looked_for = {**looked_for, **{(a, b): first + n for n, b in enumerate(seconds)}}
        assert seconds == sorted(seconds)
        assert len(seconds) == count
    assert looked_for == dict(zip(known, expected.tolist(), strict=True))
    assert sorted(looked_for.values()) == list(range(1, found.shape[0]))


@needs_compiler
@pytest.mark.usefixtures("quickly_compiled")
def test_generated_spaces_have_the_same_vectors_with_sparse_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DENSE_WORDS", 0)
    monkeypatch.setattr(tables, "DENSE_WORDS", 0)
    compared = 0
    for seed in (2, 5):
        generated = generate_space(random.Random(seed))
        here = both(
            instantiate(
                # What is printed otherwise than usual is not to be kept.
                compile_space(replace(load_text(generated.text), digest="")),
                generated.backbone.build(),
                Machine(),
            )
        )
        for descent in range(4):
            here.descend(random.Random(descent))
        compared += here.compared
    assert compared > 10


@needs_compiler
def test_a_pipeline_of_a_thousand_objects_has_the_same_root() -> None:
    here = both(instantiate(compile_space(load_space(SPACE)), pipeline(chain(32)), Gpu()))
    assert len(here.instance.objects.objects) > 1024
    root = here.root()
    assert root is not None
    first = here.instance.variables[0]
    assert here.restrict(root, first, 1) is not None
