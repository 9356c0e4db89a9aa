"""Test cases in memory between guard pages, where generated code runs on them.

In: a kernel file and a seed. Out: cases whose arrays can only be read, and arrays for outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from spacedsl.codegen.checks import checks
from spacedsl.codegen.running.buffers import TensorBuffer
from spacedsl.codegen.running.cases import Tolerance
from spacedsl.kernels.backbones import MeasurableKernel
from spacedsl.kernels.inputs import Array
from spacedsl.kernels.tensors import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class LoadedCase:
    """A test case whose arrays lie in guarded buffers that are only read."""

    name: str
    inputs: Mapping[str, TensorBuffer]
    parameters: Mapping[str, float]
    expected: Mapping[str, TensorBuffer]
    tolerances: Mapping[str, Tolerance]


def load_cases(kernel: MeasurableKernel, seed: int, *, is_brief: bool = False) -> list[LoadedCase]:
    """The cases, made in the memory where they stay.

    Raises `NotFiniteError`, and `MemoryError` where there is not enough.
    """
    loaded: list[LoadedCase] = []
    buffers: list[TensorBuffer] = []

    def allocate(tensor: Tensor) -> Array:
        buffers.append(TensorBuffer.of(tensor))
        return buffers[-1].flat

    def owner(array: Array) -> TensorBuffer:
        address = array.ctypes.data
        (found,) = (b for b in buffers if b.buffer.address == address)
        found.buffer.protect()
        return found

    make_cases = checks(kernel).make_cases
    for case in make_cases(kernel, np.random.default_rng(seed), allocate, is_brief=is_brief):
        inputs = {name: owner(array) for name, array in case.inputs.items()}
        expected = {name: owner(array) for name, array in case.expected.items()}
        loaded.append(LoadedCase(case.name, inputs, case.parameters, expected, case.tolerances))
    return loaded


def output_buffers(kernel: MeasurableKernel) -> dict[str, TensorBuffer]:
    """Raises `MemoryError`."""
    return {t.name: TensorBuffer.of(t) for t in kernel.tensors if t.is_output}
