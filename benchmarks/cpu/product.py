"""The product's part: explorations from nothing, the records that they leave, and code of records.

In: a case, and a folder. Out: records (`best.json`), and for the sides libraries with all that they need to
know to call them. Says nothing while it works but what the caller's listener prints.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from benchmarks import LIBRARY
from benchmarks.cpu.cases import Case
from benchmarks.cpu.peers.product import Product
from spacedsl import api, record
from spacedsl.codegen.build import BuildError, build_library
from spacedsl.codegen.names import entry_name
from spacedsl.diagnostics import DiagnosticError
from spacedsl.kernels.kernel_file import KernelFile, load_kernel
from spacedsl.kernels.sizes import SizeOverrideError
from spacedsl.kernels.tensors import Tensor

_SEED = "seed-"
"""Begins the name of the folder in which an exploration keeps its run."""


class SkippedError(Exception):
    """A case that cannot be compared; the message says why."""


def kernel_of(case: Case) -> KernelFile:
    path = LIBRARY / f"{case.kernel}.yaml"
    if not path.exists():
        raise SkippedError(f"there is no kernels/library/{path.name}")
    try:
        return load_kernel(path, case.kernel_sizes)
    except (SizeOverrideError, DiagnosticError) as error:
        raise SkippedError(f"kernels/library/{path.name}: {error}") from None


def explore(case: Case, folder: Path, time_s: float, seed: int, say: Callable[[str], None]) -> Path | None:
    """Searches from nothing; the record of the best, in a folder of its own below `folder`.

    Raises `SkippedError` where this machine cannot.
    """

    def listen(event: object) -> None:
        if isinstance(event, api.Preparing):
            say(event.activity)

    runs = folder / case.name / f"{_SEED}{seed}"
    try:
        result = api.explore(kernel_of(case), time_s=time_s, seed=seed, runs=runs, on_event=listen)
    except (api.EnvironmentLack, api.EmptySpaceError, DiagnosticError) as error:
        raise SkippedError(str(error)) from None
    return None if result.best is None else result.best.decisions


def records(case: Case, folder: Path) -> dict[str, Path]:
    """All records below `folder` of this kernel in these sizes, by their seeds or else their runs."""
    kernel = kernel_of(case)
    found = {}
    for path in sorted(folder.rglob("best.json")):
        try:
            about = record.read(path).kernel
        except DiagnosticError:
            continue  # some other file of that name
        if (about.name, about.sizes) == (kernel.name, dict(kernel.sizes)):
            run = path.parent
            label = run.parent.name if run.parent.name.startswith(_SEED) else run.name
            found[str(run.relative_to(folder)) if label in found else label] = path
    return found


def build(case: Case, best: Path, folder: Path) -> Product:
    """The code that the record gives today, as a library in `folder`; raises `SkippedError`."""
    kernel = kernel_of(case)
    try:
        library = build_library(api.emit(best), folder / f"{len(list(folder.iterdir()))}.so")
    except (api.ChangedError, DiagnosticError, BuildError) as error:
        raise SkippedError(f"{best}: {error}") from None
    return described(kernel, library)


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


def _layout(tensor: Tensor) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    return tensor.name, tensor.shape, tensor.strides


def as_document(product: Product) -> dict[str, object]:
    return asdict(product)
