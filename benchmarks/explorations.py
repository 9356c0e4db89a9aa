"""The product's part of a comparison: explorations from nothing, the records that they leave, their code.

In: a kernel, and a folder. Out: records (`best.json`), and code of records. Says nothing while it works but
what the caller's listener prints.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from spacedsl import api, record
from spacedsl.codegen.c.build import BuildError, build_library
from spacedsl.diagnostics import DiagnosticError
from spacedsl.files import replace_text
from spacedsl.kernels.backbones import MeasurableKernel

_SEED = "seed-"
"""Begins the name of the folder in which an exploration keeps its run."""


_ENDED = "ended.json"
"""Stands beside the run of an exploration that was not interrupted, and names its best."""


class SkippedError(Exception):
    """What cannot be compared; the message says why."""


def explore(
    kernel: MeasurableKernel, folder: Path, time_s: float, seed: int, say: Callable[[str], None]
) -> Path | None:
    """Searches from nothing; the record of the best, in a folder of its own below `folder`.

    Raises `SkippedError` where this machine cannot.
    """
    return _best(_explored(kernel, folder / f"{_SEED}{seed}", time_s, seed, say))


def explore_on(
    kernel: MeasurableKernel, folder: Path, time_s: float, seed: int, say: Callable[[str], None]
) -> Path | None:
    """The same, taking up what an earlier call with the same time left in `folder`.

    Raises `KeyboardInterrupt` where it is interrupted.
    """
    runs = folder / f"{_SEED}{seed}"
    ended = runs / _ENDED
    if ended.exists():
        best = json.loads(ended.read_text(encoding="utf-8"))["best"]
        return None if best is None else runs / best
    result = _resumed(runs, say) or _explored(kernel, runs, time_s, seed, say)
    if result.stop is api.Stop.INTERRUPTED:
        raise KeyboardInterrupt
    found = _best(result)
    document = {"best": None if found is None else str(found.relative_to(runs.resolve()))}
    replace_text(ended, json.dumps(document) + "\n")
    return found


def _best(result: api.Result) -> Path | None:
    return None if result.best is None else result.best.decisions


def _explored(
    kernel: MeasurableKernel, runs: Path, time_s: float, seed: int, say: Callable[[str], None]
) -> api.Result:
    try:
        return api.explore(kernel, time=time_s, seed=seed, runs=runs, on_event=_listener(say))
    except (api.EnvironmentLack, api.EmptySpaceError, DiagnosticError) as error:
        raise SkippedError(str(error)) from None


def _resumed(runs: Path, say: Callable[[str], None]) -> api.Result | None:
    """None where there is nothing to go on with, or it belongs to another generator or machine."""
    begun = sorted(runs.glob("*/run.sqlite"), key=lambda path: path.stat().st_mtime)
    if not begun:
        return None
    run = begun[-1].parent
    say(f"going on with {run.name}")
    try:
        return api.resume(run, on_event=_listener(say))
    except (api.ChangedError, api.StoreError) as error:
        say(str(error))
        return None


def _listener(say: Callable[[str], None]) -> Callable[[object], None]:
    def listen(event: object) -> None:
        if isinstance(event, api.Preparing):
            say(event.activity)

    return listen


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
