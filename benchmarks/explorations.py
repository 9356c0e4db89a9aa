"""The product's part of a comparison: explorations from nothing, the records that they leave, their code.

In: a kernel, and a folder. Out: records (`best.json`), and code of records. Says nothing while it works but
what the caller's listener prints.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from spacedsl import api, record
from spacedsl.codegen.build import BuildError, build_library
from spacedsl.diagnostics import DiagnosticError
from spacedsl.kernels.backbones import MeasurableKernel

_SEED = "seed-"
"""Begins the name of the folder in which an exploration keeps its run."""


class SkippedError(Exception):
    """What cannot be compared; the message says why."""


def seed_folder(folder: Path, seed: int) -> Path:
    return folder / f"{_SEED}{seed}"


def explore(
    kernel: MeasurableKernel, folder: Path, time_s: float, seed: int, say: Callable[[str], None]
) -> Path | None:
    """Searches from nothing; the record of the best, in a folder of its own below `folder`.

    Raises `SkippedError` where this machine cannot.
    """

    def listen(event: object) -> None:
        if isinstance(event, api.Preparing):
            say(event.activity)

    runs = seed_folder(folder, seed)
    try:
        result = api.explore(kernel, time_s=time_s, seed=seed, runs=runs, on_event=listen)
    except (api.EnvironmentLack, api.EmptySpaceError, DiagnosticError) as error:
        raise SkippedError(str(error)) from None
    return None if result.best is None else result.best.decisions


def records(kernel: MeasurableKernel, folder: Path) -> dict[str, Path]:
    """All records below `folder` of this kernel in these sizes, by their seeds or else their runs."""
    found: dict[str, Path] = {}
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


def library_of(best: Path, folder: Path) -> Path:
    """The code that the record gives today, as a library in `folder`; raises `SkippedError`."""
    try:
        return build_library(api.emit(best), folder / f"{len(list(folder.iterdir()))}.so")
    except (api.ChangedError, DiagnosticError, BuildError) as error:
        raise SkippedError(f"{best}: {error}") from None
