"""The product's part of a case: its kernel, and code of records as sides call it.

In: a case, and a folder. Out: records (`best.json`), and for the sides libraries with all that they need to
know to call them. How it explores is for `benchmarks/explorations.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from benchmarks import LIBRARY, explorations
from benchmarks.contest import PRODUCT, Entry
from benchmarks.cpu.cases import Case
from benchmarks.cpu.peers.product import Product
from benchmarks.cpu.side import Side
from benchmarks.explorations import SkippedError
from spacedsl.codegen.c.names import entry_name
from spacedsl.codegen.machine import processor
from spacedsl.diagnostics import DiagnosticError
from spacedsl.kernels.kernel_file import KernelFile, load_kernel
from spacedsl.kernels.sizes import SizeOverrideError
from spacedsl.kernels.tensors import Tensor


def kernel_of(case: Case) -> KernelFile:
    """Raises `SkippedError` where there is none."""
    path = LIBRARY / f"{case.kernel}.yaml"
    if not path.exists():
        raise SkippedError(f"there is no kernels/library/{path.name}")
    try:
        return load_kernel(path, case.kernel_sizes)
    except (SizeOverrideError, DiagnosticError) as error:
        raise SkippedError(f"kernels/library/{path.name}: {error}") from None


def explore(case: Case, folder: Path, time_s: float, seed: int, say: Callable[[str], None]) -> Path | None:
    """Below `folder`, in one for the case; raises `SkippedError` where this machine cannot."""
    return explorations.explore(kernel_of(case), folder / case.name, time_s, seed, say)


def records(case: Case, folder: Path) -> dict[str, Path]:
    """All records below `folder` of this case, by their seeds or else their runs."""
    return explorations.records(kernel_of(case), folder)


def build(case: Case, best: Path, folder: Path) -> Product:
    """The code that the record gives today, as a library in `folder`; raises `SkippedError`."""
    return described(kernel_of(case), explorations.library_of(best, folder))


def described(kernel: KernelFile, library: Path) -> Product:
    """What a side needs to know to call a library; raises `SkippedError` unless there is one output."""
    tensors = kernel.backbone.tensors
    outputs = [at for at, tensor in enumerate(tensors) if tensor.is_output]
    if len(outputs) != 1:
        raise SkippedError(f"the kernel file has {len(outputs)} outputs, and the comparison has one")
    return Product(
        library=str(library),
        symbol=entry_name(kernel.name),
        inputs=tuple(_layout(tensor) for tensor in tensors if not tensor.is_output),
        output=_layout(tensors[outputs[0]]),
        is_output_at=outputs[0],
        scalars=len(kernel.backbone.parameters),
    )


def entry(name: str, label: str, case: Case, code: Product) -> Entry:
    """A contender on all CPUs that this process may use."""
    side = Side(PRODUCT, case.problem, case.sizes, processor.usable_cpus(), as_document(code))
    return Entry(name, label, side, sys.executable)


def _layout(tensor: Tensor) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    return tensor.name, tensor.shape, tensor.strides


def as_document(product: Product) -> dict[str, object]:
    return asdict(product)
