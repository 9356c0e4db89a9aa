"""What the sides of an application are called with, compute with, and what has to come out.

In: a kernel file. Out: its `Signature`; a folder with an array for each input, and for each output what is
expected and how far each element may be off: the random case of code generation, whose reference is the NumPy
evaluator. What a side does with them is for `data.py`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.pipelines.data import file_of
from benchmarks.pipelines.signature import Argument, Scalar, Signature
from spacedsl.codegen.pipeline.cases import make_cases
from spacedsl.kernels.formats import NUMPY_TYPE
from spacedsl.kernels.pipeline.arguments import held, value_names
from spacedsl.kernels.pipeline.kernel_file import PipelineFile


def signature(kernel: PipelineFile) -> Signature:
    points = held(kernel.algorithm, kernel.boxes)
    for name in kernel.algorithm.outputs:
        points |= dict.fromkeys(value_names(kernel.algorithm.stage(name)), points[name])
    inputs, outputs = (
        tuple(
            Argument(
                tensor.name,
                np.dtype(NUMPY_TYPE[tensor.dtype]).name,
                tuple((extent.low, extent.size) for extent in reversed(points[tensor.name])),
            )
            for tensor in kernel.tensors
            if tensor.is_output == is_output
        )
        for is_output in (False, True)
    )
    parameters = kernel.algorithm.parameters
    return Signature(
        inputs, outputs, tuple(Scalar(np.dtype(NUMPY_TYPE[p.dtype]).name, p.value) for p in parameters)
    )


def write_case(kernel: PipelineFile, folder: Path) -> None:
    """Takes as long as the reference does."""
    case = next(make_cases(kernel, np.random.default_rng(0), is_brief=True))
    shapes = {t.name: t.shape for t in kernel.tensors}
    for name, array in (*case.inputs.items(), *case.expected.items()):
        np.save(file_of(folder, name), array.reshape(shapes[name]))
    for name, tolerance in case.tolerances.items():
        np.save(file_of(folder, name, "tolerance"), np.asarray(tolerance))
