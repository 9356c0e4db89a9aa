"""Printed programs: their text, and that every compiler makes the same of it without a warning."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from spacedsl.codegen.c.build import Compiler, find_compiler
from spacedsl.codegen.c.interface import print_header
from spacedsl.codegen.c.printer import print_c
from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.linalg.lower import lower
from spacedsl.codegen.native import build_function
from spacedsl.codegen.tree.program import Program
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.kernel_file import KernelFile
from tests.codegen.candidates import random_candidate, space_of
from tests.codegen.kernels import axpy, dot, matmul, parse
from tests.codegen.listings import (
    AXPY_VECTOR,
    DOT_PARALLEL,
    DOT_SPLIT,
    MATMUL_COPIED,
    MATMUL_SCALAR,
    MATMUL_TILED,
    MATMUL_TWICE,
)
from tests.codegen.runs import compiled_difference, integer_case
from tests.codegen.scripts import script


def tiled() -> tuple[KernelFile, Program]:
    kernel = matmul(32, 64, 9, "{i: [[2], [8]], j: [[2], [16]], p: []}")
    text = MATMUL_TILED.format(i0=2, i1=2, j0=2, k=9)
    return kernel, verify(lower(kernel.backbone, script(kernel.backbone, text)))


def vectorised() -> tuple[KernelFile, Program]:
    kernel = axpy(480, "{i: [[10], [16]]}")
    text = AXPY_VECTOR.format(i0=3, i1=10)
    return kernel, verify(lower(kernel.backbone, script(kernel.backbone, text)))


def scalar() -> tuple[KernelFile, Program]:
    kernel = matmul(5, 7, 3)
    text = MATMUL_SCALAR.format(m=5, n=7, k=3)
    return kernel, verify(lower(kernel.backbone, script(kernel.backbone, text)))


def streamed() -> tuple[KernelFile, Program]:
    kernel = axpy(480, "{i: [[10], [16]]}")
    text = AXPY_VECTOR.format(i0=3, i1=10).replace("store_z", "store_z streamed")
    return kernel, verify(lower(kernel.backbone, script(kernel.backbone, text)))


def ragged() -> tuple[KernelFile, Program]:
    kernel = axpy(107, "{i: [[2], [16]]}")
    return kernel, verify(lower(kernel.backbone, script(kernel.backbone, AXPY_VECTOR.format(i0=4, i1=2))))


def ragged_sum() -> tuple[KernelFile, Program]:
    kernel = dot(43, "{p: [[2], [8]]}")
    text = DOT_PARALLEL.format(p0=3, p1=2).replace("p0 P", "p0 L")
    return kernel, verify(lower(kernel.backbone, script(kernel.backbone, text)))


def summed() -> tuple[KernelFile, Program]:
    kernel = dot(480, "{p: [[20], [8]]}")
    return kernel, verify(lower(kernel.backbone, script(kernel.backbone, DOT_PARALLEL.format(p0=3, p1=20))))


def split() -> tuple[KernelFile, Program]:
    kernel = dot(128, "{p: [[4], [8]]}")
    text = DOT_SPLIT.format(kind="P", p0=4, p1=4)
    return kernel, verify(lower(kernel.backbone, script(kernel.backbone, text)))


def copied() -> tuple[KernelFile, Program]:
    kernel = matmul(8, 96, 12, "{i: [[4]], j: [[2], [16]], p: [[4]]}")
    text = MATMUL_COPIED.format(j0=3, i0=2, p0=3, p1=4)
    return kernel, verify(lower(kernel.backbone, script(kernel.backbone, text)))


def prefetched() -> tuple[KernelFile, Program]:
    kernel = matmul(32, 64, 16, "{i: [[4]], j: [[2], [16]], p: [[2]]}")
    text = MATMUL_TWICE.format(i0=8, j0=2, p0=8)
    text = text.replace("load_A", "load_A ahead").replace("load_B", "load_B next")
    return kernel, verify(lower(kernel.backbone, script(kernel.backbone, text)))


PROGRAMS: dict[str, Callable[[], tuple[KernelFile, Program]]] = {
    "matmul_tiled": tiled,
    "matmul_copied": copied,
    "matmul_prefetched": prefetched,
    "axpy_vector": vectorised,
    "axpy_streamed": streamed,
    "dot_parallel": summed,
    "dot_split": split,
    "matmul_scalar": scalar,
    "axpy_ragged": ragged,
    "dot_ragged": ragged_sum,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_text_is_the_golden_one(name: str, golden: Callable[[str, str], None]) -> None:
    _, program = PROGRAMS[name]()
    golden(f"{name}.c", print_c(program, 2))


def test_the_header_is_the_golden_one(golden: Callable[[str, str], None]) -> None:
    _, program = vectorised()
    golden("axpy.h", print_header(program.name, program.tensors, program.parameters))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("is_native", [True, False], ids=["native", "any machine"])
def test_built_as_its_comment_says_a_file_gives_no_warning(
    name: str, is_native: bool, tmp_path: Path
) -> None:
    _, program = PROGRAMS[name]()
    header = print_header(program.name, program.tensors, program.parameters)
    (tmp_path / "best.h").write_text(header, encoding="utf-8")
    text = print_c(program, 2)
    comment = " ".join(text.partition("*/")[0].replace("\n *", " ").split())
    said = re.findall(r"-\S+[^\s.]", comment.partition("Build with ")[2])
    # The header is included twice and together with the definition: they must agree.
    (tmp_path / "best.c").write_text(text + '\n#include "best.h"\n#include "best.h"\n', encoding="utf-8")
    flags = [flag for flag in said if is_native or flag != "-march=native"]
    assert {"-O2", "-march=native", "-pthread"} <= set(said)
    done = subprocess.run(
        [*find_compiler().command, *flags, "-Wall", "-Wextra", "-Werror", "-c", "best.c"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not importlib.util.find_spec("ziglang"), reason="ziglang is not installed")
@pytest.mark.parametrize("name", ["matmul_tiled", "axpy_vector", "axpy_ragged", "dot_ragged"])
def test_clang_makes_the_same_of_it(name: str, tmp_path: Path) -> None:
    zig = Compiler((sys.executable, "-m", "ziglang", "cc"), "clang of zig", is_clang=True)
    kernel, program = PROGRAMS[name]()
    assert compiled_difference(kernel, program, integer_case(kernel), tmp_path, zig) == ""


INTEGERS = """
kernel: integers
backbone: linalg
sizes: {n: 64}
tensors:
  x: {dtype: i32, shape: [n]}
  y: {dtype: i32, shape: [n], output: true}
  z: {dtype: i32, shape: [], output: true}
params: {a: i32}
compute:
  - y[i] = -(a * x[i]) * x[i] - 2147483647 + (-3)
  - z[] = sum[i](x[i] * x[i])
tiling: {i: [[8]]}
"""


@pytest.mark.parametrize("kind", ["LOOP", "VECTOR"])
def test_integers_wrap_around_as_those_of_numpy(kind: str, tmp_path: Path) -> None:
    kernel = parse(INTEGERS)
    candidate = random_candidate(space_of(kernel), np.random.default_rng(1), {"dim_kind": kind})
    assert candidate is not None
    text = print_c(verify(lower(kernel.backbone, CandidateImplementation(candidate))), 1)
    assert (" i32x8 " in text) == (kind == "VECTOR")
    x = np.random.default_rng(3).integers(-(2**31), 2**31, 64, dtype=np.int32)
    x[0] = -(2**31)
    function = build_function(kernel.backbone, text)
    y, z = function(x, -7)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(y, -(np.int32(-7) * x) * x - np.int32(2147483647) + np.int32(-3))
        assert z == np.sum(x * x, dtype=np.int32)
    # Told to trap overflow, gcc finds none that could occur in 32 bits: C leaves signed overflow undefined.
    (tmp_path / "text.c").write_text(text, encoding="utf-8")
    compiler = find_compiler()
    assembly = [*compiler.command, "-O0", "-ftrapv", "-S", "-o", "-", "text.c"]
    if not compiler.is_clang:
        listing = subprocess.run(assembly, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        assert ("vdi3" in listing) == (kind == "LOOP")  # of the loops' counters
        assert "vsi3" not in listing
