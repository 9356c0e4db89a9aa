"""Runs programs on a kernel's integer test case, in the interpreter and as C, and says what is wrong."""

from __future__ import annotations

import ctypes
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from spacedsl.codegen.c.build import Compiler, build_library
from spacedsl.codegen.c.names import entry_name
from spacedsl.codegen.c.printer import print_c
from spacedsl.codegen.running.cases import Case, make_cases
from spacedsl.codegen.running.differences import first_difference
from spacedsl.codegen.tree.program import Program
from spacedsl.kernels.dtypes import DType
from spacedsl.kernels.formats import elements, numbers
from spacedsl.kernels.kernel_file import KernelFile
from spacedsl.kernels.reference import view
from tests.codegen.interpreter import interpret


def scalar(dtype: DType, value: float) -> Any:
    """A parameter as C takes it: of floats of 16 bits, the bits."""
    held = elements(dtype, value)
    held = held if dtype.has_arithmetic else held.view(np.uint16)
    return np.ctypeslib.as_ctypes_type(held.dtype)(held.item())


def integer_case(kernel: KernelFile) -> Case:
    return next(c for c in make_cases(kernel, np.random.default_rng(7)) if c.name == "integers")


def brief_case(kernel: KernelFile) -> Case:
    """The one that has all weaknesses, where it is exact."""
    random, *hard = make_cases(kernel, np.random.default_rng(7), is_brief=True)
    return hard[0] if hard else random


def interpreted_difference(kernel: KernelFile, program: Program, case: Case) -> str:
    """The first difference between the interpreted program and the reference; empty where there is none."""
    memory = {
        t.name: numbers(t.dtype, case.inputs[t.name]).tolist()
        for t in kernel.backbone.tensors
        if not t.is_output
    }
    outputs = [t for t in kernel.backbone.tensors if t.is_output]
    memory |= {t.name: [float("nan")] * t.span for t in outputs}
    memory |= {s.tensor.name: [0.0 if s.is_zeroed else float("nan")] * s.tensor.span for s in program.scratch}
    interpret(program, memory, case.parameters)
    return "".join(
        first_difference(
            view(t, np.array(memory[t.name])),
            numbers(t.dtype, view(t, case.expected[t.name])),
            case.tolerances[t.name],
        )
        for t in outputs
    )


def compiled_difference(
    kernel: KernelFile, program: Program, case: Case, folder: Path, compiler: Compiler | None = None
) -> str:
    """The same for the printed program, compiled and run in this process."""
    library = Path(tempfile.mkdtemp(dir=folder)) / "program.so"
    return run_difference(kernel, build(program, library, compiler), case)


def build(program: Program, library: Path, compiler: Compiler | None = None) -> ctypes.CDLL:
    """What has been loaded from a path is not loaded from it again: every program needs a path of its own."""
    return ctypes.CDLL(str(build_library(print_c(program, 2), library, compiler)))


def run_difference(kernel: KernelFile, library: ctypes.CDLL, case: Case, name: str | None = None) -> str:
    """The same for a program that has been built. `name`: of the program, where it is not the kernel's."""
    buffers = {
        t.name: elements(t.dtype, np.full(t.span, -77)) if t.is_output else case.inputs[t.name]
        for t in kernel.backbone.tensors
    }
    pointers = [ctypes.c_void_p(buffers[t.name].ctypes.data) for t in kernel.backbone.tensors]
    values = [scalar(p.dtype, case.parameters[p.name]) for p in kernel.backbone.parameters]
    getattr(library, entry_name(name or kernel.name))(*pointers, *values)
    outputs = [t for t in kernel.backbone.tensors if t.is_output]
    return "".join(
        first_difference(
            numbers(t.dtype, view(t, buffers[t.name])),
            numbers(t.dtype, view(t, case.expected[t.name])),
            case.tolerances[t.name],
        )
        for t in outputs
    )
