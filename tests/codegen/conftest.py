"""Fixtures of the tests of generated code."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spacedsl.codegen.evaluator import CpuEvaluator
from tests.codegen.devices import DEVICE
from tests.codegen.evaluating import KERNEL, OPTIONS


@pytest.fixture(scope="module")
def evaluator() -> Iterator[CpuEvaluator]:
    with CpuEvaluator(KERNEL, DEVICE, OPTIONS) as opened:
        yield opened
