"""Scripted implementations become programs that compute what NumPy computes."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

from spacedsl.codegen.build import build_library
from spacedsl.codegen.c_printer import print_c
from spacedsl.codegen.lower import lower
from spacedsl.codegen.verify import verify
from tests.codegen.kernels import matmul
from tests.codegen.scripts import script

MATMUL_TILED = """
    i0 P 2
      j0 L 2
        i1 L 4
          i2 U 8
            j1 U 2
              j2 V 16
                init
          p0 L 64
            i2 U 8
              load_A
            j1 U 2
              j2 V 16
                load_B
            i2 U 8
              j1 U 2
                j2 V 16
                  fma
          i2 U 8
            j1 U 2
              j2 V 16
                store_C
"""


def test_a_tiled_vectorised_parallel_product_is_right(tmp_path: Path) -> None:
    kernel = matmul(64, 64, 64, "{i: [[4], [8]], j: [[2], [16]], p: []}").backbone
    program = verify(lower(kernel, script(kernel, MATMUL_TILED)))
    library = ctypes.CDLL(str(build_library(print_c(program, 2), tmp_path / "matmul.so")))
    random = np.random.default_rng(0)
    a, b = (random.random((64, 64), dtype=np.float32) for _ in range(2))
    c = np.full((64, 64), np.nan, np.float32)
    library.matmul(*(ctypes.c_void_p(x.ctypes.data) for x in (a, b, c)))
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)
