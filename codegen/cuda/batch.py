"""Offline batches: implementations for a GPU that is somewhere else, in a folder of their own.

In: a kernel, the description of a GPU, programs that have been verified. Out: a folder with their cubins, the
test cases, and `run_batch.py`, which checks and times them there. What comes back is a line of JSON for each.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spacedsl.codegen.cases import make_cases
from spacedsl.codegen.cuda.nvrtc import compile_cubin
from spacedsl.codegen.cuda.printer import arguments, print_cuda, shared_bytes
from spacedsl.codegen.names import c_name
from spacedsl.codegen.program import Grid, Program
from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.kernels.kernel_file import KernelFile

RUNNER = Path(__file__).parent / "run_batch.py"


@dataclass(frozen=True, slots=True)
class Batched:
    """One implementation, and what is known of it before it runs."""

    program: Program
    predicted_ns: float
    bound_ns: float


def write_batch(
    folder: Path, kernel: KernelFile, device: GpuDevice, implementations: Iterable[Batched], seed: int
) -> int:
    """Fills a folder, which may be there already; how many implementations it holds, each code once.

    Raises `BuildError` for code that the compiler refuses, `NotFiniteError`, `OSError`.
    """
    (folder / "implementations").mkdir(parents=True, exist_ok=True)
    entries = {e["digest"]: e for e in (_entry(folder, device, each) for each in implementations)}
    cases = list(make_cases(kernel, np.random.default_rng(seed)))
    arrays: dict[str, Any] = {}
    for number, case in enumerate(cases):
        arrays |= {f"{number}/in/{name}": array for name, array in case.inputs.items()}
        arrays |= {f"{number}/out/{name}": array for name, array in case.expected.items()}
    np.savez(folder / "cases.npz", **arrays)
    document = {
        "schema": 1,
        "kernel": kernel.name,
        "sizes": dict(kernel.sizes),
        "device": device.name,
        "compute_capability": device.compute_capability,
        "l2_bytes": device.l2_bytes,
        "tensors": [
            {"name": t.name, "dtype": t.dtype.label, "nbytes": t.nbytes, "shape": t.shape,
             "strides": t.strides, "is_output": t.is_output}
            for t in kernel.backbone.tensors
        ],
        "parameters": {p.name: p.dtype.label for p in kernel.backbone.parameters},
        "cases": [
            {"name": case.name, "parameters": dict(case.parameters), "tolerances": dict(case.tolerances)}
            for case in cases
        ],
        "implementations": list(entries.values()),
    }  # fmt: skip
    (folder / "batch.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    shutil.copy(RUNNER, folder / RUNNER.name)
    return len(entries)


def _entry(folder: Path, device: GpuDevice, each: Batched) -> Mapping[str, Any]:
    code = print_cuda(each.program)
    digest = hashlib.sha256(code.encode()).hexdigest()
    place = Path("implementations") / digest[:16]
    cubin = compile_cubin(code, device.compute_capability)
    (folder / place.with_suffix(".cu")).write_text(code, encoding="utf-8")
    (folder / place.with_suffix(".cubin")).write_bytes(cubin.code)
    return {
        "digest": digest,
        "cubin": str(place.with_suffix(".cubin")),
        "predicted_ns": each.predicted_ns,
        "bound_ns": each.bound_ns,
        "launches": [
            {"name": c_name(grid.name), "blocks": grid.blocks, "threads": grid.threads,
             "shared": shared_bytes(grid), "arguments": arguments(each.program, grid)}
            for grid in each.program.body
            if isinstance(grid, Grid)
        ],
        "scratch": [
            {"name": s.tensor.name, "nbytes": s.tensor.nbytes, "is_zeroed": s.is_zeroed}
            for s in each.program.scratch
        ],
    }  # fmt: skip
