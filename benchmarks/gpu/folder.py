"""The folder that goes to a machine with a GPU: runs of each case, naive kernels, and what measures them.

In: cases, and how long to explore each, or runs that are there already. Out: a folder; `run_benchmark.py` in
it is the one command.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from benchmarks import LIBRARY
from benchmarks.gpu.cases import Case
from benchmarks.gpu.measured import PEERS
from spacedsl import api
from spacedsl.cli.faults import CommandError
from spacedsl.codegen.cuda.batches.folders import RESULTS, occupied
from spacedsl.codegen.cuda.batches.writing import write_script
from spacedsl.codegen.cuda.nvrtc import compile_cubin
from spacedsl.diagnostics import DiagnosticError
from spacedsl.kernels.backbones import MeasurableKernel
from spacedsl.kernels.kernel_file import KernelFile, load_kernel
from spacedsl.search.store import Store, StoreError

HERE = Path(__file__).parent
PACKAGES = ("benchmarks.gpu", "benchmarks.pipelines")
"""Whose modules lie side by side in the folder, as far as they are needed there."""
THREADS = 256
BY_ROWS = ("softmax",)
"""Of these, the naive kernel has a thread for each row of the result."""


class SkippedError(Exception):
    """A case that cannot be explored; the message says why."""


def check_output(folder: Path) -> None:
    """Before anything is explored; raises `CommandError` for a folder that is not to be written into."""
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"{folder}: a file", hint="-o names a folder, which need not be there")
    if any((folder / name).exists() for name in (RESULTS, PEERS)):
        raise CommandError(f"{folder} holds what was measured with an earlier batch: take another folder")
    if occupied(folder) is not None:
        raise CommandError(f"{folder} holds other things: take another folder")


def kernel_of(case: Case) -> KernelFile:
    return load_kernel(LIBRARY / f"{case.kernel}.yaml", case.sizes)


def explore(
    kernel: MeasurableKernel, device: str, runs: Path, time_s: float, say: Callable[[str], None]
) -> Path:
    """A run of the kernel, from nothing; raises `SkippedError`, `KeyboardInterrupt`."""

    def listen(event: object) -> None:
        if isinstance(event, api.Preparing):
            say(event.activity)

    try:
        result = api.explore(kernel, target="cuda", device=device, time=time_s, runs=runs, on_event=listen)
    except (api.EnvironmentLack, api.EmptySpaceError, DiagnosticError) as error:
        raise SkippedError(str(error)) from None
    if result.stop is api.Stop.INTERRUPTED:
        raise KeyboardInterrupt
    return result.run


def runs_of(kernel: MeasurableKernel, folder: Path) -> list[Path]:
    """All runs for a GPU below a folder that are of this kernel in these sizes; raises `SkippedError`."""
    found = []
    for path in sorted(folder.rglob("run.sqlite")):
        try:
            with Store.open(path.parent, read_only=True) as store:
                about = store.about()
        except StoreError:
            continue
        if (about.target, about.kernel, about.sizes) == ("cuda", kernel.name, dict(kernel.sizes)):
            found.append(path.parent)
    if not found:
        raise SkippedError(f"there is no run of it for a GPU below {folder}")
    return found


def write(folder: Path, runs: Sequence[Path], top: int, others: int, *, has_cases: bool) -> api.Batch:
    """Writes the folder; raises as `api.batch` does."""
    written = api.batch(runs, folder, top=top, others=others, has_cases=has_cases)
    batch = json.loads((folder / "batch.json").read_text())
    for name in batch["problems"]:
        add_naive(folder / name, batch["compute_capability"])
    write_runner(HERE / "run_benchmark.py", folder)
    return written


def write_runner(script: Path, folder: Path, *modules: Path) -> None:
    """`script`, the one command, with what it imports."""
    for each in (script, HERE / "runner.py", *modules):
        write_script(each, folder, *PACKAGES)


def add_naive(folder: Path, compute_capability: str) -> None:
    """The naive kernel of a problem, as an implementation that its runner can measure."""
    problem = json.loads((folder / "problem.json").read_text())
    code = naive_code(problem["kernel"], problem["sizes"].items())
    (folder / "naive.cubin").write_bytes(compile_cubin(code, compute_capability).code)
    (folder / "naive.cu").write_text(code)
    shape = problem["tensors"][-1]["shape"]
    threads = shape[0] if problem["kernel"] in BY_ROWS else math.prod(shape)
    launch = {
        "name": "naive",
        "blocks": -(-threads // THREADS),
        "threads": THREADS,
        "shared": 0,
        "arguments": [*(t["name"] for t in problem["tensors"]), *problem["parameters"]],
    }
    entry = {"cubin": "naive.cubin", "launches": [launch], "scratch": []}
    (folder / "naive.json").write_text(json.dumps(entry) + "\n")


def naive_code(kernel: str, sizes: Iterable[tuple[str, int]]) -> str:
    macros = [f"#define KERNEL_{kernel}", *(f"#define SIZE_{name} {size}" for name, size in sizes)]
    return "\n".join([*macros, (HERE / "naive.cu").read_text()])
