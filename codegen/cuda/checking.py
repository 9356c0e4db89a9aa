"""Checking what is made for a GPU on a CPU: each implementation on a corner of its kernel, by its twin.

In: complete candidates. Out: for each, `None` or what is wrong with it. A corner is so small that all test
cases of it, their reference and the run take little time, however large the kernel is; each candidate is
checked in a worker process of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from spacedsl.codegen.c.build import BuildError, find_compiler
from spacedsl.codegen.c.names import entry_name
from spacedsl.codegen.checks import Part, checks, finite
from spacedsl.codegen.cuda.printer import print_cuda
from spacedsl.codegen.cuda.twin import BYTEWISE, WATCHED, build_twin, unoptimised
from spacedsl.codegen.generation import Corner, Generation, generation
from spacedsl.codegen.lack import EnvironmentLack
from spacedsl.codegen.running.cases import NotFiniteError
from spacedsl.codegen.running.corner_workers import CornerWorkers
from spacedsl.codegen.running.measurement import Measurement, Options
from spacedsl.codegen.running.process import WorkerFailure
from spacedsl.codegen.scratch import scratch_folder
from spacedsl.codegen.tree.errors import LoweringError, VerificationError
from spacedsl.codegen.tree.parts import own_memory
from spacedsl.codegen.tree.program import (
    Barrier,
    Branch,
    Coordinate,
    Grid,
    Let,
    Loop,
    Multiply,
    PerThread,
    Program,
    Statement,
    Sweep,
    Take,
    When,
    Where,
)
from spacedsl.codegen.tree.ranges import Ranges
from spacedsl.codegen.tree.verify import verify
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.backbones import MeasurableKernel
from spacedsl.kernels.evaluation import Failure, Outcome
from spacedsl.kernels.pipeline.affine import Linear

EASILY_EXECUTED = 1 << 25
"""Statements, by all threads: a tenth of a second, or what takes twice as long and is built in half the time.
A corner of more is cut across tiles, too."""

EASILY_WATCHED = 1 << 21
"""The same where each access is watched, which takes some times as long. Where that is more, one test case is
watched, in one order of threads: a race does not depend on values."""

MOST_EXECUTED = 1 << 30
"""More would take seconds for each test case."""

_NOTHING = Ranges()

_SWITCH = 16
"""Statements that a barrier takes as long as, and what a warp multiplies."""

SHUFFLED, ASCENDING, DESCENDING = 3, 0, 1
"""Orders of threads that twins run in: the first one is none that a loop over threads would have."""

_PUT_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class Twin:
    """An implementation of a corner, built."""

    part: Part
    library: Path
    is_easy: bool
    """Whether it runs in little time."""


@dataclass(slots=True, eq=False)
class Checker:
    kernel: MeasurableKernel
    options: Options
    _workers: CornerWorkers = field(init=False)
    _generation: Generation = field(init=False)

    def __post_init__(self) -> None:
        self._generation = generation(self.kernel)
        self._workers = CornerWorkers(self.kernel, self.options)

    def open(self) -> None:
        """Starts what workers are forked from.

        Raises `EnvironmentLack` without a compiler of C++, `DiagnosticError` for a kernel whose results are
        not finite.
        """
        find_compiler()
        with scratch_folder() as folder:
            try:
                build_twin("", folder / "empty.so", extra_flags=unoptimised(""))
            except BuildError as error:
                raise EnvironmentLack(
                    f"no C++ compiler for checking code for GPUs (g++, clang, or: pip install "
                    f"'spacedsl[zig]'): {error}"
                ) from None
        try:
            with finite(self.kernel), self._workers.fresh(self._generation.tried(self.kernel)):
                pass
        except WorkerFailure as error:
            raise EnvironmentLack(f"no test cases can be made: {error.message}") from None

    def close(self) -> None:
        self._workers.close()

    def check(self, candidate: Candidate, *, is_watched: bool = False) -> Outcome | None:
        """What is wrong with a complete candidate; None where it does what NumPy does, on all test cases.

        `is_watched`: in several orders of threads, and where no two of them meet whose order nothing says,
        also where all values are right; of what computes much, only that, on one test case. Threads may check
        several at the same time.
        """
        for number, series in enumerate(self._generation.corners(self.kernel, candidate)):
            with scratch_folder() as folder:
                twin = self._build(series, folder / f"twin{number}.so", is_watched=is_watched)
                wrong = twin if isinstance(twin, Outcome) else self._wrong(twin, is_watched=is_watched)
                if wrong is not None:
                    return wrong
        return None

    def _build(self, series: Sequence[Corner], library: Path, *, is_watched: bool) -> Twin | Outcome:
        """The twin of a candidate on the smallest corner that says enough; or why there is none."""
        try:
            easily = EASILY_WATCHED if is_watched else EASILY_EXECUTED
            part, program, count = _easy(series, easily)
            verify(program)
        except (LoweringError, VerificationError) as error:
            return Outcome(None, Failure.LOWERING, f"on a corner: {error}")
        if count > MOST_EXECUTED:
            message = f"a CPU cannot check it in time: no corner of it has less than {count:.1e} statements"
            return Outcome(None, Failure.RUN_TIMEOUT, message)
        try:
            # What is soon run takes longer to build.
            code = print_cuda(program)
            speed = unoptimised(code) if count <= EASILY_EXECUTED else ()
            flags = (*speed, *watching(), *_cells(program)) if is_watched else speed
            build_twin(code, library, order=SHUFFLED, extra_flags=flags)
        except BuildError as error:
            return Outcome(
                None, Failure.BUILD_TIMEOUT if error.timed_out else Failure.BUILD_ERROR, str(error)
            )
        return Twin(part, library, count <= easily)

    def _wrong(self, twin: Twin, *, is_watched: bool) -> Outcome | None:
        is_brief = is_watched and not twin.is_easy
        try:
            with self._workers.fresh(twin.part) as (worker, cases):
                symbol = entry_name(self.kernel.name)
                run = 1 if is_brief else cases
                measurement = Measurement(worker, run, twin.library, symbol, self.options, None)
                measurement.begin()
                for order in (ASCENDING, DESCENDING) if is_watched and not is_brief else ():
                    worker.request(
                        "put", _PUT_TIMEOUT_S, handle=measurement.handle, variable="twin_order", number=order
                    )
                    measurement.check_usual()
        except WorkerFailure as error:
            return Outcome(None, error.failure, error.message)
        except NotFiniteError as error:
            said = checks(self.kernel).not_finite(self.kernel, error.line)
            return Outcome(None, Failure.WORKER_LOST, f"on a corner: {said.message}")
        return None


def watching() -> tuple[str, ...]:
    """Flags of a twin that sees races; of compilers other than GCC, of one that does not."""
    return () if find_compiler().is_clang else WATCHED


def _cells(program: Program) -> tuple[str, ...]:
    """The flag that has races looked for byte by byte, where something is a byte."""
    arrays = (*program.tensors, *own_memory(program))
    return (BYTEWISE,) if any(array.dtype.nbytes == 1 for array in arrays) else ()


def _easy(series: Sequence[Corner], easily: int) -> tuple[Part, Program, int]:
    """The first that is easily executed, or the last one; and how many statements that takes.

    What has too much work, beside what has been lowered, is not lowered.
    """
    at, last = 0, len(series) - 1
    while True:
        part, program = series[at].lower()
        count = executed(program.body)
        if count <= easily or at == last:
            return part, program, count
        few = easily / count * series[at].work
        at = next((n for n in range(at + 1, last) if series[n].work <= few), last)


def executed(body: Sequence[Statement], ranges: Ranges = _NOTHING) -> int:
    """Statements that all threads of all grids execute, at most; of two branches, the longer one counts."""
    count = 0
    for statement in body:
        count += 1
        match statement:
            case Grid(_, blocks, threads, coordinates, _, inner):
                count += blocks * threads * executed(inner, _counted(coordinates, ranges))
            case Loop(_, extent, inner):
                count += extent * (1 + executed(inner, ranges))
            case Where(_, inner):
                count += executed(inner, ranges)
            case PerThread(coordinates, inner):
                count += executed(inner, _counted(coordinates, ranges))
            case Let(variable, position):
                ranges = ranges.with_position(variable, position)
            case Take(variable, _, low, high):
                ranges = ranges.with_loop(variable, Linear(low), Linear(high))
            case Sweep(variable, first, last, step, inner):
                inside = ranges.with_loop(variable, first, last)
                turns = (ranges.greatest(last + first * -1) or 0) // step + 1
                count += turns * (1 + executed(inner, inside))
            case Barrier() | Multiply():
                count += _SWITCH
            case Branch(_, _, inner, otherwise) | When(_, inner, otherwise):
                count += max(executed(inner, ranges), executed(otherwise, ranges))
    return count


def _counted(coordinates: Sequence[Coordinate], ranges: Ranges) -> Ranges:
    for c in coordinates:
        ranges = ranges.with_loop(c.variable, Linear(0), Linear(c.extent - 1))
    return ranges
