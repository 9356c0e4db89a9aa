"""The CPU's evaluator: complete candidates become C, are built, checked against NumPy, and timed.

In: a kernel file, a device, then candidates. Out: code and `Outcome`s. Code runs in a worker process,
which is replaced after every failure, since its memory may be corrupt. Building and measuring hold a
machine-wide lock, so that two runs do not disturb each other. Which candidates are worth a run is for
the search to say.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from spacedsl.codegen.c.build import BuildError, build_library, find_compiler
from spacedsl.codegen.c.names import entry_name
from spacedsl.codegen.c.printer import print_c, print_units
from spacedsl.codegen.c.units import Units
from spacedsl.codegen.generation import generation
from spacedsl.codegen.lock import machine_lock
from spacedsl.codegen.machine import processor
from spacedsl.codegen.pipeline.lower import Made
from spacedsl.codegen.running.measurement import Measurement, Options
from spacedsl.codegen.running.memory import flush_bytes
from spacedsl.codegen.running.process import WorkerFailure
from spacedsl.codegen.running.turns import Turns
from spacedsl.codegen.running.workers import Workers, unheard
from spacedsl.codegen.scratch import scratch_folder, sweep, writing_to
from spacedsl.codegen.tree.errors import LoweringError, VerificationError
from spacedsl.codegen.tree.parts import timed_phases
from spacedsl.codegen.tree.verify import verify
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.instance import Instance
from spacedsl.kernels.backbones import MeasurableKernel
from spacedsl.kernels.device import CpuDevice
from spacedsl.kernels.evaluation import Failure, Lowered, Outcome, Timing

REMEMBERED = 100
"""Programs whose text is not made again: what is measured, then the best, then compared with others."""

OFTEN, OF_SAMPLES = 0.25, 1000
"""The share of samples that others disturb from which on users should know, once there are so many."""


def _refuse() -> None:
    raise BlockingIOError


@dataclass(frozen=True, slots=True)
class _Glanced:
    """A program that is looked at again and again."""

    library: Path
    """Its own, which nothing else removes."""
    measurement: Measurement


@dataclass(slots=True, eq=False)
class CpuEvaluator:
    """Implements `spacedsl.kernels.evaluation.Evaluator`. A context manager: `open` and `close` around it."""

    kernel: MeasurableKernel
    device: CpuDevice
    options: Options = field(default_factory=Options)
    warn: Callable[[str], None] = unheard
    """Hears, once each, that other processes build and measure here, too; that others disturb samples."""
    waits: Callable[[bool], None] = unheard
    """Hears each time that this one begins to wait for them, and that it goes on."""
    tell: Callable[[str], None] = unheard
    """Hears what takes long."""
    waited_s: float = field(default=0.0, init=False)
    """How long other processes have kept this one from building and measuring."""
    _waiting_since_s: float | None = field(default=None, init=False)
    _samples: int = field(default=0, init=False)
    _disturbed: int = field(default=0, init=False)
    _is_told: bool = field(default=False, init=False)
    workers: Workers = field(init=False)
    _ahead: ExitStack = field(default_factory=ExitStack, init=False)
    _held: ExitStack | None = field(default=None, init=False)
    """The lock, from where something is begun until it is needed."""
    _lowered: dict[tuple[Instance, bytes], Lowered | Outcome] = field(default_factory=dict, init=False)
    """By the decisions, which a vector says together with its instance."""
    _phases: Made = field(default_factory=dict, init=False)
    """Nests that programs may have in common."""
    _kept: ExitStack = field(default_factory=ExitStack, init=False)
    """While the evaluator is open."""
    _folder: Path | None = field(default=None, init=False)
    _units: Units | None = field(default=None, init=False)
    _built: dict[Lowered, Path | BuildError] = field(default_factory=dict, init=False)
    """Libraries, or why there are none; in a folder that `_ahead` removes."""
    _glanced: dict[Lowered, _Glanced] = field(default_factory=dict, init=False)
    """What was glanced at last."""

    def __post_init__(self) -> None:
        flushed = flush_bytes(self.kernel, self.device)
        self.workers = Workers(self.kernel, flushed, self.options, tell=self.tell)

    def open(self) -> None:
        """Begins to make the test cases: what needs them waits, and raises what `Workers.ready` does."""
        sweep()
        find_compiler()
        try:
            self.workers.begin()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        try:
            self._settle()
        finally:
            self._forget_built()
            self._glanced.clear()
            self._kept.close()
            self._folder = self._units = None
            self.workers.close()

    def __enter__(self) -> CpuEvaluator:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def lower(self, candidate: Candidate) -> Lowered | Outcome:
        """The code of a complete candidate; that of the last ones is remembered."""
        key = candidate.instance, candidate.vector.tobytes()
        if key not in self._lowered:
            self._lowered[key] = self._made(candidate)
        if len(self._lowered) > REMEMBERED:
            del self._lowered[next(iter(self._lowered))]
        return self._lowered[key]

    def _made(self, candidate: Candidate) -> Lowered | Outcome:
        try:
            lower = generation(self.kernel).lower
            program = verify(lower(self.kernel, self.device, candidate, self._phases))
        except (LoweringError, VerificationError) as error:
            return Outcome(None, Failure.LOWERING, str(error))
        threads, phases = self.device.threads, timed_phases(program)
        return Lowered.of(print_c(program, threads), phases, print_units(program, threads) if phases else ())

    @contextmanager
    def _machine_lock(self) -> Iterator[None]:
        """Held already where something was begun."""
        held, self._held = self._held, None
        if held is not None:
            with held:
                yield
            return
        with machine_lock(self.options.lock, self._wait):
            if self._waiting_since_s is not None:
                self.waited_s += time.monotonic() - self._waiting_since_s
                self._waiting_since_s = None
                self.waits(False)
            yield

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """For what measures: nothing is built meanwhile, here neither."""
        with self._machine_lock():
            if self._units is not None:
                self._units.settle()
            yield

    def _wait(self) -> None:
        self._waiting_since_s = time.monotonic()
        self.waits(True)
        if not self.waited_s:
            self.warn("another process builds or measures on this machine: this one waits for its turns")

    def begin(self, program: Lowered) -> None:
        """Builds what is missing of a program's units while others are lowered, unless another process builds
        or measures: the machine is this one's until it has built something or measured.
        """
        if not program.units or self._known_units().has(program):
            return
        if self._held is None:
            held = ExitStack()
            try:
                held.enter_context(machine_lock(self.options.lock, _refuse))
            except BlockingIOError:
                return
            self._held = held
        self._known_units().begin([program])

    def _settle(self) -> None:
        """Ends what was begun."""
        held, self._held = self._held, None
        with held or nullcontext():
            if self._units is not None:
                self._units.settle()

    def build(self, programs: Sequence[Lowered]) -> None:
        """Builds programs for `run`, as many at a time as there are CPUs; forgets those of the last call."""
        self._forget_built()
        folder = self._ahead.enter_context(scratch_folder())
        with self._machine_lock():
            self._built = dict(zip(programs, self._build_all(programs, folder), strict=True))

    def run(self, lowered: Lowered, best_ns: float | None, limit_s: float | None = None) -> Outcome:
        """Builds, checks, times, checks again; what would be the best on the adversarial cases too, and
        twice, but for one that takes all the time there is for timing: of that, luck is a small part.
        """
        with self._quiet(), scratch_folder() as folder:
            try:
                library = self._library(lowered, folder)
                found = self._measured(lowered, library, best_ns, limit_s)
                timing, _ = found
                if timing.samples > 1 and (best_ns is None or timing.time_ns < best_ns):
                    again = self._measured(lowered, library, best_ns, limit_s)
                    found = max(found, again, key=lambda measured: measured[0].time_ns)
                timing, phases_ns = found
                return Outcome(timing, phases_ns=phases_ns)
            except BuildError as error:
                return _not_built(error)
            except WorkerFailure as error:
                self.workers.drop()
                return Outcome(None, error.failure, error.message)
            except KeyboardInterrupt:
                # The worker may still answer what nobody waits for.
                self.workers.drop()
                raise

    def _measured(
        self, lowered: Lowered, library: Path, best_ns: float | None, limit_s: float | None
    ) -> tuple[Timing, tuple[tuple[str, float], ...]]:
        """The time of all, and those of phases."""
        server, worker = self.workers.ready()
        loops = len(lowered.phases)
        measurement = Measurement(
            worker, server.cases, library, self._symbol, self.options, best_ns, loops, limit_s
        )
        timing = measurement.timing()
        self._note(len(measurement.samples_ns), len(measurement.disturbed_ns))
        phases_ns: dict[str, float] = {}
        for name, lasted_ns in zip(lowered.phases, measurement.loops_ns, strict=False):
            if name:
                phases_ns[name] = phases_ns.get(name, 0.0) + lasted_ns
        return timing, tuple(phases_ns.items())

    def _note(self, steady: int, disturbed: int) -> None:
        """Samples of one measurement."""
        self._samples += steady + disturbed
        self._disturbed += disturbed
        share = self._disturbed / max(1, self._samples)
        if not self._is_told and self._samples >= OF_SAMPLES and share > OFTEN:
            self._is_told = True
            self.warn(
                f"other programs interrupt {share:.0%} of what is timed on this machine: times scatter, and "
                f"what is found may be slower than what is found while nothing else runs"
            )

    def glance(self, programs: Sequence[Lowered]) -> Sequence[float]:
        """A few calls of each, which stays loaded as long as it is asked for again and again."""
        try:
            with self._quiet():
                for program in self._glanced.keys() - set(programs):
                    self._forget_glanced(program)
                return [self._glancing(program).glance_ns() for program in programs]
        except BuildError:
            return ()
        except WorkerFailure:
            self.workers.drop()
            return ()
        except KeyboardInterrupt:
            self.workers.drop()
            raise

    def _glancing(self, program: Lowered) -> Measurement:
        """Of a program, begun in the worker that there is now."""
        known = self._glanced.get(program)
        server, worker = self.workers.ready()
        if known is not None and known.measurement.worker is worker:
            return known.measurement
        library = self._kept_library(program) if known is None else known.library
        measurement = Measurement(worker, server.cases, library, self._symbol, self.options, None)
        measurement.begin()
        self._glanced[program] = _Glanced(library, measurement)
        return measurement

    def _kept_library(self, program: Lowered) -> Path:
        """A copy of what was built for `run`, or else built now; raises `BuildError`."""
        folder = self._kept_folder()
        library = self._library(program, folder)
        if program not in self._built:
            return library
        with writing_to(folder):
            return Path(shutil.copy(library, folder))

    def _forget_glanced(self, program: Lowered) -> None:
        known = self._glanced.pop(program)
        _, worker = self.workers.ready()
        if known.measurement.worker is worker:
            known.measurement.end()
        known.library.unlink()

    def compare(self, contenders: Sequence[Lowered], processes: int = 1) -> Sequence[Outcome]:
        """Those that can be built take turns."""
        outcomes: dict[int, Outcome] = {}
        with self._quiet(), scratch_folder() as folder:
            libraries: dict[int, Path] = {}
            for number, library in enumerate(self._build_all(contenders, folder)):
                if isinstance(library, BuildError):
                    outcomes[number] = _not_built(library)
                else:
                    libraries[number] = library
            outcomes |= Turns(self.workers, self._symbol, self.options, processes).outcomes(libraries)
        return [outcomes[number] for number in range(len(contenders))]

    # ---- Workers ---------------------------------------------------------------------------------------

    @property
    def _symbol(self) -> str:
        return entry_name(self.kernel.name)

    def _build(self, lowered: Lowered, folder: Path) -> Path:
        """The library, of units that are there; raises `BuildError`."""
        library = folder / f"{lowered.digest[:16]}-{time.monotonic_ns()}.so"
        more: list[str] = [f"-DPOOL_ENDS={len(lowered.phases)}"] if lowered.phases else []
        code = lowered.code
        if lowered.units:
            code = lowered.units[0]
            more += map(str, self._known_units().of(lowered))
        return build_library(code, library, timeout_s=self.options.build_timeout_s, extra_flags=tuple(more))

    def _library(self, program: Lowered, folder: Path) -> Path:
        """What was built for `run`, or else is built now, in that folder; raises `BuildError`."""
        library = self._built.get(program) or self._build_all([program], folder)[0]
        if isinstance(library, BuildError):
            raise library
        return library

    def _known_units(self) -> Units:
        if self._units is None:
            self._units = Units(self._kept_folder(), self.options.build_timeout_s)
        return self._units

    def _kept_folder(self) -> Path:
        """For what is needed until the evaluator closes."""
        if self._folder is None:
            self._folder = self._kept.enter_context(scratch_folder())
        return self._folder

    def _build_all(self, programs: Sequence[Lowered], folder: Path) -> list[Path | BuildError]:
        """Their libraries, or why there is none."""

        def built(program: Lowered) -> Path | BuildError:
            try:
                return self._build(program, folder)
            except BuildError as error:
                return error

        if any(program.units for program in programs):
            self._known_units().build(programs)
        with ThreadPoolExecutor(len(processor.usable_cpus())) as compilers:
            return list(compilers.map(built, programs))

    def _forget_built(self) -> None:
        self._built = {}
        self._ahead.close()


def _not_built(error: BuildError) -> Outcome:
    return Outcome(None, Failure.BUILD_TIMEOUT if error.timed_out else Failure.BUILD_ERROR, str(error))
