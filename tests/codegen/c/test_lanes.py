"""The functions of generated code that choose the greater of two values, or combine the lanes of a vector.

With the instructions of this machine, and without those that not every one of its kind has.
"""

from __future__ import annotations

import ctypes
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from spacedsl.codegen.c.build import build_library, find_compiler
from spacedsl.codegen.c.functions import functions
from spacedsl.codegen.c.types import arithmetic_type, vector_type
from spacedsl.codegen.tree.expressions import Type
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import NUMPY_TYPE
from spacedsl.kernels.linalg.operations import Combine

Array = NDArray[Any]

WIDEST = {DType.F32: 16, DType.F64: 8, DType.I32: 16}
VECTORS = [Type(dtype, 1 << n) for dtype, most in WIDEST.items() for n in range(1, most.bit_length())]
IS_X86 = platform.machine() == "x86_64"
FEWER = ("-mno-avx512f", "-mno-avx", "-mno-sse4.1")
"""What every machine of the kind has is left."""


def names(kind: Type) -> list[str]:
    return ["max", "min", *(f"lanes_{combine}" for combine in Combine)]


def as_c(kind: Type) -> str:
    """Every function as a loop over arrays; what combines lanes writes one element for each vector."""
    element, lanes = arithmetic_type(kind.dtype), kind.lanes
    text = ["#include <stdint.h>", vector_type(kind), *functions((kind, name) for name in names(kind))]
    vector = f"*({kind}_unaligned *)&"
    for name in names(kind):
        of_lanes = name.startswith("lanes")
        call = f"y[i / {lanes}] = {kind}_{name}({vector}a[i])" if of_lanes else (
            f"{vector}y[i] = {kind}_{name}({vector}a[i], {vector}b[i])"
        )  # fmt: skip
        text.append(
            f"void run_{name}({element} *a, {element} *b, {element} *y, int64_t n) {{\n"
            f"  for (int64_t i = 0; i < n; i += {lanes}) {call};\n}}"
        )
    return "\n".join(text)


@pytest.fixture(scope="module", params=[(), FEWER] if IS_X86 else [()], ids=["own", "all"])
def flags(request: pytest.FixtureRequest) -> tuple[str, ...]:
    chosen: tuple[str, ...] = request.param
    return chosen


@pytest.fixture(scope="module", params=VECTORS, ids=str)
def compiled(
    request: pytest.FixtureRequest, flags: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Type, ctypes.CDLL]:
    kind: Type = request.param
    library = tmp_path_factory.mktemp("lanes") / "lanes.so"
    return kind, ctypes.CDLL(str(build_library(as_c(kind), library, extra_flags=flags)))


def applied(library: ctypes.CDLL, name: str, a: Array, b: Array, count: int) -> Array:
    y = np.empty(count, a.dtype)
    pointers = (ctypes.c_void_p(array.ctypes.data) for array in (a, b, y))
    getattr(library, f"run_{name}")(*pointers, ctypes.c_int64(a.size))
    return y


def operands(dtype: DType) -> tuple[Array, Array]:
    """Every pair of special values, and random ones."""
    random = np.random.default_rng(4)
    if dtype is DType.I32:
        special = np.array([0.0, 1.0, -1.0, 2**31 - 1, -(2**31)])
        usual = random.integers(-(2**31), 2**31, (2, 1000)).astype(np.float64)
    else:
        special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan])
        usual = random.standard_normal((2, 1000))
    pairs = np.stack([np.repeat(special, special.size), np.tile(special, special.size)])
    a, b = np.concatenate([pairs, usual], axis=1).astype(NUMPY_TYPE[dtype])
    size = -(-a.size // 16) * 16
    return np.resize(a, size), np.resize(b, size)


@pytest.mark.parametrize("name", ["max", "min"])
def test_of_two_values_that_none_is_beyond_the_second_is_taken(
    name: str, compiled: tuple[Type, ctypes.CDLL]
) -> None:
    kind, library = compiled
    a, b = operands(kind.dtype)
    wanted = np.where(a > b if name == "max" else a < b, a, b)
    found = applied(library, name, a, b, a.size)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


@pytest.mark.parametrize("combine", Combine)
def test_lanes_are_combined_half_by_half(combine: Combine, compiled: tuple[Type, ctypes.CDLL]) -> None:
    kind, library = compiled
    operation: dict[Combine, np.ufunc] = {
        Combine.SUM: np.add, Combine.PROD: np.multiply, Combine.MAX: np.maximum, Combine.MIN: np.minimum
    }  # fmt: skip
    a = np.random.default_rng(5).integers(-9, 10, (50, kind.lanes)).astype(NUMPY_TYPE[kind.dtype])
    if kind.dtype is not DType.I32:
        a *= NUMPY_TYPE[kind.dtype](1.1)
    wanted = a
    while wanted.shape[1] > 1:
        half = wanted.shape[1] // 2
        with np.errstate(over="ignore"):
            wanted = operation[combine](wanted[:, :half], wanted[:, half:])
    found = applied(library, f"lanes_{combine}", a.ravel(), a.ravel(), 50)
    np.testing.assert_array_equal(found, wanted[:, 0])


@pytest.mark.skipif(not IS_X86, reason="the instructions are those of x86")
@pytest.mark.parametrize("kind", [Type(DType.F32, 4), Type(DType.F64, 2)], ids=str)
def test_a_vector_of_square_roots_is_one_instruction(kind: Type, tmp_path: Path) -> None:
    parts = ["#include <stdint.h>", vector_type(kind), *functions([(kind, "sqrt")])]
    parts.append(f"void roots({kind} *x) {{ *x = {kind}_sqrt(*x); }}")
    source, listing, compiler = tmp_path / "roots.c", tmp_path / "roots.s", find_compiler()
    source.write_text("\n".join(parts), encoding="utf-8")
    flags = [f for f in compiler.flags if f != "-shared"]
    subprocess.run([*compiler.command, *flags, "-S", "-o", str(listing), str(source)], check=True)
    lines = [line.split() for line in listing.read_text(encoding="utf-8").splitlines()]
    executed = {words[0].removeprefix("v") for words in lines if words and words[0].isalnum()}
    element = "s" if kind.dtype is DType.F32 else "d"
    assert f"sqrtp{element}" in executed
    assert not executed & {f"sqrts{element}", "call", "callq"}
