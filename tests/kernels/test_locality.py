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
from tests.codegen.kernels import parse
from tests.kernels.samples import LIBRARY


def revisited(name: str, sizes: dict[str, int] | None = None) -> dict[str, str]:
    kernel = load_kernel(LIBRARY / f"{name}.yaml", sizes or {}).backbone
    return {dim.name: again.name for dim in kernel.dimensions for again in dim.revisited_by}


def test_nests_that_read_the_same_matrix_or_what_another_has_stored_come_back_to_it() -> None:
    assert revisited("layer_norm") == {"load_X.i0": "load_X_2.i0", "load_X_2.i0": "load_X_3.i0"}
    assert revisited("matmul_deep") == {
        "store_P.i0": "load_P.i0",
        "store_P.q0": "load_P.q0",
        "store_P.j0": "load_P.j0",
    }
    assert revisited("matmul") == {}


def test_what_stays_in_the_caches_of_a_core_is_left_alone() -> None:
    assert revisited("layer_norm", {"m": 256, "n": 1024}) == {}


def shared_passes(name: str) -> list[str]:
    kernel = load_kernel(LIBRARY / f"{name}.yaml", {}).backbone
    return [dim.name for dim in kernel.dimensions if dim.is_parted]


def test_what_memory_adds_up_is_summed_while_another_nest_goes_through_the_same_matrix() -> None:
    """But not along the index of a sum that the other nest makes use of, as the first one of atax."""
    assert revisited("atax") == {"load_A.i0": "load_A_2.i0"}
    assert revisited("bicg") == {"load_A.i0": "load_A_2.i0", "load_A.j0": "load_A_2.j0"}
    assert shared_passes("atax") == shared_passes("mvt") == ["fma_2.i0"]
    assert shared_passes("bicg") == ["fma.i0", "fma_2.j0"]
    assert shared_passes("gemver") == ["fma_3.i0"]
    assert shared_passes("matmul_deep") == ["add.q0"]


def test_an_index_ends_before_its_sum_is_used_where_memory_does_not_add_it_up() -> None:
    assert shared_passes("softmax") == shared_passes("layer_norm") == []


def test_a_sum_that_reads_a_matrix_twice_is_one_pass() -> None:
    kernel = parse("""
kernel: square
backbone: linalg
sizes: {m: 1024}
tensors:
  A: {dtype: f32, shape: [m, m]}
  C: {dtype: f32, shape: [m, m], output: true}
compute:
  - C[i, j] = sum[p](A[i, p] * A[j, p])
""")
    assert not [dim for dim in kernel.backbone.dimensions if dim.is_parted or dim.revisited_by]


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
