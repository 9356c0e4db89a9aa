"""Offline batches: implementations that were written down, in a folder for a GPU that is somewhere else.

In: the paths of records (`best.json`) of one kernel for one GPU. Out: a folder that a machine with such a GPU
runs by itself. Nothing is run here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from spacedsl.api.problem import UnknownNameError
from spacedsl.api.replaying import recorded_implementation
from spacedsl.codegen.cuda.batch import Batched, write_batch
from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.cuda.nvrtc import is_target, version
from spacedsl.codegen.implementation import CandidateImplementation
from spacedsl.codegen.lack import EnvironmentLack
from spacedsl.codegen.memory import check_memory
from spacedsl.codegen.verify import verify
from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.record import MeasuredRecord, read


def batch(paths: Sequence[Path], folder: Path, seed: int = 0) -> int:
    """Writes the folder; how many implementations it holds. `seed`: of the values of the test cases.

    Raises `UnknownNameError` for records that do not belong together, else what `replay` does.
    """
    if not paths:
        raise UnknownNameError("a batch of no implementations")
    found: list[Batched] = []
    first: MeasuredRecord | None = None
    for path in paths:
        recorded = read(path)
        if recorded.target != "cuda" or not isinstance(recorded, MeasuredRecord):
            raise UnknownNameError(f"{path}: not an implementation for a GPU that is right")
        first = first or recorded
        if (recorded.kernel.text, recorded.kernel.sizes, recorded.device) != (
            first.kernel.text, first.kernel.sizes, first.device,
        ):  # fmt: skip
            raise UnknownNameError(f"{path}: another kernel, other sizes, or another GPU than {paths[0]}")
        problem, candidate = recorded_implementation(recorded, path)
        program = verify(lower_grids(problem.kernel.backbone, CandidateImplementation(candidate)))
        found.append(Batched(program, recorded.time_ns, recorded.bound_ns))
    assert isinstance(problem.device, GpuDevice)
    if not is_target(problem.device.compute_capability):
        raise EnvironmentLack(f"{version()} no longer knows the architecture of {problem.device.name}")
    check_memory(problem.kernel, 0)
    return write_batch(folder, problem.kernel, problem.device, found, seed)
