"""Which loops of two nests go through the same large tensor, and that a search decides on them first."""

from __future__ import annotations

import numpy as np
import pytest

from spacedsl.compiler import compile_space
from spacedsl.engine.instance import Engine, instantiate
from spacedsl.kernels.kernel_file import LINALG_SPACE, load_kernel
from spacedsl.language.loader import load_space
from spacedsl.search.orderings import select_ordering
from tests.codegen.devices import DEVICE
from tests.kernels.samples import LIBRARY


def revisited(name: str, sizes: dict[str, int] | None = None) -> dict[str, str]:
    kernel = load_kernel(LIBRARY / f"{name}.yaml", sizes or {}).backbone
    return {dim.name: again.name for dim in kernel.dimensions for again in dim.revisited_by}


def test_nests_that_read_the_same_matrix_or_what_another_has_stored_come_back_to_it() -> None:
    assert revisited("layer_norm") == {"load_X.i0": "load_X_2.i0", "load_X_2.i0": "load_X_3.i0"}
    assert revisited("matmul_deep") == {"store_P.i0": "load_P.i0", "store_P.j0": "load_P.j0"}
    assert revisited("matmul") == {}


def test_what_stays_in_the_caches_of_a_core_is_left_alone() -> None:
    assert revisited("layer_norm", {"m": 256, "n": 1024}) == {}


def test_an_index_that_is_summed_over_ends_before_its_sum_is_used() -> None:
    assert revisited("atax") == revisited("bicg") == {}


@pytest.mark.parametrize("name", ["layer_norm", "softmax"])
def test_half_of_all_random_descents_fuse_such_loops_and_none_is_refuted_later(name: str) -> None:
    kernel = load_kernel(LIBRARY / f"{name}.yaml", {}).backbone
    instance = instantiate(compile_space(load_space(LINALG_SPACE)), kernel, DEVICE, Engine.NATIVE)
    dim = next(d for d in kernel.dimensions if d.revisited_by)
    ordering = select_ordering(instance, instance.space, "rollout")
    random, fused = np.random.default_rng(1), 0
    for _ in range(24):
        candidate = instance.root()
        while candidate is not None and (branching := ordering.next(candidate)) is not None:
            masks = [branching.masks[place] for place in random.permutation(len(branching.masks))]
            children = (instance.restrict(candidate, branching.variable, mask) for mask in masks)
            candidate = next((child for child in children if child is not None), None)
        assert candidate is not None
        fused += candidate.value("order", dim, *dim.revisited_by) == "MERGED"
    assert 6 <= fused <= 18
