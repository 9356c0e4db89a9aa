"""Runs programs on a kernel's integer test case, in the interpreter and as C, and says what is wrong."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

from spacedsl.codegen.build import Compiler, build_library
from spacedsl.codegen.c_printer import print_c
from spacedsl.codegen.cases import Case, make_cases
from spacedsl.codegen.differences import first_difference
from spacedsl.codegen.names import entry_name
from spacedsl.codegen.program import Program
from spacedsl.kernels.inputs import NUMPY_TYPE
from spacedsl.kernels.kernel_file import KernelFile
from spacedsl.kernels.linalg.backbone import DType
from spacedsl.kernels.reference import view
from tests.codegen.interpreter import interpret

_FLOATS: dict[DType, type[ctypes.c_float] | type[ctypes.c_double]] = {
    DType.F32: ctypes.c_float,
    DType.F64: ctypes.c_double,
}


def integer_case(kernel: KernelFile) -> Case:
    return next(c for c in make_cases(kernel, np.random.default_rng(7)) if c.name == "integers")


def interpreted_difference(kernel: KernelFile, program: Program, case: Case) -> str:
    """The first difference between the interpreted program and the reference; empty where there is none."""
    memory = {name: buffer.tolist() for name, buffer in case.inputs.items()}
    outputs = [t for t in kernel.backbone.tensors if t.is_output]
    memory |= {t.name: [float("nan")] * t.span for t in outputs}
    memory |= {s.tensor.name: [0.0 if s.is_zeroed else float("nan")] * s.tensor.span for s in program.scratch}
    interpret(program, memory, case.parameters)
    return "".join(
        first_difference(
            view(t, np.array(memory[t.name])), view(t, case.expected[t.name]), case.tolerances[t.name]
        )
        for t in outputs
    )


def compiled_difference(
    kernel: KernelFile, program: Program, case: Case, folder: Path, compiler: Compiler | None = None
) -> str:
    """The same for the printed program, compiled and run in this process."""
    library = ctypes.CDLL(str(build_library(print_c(program, 2), folder / f"{id(program)}.so", compiler)))
    buffers = {
        t.name: np.full(t.span, -77, NUMPY_TYPE[t.dtype]) if t.is_output else case.inputs[t.name]
        for t in kernel.backbone.tensors
    }
    pointers = [ctypes.c_void_p(buffers[t.name].ctypes.data) for t in kernel.backbone.tensors]
    values = [_FLOATS[p.dtype](case.parameters[p.name]) for p in kernel.backbone.parameters]
    getattr(library, entry_name(kernel.name))(*pointers, *values)
    outputs = [t for t in kernel.backbone.tensors if t.is_output]
    return "".join(
        first_difference(view(t, buffers[t.name]), view(t, case.expected[t.name]), case.tolerances[t.name])
        for t in outputs
    )
