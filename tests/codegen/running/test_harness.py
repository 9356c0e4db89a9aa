"""The harness finds what the slow comparison finds."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from spacedsl import c_compilers
from spacedsl.codegen.c.build import find_compiler
from spacedsl.codegen.running.differences import first_difference
from spacedsl.codegen.running.harness import harness_library
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import NUMPY_TYPE, elements, numbers
from spacedsl.kernels.linalg.operations import ELEMENT_TYPES
from tests.codegen.kernels import matmul


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F16], ids=lambda dtype: dtype.label)
def test_every_number_of_16_bits_is_known(dtype: DType, tmp_path: Path) -> None:
    library = ctypes.CDLL(str(harness_library(matmul(8, 8, 8).backbone, find_compiler(), tmp_path)))
    count = getattr(library, f"harness_differing_{dtype.label}")
    bits = np.arange(1 << 16, dtype=np.uint16)
    zeros = np.zeros_like(bits)
    with np.errstate(invalid="ignore"):
        values = numbers(dtype, bits.view(elements(dtype, 0).dtype)).astype(np.float64)
    for limit in (0.0, 2.0**-24, 2.0**-15, 1.0, 65504.0):
        addresses = (ctypes.c_void_p(a.ctypes.data) for a in (bits, zeros))
        differing = count(*addresses, ctypes.c_int64(bits.size), ctypes.c_double(limit))
        assert differing == np.count_nonzero(~(np.abs(values) <= limit))


@pytest.mark.parametrize("dtype", ELEMENT_TYPES, ids=lambda dtype: dtype.label)
@pytest.mark.parametrize("tolerance", [0.0, 0.25])
def test_as_many_elements_differ_as_numpy_says(dtype: DType, tolerance: float, tmp_path: Path) -> None:
    library = ctypes.CDLL(str(harness_library(matmul(8, 8, 8).backbone, find_compiler(), tmp_path)))
    count = getattr(library, f"harness_differing_{dtype.label}")
    count.restype = ctypes.c_int64
    random = np.random.default_rng(3)
    wrong = [7] if dtype is DType.I32 else [np.nan, np.inf, 0.125, -0.25, 0.2501, -7]
    for size in (1, 15, 4096, 4097, 10_000):
        values = random.integers(-50, 50, size).astype(np.float64)
        if dtype is not DType.I32:
            values[size // 3 :: 7] = random.choice([np.nan, np.inf, -np.inf])
        expected = elements(dtype, values)
        for place in {0, size // 2, size - 1}:
            for value in wrong:
                off = values.copy()
                with np.errstate(invalid="ignore"):
                    off[place] += value
                found = elements(dtype, off)
                addresses = (ctypes.c_void_p(a.ctypes.data) for a in (found, expected))
                differing = count(*addresses, ctypes.c_int64(size), ctypes.c_double(tolerance))
                limit = 0 if dtype is DType.I32 else tolerance
                message = first_difference(numbers(dtype, found), numbers(dtype, expected), limit)
                assert differing == (1 if message else 0), (size, place, value)


@pytest.mark.parametrize("dtype", DType, ids=lambda dtype: dtype.label)
def test_each_element_may_have_a_tolerance_of_its_own(dtype: DType, tmp_path: Path) -> None:
    library = ctypes.CDLL(str(harness_library(matmul(8, 8, 8).backbone, find_compiler(), tmp_path)))
    count = getattr(library, f"harness_apart_{dtype.label}")
    count.restype = ctypes.c_int64
    values = np.array([0, 1, 1, 0, 1, 0, 1, 1, 0], np.float64)
    off = np.array([0, 1, 0, 1, 0, 1, 0, 1, 1], np.float64)
    tolerances = np.array([0, 0, 0, 0.5, 1, 1, np.inf, 0, 0.99], np.float32)
    found, expected = (np.ascontiguousarray(each.astype(NUMPY_TYPE[dtype])) for each in (off, values))
    if dtype in (DType.BF16, DType.F16):
        found, expected = elements(dtype, off), elements(dtype, values)
    addresses = [ctypes.c_void_p(a.ctypes.data) for a in (found, expected, tolerances)]
    differing = count(*addresses[:2], ctypes.c_int64(values.size), addresses[2])
    message = first_difference(numbers(dtype, found), numbers(dtype, expected), tolerances)
    assert differing == 3
    assert message.endswith("; 3 of 9 elements differ")


def test_each_processor_has_a_harness_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is built for all that a processor can do may be found from another one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = [harness_library(matmul(8, 8, 8).backbone, find_compiler(), tmp_path) for _ in range(2)]
    monkeypatch.setattr(c_compilers, "processor", lambda: "another one")
    found.append(harness_library(matmul(8, 8, 8).backbone, find_compiler(), tmp_path))
    assert found[0] == found[1] != found[2]
