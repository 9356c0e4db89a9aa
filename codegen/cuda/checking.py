"""Checking what is made for a GPU on a CPU: each implementation on a corner of its kernel, by its twin.

In: complete candidates. Out: for each, `None` or what is wrong with it. A corner is so small that all test
cases of it, their reference and the run take some tens of milliseconds, however large the kernel is; each is
checked in a worker process of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spacedsl.codegen.build import BuildError, find_compiler
from spacedsl.codegen.cases import not_finite
from spacedsl.codegen.cuda.corners import PARTS_OF_TILES, WHOLE_TILES, Kept, on_corner
from spacedsl.codegen.cuda.lower import lower_grids
from spacedsl.codegen.cuda.printer import print_cuda
from spacedsl.codegen.cuda.twin import build_twin
from spacedsl.codegen.implementation import LoweringError
from spacedsl.codegen.lack import EnvironmentLack
from spacedsl.codegen.measurement import Measurement, Options
from spacedsl.codegen.names import entry_name
from spacedsl.codegen.process import WorkerFailure, WorkerProcess
from spacedsl.codegen.program import Barrier, Branch, Grid, Loop, Multiply, Program, Statement, Where
from spacedsl.codegen.scratch import scratch_folder
from spacedsl.codegen.verify import VerificationError, verify
from spacedsl.codegen.workers import Workers
from spacedsl.diagnostics import DiagnosticError
from spacedsl.engine.candidate import Candidate
from spacedsl.kernels.corner import enclosing
from spacedsl.kernels.evaluation import Failure, Outcome
from spacedsl.kernels.kernel_file import KernelFile

EASILY_EXECUTED = 1 << 25
"""Statements, by all threads: a tenth of a second. A corner of more is cut across tiles, too."""

MOST_EXECUTED = 1 << 30
"""More would take seconds for each test case."""

_SWITCH = 16
"""Statements that a barrier takes as long as, and what a warp multiplies."""

SHUFFLED = 3
"""An order of threads that twins run in: none that a loop over threads would have."""

_CORNER_TIMEOUT_S = 60.0
_TRIED_EXTENT = 64


@dataclass(frozen=True, slots=True)
class Twin:
    """An implementation of a corner, built."""

    extents: dict[str, int]
    library: Path


@dataclass(slots=True, eq=False)
class Checker:
    kernel: KernelFile
    options: Options
    _workers: Workers = field(init=False)

    def __post_init__(self) -> None:
        self._workers = Workers(self.kernel, 0, self.options, has_cases=False)

    def open(self) -> None:
        """Starts what workers are forked from.

        Raises `EnvironmentLack` without a compiler of C++, `DiagnosticError` for a kernel whose results are
        not finite.
        """
        find_compiler()
        with scratch_folder() as folder:
            try:
                build_twin("", folder / "empty.so")
            except BuildError as error:
                raise EnvironmentLack(
                    f"no C++ compiler for checking code for GPUs (g++, clang, or: pip install "
                    f"'spacedsl[zig]'): {error}"
                ) from None
        extents = self.kernel.computation.extents
        tried = enclosing(self.kernel.computation, lambda i, n: min(extents[i], max(n, _TRIED_EXTENT)))
        try:
            with self._workers.fresh() as worker:
                line = _enter(worker, tried).get("not_finite")
        except WorkerFailure as error:
            raise EnvironmentLack(f"no test cases can be made: {error.message}") from None
        if line is not None:
            raise DiagnosticError([not_finite(self.kernel, line)])

    def close(self) -> None:
        self._workers.close()

    def check(self, candidate: Candidate) -> Outcome | None:
        """What is wrong with a complete candidate; None where it does what NumPy does, on all test cases.

        Threads may check several at the same time.
        """
        with scratch_folder() as folder:
            twin = self._build(candidate, folder / "twin.so")
            return twin if isinstance(twin, Outcome) else self._wrong(twin)

    def _build(self, candidate: Candidate, library: Path) -> Twin | Outcome:
        """The twin of a candidate on the smallest corner that says enough; or why there is none."""
        try:
            for kept in (WHOLE_TILES, PARTS_OF_TILES):
                cut, program = corner_program(self.kernel, candidate, kept)
                count = executed(program.body)
                if count <= EASILY_EXECUTED:
                    break
        except (LoweringError, VerificationError) as error:
            return Outcome(None, Failure.LOWERING, f"on a corner: {error}")
        if count > MOST_EXECUTED:
            message = f"a CPU cannot check it in time: no corner of it has less than {count:.1e} statements"
            return Outcome(None, Failure.RUN_TIMEOUT, message)
        try:
            build_twin(print_cuda(program), library, order=SHUFFLED)
        except BuildError as error:
            return Outcome(
                None, Failure.BUILD_TIMEOUT if error.timed_out else Failure.BUILD_ERROR, str(error)
            )
        return Twin(dict(cut.computation.extents), library)

    def _wrong(self, twin: Twin) -> Outcome | None:
        try:
            with self._workers.fresh() as worker:
                answer = _enter(worker, twin.extents)
                if "not_finite" in answer:
                    message = f"line {answer['not_finite']} is not finite on a corner: it cannot be checked"
                    return Outcome(None, Failure.WORKER_LOST, message)
                symbol = entry_name(self.kernel.name)
                Measurement(worker, answer["cases"], twin.library, symbol, self.options, None).begin()
        except WorkerFailure as error:
            return Outcome(None, error.failure, error.message)
        return None


def _enter(worker: WorkerProcess, extents: Mapping[str, int]) -> dict[str, Any]:
    """A worker makes the cases of a corner: a random one, and one that has all weaknesses."""
    return worker.request("corner", _CORNER_TIMEOUT_S, extents=extents)


def corner_program(kernel: KernelFile, candidate: Candidate, kept: Kept) -> tuple[KernelFile, Program]:
    """A corner of the kernel, and the program of a complete candidate there.

    Raises `LoweringError`, `VerificationError`.
    """
    cut, made = on_corner(kernel, candidate, kept)
    return cut, verify(lower_grids(cut.backbone, made))


def executed(body: Sequence[Statement]) -> int:
    """Statements that all threads of all grids execute; of two branches, the longer one counts."""
    count = 0
    for statement in body:
        count += 1
        match statement:
            case Grid():
                count += statement.blocks * statement.threads * executed(statement.body)
            case Loop():
                count += statement.extent * (1 + executed(statement.body))
            case Where():
                count += executed(statement.body)
            case Barrier() | Multiply():
                count += _SWITCH
            case Branch():
                count += max(executed(statement.body), executed(statement.otherwise))
    return count
