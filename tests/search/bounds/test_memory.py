"""Tensors that are read again: passes through them by hand, and below what simulated caches bring in."""

from __future__ import annotations

import numpy as np
import pytest

from spacedsl.engine.candidate import Candidate
from spacedsl.engine.decision import Decision
from spacedsl.kernels.linalg.backbone import Kernel
from spacedsl.search.bounds.cpu import CpuBound
from spacedsl.search.bounds.memory import Level
from tests.search.cache import beside_a_cache
from tests.search.linalg import DEVICE, any_descent, native, root

ROWS = """
kernel: rows
backbone: linalg
sizes: {m: 128, n: 64}
tensors:
  X: {dtype: f32, shape: [m, n]}
  Y: {dtype: f32, shape: [m, n], output: true}
compute:
  - mean[i] = sum[j](X[i, j]) / n
  - square[i] = sum[j]((X[i, j] - mean[i]) * (X[i, j] - mean[i]))
  - Y[i, j] = (X[i, j] - mean[i]) / square[i]
tiling: {i: [[2, 4]], j: [[4, 16]]}
"""
"""Three passes through a tensor, unless rows are finished one after the other."""

BOTH = """
kernel: both
backbone: linalg
sizes: {m: 192, n: 32}
tensors:
  A: {dtype: f32, shape: [m, n]}
  x: {dtype: f32, shape: [n]}
  u: {dtype: f32, shape: [m]}
  y: {dtype: f32, shape: [m], output: true}
  v: {dtype: f32, shape: [n], output: true}
compute:
  - y[i] = sum[j](A[i, j] * x[j])
  - v[j] = sum[i](A[i, j] * u[i])
tiling: {i: [[2, 4]], j: [[4, 16]]}
"""
"""Two passes that may come in any order, or be one."""


def bytes_loaded(bound: CpuBound, candidate: Candidate, level: str) -> int:
    (resource,) = (r for r in bound.resources if isinstance(r, Level) and r.level.name == level)
    loaded, _, again = resource.nbytes(bound._domains.view(candidate))
    return max(0, loaded - resource.inner_bytes) + again


def one_after_the_other(candidate: Candidate, earlier: str, later: str) -> Candidate | None:
    """With all loops around a load before another one."""
    kernel = candidate.instance.kernel
    assert isinstance(kernel, Kernel)
    (load,) = (i for i in kernel.instructions if i.name == earlier)
    for dim in load.dims:
        decided = candidate.instance.decide(candidate, Decision("order", (dim.name, later), ("BEFORE",)))
        if decided is None:
            return None
        candidate = decided
    return candidate


def test_each_pass_through_a_tensor_that_ends_before_the_next_loads_it_again() -> None:
    instance = native(ROWS.replace("m: 128", "m: 4096"))
    bound = CpuBound(instance, DEVICE)
    nbytes, held = 4096 * 64 * 4, 2**16
    early = 2 * (64 * (64 + 64) + 256 * 64)
    candidate: Candidate | None = root(instance)
    assert candidate is not None
    once = bytes_loaded(bound, candidate, "L2")
    for passes, pair in ((1, ("load_X", "load_X_2")), (2, ("load_X_2", "load_X_3"))):
        candidate = one_after_the_other(candidate, *pair)
        assert candidate is not None
        assert bytes_loaded(bound, candidate, "L2") == once + passes * (nbytes - held - early)


@pytest.mark.parametrize("pair", [("load_A", "load_A_2"), ("load_A_2", "load_A")])
def test_two_passes_count_in_whatever_order_they_come(pair: tuple[str, str]) -> None:
    instance = native(BOTH.replace("m: 192", "m: 8192"))
    bound = CpuBound(instance, DEVICE)
    separate = one_after_the_other(root(instance), *pair)
    assert separate is not None
    assert bytes_loaded(bound, separate, "L2") > 1.9 * bytes_loaded(bound, root(instance), "L2")


@pytest.mark.usefixtures("no_window")
@pytest.mark.parametrize("text", [ROWS, BOTH], ids=["rows", "both"])
def test_no_more_bytes_are_certain_than_a_cache_that_drops_the_oldest_line_brings_in(text: str) -> None:
    instance = native(text)
    random, again = np.random.default_rng(3), 0
    for number in range(32):
        *_, leaf = any_descent(instance, random, (None, "order, storage, dim_kind, size")[number % 2])
        if leaf.is_complete:
            simulated = beside_a_cache(leaf, (256, 512, 1024, 2048)[number % 4])
            certain = bytes_loaded(simulated.bound, leaf, "DRAM")
            again += certain > bytes_loaded(simulated.bound, root(instance), "DRAM")
            assert certain <= simulated.brought_bytes
    assert again > 4, "some of them pass through a tensor more than once"
