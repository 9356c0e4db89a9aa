"""Conversions of element types in generated code, against NumPy: all numbers of 16 bits, and those beside.

Where the compiler has instructions for f16, it is made to do without them as well.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from spacedsl.codegen.c.build import build_library
from spacedsl.codegen.c.functions import functions
from spacedsl.codegen.c.types import vector_type
from spacedsl.codegen.tree.expressions import Type
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import NUMPY_TYPE, elements, numbers

Array = NDArray[Any]

HALVES = (DType.BF16, DType.F16)
ALL_BITS = np.arange(1 << 16, dtype=np.uint16)


@pytest.fixture(scope="module", params=["as it is", "without instructions"])
def folder_and_flags(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, tuple[str, ...]]:
    features = Path("/proc/cpuinfo").read_text()
    without = () if "f16c" not in features else ("-mno-avx512f", "-mno-f16c")
    return tmp_path_factory.mktemp("conversions"), without if "without" in request.param else ()


@pytest.fixture(scope="module", params=[1, 2, 4, 8, 16], ids=lambda lanes: f"x{lanes}")
def compiled(request: pytest.FixtureRequest, folder_and_flags: tuple[Path, tuple[str, ...]]) -> ctypes.CDLL:
    """All conversions for one number of lanes, as loops over arrays."""
    folder, flags = folder_and_flags
    lanes: int = request.param
    single = Type(DType.F32, lanes)
    others = [Type(dtype, lanes) for dtype in (*HALVES, DType.F64)]
    text = ["#include <stdint.h>", *(vector_type(k) for k in (single, *others) if lanes > 1)]
    text += functions((single, f"{way}_{o.dtype.label}") for o in others for way in ("from", "to"))
    for other in others:
        for way, x, y in (("from", other, single), ("to", single, other)):
            places = ("{}[i]" if lanes == 1 else f"*({kind}_unaligned *)&{{}}[i]" for kind in (x, y))
            read, written = (place.format(name) for place, name in zip(places, "xy", strict=True))
            name = f"{way}_{other.dtype.label}"
            text.append(
                f"void {name}({x.dtype.c_name} *x, {y.dtype.c_name} *y, int64_t n) {{\n"
                f"  for (int64_t i = 0; i < n; i += {lanes}) {written} = {single}_{name}({read});\n}}"
            )
    return ctypes.CDLL(str(build_library("\n".join(text), folder / f"x{lanes}.so", extra_flags=flags)))


def applied(library: ctypes.CDLL, name: str, x: Array, result: DType) -> Array:
    y = np.empty(x.size, NUMPY_TYPE[result])
    getattr(library, name)(*(ctypes.c_void_p(a.ctypes.data) for a in (x, y)), ctypes.c_int64(x.size))
    return y


def singles() -> Array:
    """Every number of 16 bits, the middle to the next one, and what lies beside these; and random bits."""
    random = np.random.default_rng(1).integers(0, 1 << 32, 1 << 16, dtype=np.uint32)
    every = [
        (ALL_BITS.astype(np.uint32) << 16).view(np.float32),
        ALL_BITS.view(np.float16).astype(np.float32),
    ]
    found = [random]
    for bits in (array.view(np.uint32) for array in every):
        for middle in (0, 1 << 15, 1 << 12):
            found += [bits + np.uint32(middle + beside) for beside in (0, 1)] + [bits + np.uint32(middle) - 1]
    return np.concatenate(found).view(np.float32)


@pytest.mark.parametrize("dtype", HALVES, ids=lambda d: d.label)
def test_numbers_of_16_bits_are_read_as_they_are(dtype: DType, compiled: ctypes.CDLL) -> None:
    x = ALL_BITS.view(NUMPY_TYPE[dtype])
    found = applied(compiled, f"from_{dtype.label}", x, DType.F32)
    exact = (
        (ALL_BITS.astype(np.uint32) << 16).view(np.float32) if dtype is DType.BF16 else x.astype(np.float32)
    )
    np.testing.assert_array_equal(found, exact)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(exact))


@pytest.mark.parametrize("dtype", HALVES, ids=lambda d: d.label)
def test_numbers_are_rounded_to_the_nearest_and_ties_to_even(dtype: DType, compiled: ctypes.CDLL) -> None:
    x = singles()
    found = applied(compiled, f"to_{dtype.label}", x, dtype)
    is_nan = np.isnan(x)
    np.testing.assert_array_equal(np.isnan(numbers(dtype, found)), is_nan)
    nearest = elements(dtype, x)
    np.testing.assert_array_equal(found.view(np.uint16)[~is_nan], nearest.view(np.uint16)[~is_nan])


def test_f64_becomes_f32_and_f32_f64(compiled: ctypes.CDLL) -> None:
    x = singles()
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(applied(compiled, "to_f64", x, DType.F64), x.astype(np.float64))
    random = np.random.default_rng(2)
    wide = random.standard_normal(1 << 12) * np.exp(random.uniform(-120, 90, 1 << 12))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(applied(compiled, "from_f64", wide, DType.F32), wide.astype(np.float32))
