"""The bound on partial results holds for every kernel, and is close where it matters."""

from __future__ import annotations

import numpy as np
import pytest

from spacedsl.kernels.inputs import adversarial_inputs, random_inputs
from spacedsl.kernels.kernel_file import load_kernel
from spacedsl.kernels.magnitude import largest_partial
from spacedsl.kernels.reference import greatest_magnitude
from tests.kernels.library_formulas import swept_sizes
from tests.kernels.samples import LIBRARY, MATMUL, check

QUOTIENTS = ("softmax", "softmax_bf16", "layer_norm")
"""Divided by what can be small: the bound says nothing of them."""


@pytest.mark.parametrize(
    "path", [p for p in sorted(LIBRARY.glob("*.yaml")) if p.stem not in QUOTIENTS], ids=lambda p: p.stem
)
def test_no_partial_result_is_larger_than_the_bound(path: object) -> None:
    found = load_kernel(LIBRARY / str(path))
    kernel = load_kernel(LIBRARY / str(path), swept_sizes(found.sizes, 12, 0))
    rng = np.random.default_rng(0)
    for arguments in (random_inputs(kernel, rng), *adversarial_inputs(kernel, rng)):
        observed = greatest_magnitude(kernel, arguments.inputs, arguments.parameters)
        assert observed <= largest_partial(kernel.backbone, arguments.largest)


def test_a_sum_of_products_is_bounded_by_its_terms() -> None:
    kernel = check(MATMUL)
    assert largest_partial(kernel.backbone, 3) == 32 * 9
