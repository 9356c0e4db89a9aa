"""Programs of pipelines as C: compiled, run in this process, compared with the reference."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

from spacedsl.codegen.c.build import build_library
from spacedsl.codegen.c.names import entry_name
from spacedsl.codegen.c.printer import print_c
from spacedsl.codegen.running.cases import Case
from spacedsl.codegen.running.differences import first_difference
from spacedsl.codegen.tree.program import Program
from spacedsl.kernels.formats import NUMPY_TYPE
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.kernels.reference import view


def compiled_difference(
    file: PipelineFile, program: Program, case: Case, library: Path, flags: tuple[str, ...] = ()
) -> str:
    """The first difference from what the case expects; empty where there is none.

    `library`: a path of its own for each program, since what has been loaded from one is not loaded again.
    """
    built = ctypes.CDLL(str(build_library(print_c(program, 2), library, extra_flags=flags)))
    return called_difference(file, built, program.name, case)


def called_difference(file: PipelineFile, library: ctypes.CDLL, name: str, case: Case) -> str:
    """The same of a program that has been built and loaded, by its name."""
    buffers = {t.name: case.inputs[t.name] for t in file.tensors if not t.is_output}
    outputs = [t for t in file.tensors if t.is_output]
    buffers |= {t.name: np.full(t.span, 77, NUMPY_TYPE[t.dtype]) for t in outputs}
    pointers = [ctypes.c_void_p(buffers[t.name].ctypes.data) for t in file.tensors]
    values = [_scalar(p.value, NUMPY_TYPE[p.dtype]) for p in file.algorithm.parameters]
    getattr(library, entry_name(name))(*pointers, *values)
    return "".join(
        first_difference(view(t, buffers[t.name]), view(t, case.expected[t.name]), case.tolerances[t.name])
        for t in outputs
    )


def _scalar(value: float, dtype: Any) -> Any:
    """As an argument of C."""
    kind = np.ctypeslib.as_ctypes_type(dtype)
    return kind(dtype(value).item())
