"""Printed programs: their text, and that every compiler makes the same of it without a warning."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spacedsl.codegen.build import Compiler, find_compiler
from spacedsl.codegen.c_printer import c_name, print_c, print_header
from spacedsl.codegen.lower import lower
from spacedsl.codegen.program import Program
from spacedsl.codegen.verify import verify
from spacedsl.kernels.kernel_file import KernelFile
from tests.codegen.kernels import axpy, matmul
from tests.codegen.listings import AXPY_VECTOR, MATMUL_SCALAR, MATMUL_TILED
from tests.codegen.running import compiled_difference, integer_case
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


PROGRAMS: dict[str, Callable[[], tuple[KernelFile, Program]]] = {
    "matmul_tiled": tiled,
    "axpy_vector": vectorised,
    "matmul_scalar": scalar,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_text_is_the_golden_one(name: str, golden: Callable[[str, str], None]) -> None:
    _, program = PROGRAMS[name]()
    golden(f"{name}.c", print_c(program, 2))


def test_the_header_is_the_golden_one(golden: Callable[[str, str], None]) -> None:
    _, program = vectorised()
    golden("axpy.h", print_header(program.name, program.tensors, program.parameters))


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_warning_is_given(name: str, tmp_path: Path) -> None:
    _, program = PROGRAMS[name]()
    header = print_header(program.name, program.tensors, program.parameters)
    (tmp_path / "best.h").write_text(header, encoding="utf-8")
    # The header is included twice and together with the definition: they must agree.
    text = print_c(program, 2) + '\n#include "best.h"\n#include "best.h"\n'
    (tmp_path / "best.c").write_text(text, encoding="utf-8")
    compiler = find_compiler()
    flags = [f for f in compiler.flags if f not in ("-w", "-shared")]
    warn = ["-Wall", "-Wextra", "-Werror", "-Wno-psabi"]
    done = subprocess.run(
        [*compiler.command, *flags, *warn, "-c", "-o", str(tmp_path / "best.o"), str(tmp_path / "best.c")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == "" and done.returncode == 0


@pytest.mark.skipif(not importlib.util.find_spec("ziglang"), reason="ziglang is not installed")
@pytest.mark.parametrize("name", ["matmul_tiled", "axpy_vector"])
def test_clang_makes_the_same_of_it(name: str, tmp_path: Path) -> None:
    zig = Compiler((sys.executable, "-m", "ziglang", "cc"), "clang of zig", is_clang=True)
    kernel, program = PROGRAMS[name]()
    assert compiled_difference(kernel, program, integer_case(kernel), tmp_path, zig) == ""


def test_names_that_mean_something_in_c_are_changed() -> None:
    assert c_name("double") == "k_double"
    assert c_name("pool_run") == "k_pool_run"
    assert c_name("f32x16_sum") == "k_f32x16_sum"
    assert c_name("load_A_3") == "load_A_3"
