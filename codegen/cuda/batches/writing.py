"""Offline batches: implementations for a GPU that is somewhere else, in a folder of their own.

In: problems, each a kernel with programs that have been verified, and the description of a GPU. Out: a folder
with their cubins, the test cases, and `run_batch.py`, which checks and times them there and adds a line for
each to `results.jsonl`. What these lines say is read by `results.py`.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from spacedsl.codegen.c.build import BuildError
from spacedsl.codegen.c.names import c_name
from spacedsl.codegen.cuda.batches.cases import write_cases
from spacedsl.codegen.cuda.batches.folders import (
    BATCH,
    CASES,
    CODES,
    DECISIONS,
    MAKING,
    PROBLEM,
    clear,
    code_path,
)
from spacedsl.codegen.cuda.nvrtc import compile_cubin
from spacedsl.codegen.cuda.printer import arguments, print_cuda, shared_bytes
from spacedsl.codegen.machine import processor
from spacedsl.codegen.tree.program import Grid, Program
from spacedsl.engine.decision import Decision
from spacedsl.kernels.backbones import MeasurableKernel
from spacedsl.kernels.evaluation import Lowered
from spacedsl.kernels.gpu_device import GpuDevice

PROBES, COMPARING = (Path(__file__).parent / name for name in ("probes.cu", "comparing.cu"))
"""What runs on the device beside implementations: their cubins lie in the folder."""
RUNNER = ("run_batch.py", "measuring.py", "arena.py", "driver.py")
"""What runs on the other machine; the first is called."""


@dataclass(frozen=True, slots=True)
class Batched:
    """One implementation, and what is known of it before it runs."""

    program: Program
    predicted_ns: float
    bound_ns: float
    decisions: tuple[Decision, ...]


@dataclass(frozen=True, slots=True)
class BatchedProblem:
    """Implementations of one kernel, and the folders of the runs that found them."""

    kernel: MeasurableKernel
    implementations: tuple[Batched, ...]
    runs: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """How many implementations a folder holds, and how many are left out: the compiler refused them, or took
    too long for them.
    """

    implementations: int
    refused: int
    given_up: int


def write_batch(
    folder: Path, device: GpuDevice, problems: Sequence[BatchedProblem], seed: int, *, has_cases: bool = True
) -> Written:
    """Fills a folder with each code once; an earlier batch that lies there is replaced (`folders.py`).

    `seed`: of the values of the test cases; without `has_cases`, the other machine makes them. Raises
    `DiagnosticError` (KF047) for a kernel without any, before anything is replaced, `OSError`.
    """
    named = dict(zip(names(problems), problems, strict=True))
    there = next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
    with TemporaryDirectory(prefix=MAKING, dir=there) as made:
        if has_cases:
            for name, problem in named.items():
                write_cases(Path(made) / name, problem.kernel, seed)
        clear(folder)
        return _fill(folder, Path(made), device, named, seed)


def _fill(
    folder: Path, cases: Path, device: GpuDevice, named: Mapping[str, BatchedProblem], seed: int
) -> Written:
    """`cases`: a folder with those of each problem, which are moved."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "schema": 2,
        "device": device.name,
        "compute_capability": device.compute_capability,
        "problems": list(named),
    }
    _write_json(folder / BATCH, document)
    with ThreadPoolExecutor(len(processor.usable_cpus())) as compilers:
        written = [_write(folder / n, device, p, seed, compilers) for n, p in named.items()]
    for made in sorted(cases.glob("*/*"), key=lambda path: CASES.index(path.name)):
        made.rename(folder / made.relative_to(cases))
    for kernels in (PROBES, COMPARING):
        cubin = compile_cubin(kernels.read_text(encoding="utf-8"), device.compute_capability)
        (folder / kernels.with_suffix(".cubin").name).write_bytes(cubin.code)
    for script in RUNNER:
        write_script(Path(__file__).parent / script, folder)
    return Written(
        sum(w.implementations for w in written),
        sum(w.refused for w in written),
        sum(w.given_up for w in written),
    )


def write_script(script: Path, folder: Path, *packages: str) -> None:
    """A program for the other machine, where the modules of this package, and of others, lie beside it."""
    text = script.read_text(encoding="utf-8")
    for package in (__name__.rpartition(".")[0], *packages):
        text = text.replace(f"from {package}.", "from ")
    (folder / script.name).write_text(text, encoding="utf-8")


def names(problems: Sequence[BatchedProblem]) -> Iterator[str]:
    """Of their folders: `matmul`, `matmul-2`, .."""
    seen: dict[str, int] = {}
    for problem in problems:
        name = problem.kernel.name
        seen[name] = seen.get(name, 0) + 1
        yield name if seen[name] == 1 else f"{name}-{seen[name]}"


def _write(
    folder: Path, device: GpuDevice, problem: BatchedProblem, seed: int, compilers: ThreadPoolExecutor
) -> Written:
    """The folder of one problem."""
    kernel = problem.kernel
    (folder / CODES).mkdir(parents=True, exist_ok=True)
    codes = {Lowered.of(print_cuda(each.program)): each for each in problem.implementations}
    found = [*compilers.map(lambda item: _entry(folder, device, *item), codes.items())]
    faults = [each for each in found if isinstance(each, BuildError)]
    entries = [each for each in found if not isinstance(each, BuildError)]
    document = {
        "kernel": kernel.name,
        "kernel_path": str(kernel.path),
        "kernel_text": kernel.text,
        "sizes": dict(kernel.sizes),
        "seed": seed,
        "cache": kernel.cache,
        "runs": [str(run) for run in problem.runs],
        "tensors": [
            {
                "name": t.name,
                "dtype": t.dtype.label,
                "nbytes": t.nbytes,
                "shape": t.shape,
                "strides": t.strides,
            }
            for t in kernel.tensors
        ],
        "parameters": {p.name: p.dtype.label for p in kernel.parameters},
        "implementations": entries,
    }
    _write_json(folder / PROBLEM, document)
    decisions = {lowered.digest: [astuple(d) for d in each.decisions] for lowered, each in codes.items()}
    (folder / DECISIONS).write_bytes(gzip.compress(json.dumps(decisions).encode()))
    given_up = sum(fault.timed_out for fault in faults)
    return Written(len(entries), len(faults) - given_up, given_up)


def _entry(
    folder: Path, device: GpuDevice, lowered: Lowered, each: Batched
) -> Mapping[str, Any] | BuildError:
    """Or why there is no code: a search does not compile what is clearly slow."""
    place = code_path(lowered.digest)
    try:
        cubin = compile_cubin(lowered.code, device.compute_capability)
    except BuildError as error:
        return error
    (folder / place).write_text(lowered.code, encoding="utf-8")
    (folder / place.with_suffix(".cubin")).write_bytes(cubin.code)
    return {
        "digest": lowered.digest,
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


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document) + "\n", encoding="utf-8")
