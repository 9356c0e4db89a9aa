"""Everything above the packages: wires language, engine, kernels, search and code generation together.

In: kernel files, spaces, folders of runs, records of implementations. Out: `Result`, `Replay`, callables on
NumPy arrays. Nothing here prints; whoever wants to watch passes a listener.
"""

from __future__ import annotations

import hashlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from spacedsl import kernels, record
from spacedsl.codegen.build import EnvironmentLack, find_compiler
from spacedsl.codegen.c_printer import print_header
from spacedsl.codegen.characterize import devices_folder, local_device
from spacedsl.codegen.evaluator import CpuEvaluator
from spacedsl.codegen.native import Function, build_function
from spacedsl.codegen.nest import check_decisions
from spacedsl.compiler import compile_space
from spacedsl.diagnostics import Source
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance, instantiate
from spacedsl.kernels.device import CpuDevice, load_device
from spacedsl.kernels.evaluation import Lowered, Outcome
from spacedsl.kernels.kernel_file import KernelFile, SizeOverrideError, check_kernel, load_kernel
from spacedsl.kernels.linalg.backbone import Op
from spacedsl.language import load_space
from spacedsl.language.space import Space
from spacedsl.record import CodeRecord, DecisionRecord, KernelRecord, Record, SpaceRecord
from spacedsl.search.bounds.cpu import CpuBound
from spacedsl.search.comparison import Finalist
from spacedsl.search.events import Event, NewBest, Progress
from spacedsl.search.orderings import select_ordering
from spacedsl.search.policies import POLICIES
from spacedsl.search.results import Stop
from spacedsl.search.run import ContradictionError, Options, Search, decided
from spacedsl.search.state import Trial
from spacedsl.search.store import About, DamagedError, Store, StoreError, new_folder
from spacedsl.search.tree import replay as follow

if TYPE_CHECKING:
    import pandas

__all__ = [
    "Best", "ChangedError", "DamagedError", "EmptySpaceError", "EnvironmentLack", "Planned", "Preparing",
    "Replay", "Result", "SizeOverrideError", "Stop", "StoreError", "UnknownNameError", "device_files", "emit", "explore", "load",
    "load_device", "load_kernel", "load_space", "local_device", "replay", "resume",
]  # fmt: skip

TARGETS = ("cpu",)
DEFAULT_POLICY = "tag"
_FLOPS = {Op.ADD: 1, Op.SUB: 1, Op.MUL: 1, Op.DIV: 1, Op.NEG: 1, Op.FMA: 2}


class UnknownNameError(ValueError):
    """A target or policy that does not exist; the message lists those that do."""


class EmptySpaceError(Exception):
    """The constraints, together with the decisions fixed by the kernel file, leave no implementation."""


class ChangedError(Exception):
    """A run or a record cannot be taken up again because what it was made from is another today."""


@dataclass(frozen=True, slots=True)
class Preparing:
    """What is done before the search starts."""

    activity: str


@dataclass(frozen=True, slots=True)
class Planned:
    """The budget of the whole run, over all its resumptions; None: no limit."""

    time_s: float | None
    evaluations: int | None


Activity = Event | Preparing | Planned
Listener = Callable[[Activity], None]


@dataclass(frozen=True, slots=True)
class Best:
    """The files of the fastest implementation, and its times in nanoseconds."""

    time_ns: float
    time_ci_ns: tuple[float, float]
    bound_ns: float
    code: Path
    header: Path
    decisions: Path
    is_tied: bool
    """Whether another implementation's time cannot be told from it."""


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What an exploration found. `flops` and `footprint_bytes` are those of one call of the kernel."""

    kernel: KernelFile
    target: str
    device: CpuDevice
    run: Path
    stop: Stop
    seed: int
    progress: Progress
    root_bound_ns: float | None
    trials: tuple[Trial, ...]
    best: Best | None

    @property
    def flops(self) -> int:
        """Floating-point operations of one call, a fused multiply-add counted as two."""
        return sum(
            _FLOPS.get(i.op, 0) * _product(d.extent for d in i.logical_dims)
            for i in self.kernel.backbone.instructions
        )

    @property
    def footprint_bytes(self) -> int:
        """Distinct bytes that one call reads or writes."""
        return sum(t.elements * t.dtype.nbytes for t in self.kernel.backbone.tensors)

    def to_pandas(self) -> pandas.DataFrame:
        """One row for each implementation that was met; needs pandas."""
        import pandas as pd

        rows = [
            {
                "iteration": t.iteration,
                "seconds": t.seconds,
                "digest": t.digest,
                "time_ns": t.outcome.timing.time_ns if t.outcome.timing is not None else None,
                "bound_ns": t.bound_ns,
                "failure": str(t.outcome.failure) if t.outcome.failure is not None else None,
                "is_duplicate": t.is_duplicate,
            }
            for t in self.trials
        ]
        return pd.DataFrame(
            rows, columns=["iteration", "seconds", "digest", "time_ns", "bound_ns", "failure", "is_duplicate"]
        )


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """One implementation, made and measured again."""

    record: Record
    code: str
    digest: str
    outcome: Outcome
    changes: tuple[str, ...]
    """What the code depends on and is not as it was: the space, the generator, the compiler."""

    @property
    def is_identical(self) -> bool:
        """Whether the code is the recorded one, byte by byte."""
        return self.digest == self.record.code.digest


@dataclass(frozen=True, slots=True, eq=False)
class _Problem:
    """A kernel, its space and a device, ready to be searched."""

    kernel: KernelFile
    space: Space
    space_path: Path
    device: CpuDevice
    instance: Instance
    root: Candidate
    """With the decisions that the kernel file fixes."""


def _problem(kernel: KernelFile, space_path: Path, device: CpuDevice, on_event: Listener) -> _Problem:
    on_event(Preparing(f"compiling {space_path.name}"))
    space = load_space(space_path)
    check_decisions(space, Source.read(space_path))
    compiled = compile_space(space)
    on_event(Preparing(f"building the space of {kernel.name}"))
    instance = instantiate(compiled, kernel.backbone, device)
    root = instance.root()
    if root is None:
        raise EmptySpaceError(f"{space_path}: the constraints leave no implementation of `{kernel.name}`")
    try:
        root = decided(instance, root, kernel.decisions)
    except ContradictionError as error:
        raise EmptySpaceError(f"{kernel.path}: {error}") from None
    except KeyError as error:
        raise UnknownNameError(f"{kernel.path}: decisions: {error.args[0]}") from None
    return _Problem(kernel, space, space_path, device, instance, root)


def explore(
    kernel: KernelFile | Path | str,
    *,
    sizes: Mapping[str, int] | None = None,
    space: Path | None = None,
    target: str = "cpu",
    time_s: float | None = None,
    evaluations: int | None = None,
    seed: int = 0,
    ordering: str | None = None,
    policy: str | None = None,
    runs: Path = Path("runs"),
    on_event: Listener = lambda event: None,
) -> Result:
    """Searches for the fastest implementation of a kernel until the budget or the space is spent.

    `sizes` replace those of a kernel file that is given by its path. Without `time_s` and `evaluations` the
    search ends only with the space. Everything is kept in a new folder below `runs`.

    Raises `DiagnosticError` for what is wrong in a file, `UnknownNameError`, `EmptySpaceError`,
    `EnvironmentLack`.
    """
    if not isinstance(kernel, KernelFile):
        kernel = load_kernel(Path(kernel), sizes or {})
    policy = policy or DEFAULT_POLICY
    _known("target", target, TARGETS)
    _known("policy", policy, POLICIES)
    compiler = find_compiler()
    device = _device(on_event)
    problem = _problem(kernel, (space or kernel.space).resolve(), device, on_event)
    select_ordering(problem.instance, problem.space, ordering)
    about = About(
        kernel=kernel.name,
        kernel_path=str(kernel.path.resolve()),
        kernel_text=kernel.text,
        sizes=dict(kernel.sizes),
        space_path=str(problem.space_path),
        space_digest=problem.space.digest,
        space_text=problem.space_path.read_text(encoding="utf-8-sig"),
        target=target,
        device=device.model_dump(mode="json"),
        compiler=compiler.version,
        generator_digest=generator_digest(),
        flags=compiler.flags,
        seed=seed,
        ordering=ordering,
        policy=policy,
        seconds=time_s,
        evaluations=evaluations,
        version=metadata.version("spacedsl"),
    )
    folder = new_folder(runs, kernel.name, datetime.now()).resolve()
    with Store.create(folder, about) as store:
        return _search(problem, about, store, on_event)


def resume(
    run: Path | str,
    *,
    time_s: float | None = None,
    evaluations: int | None = None,
    on_event: Listener = lambda event: None,
) -> Result:
    """Goes on with a run where it stood. A budget that is given here comes on top of what has been spent.

    Raises `StoreError` where there is no run, `ChangedError` where its space or generator has changed.
    """
    folder = Path(run).resolve()
    with Store.open(folder) as store:
        about = store.about()
        kernel = check_kernel(
            Source(about.kernel_path, about.kernel_text), Path(about.kernel_path), about.sizes
        )
        device = CpuDevice.model_validate(about.device)
        problem = _problem(kernel, Path(about.space_path), device, on_event)
        if problem.space.digest != about.space_digest:
            raise ChangedError(f"{about.space_path} has changed since {folder.name} began: explore anew")
        if generator_digest() != about.generator_digest:
            raise ChangedError(f"the code generator has changed since {folder.name} began: explore anew")
        if time_s is not None or evaluations is not None:
            spent_s, spent = store.spent()
            about = replace(
                about,
                seconds=None if time_s is None else spent_s + time_s,
                evaluations=None if evaluations is None else spent + evaluations,
            )
        return _search(problem, about, store, on_event)


def _search(problem: _Problem, about: About, store: Store, on_event: Listener) -> Result:
    evaluator = CpuEvaluator(problem.kernel, problem.device)
    files = _BestFiles(store.folder, about, problem.kernel)

    def listen(event: Event) -> None:
        if isinstance(event, NewBest):
            candidate = follow(problem.instance, problem.root, event.steps)
            lowered = evaluator.lower(candidate)
            assert isinstance(lowered, Lowered)
            files.write(
                Finalist(candidate, lowered.digest, lowered.code, event.timing, event.bound_ns, is_tied=False)
            )
        on_event(event)

    search = Search(
        problem.instance,
        bound=CpuBound(problem.instance, problem.device),
        evaluator=evaluator,
        ordering=select_ordering(problem.instance, problem.space, about.ordering),
        policy=POLICIES[about.policy](),
        options=Options(seed=about.seed, seconds=about.seconds, evaluations=about.evaluations),
        decisions=problem.kernel.decisions,
        store=store,
        listener=listen,
    )
    on_event(Planned(about.seconds, about.evaluations))
    with _interruptible(search):
        found = search.run()
    best = None if found.best is None else files.write(found.best)
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
        best=best,
    )


@dataclass(frozen=True, slots=True)
class _BestFiles:
    """`best.c`, `best.h` and `best.json` of a run. Each is replaced at once; the record comes last."""

    folder: Path
    about: About
    kernel: KernelFile

    def write(self, best: Finalist) -> Best:
        name, tensors, parameters = (
            self.kernel.name,
            self.kernel.backbone.tensors,
            self.kernel.backbone.parameters,
        )
        code, header, decisions = (self.folder / f"best.{suffix}" for suffix in ("c", "h", "json"))
        record.replace_text(code, best.code)
        record.replace_text(header, print_header(name, tensors, parameters))
        record.write(_record(best, self.about), decisions)
        timing = best.timing
        return Best(
            time_ns=timing.time_ns,
            time_ci_ns=(timing.low_ns, timing.high_ns),
            bound_ns=best.bound_ns,
            code=code,
            header=header,
            decisions=decisions,
            is_tied=best.is_tied,
        )


def _record(best: Finalist, about: About) -> Record:
    return Record(
        kernel=KernelRecord(
            name=about.kernel, path=about.kernel_path, text=about.kernel_text, sizes=dict(about.sizes)
        ),
        space=SpaceRecord(path=about.space_path, digest=about.space_digest),
        target="cpu",
        device=dict(about.device),
        code=CodeRecord(
            digest=best.digest,
            generator=about.generator_digest,
            compiler=about.compiler,
            flags=about.flags,
        ),
        time_ns=best.timing.time_ns,
        time_ci_ns=(best.timing.low_ns, best.timing.high_ns),
        samples=best.timing.samples,
        bound_ns=best.bound_ns,
        verified=True,
        decisions=tuple(
            DecisionRecord(choice=d.choice, objects=d.objects, values=d.values) for d in best.decisions
        ),
    )


@contextmanager
def _interruptible(search: Search) -> Iterator[None]:
    """The first Ctrl-C (or SIGTERM) ends the search after the evaluation in progress, the second at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        search.interrupt()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def replay(path: Path | str, *, on_event: Listener = lambda event: None) -> Replay:
    """Rebuilds the implementation of a record, compares its code, checks it and measures it again."""
    recorded = record.read(Path(path))
    problem, lowered, evaluator = _rebuilt(recorded, Path(path), on_event)
    compiler = find_compiler()
    then_and_now = {
        f"the space {recorded.space.path}": (recorded.space.digest, problem.space.digest),
        "the code generator": (recorded.code.generator, generator_digest()),
        f"the compiler, then {recorded.code.compiler}": (recorded.code.compiler, compiler.version),
        "the flags of the compiler": (recorded.code.flags, compiler.flags),
    }
    on_event(Preparing("building, checking and measuring"))
    with evaluator:
        outcome = evaluator.run(lowered, None)
    changes = tuple(what for what, (then, now) in then_and_now.items() if then != now)
    return Replay(recorded, lowered.code, lowered.digest, outcome, changes)


def load(path: Path | str) -> Function:
    """The implementation of a record as a function on NumPy arrays: `load("best.json")(A, B)` gives C.

    Its code is rebuilt from the decisions and compiled here; the record's own `best.c` is not needed.
    """
    problem, lowered, _ = _rebuilt(record.read(Path(path)), Path(path), lambda event: None)
    return build_function(problem.kernel.backbone, lowered.code)


def emit(path: Path | str) -> str:
    """The C code of the implementation of a record."""
    recorded = record.read(Path(path))
    return _rebuilt(recorded, Path(path), lambda event: None)[1].code


def _rebuilt(recorded: Record, path: Path, on_event: Listener) -> tuple[_Problem, Lowered, CpuEvaluator]:
    source = Source(str(path), recorded.kernel.text)
    kernel = check_kernel(source, Path(recorded.kernel.path), recorded.kernel.sizes)
    problem = _problem(kernel, Path(recorded.space.path), CpuDevice.model_validate(recorded.device), on_event)
    try:
        candidate = decided(problem.instance, problem.root, recorded.as_decisions())
    except (ContradictionError, KeyError) as error:
        raise ChangedError(
            f"{path}: its decisions are not possible in {recorded.space.path} of today: {error}"
        ) from None
    if not candidate.is_complete:
        raise ChangedError(f"{path}: its decisions leave others open in {recorded.space.path} of today")
    evaluator = CpuEvaluator(kernel, problem.device)
    lowered = evaluator.lower(candidate)
    if isinstance(lowered, Outcome):
        raise ChangedError(f"{path}: no code can be made of its decisions: {lowered.message}")
    return problem, lowered, evaluator


def generator_digest() -> str:
    """SHA-256 of the code generator's sources: with other ones, other code for the same decisions."""
    folder = Path(__file__).parent / "codegen"
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.suffix in {".py", ".c", ".h"}):
        digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def device_files() -> tuple[Path, ...]:
    """Descriptions of machines: those shipped, then those measured here."""
    shipped = Path(kernels.__file__).parent / "devices"
    return (*sorted(shipped.glob("*.yaml")), *sorted(devices_folder().glob("*.yaml")))


def _device(on_event: Listener) -> CpuDevice:
    return local_device(progress=lambda activity: on_event(Preparing(activity)))


def _known(kind: str, name: str, names: tuple[str, ...] | Mapping[str, object]) -> None:
    if name not in names:
        raise UnknownNameError(f"no {kind} is called `{name}`; known: {', '.join(names)}")


def _product(factors: Iterator[int]) -> int:
    result = 1
    for factor in factors:
        result *= factor
    return result
