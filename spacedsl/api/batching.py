"""Offline batches: implementations for a GPU that is somewhere else, in a folder of their own.

In: folders of runs for a GPU, of each of which the best are taken, and records (`best.json`). Out: a folder
that a machine with such a GPU runs by itself. Nothing is run here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from spacedsl.api.exploration import pose_again
from spacedsl.api.problem import ChangedError, Listener, Preparing, Problem, UnknownNameError
from spacedsl.api.replaying import recorded_implementation
from spacedsl.api.targets import TARGETS
from spacedsl.codegen.cuda.batches.folders import occupied
from spacedsl.codegen.cuda.batches.writing import Batched, BatchedProblem, names, write_batch
from spacedsl.codegen.cuda.nvrtc import is_target, version
from spacedsl.codegen.cuda.printer import print_cuda
from spacedsl.codegen.generation import generation
from spacedsl.codegen.lack import EnvironmentLack
from spacedsl.codegen.running.memory import check_memory
from spacedsl.codegen.tree.errors import LoweringError, VerificationError
from spacedsl.codegen.tree.verify import verify
from spacedsl.engine.candidate import Candidate
from spacedsl.files import resolved
from spacedsl.kernels.backbones import MeasurableKernel
from spacedsl.kernels.evaluation import Lowered
from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.record import MeasuredRecord, read
from spacedsl.search.restoring import implementations
from spacedsl.search.state import Contender
from spacedsl.search.store import Store, holds_run
from spacedsl.search.tree import replay as follow

DEFAULT_TOP = 100


class NothingToMeasureError(UnknownNameError):
    """Of the runs, nothing is left that is right and has not been measured."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What a folder holds."""

    implementations: int
    problems: int
    refused: int
    """Implementations that are left out, since the compiler takes them for no code of this GPU."""
    given_up: int
    """The same, since the compiler takes too long for them."""


@dataclass(slots=True)
class _Gathered:
    """What is found of one kernel."""

    kernel: MeasurableKernel
    implementations: list[Batched] = field(default_factory=list)
    runs: list[Path] = field(default_factory=list)


def batch(
    sources: Sequence[Path],
    folder: Path,
    *,
    top: int = DEFAULT_TOP,
    others: int = 0,
    seed: int = 0,
    has_cases: bool = True,
    on_event: Listener = lambda event: None,
) -> Batch:
    """Writes a folder with the implementations of records, and, `top` of each run, those that are predicted
    to be the fastest and have not been measured, with so many `others`, evenly spread over all slower ones.
    `seed`: of the values of test cases, which the other machine makes itself without `has_cases`.

    The folder is a new or an empty one, or that of an earlier batch that has not been run, which is replaced.

    Raises `UnknownNameError` for another folder and for what is not for one GPU, `StoreError` where there is
    no run, `ChangedError` where the space or the generator has changed since, `EnvironmentLack`; for records
    what `replay` does.
    """
    if (why := occupied(folder)) is not None:
        raise UnknownNameError(why)
    gathered: dict[tuple[object, ...], _Gathered] = {}
    device: GpuDevice | None = None
    for source in sources:
        problem, found, run = (
            _of_run(source, top, others, on_event) if source.is_dir() else _of_record(source)
        )
        assert isinstance(problem.device, GpuDevice)
        device = device or problem.device
        if problem.device != device:
            raise UnknownNameError(f"{source}: for {problem.device.name}, and {sources[0]} for {device.name}")
        key = (problem.kernel.text, tuple(sorted(problem.kernel.sizes.items())))
        entry = gathered.setdefault(key, _Gathered(problem.kernel))
        entry.implementations += found
        entry.runs += [run] if run is not None and run not in entry.runs else []
    if device is None or not any(each.implementations for each in gathered.values()):
        raise NothingToMeasureError(
            "a batch of no implementations: all have been measured, or none was right"
        )
    if not is_target(device.compute_capability):
        raise EnvironmentLack(f"{version()} no longer knows the architecture of {device.name}")
    problems = [
        BatchedProblem(each.kernel, tuple(each.implementations), tuple(each.runs))
        for each in gathered.values()
        if each.implementations
    ]
    if (why := occupied(folder, tuple(names(problems)))) is not None:
        raise UnknownNameError(why)
    for each in gathered.values() if has_cases else ():
        check_memory(each.kernel, 0)
    on_event(Preparing("compiling"))
    written = write_batch(folder, device, problems, seed, has_cases=has_cases)
    return Batch(written.implementations, len(problems), written.refused, written.given_up)


Found = tuple[Problem, list[Batched], Path | None]
"""A problem, implementations of it, and the run that they belong to."""


def _of_run(folder: Path, top: int, others: int, on_event: Listener) -> Found:
    folder = resolved(folder)
    with Store.open(folder, read_only=True) as store:
        about = store.about()
        if about.target != "cuda":
            raise UnknownNameError(f"{folder}: a run for a CPU, whose times are measured already")
        problem = pose_again(about, folder, on_event)
        target = TARGETS[about.target]
        bound = target.bound(problem.instance, problem.device)
        measured = {measurement.digest for measurement in store.measurements()}
        contenders = implementations(problem.instance, problem.root, bound, store)
    found: list[Batched] = []
    unmeasured = [c for c in contenders if c.digest not in measured]
    for contender in [*unmeasured[:top], *_spread(unmeasured[top:], others)]:
        candidate = follow(problem.instance, problem.root, contender.steps)
        batched = _batched(problem, candidate, contender.timing.time_ns, contender.bound_ns)
        lowered = Lowered.of(print_cuda(batched.program))
        if lowered.digest != contender.digest:
            raise ChangedError(f"the code generator has changed since {folder.name} began: explore anew")
        found.append(batched)
    return problem, found, folder


def _spread(contenders: Sequence[Contender], count: int) -> list[Contender]:
    """So many of them, the last one among them, at even distances."""
    count = min(count, len(contenders))
    return [contenders[(n + 1) * len(contenders) // count - 1] for n in range(count)]


def _of_record(path: Path) -> Found:
    recorded = read(path)
    if recorded.target != "cuda" or not isinstance(recorded, MeasuredRecord):
        raise UnknownNameError(f"{path}: not an implementation for a GPU that is right")
    run = path.parent.resolve() if holds_run(path.parent) else None
    predicted_ns = recorded.time_ns if recorded.measured_on is None else _predicted_ns(recorded, run)
    if predicted_ns is None:
        raise UnknownNameError(f"{path}: measured, and what was predicted only its run knows")
    problem, candidate = recorded_implementation(recorded, path)
    return problem, [_batched(problem, candidate, predicted_ns, recorded.bound_ns)], run


def _predicted_ns(recorded: MeasuredRecord, run: Path | None) -> float | None:
    """What a run predicted of an implementation that has been measured since."""
    if run is None:
        return None
    with Store.open(run, read_only=True) as store:
        return store.predicted_ns(recorded.code.digest)


def _batched(problem: Problem, candidate: Candidate, predicted_ns: float, bound_ns: float) -> Batched:
    try:
        program = verify(generation(problem.kernel).lower_grids(problem.kernel, candidate))
    except (LoweringError, VerificationError) as error:
        raise ChangedError(
            f"the code generator has changed: of a recorded implementation it makes no code now: {error}"
        ) from None
    return Batched(program, predicted_ns, bound_ns, candidate.decisions())
