"""Kernels that nobody has thought of: random implementations of what is accepted do as NumPy says."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spacedsl.codegen.linalg import addresses, instructions, lower
from spacedsl.codegen.tree.expressions import Index, LaneReduction, Sub
from spacedsl.codegen.tree.program import Loop
from spacedsl.kernels.linalg.operations import Combine
from tests.codegen.agreement import DisagreementError, outcome
from tests.codegen.random_kernels import random_kernel

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=25, deadline=None, suppress_health_check=SLOW)
@given(st.randoms(use_true_random=False), SEEDS)
def test_programs_mean_what_lines_say(source: random.Random, seed: int) -> None:
    outcome(random_kernel(source), np.random.default_rng(seed))


@settings(max_examples=6, deadline=None, suppress_health_check=SLOW)
@given(st.randoms(use_true_random=False), SEEDS)
def test_compiled_code_does_what_lines_say(tmp_path: Path, source: random.Random, seed: int) -> None:
    outcome(random_kernel(source), np.random.default_rng(seed), tmp_path)


def test_nearly_all_random_kernels_are_implemented_and_have_everything_in_them() -> None:
    kernels = [random_kernel(random.Random(seed)) for seed in range(400)]
    found = Counter(name for kernel in kernels for name in kernel.ingredients)
    wanted = {
        "affine", "zeros around", "gaps", "diagonal", "read again", "read of a result", "accumulate",
        "parameter", "number", "quotient", "sum", "prod", "max", "min", "1 reduced", "2 reduced", "exp",
        "log", "sqrt", "tanh", "sigmoid", "gelu", "relu", "abs", "-{}",
        "f32 tensor", "f64 tensor", "i32 tensor", "bf16 tensor", "f16 tensor",
    }  # fmt: skip
    assert set(found) == wanted
    assert min(found.values()) >= 3
    outcomes = Counter(outcome(k, np.random.default_rng(n)) for n, k in enumerate(kernels[:20]))
    assert outcomes["implemented"] >= 18


MISTAKES: dict[str, tuple[ModuleType, str, Callable[..., Any]]] = {
    "addresses without their constant": (addresses, "Index", lambda constant, terms: Index(0, terms)),
    "a loop without its last iteration": (
        lower,
        "Loop",
        lambda variable, extent, body, first=0: Loop(variable, max(first + 1, extent - 1), body, first),
    ),
    "differences the other way round": (instructions, "Sub", lambda left, right: Sub(right, left)),
    "lanes that are always added up": (
        instructions,
        "LaneReduction",
        lambda value, _: LaneReduction(value, Combine.SUM),
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_of_the_lowering_is_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, wrong = MISTAKES[mistake]
    monkeypatch.setattr(module, name, wrong)
    with pytest.raises(DisagreementError):
        for seed in range(100):
            outcome(random_kernel(random.Random(seed)), np.random.default_rng(seed))
