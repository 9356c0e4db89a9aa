"""Kernels that nobody has thought of, as code for a GPU: random implementations do as the reference says."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from spacedsl.codegen.linalg import instructions
from spacedsl.codegen.tree.expressions import Sub
from tests.codegen.agreement import DisagreementError
from tests.codegen.cuda.agreement import agree, drawn
from tests.codegen.cuda.soak_batch import Corner
from tests.codegen.random_kernels import RandomKernel, random_kernel


def implemented(seeds: Sequence[int], *, is_compiled: bool) -> tuple[list[Corner], list[RandomKernel]]:
    corners: list[Corner] = []
    kernels: list[RandomKernel] = []
    for seed in seeds:
        kernel = random_kernel(random.Random(seed))
        found = drawn(kernel, np.random.default_rng(seed), is_compiled=is_compiled and seed % 4 == 0)
        if not isinstance(found, str):
            corners.append(found)
            kernels.append(kernel)
    return corners, kernels


@pytest.mark.parametrize("first", [0, 12])
def test_twins_of_random_kernels_do_what_lines_say(first: int) -> None:
    corners, kernels = implemented(range(first, first + 12), is_compiled=True)
    assert len(corners) >= 10
    agree(corners, kernels)


def test_a_mistake_of_the_lowering_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Differences are the other way round; the kernel is shown that has one."""
    monkeypatch.setattr(instructions, "Sub", lambda left, right: Sub(right, left))
    with pytest.raises(DisagreementError, match=r"differ(.|\n)* - "):
        agree(*implemented(range(12), is_compiled=False))
