"""The mathematical functions of generated code, against NumPy in 80 bits over the whole range of numbers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
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

Array = NDArray[Any]

LARGEST_ERROR = {"exp": 1.5, "log": 3.0, "tanh": 3.0, "sigmoid": 3.0, "sqrt": 0.5, "abs": 0.0}
"""In units in the last place."""

EXACT: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sqrt": np.sqrt,
    "abs": np.abs,
}

NUMPY: dict[DType, type[np.float32] | type[np.float64]] = {DType.F32: np.float32, DType.F64: np.float64}
TYPES = [Type(DType.F32), Type(DType.F32, 4), Type(DType.F32, 16), Type(DType.F64), Type(DType.F64, 8)]


def arguments(dtype: DType) -> Array:
    """Zeros, infinities, NaN, denormal numbers, the ends of what exp can give; and many in between."""
    info = np.finfo(NUMPY[dtype])
    random = np.random.default_rng(1)
    ends = [
        88.72283,
        88.72284,
        -87.33655,
        -103.97,
        -103.98,
        709.782712893384,
        709.7827128933841,
        -745.13,
        -745.14,
    ]
    special = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1,
        -1,
        info.tiny,
        info.smallest_subnormal,
        info.max,
        info.min,
    ]
    widest = 800 if dtype is DType.F64 else 110
    near = random.uniform(-3, 3, 1 << 15)
    far = random.uniform(-widest, widest, 1 << 15)
    logarithmic = np.exp(random.uniform(np.log(float(info.tiny)), np.log(float(info.max)), 1 << 15))
    with np.errstate(over="ignore"):
        values = np.concatenate([special, ends, near, far, logarithmic]).astype(NUMPY[dtype])
    return np.resize(values, -(-values.size // 16) * 16)


@pytest.fixture(scope="module", params=TYPES, ids=str)
def compiled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Type, ctypes.CDLL]:
    """All functions of one type as loops over arrays."""
    kind: Type = request.param
    element, step = kind.dtype.c_name, kind.lanes
    place = "{0}[i]" if step == 1 else "*({1}_unaligned *)&{0}[i]"
    text = ["#include <stdint.h>", *([vector_type(kind)] if step > 1 else [])]
    text += functions([(kind, name) for name in (*EXACT, "gelu", "max", "min")])
    for name in (*EXACT, "gelu"):
        x, y = place.format("x", kind), place.format("y", kind)
        text.append(
            f"void run_{name}({element} *x, {element} *y, int64_t n) {{\n"
            f"  for (int64_t i = 0; i < n; i += {step}) {y} = {kind}_{name}({x});\n}}"
        )
    folder: Path = tmp_path_factory.mktemp("functions")
    return kind, ctypes.CDLL(str(build_library("\n".join(text), folder / "functions.so")))


def applied(library: ctypes.CDLL, name: str, x: Array) -> Array:
    y = np.empty_like(x)
    pointers = (ctypes.c_void_p(a.ctypes.data) for a in (x, y))
    getattr(library, f"run_{name}")(*pointers, ctypes.c_int64(x.size))
    return y


@pytest.mark.parametrize("name", EXACT)
def test_a_function_is_as_accurate_as_it_says_everywhere(
    name: str, compiled: tuple[Type, ctypes.CDLL]
) -> None:
    kind, library = compiled
    x = arguments(kind.dtype)
    found = applied(library, name, x)
    with np.errstate(all="ignore"):
        exact = EXACT[name](x.astype(np.longdouble))
        nearest = exact.astype(NUMPY[kind.dtype])
        units = np.abs(found.astype(np.longdouble) - exact) / np.spacing(np.abs(nearest))
    is_finite = np.isfinite(nearest)
    if name == "sigmoid":
        least = np.finfo(NUMPY[kind.dtype]).tiny
        assert np.all(found[is_finite & (nearest < least)] <= least)
        is_finite &= nearest >= least
    assert float(units[is_finite].max()) <= LARGEST_ERROR[name] + 1e-6
    rest = ~np.isfinite(nearest)
    np.testing.assert_array_equal(found[rest], nearest[rest])


def test_zeros_keep_their_sign(compiled: tuple[Type, ctypes.CDLL]) -> None:
    kind, library = compiled
    x = np.resize(np.array([0.0, -0.0], NUMPY[kind.dtype]), 16)
    np.testing.assert_array_equal(np.signbit(applied(library, "tanh", x)), np.signbit(x))


def test_gelu_is_its_definition_within_rounding(compiled: tuple[Type, ctypes.CDLL]) -> None:
    kind, library = compiled
    x = np.linspace(-12, 12, 1 << 12).astype(NUMPY[kind.dtype])
    exact = x.astype(np.longdouble)
    exact = exact / 2 * (1 + np.tanh(np.sqrt(2 / np.longdouble(np.pi)) * (exact + 0.044715 * exact**3)))
    error = np.abs(applied(library, "gelu", x) - exact) / np.maximum(np.abs(x), 1)
    assert float(error.max()) <= 4 * np.finfo(NUMPY[kind.dtype]).eps
