"""The harness finds what the slow comparison finds."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from spacedsl.codegen.build import find_compiler
from spacedsl.codegen.differences import first_difference
from spacedsl.codegen.harness import harness_library
from tests.codegen.kernels import matmul

TYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("tolerance", [0.0, 0.25])
def test_as_many_elements_differ_as_numpy_says(dtype: str, tolerance: float, tmp_path: Path) -> None:
    library = ctypes.CDLL(str(harness_library(matmul(8, 8, 8).backbone, find_compiler(), tmp_path)))
    count = getattr(library, f"harness_differing_{dtype}")
    count.restype = ctypes.c_int64
    random = np.random.default_rng(3)
    wrong = [7] if dtype == "i32" else [np.nan, np.inf, 0.125, -0.25, 0.2501, -7]
    for size in (1, 15, 4096, 4097, 10_000):
        expected = random.integers(-50, 50, size).astype(TYPES[dtype])
        for place in {0, size // 2, size - 1}:
            for value in wrong:
                found = expected.copy()
                found[place] += value
                addresses = (ctypes.c_void_p(a.ctypes.data) for a in (found, expected))
                differing = count(*addresses, ctypes.c_int64(size), ctypes.c_double(tolerance))
                limit = 0 if dtype == "i32" else tolerance
                message = first_difference(found, expected, limit)
                assert differing == (1 if message else 0), (size, place, value)
