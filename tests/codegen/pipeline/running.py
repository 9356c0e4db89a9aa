"""Programs of pipelines as C: compiled, run in this process, compared with the reference."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

from spacedsl.codegen.c.build import build_library
from spacedsl.codegen.c.names import entry_name
from spacedsl.codegen.c.printer import print_c
from spacedsl.codegen.running.cases import Case
from spacedsl.codegen.running.differences import first_difference
from spacedsl.codegen.tree.program import Program
from spacedsl.kernels.formats import NUMPY_TYPE, numbers
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.kernels.reference import view
from tests.codegen.runs import scalar


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
    values = [scalar(p.dtype, p.value) for p in file.algorithm.parameters]
    getattr(library, entry_name(name))(*pointers, *values)
    said = []
    for t in outputs:
        found, wanted = (numbers(t.dtype, view(t, given[t.name])) for given in (buffers, case.expected))
        said.append(first_difference(found, wanted, case.tolerances[t.name]))
    return "".join(said)
