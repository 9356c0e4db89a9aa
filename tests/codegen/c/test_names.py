"""Whatever a kernel and its parts are called, the code compiles, also its header in C++, and is right."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from spacedsl.codegen.c.build import find_compiler
from spacedsl.codegen.c.interface import print_header
from spacedsl.codegen.c.names import c_name, entry_name
from spacedsl.codegen.c.printer import print_c
from spacedsl.codegen.linalg.implementation import CandidateImplementation
from spacedsl.codegen.linalg.lower import lower
from spacedsl.codegen.tree.verify import verify
from spacedsl.kernels.kernel_file import KernelFile
from tests.codegen.candidates import random_candidate, space_of
from tests.codegen.kernels import parse
from tests.codegen.runs import compiled_difference, integer_case

_KERNELS = """
    memcpy write main double malloc sqrt environ pool_run pool_loop_i0 k_main atomic_load NULL SYS_write
    class int64_t f32x16 arguments linux norm rsqrt
"""
KERNELS = _KERNELS.split()
_TENSORS = """
    double restrict bool typeof in k_in begin end arguments pool k_pool pool_run f32 f32x16 i0 i0_1 load_in
    main memcpy write read malloc sched_priority pthread_create atomic_load kill_dependency NULL CPU_ZERO
    INT64_C SYS_write POOL_THREADS FUTEX_WAIT CSIGNAL int64_t uint32_t int8_t size_t class new this template
    and typename wchar_t linux unix asm u8 u8x16 i16x8_max i64 f16x8 bf16x16 boolx4 bool_not uint8_t uint16_t
    uint64_t exp sqrt fma div stream error float4 longlong2 threads element
"""
TENSORS = _TENSORS.split()


def kernel(name: str, tensors: tuple[str, ...], parameter: str) -> KernelFile:
    output = name if name not in tensors else "result"
    inputs = "\n".join(f'  "{t}": {{dtype: f32, shape: [n]}}' for t in tensors)
    return parse(f"""
kernel: "{name}"
backbone: linalg
sizes: {{n: 96}}
tensors:
{inputs}
  "{output}": {{dtype: f32, shape: [n], output: true}}
params: {{"{parameter}": f32}}
compute:
  - {output}[i] = {parameter} * ({" + ".join(f"{t}[i]" for t in tensors)})
tiling: {{i: [[16]]}}
""")


def groups() -> list[tuple[str, tuple[str, ...], str]]:
    """Every name once as a kernel or a tensor, and some as parameters."""
    parts = [tuple(TENSORS[start : start + 3]) for start in range(0, len(TENSORS), 3)]
    names = [KERNELS[n % len(KERNELS)] for n in range(max(len(parts), len(KERNELS)))]
    rows = []
    for n, name in enumerate(names):
        tensors = parts[n % len(parts)]
        parameter = next(t for t in TENSORS[n + 20 :] + TENSORS if t not in (*tensors, name))
        rows.append((name, tensors, parameter))
    return rows


@pytest.mark.parametrize(("name", "tensors", "parameter"), groups())
def test_any_name_will_do(name: str, tensors: tuple[str, ...], parameter: str, tmp_path: Path) -> None:
    named = kernel(name, tensors, parameter)
    candidate = random_candidate(space_of(named), np.random.default_rng(1), {"dim_kind": "PARALLEL"})
    assert candidate is not None
    program = verify(lower(named.backbone, CandidateImplementation(candidate)))
    code = print_c(program, 2)
    assert "pool_run(" in code
    assert compiled_difference(named, program, integer_case(named), tmp_path) == ""
    header = print_header(program.name, program.tensors, program.parameters)
    (tmp_path / "best.h").write_text(header, encoding="utf-8")
    (tmp_path / "best.c").write_text(f'{code}#include "best.h"\n', encoding="utf-8")
    (tmp_path / "user.cpp").write_text('#include "best.h"\n', encoding="utf-8")
    compiler = find_compiler()
    commands = [[*compiler.command, "-std=c11", "-pthread", "best.c"]]
    if shutil.which("g++"):
        commands.append(["g++", "-std=c++20", "user.cpp"])
    for command in commands:
        strict = [*command, "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
        done = subprocess.run(strict, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_different_names_stay_different() -> None:
    names = [*KERNELS, *TENSORS]
    names += [f"k_{name}" for name in names] + [f"k_k_{name}" for name in names]
    assert len({c_name(name) for name in names}) == len(set(names))
    assert len({entry_name(name) for name in names}) == len(set(names))


@pytest.mark.parametrize(
    "name",
    [
        *("exp", "sqrt", "fma", "fmaxf", "div", "abs", "max", "rsqrt", "norm", "int2"),
        *(
            "atomicAdd",
            "copy_ahead",
            "multiply_bf16_16x8x16",
            "load_matrices",
            "uint",
            "ulong",
            "size_t",
            "FILE",
            "EOF",
            "NAN",
            "SNANF32",
        ),
        *("BUFSIZ", "INFINITY", "MAXFLOAT", "NFDBITS", "WNOHANG", "WIFEXITED", "be32toh", "htole16", "stdin"),
    ],
)
def test_nothing_is_called_as_what_code_could_call(name: str) -> None:
    """Functions, macros and types of C and its system, and what CUDA declares in every file."""
    assert c_name(name) == entry_name(name) == f"k_{name}"


def test_usual_names_stay_as_they_are() -> None:
    usual = ["A", "B", "C", "x", "y1", "alpha", "WQ", "load_A_3", "j0", "index", "Weights_2"]
    assert [c_name(name) for name in usual] == usual
    assert [entry_name(name) for name in ("matmul", "axpy", "C")] == ["matmul", "axpy", "C"]
    assert entry_name("index") == "k_index"
