"""The bound of GPUs: never falling as decisions are made, and never above what the model predicts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.cuda.prediction import predict
from spacedsl.codegen.implementation import CandidateImplementation
from spacedsl.kernels.kernel_file import load_kernel
from spacedsl.search.bounds.gpu import GpuBound
from spacedsl.search.orderings import branches_of, select_ordering
from tests.codegen.grids import compiled, device, space_of

LIBRARY = Path("kernels/library")

SIZES = {
    "matmul": {"m": 256, "n": 128, "k": 64}, "matmul_strided": {"m": 64, "n": 64, "k": 64},
    "axpy": {"n": 4096}, "softmax": {"m": 32, "n": 64}, "column_sum_i32": {"m": 64, "n": 64},
    "chain_sigmoid": {"m": 32, "n": 32, "k": 32, "l": 32},
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_it_grows_to_less_than_what_is_predicted(name: str) -> None:
    kernel = load_kernel(LIBRARY / f"{name}.yaml", SIZES[name], "gpu")
    instance = space_of(kernel)
    root, bound = instance.root(), GpuBound(instance, device())
    rule, random = select_ordering(instance, compiled().space, None), np.random.default_rng(2)
    assert root is not None
    for _ in range(5):
        seen = [bound(root)]
        candidate = root
        while (split := branches_of(rule)(candidate)) is not None:
            variable, masks = split
            mask = masks[int(random.integers(len(masks)))]
            child = instance.restrict(candidate, variable, mask)
            if child is None:
                child = instance.restrict(candidate, variable, candidate.mask(variable) & ~mask)
            if child is None:
                break
            candidate = child
            seen.append(bound(candidate))
        assert seen == sorted(seen)
        if candidate.is_complete:
            program = lower_grids(kernel.backbone, CandidateImplementation(candidate))
            assert seen[-1] <= predict(program, device()).time_ns


def test_what_no_access_reaches_takes_no_time() -> None:
    kernel = load_kernel(LIBRARY / "matmul_strided.yaml", {}, "gpu")
    bound = GpuBound(space_of(kernel), device())
    root = space_of(kernel).root()
    assert root is not None
    (read,) = (t.bound_ns for t in bound.explain(root) if t.resource == "L2")
    assert read < device().launch_ns + 4 * 3 * 1024 * 1024 / device().l2_bytes_per_ns
