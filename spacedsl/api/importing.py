"""Results of an offline batch, taken back into the runs that its implementations come from.

In: `results.jsonl` in the folder of a batch, or that folder. Out: an `Imported` for each run. Measured times
are kept beside the predictions that the search has gone by, and never among them; the best of a run becomes
the fastest that was measured. Importing again what is known changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spacedsl import record
from spacedsl.api.problem import ChangedError, Listener, Warned
from spacedsl.api.results import Best, RunFiles, fastest_measured
from spacedsl.api.targets import TARGETS, recorded_machine
from spacedsl.codegen.cuda.batches.folders import DECISIONS, RESULTS
from spacedsl.codegen.cuda.batches.results import (
    BatchResults,
    Measured,
    MeasuredDevice,
    ProblemResults,
    damaged,
    read_results,
)
from spacedsl.diagnostics import counted
from spacedsl.kernels.backbones import check_recorded
from spacedsl.kernels.evaluation import Failure, Timing
from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.search.events import Failed, FailureCount
from spacedsl.search.measurements import Measurement
from spacedsl.search.state import KEPT_DEFECTS, is_violation
from spacedsl.search.store import Store

FEWEST_RANKED = 8
"""Of fewer measured times, an order says nothing."""


@dataclass(frozen=True, slots=True)
class BelowBound:
    """A time that the bound of its implementation forbids: one of both is wrong."""

    digest: str
    time_ns: float
    bound_ns: float


@dataclass(frozen=True, slots=True)
class Imported:
    """What one run got back."""

    run: Path
    kernel: str
    device: MeasuredDevice
    asked: int
    """Implementations that the batch holds of this kernel."""
    measured: int
    """Those that this run knows and that have a result."""
    changed: int
    """Those that were not known to be so before."""
    failures: dict[Failure, FailureCount]
    violations: tuple[BelowBound, ...]
    best: Best | None
    """The fastest that was measured; None where nothing was right."""
    predicted_ns: float | None
    """What was predicted of the best."""
    rank: int | None
    """Of the best among these, by what was predicted, from 1."""
    correlation: float | None
    """Of the orders by predicted and by measured time (Spearman's); None of few."""


def import_results(path: Path, on_event: Listener = lambda event: None) -> tuple[Imported, ...]:
    """Takes over what was measured, run by run.

    Raises `DiagnosticError` for a file that is wrong, before anything is taken over; `StoreError` where a run
    is gone or being written, `ChangedError` where another device has measured it before, `OSError`.
    """
    path = path / RESULTS if path.is_dir() else path
    results = read_results(path)
    pairs = [(problem, run) for problem in results.problems for run in problem.runs]
    for problem, run in pairs:
        with Store.open(run, read_only=True) as store:
            _check_device(store, results.device, on_event)
            _check_decisions(problem, store.digests())
    imported = tuple(_import(results, problem, run, on_event) for problem, run in pairs)
    for problem in results.problems:
        if not problem.runs and problem.measured:
            count = counted(len(problem.measured), "implementation")
            on_event(Warned(f"{problem.name}: {count} of no run: what was measured is in {path} alone"))
    return imported


def _check_decisions(problem: ProblemResults, of_run: Collection[str]) -> None:
    """Raises `DiagnosticError` where the batch does not say what something is made of that a run has."""
    for digest in (m.entry.digest for m in problem.measured):
        if digest in of_run and digest not in problem.decisions:
            message = f"it does not say what {digest[:12]} is made of"
            raise damaged(problem.folder / DECISIONS, message)


def check_same_device(store: Store, name: str) -> None:
    """Raises `ChangedError` where a run has been measured on another device than that of this name."""
    others = {m.device for m in store.measurements()} - {name}
    if others:
        raise ChangedError(
            f"{store.folder.name} was measured on {min(others)}, and this is {name}: times of different "
            "machines say nothing about each other"
        )


def _check_device(store: Store, device: MeasuredDevice, on_event: Listener) -> None:
    check_same_device(store, device.name)
    run = store.folder.name
    about = store.about()
    _, described = recorded_machine(about.target, about.device, store.folder)
    assert isinstance(described, GpuDevice)
    if described.sms != device.sms:
        on_event(
            Warned(
                f"{run} is for {described.name} with {described.sms} SMs, and {device.name} has "
                f"{device.sms}: its bounds do not hold for times from there"
            )
        )


def _import(results: BatchResults, problem: ProblemResults, run: Path, on_event: Listener) -> Imported:
    with Store.open(run) as store:
        about = store.about()
        target = TARGETS[about.target]
        kernel = check_recorded(about.kernel_path, about.kernel_text, about.sizes, target.kind)
        files = RunFiles(store.folder, about, kernel, target.suffix)
        of_run = store.digests()
        measured = [m for m in problem.measured if m.entry.digest in of_run]
        before = {m.digest: m for m in store.measurements()}
        found = [
            Measurement(
                m.entry.digest,
                results.device.name,
                problem.outcome(m),
                m.entry.bound_ns,
                problem.decisions[m.entry.digest],
            )
            for m in measured
        ]
        changed = [m for m in found if before.get(m.digest) != m]
        codes = {m.digest: problem.codes[m.digest] for m in changed if m.outcome.is_valid}
        store.append_measurements(changed, codes)
        failures = _failures(found, files)
        best = fastest_measured(store)
        if best is None:
            _forget_failed(files, {m.digest for m in found}, on_event)
        rank, predicted_ns = _rank(measured, best.digest if best is not None else None)
        return Imported(
            run=store.folder,
            kernel=about.kernel,
            device=results.device,
            asked=problem.asked,
            measured=len(found),
            changed=len(changed),
            failures=failures,
            violations=tuple(_below_bound(found)),
            best=None if best is None else files.write_best(best),
            predicted_ns=predicted_ns,
            rank=rank,
            correlation=_correlation(problem, measured),
        )


def _failures(found: Sequence[Measurement], files: RunFiles) -> dict[Failure, FailureCount]:
    """Counts by class; of the first ones of each that is a defect, the record is written."""
    failures: dict[Failure, FailureCount] = {}
    for measurement in found:
        failure, message = measurement.outcome.failure, measurement.outcome.message
        if failure is None:
            continue
        before = failures.get(failure, FailureCount(0, message))
        failures[failure] = FailureCount(before.count + 1, before.first_message)
        if failure.is_defect and before.count < KEPT_DEFECTS:
            said = f"on {measurement.device}: {message}"
            files.write_defect(Failed(0, measurement.digest, failure, said, ()), measurement.decisions)
    return failures


def _below_bound(found: Sequence[Measurement]) -> list[BelowBound]:
    return [
        BelowBound(m.digest, timing.time_ns, m.bound_ns)
        for m in found
        if (timing := m.outcome.timing) is not None and is_violation(timing, m.bound_ns)
    ]


def _forget_failed(files: RunFiles, failed: set[str], on_event: Listener) -> None:
    """What was predicted to be the best and failed is not left behind under that name."""
    path = files.folder / "best.json"
    if path.is_file() and record.read(path).code.digest in failed:
        files.remove_best()
        on_event(
            Warned(
                f"{files.folder.name}: what was its best has failed, and nothing that was measured is right"
            )
        )


def _rank(measured: Sequence[Measured], best: str | None) -> tuple[int | None, float | None]:
    """The place of the best among those measured, by prediction, and what was predicted of it."""
    order = sorted((m.entry for m in measured), key=lambda entry: entry.predicted_ns)
    for place, entry in enumerate(order, 1):
        if entry.digest == best:
            return place, entry.predicted_ns
    return None, None


def _correlation(problem: ProblemResults, measured: Sequence[Measured]) -> float | None:
    timed: list[tuple[float, Timing]] = [
        (m.entry.predicted_ns, timing) for m in measured if (timing := problem.outcome(m).timing) is not None
    ]
    if len(timed) < FEWEST_RANKED:
        return None
    ranks = [np.argsort(np.argsort(times)) for times in zip(*((p, t.time_ns) for p, t in timed), strict=True)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])
