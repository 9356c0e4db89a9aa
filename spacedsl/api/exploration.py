"""Explorations: a new one, or one that goes on where it stood.

In: a kernel, budgets and options, or the folder of a run. Out: a `Result`. Here the search meets its bound,
evaluator, ordering, policy and store.
"""

from __future__ import annotations

import hashlib
import operator
import signal
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from time import monotonic
from types import FrameType

from spacedsl import c_compilers
from spacedsl.api.bounding import check_bounded
from spacedsl.api.problem import (
    ChangedError,
    Defect,
    Listener,
    Planned,
    Problem,
    Stopping,
    Warned,
    apply,
    check_known,
    generator_digest,
    load_rules,
    pose,
    searched_by,
)
from spacedsl.api.results import Fastest, Result, RunFiles, fastest_measured
from spacedsl.api.targets import TARGETS, PatientEvaluator, SearchBound, Target, recorded_machine
from spacedsl.codegen.lack import EnvironmentLack
from spacedsl.codegen.machine import processor
from spacedsl.commands import command
from spacedsl.engine.candidate import Candidate
from spacedsl.files import resolved
from spacedsl.kernels.backbones import MeasurableKernel, check_recorded, load_measurable
from spacedsl.kernels.evaluation import Lowered
from spacedsl.kernels.search_options import budget_s
from spacedsl.kernels.sizes import SizeOverrideError
from spacedsl.search.events import Event, Failed, NewBest, Violation
from spacedsl.search.orderings import select_ordering, select_rollouts
from spacedsl.search.policies import POLICIES
from spacedsl.search.run import Options, Search
from spacedsl.search.run_folders import check_parent, new_folder
from spacedsl.search.store import About, Store
from spacedsl.search.tree import Step
from spacedsl.search.tree import replay as follow

DEFAULT_POLICY = "near"


def explore(
    kernel: MeasurableKernel | Path | str,
    *,
    sizes: Mapping[str, int] | None = None,
    space: Path | str | None = None,
    target: str = "cpu",
    device: str | None = None,
    time: float | str | None = None,
    evaluations: int | None = None,
    seed: int = 0,
    ordering: str | None = None,
    policy: str | None = None,
    runs: Path | str = "runs",
    on_event: Listener = lambda event: None,
) -> Result:
    """Searches for the fastest implementation of a kernel until the budget or the space is spent.

    `sizes` replace those of a kernel file that is given by its path. `device` names a GPU, or the file of
    one; times on it are predicted. `time` is a number of seconds, or text such as `90s`, `3m`, `1h30m`.
    Without `time` and `evaluations` the search ends only with the space. Everything is kept in a new folder
    below `runs`.

    Raises `DiagnosticError` for what is wrong in a file, `SizeOverrideError` for wrong `sizes`, `ValueError`
    for what is no length of time, no number of evaluations and no seed, `UnknownNameError`,
    `EmptySpaceError`, `StoreError` or `OSError` where no run can be kept, `EnvironmentLack`, `TooLargeError`
    (a `DiagnosticError`) for a kernel that is too large for this machine.
    """
    if isinstance(kernel, Path | str):
        kernel = load_measurable(kernel, sizes or {})
    elif sizes:
        raise SizeOverrideError(f"`{kernel.name}` has been read already: give `load_kernel` its sizes")
    runs, seed, evaluations = Path(runs), _count("seed", seed), _evaluations(evaluations)
    policy = DEFAULT_POLICY if policy is None else policy
    check_known("target", target, TARGETS)
    check_known("policy", policy, POLICIES)
    time_s = _seconds(time)
    check_parent(resolved(runs))
    made_for = TARGETS[target]
    kernel = kernel.made_for(made_for.kind)
    compiler, flags = made_for.compiler()
    for remark in kernel.remarks:
        on_event(Warned(f"{remark.span}: {remark.message}"))
    # What is wrong in a file is said before this machine is measured.
    path = resolved(Path(space or kernel.space_for(made_for.kind)))
    rules = load_rules(path, kernel, made_for.kind, on_event)
    machine = made_for.device(device, on_event)
    made_for.check(kernel, machine)
    problem = apply(rules, kernel, machine, on_event)
    bound = made_for.bound(problem.instance, problem.device)
    check_bounded(problem, bound, problem.root)
    select_ordering(problem.instance, problem.space, ordering)
    about = About(
        kernel=kernel.name,
        kernel_path=str(kernel.path.resolve()),
        kernel_text=kernel.text,
        sizes=dict(kernel.sizes),
        space_path=str(problem.space_path),
        space_digest=problem.space.digest,
        space_text="\n".join(Path(s).read_text(encoding="utf-8-sig") for s in problem.space.sources),
        target=target,
        device=machine.model_dump(mode="json"),
        processor=processor.model_name(),
        processor_digest=_processor_digest(),
        cpus=processor.usable_cpus(),
        compiler=compiler,
        generator_digest=generator_digest(),
        flags=flags,
        seed=seed,
        ordering=ordering,
        policy=policy,
        seconds=time_s,
        evaluations=evaluations,
        version=searched_by(),
    )
    folder = new_folder(runs, kernel.name, datetime.now()).resolve()
    with Store.create(folder, about) as store, _resumable(folder):
        return _search(problem, made_for, bound, about, store, on_event)


def resume(
    run: Path | str,
    *,
    time: float | str | None = None,
    evaluations: int | None = None,
    on_event: Listener = lambda event: None,
) -> Result:
    """Goes on with a run where it stood. A budget that is given here comes on top of what has been spent, and
    stays the run's when it is interrupted again; `time` is as for `explore`.

    Raises `StoreError` where there is no run, `DamagedError` where it cannot be read, `ChangedError` where
    its space, the generator, the search, the compiler, the processor or the number of CPUs has changed.
    """
    folder, time_s, evaluations = resolved(Path(run)), _seconds(time), _evaluations(evaluations)
    with Store.open(folder) as store:
        about = store.about()
        if about.policy not in POLICIES:
            raise ChangedError(f"{folder.name} went by a policy `{about.policy}`, which there is not")
        made_for, _ = recorded_machine(about.target, about.device, folder)
        problem = pose_again(about, folder, on_event)
        if generator_digest() != about.generator_digest:
            raise ChangedError(f"the code generator has changed since {folder.name} began: explore anew")
        if searched_by() != about.version:
            raise ChangedError(
                f"{folder.name} was searched by spacedsl {about.version}, and this is {searched_by()}: "
                "explore anew"
            )
        compiler = made_for.compiler()
        if compiler != (about.compiler, about.flags):
            raise ChangedError(
                f"{folder.name} was measured with {about.compiler}, and the compiler is now "
                f"{compiler[0]}, or has other flags: explore anew"
            )
        _check_processor(about, folder.name, on_event)
        if time_s is not None or evaluations is not None:
            spent_s, spent = store.spent()
            about = replace(
                about,
                seconds=None if time_s is None else spent_s + time_s,
                evaluations=None if evaluations is None else spent + evaluations,
            )
            store.plan(about.seconds, about.evaluations)
        with _resumable(folder):
            bound = made_for.bound(problem.instance, problem.device)
            return _search(problem, made_for, bound, about, store, on_event)


def pose_again(about: About, run: Path, on_event: Listener) -> Problem:
    """The problem of an earlier run.

    Raises `ChangedError` where its space has changed, else what `pose` does.
    """
    made_for, device = recorded_machine(about.target, about.device, run)
    kernel = check_recorded(about.kernel_path, about.kernel_text, about.sizes, made_for.kind)
    problem = pose(kernel, Path(about.space_path), device, on_event)
    if problem.space.digest != about.space_digest:
        raise ChangedError(f"{about.space_path} has changed since {run.name} began: explore anew")
    return problem


@contextmanager
def _resumable(folder: Path) -> Iterator[None]:
    """A refusal of this machine, or a second Ctrl-C, in the middle of a run ends only this part of it."""
    try:
        yield
    except (EnvironmentLack, OSError, MemoryError, KeyboardInterrupt) as error:
        error.add_note(f"all until then is saved, go on with: {command('resume', folder)}")
        raise


def _seconds(time: float | str | None) -> float | None:
    """Of a budget; raises `ValueError` for what is no length of time."""
    seconds = None if time is None else budget_s(time)
    if seconds is None and time is not None:
        raise ValueError(f"{time!r} is not a length of time: '90s', '3m', '1h30m' or a number of seconds")
    return seconds


def _evaluations(given: int | None) -> int | None:
    """Of a budget; raises `ValueError` for what is no number of them."""
    return None if given is None else _count("evaluations", given)


def _count(name: str, given: int) -> int:
    """Numbers of NumPy are numbers."""
    with suppress(TypeError):
        if (count := operator.index(given)) >= 0:
            return count
    raise ValueError(f"`{name}` is a whole number from 0 on, not {given!r}")


def _processor_digest() -> str:
    return hashlib.sha256(c_compilers.processor().encode()).hexdigest()


def _check_processor(about: About, run: str, on_event: Listener) -> None:
    """Times of another machine are no cut for this one: raises `ChangedError`."""
    if about.processor_digest != _processor_digest():
        here = processor.model_name()
        other = here if here != about.processor else "another one of that name, with other features"
        raise ChangedError(f"{run} was measured on {about.processor}, and this is {other}: explore anew")
    cpus = processor.usable_cpus()
    if len(cpus) != len(about.cpus):
        raise ChangedError(
            f"{run} was measured on {len(about.cpus)} CPUs, and {len(cpus)} may be used now: explore anew, "
            f"or resume with the affinity of then (taskset -c {','.join(map(str, about.cpus))})"
        )
    if cpus != about.cpus:
        then, now = (",".join(map(str, some)) for some in (about.cpus, cpus))
        on_event(Warned(f"{run} was measured on the CPUs {then}, and goes on with {now}"))


@dataclass(slots=True)
class _Keeper:
    """Keeps the files of a run true while its search goes on, and passes on what happens."""

    problem: Problem
    target: Target
    evaluator: PatientEvaluator
    files: RunFiles
    on_event: Listener
    defects: dict[str, Defect] = field(default_factory=dict)
    """By the digest of the code."""
    is_device_raised: bool = False
    best_digest: str = ""
    is_measured: bool = False
    """Whether the best is what a GPU measured, which no prediction replaces."""

    def listen(self, event: Event) -> None:
        match event:
            case Violation(scale=scale):
                self.is_device_raised |= self.target.raise_peaks(self.problem.device, 1 / scale)
            case Failed(digest=digest) if digest == self.best_digest:
                self.files.remove_best()
            case NewBest() if not self.is_measured:
                self._keep_best(event)
        if isinstance(event, Failed) and event.failure.is_defect:
            self.on_event(self.keep(event))
        else:
            self.on_event(event)

    def keep(self, failed: Failed) -> Defect:
        """Writes the record of an implementation that should not be there."""
        defect = self.files.write_defect(failed, self._candidate(failed.steps).decisions())
        self.defects[failed.digest] = defect
        return defect

    def _keep_best(self, event: NewBest) -> None:
        self.best_digest = event.digest
        candidate = self._candidate(event.steps)
        lowered = self.evaluator.lower(candidate)
        assert isinstance(lowered, Lowered)
        self.files.write_best(
            Fastest(lowered.digest, lowered.code, candidate.decisions(), event.timing, event.bound_ns)
        )

    def _candidate(self, steps: Iterable[Step]) -> Candidate:
        return follow(self.problem.instance, self.problem.root, steps)


def _search(
    problem: Problem, target: Target, bound: SearchBound, about: About, store: Store, on_event: Listener
) -> Result:
    evaluator = target.evaluator(problem.kernel, problem.device, on_event)
    files = RunFiles(store.folder, about, problem.kernel, target.suffix)
    measured = fastest_measured(store)
    keeper = _Keeper(problem, target, evaluator, files, on_event, is_measured=measured is not None)
    if bound.no_native is not None:
        on_event(Warned(f"the reference computes bounds, some hundred times slower: {bound.no_native}"))
    costs, estimate_ns = target.costs(problem.instance, problem.device), target.estimate_ns(evaluator)
    search = Search(
        problem.instance,
        bound=bound,
        evaluator=evaluator,
        ordering=select_ordering(problem.instance, problem.space, about.ordering),
        rollouts=select_rollouts(problem.instance, problem.space, about.ordering),
        policy=POLICIES[about.policy](),
        options=Options(
            seed=about.seed,
            seconds=about.seconds,
            evaluations=about.evaluations,
            bounded_every=target.bounded_every,
            batch=target.batch,
            processes=len(processor.usable_cpus()),
        ),
        decisions=problem.kernel.decisions,
        costs=costs,
        needs=target.needs(problem.kernel, problem.instance, problem.device),
        estimate_ns=estimate_ns,
        store=store,
        failed={m.digest for m in store.measurements() if not m.outcome.is_valid},
        listener=keeper.listen,
        # What others build and measure meanwhile is no part of this run's time.
        clock=lambda: monotonic() - evaluator.waited_s,
    )
    on_event(Planned(about.seconds, about.evaluations))
    with _interruptible(search, on_event):
        found = search.run()
    best = measured or (None if found.best is None else Fastest.of(found.best))
    if best is None:
        files.remove_best()
    for failed in found.defects:
        # Those of earlier parts of the run: a process that was killed may have left one unwritten.
        if failed.digest not in keeper.defects:
            keeper.keep(failed)
    return Result(
        kernel=problem.kernel,
        target=about.target,
        device=problem.device,
        run=store.folder,
        stop=found.stop,
        seed=found.seed,
        progress=found.progress,
        root_bound_ns=found.root_bound_ns,
        trials=found.trials,
        best=None if best is None else files.write_best(best),
        defects=tuple(keeper.defects[failed.digest] for failed in found.defects),
        is_device_raised=keeper.is_device_raised,
    )


@contextmanager
def _interruptible(search: Search, on_event: Listener) -> Iterator[None]:
    """The first Ctrl-C (or SIGTERM) ends the search after the evaluation in progress, the second at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    numbers = signal.SIGINT, signal.SIGTERM

    def stop(number: int, frame: FrameType | None) -> None:
        for each in numbers:
            signal.signal(each, signal.default_int_handler)
        search.interrupt()
        on_event(Stopping())

    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
