"""Implementations that were written down: rebuilt, measured again, printed, called.

In: the path of a record (`best.json`, `wrong-*.json`). Out: a `Replay`, C code, or a function on arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from spacedsl import record
from spacedsl.api.problem import (
    ChangedError,
    Listener,
    Preparing,
    Problem,
    UnknownNameError,
    UnverifiedError,
    generator_digest,
    pose,
)
from spacedsl.api.targets import TARGETS, recorded_machine
from spacedsl.codegen.cuda.launcher import print_launcher
from spacedsl.codegen.generation import generation
from spacedsl.codegen.halide.export import has_bf16, schedule_text
from spacedsl.codegen.lack import EnvironmentLack
from spacedsl.codegen.native import Function, build_function
from spacedsl.codegen.pipeline.schedule import CandidateDecisions
from spacedsl.codegen.tree.errors import LoweringError, VerificationError
from spacedsl.codegen.tree.verify import verify
from spacedsl.commands import command
from spacedsl.engine.candidate import Candidate
from spacedsl.engine.decision import UnknownDecisionError
from spacedsl.kernels.backbones import check_recorded
from spacedsl.kernels.device import CpuDevice
from spacedsl.kernels.evaluation import Lowered, Outcome
from spacedsl.kernels.gpu_device import GpuDevice
from spacedsl.kernels.pipeline.kernel_file import PipelineFile
from spacedsl.record import FailedRecord, MeasuredRecord, Record
from spacedsl.search.run import ContradictionError, decided


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """One implementation, made and measured again."""

    record: MeasuredRecord | FailedRecord
    lowered: Lowered | None
    """Its code; None where none can be made of the decisions."""
    outcome: Outcome | None
    """None where the space of today does not offer the decisions of a `FailedRecord`."""
    changes: tuple[str, ...]
    """What the code depends on and is not as it was: the space, the generator, the compiler, its flags."""
    refusal: str = ""
    """Why there is no outcome."""

    @property
    def is_identical(self) -> bool:
        """Whether the code is the recorded one, byte by byte."""
        digest = None if self.lowered is None else self.lowered.digest
        return self.outcome is not None and digest == self.record.code.digest

    @property
    def is_valid(self) -> bool:
        return self.outcome is not None and self.outcome.is_valid

    @property
    def is_reproduced(self) -> bool:
        """Whether the failure of a `FailedRecord` was seen again."""
        return (
            isinstance(self.record, FailedRecord)
            and self.outcome is not None
            and self.outcome.failure is self.record.failure
        )


def replay(path: Path | str, *, on_event: Listener = lambda event: None) -> Replay:
    """Rebuilds the implementation of a record, compares its code, checks it and measures it again.

    Raises `DiagnosticError` and `OSError` for a file that is no record, `ChangedError` where an
    implementation that was right can no longer be made, `EnvironmentLack`.
    """
    recorded = record.read(Path(path))
    problem = _posed(recorded, Path(path), on_event)
    changes = _changes(recorded, problem)
    evaluator = TARGETS[recorded.target].evaluator(problem.kernel, problem.device, on_event)
    try:
        lowered = evaluator.lower(_recorded_candidate(recorded, Path(path), problem))
    except ChangedError as error:
        if isinstance(recorded, MeasuredRecord):
            raise
        return Replay(recorded, None, None, changes, str(error))
    if isinstance(lowered, Outcome):
        if isinstance(recorded, MeasuredRecord):
            raise _no_code(Path(path), lowered.message)
        return Replay(recorded, None, lowered, changes)
    on_event(Preparing("building, checking and measuring"))
    evaluator.open()
    try:
        outcome = evaluator.run(lowered, None)
        if outcome.is_valid and isinstance(recorded, FailedRecord):
            # What is compared in the end is checked once more: on a GPU, for races as well.
            (outcome,) = evaluator.compare([lowered])
    finally:
        evaluator.close()
    return Replay(recorded, lowered, outcome, changes)


def load(path: Path | str) -> Function:
    """The implementation of a record as a function on NumPy arrays: `load("best.json")(A, B)` gives C.

    Its code is rebuilt from the decisions and compiled here; the record's own `best.c` is not needed.
    Raises `UnverifiedError` for the record of an implementation that is wrong, else as `replay` does.
    """
    recorded = record.read(Path(path))
    if isinstance(recorded, FailedRecord):
        raise UnverifiedError(
            f"{path}: this implementation failed ({recorded.failure}) and is not to be used; "
            f"`{command('replay', Path(path))}` shows how"
        )
    if recorded.target != "cpu":
        raise EnvironmentLack(f"{path}: code for a GPU cannot be called from here")
    problem, lowered = _rebuilt(recorded, Path(path))
    return build_function(problem.kernel, lowered.code)


def emit(path: Path | str) -> str:
    """The code of the implementation of a record, right or wrong."""
    return _rebuilt(record.read(Path(path)), Path(path))[1].code


def emit_launcher(path: Path | str) -> str:
    """A module of Python that calls the implementation of a record for a GPU; raises as `replay` does."""
    recorded = record.read(Path(path))
    if recorded.target != "cuda":
        raise UnknownNameError(
            f"{path}: only code for a GPU has a launcher; `spacedsl.load` calls the others"
        )
    problem, candidate = recorded_implementation(recorded, Path(path))
    assert isinstance(problem.device, GpuDevice)
    try:
        program = verify(generation(problem.kernel).lower_grids(problem.kernel, candidate))
    except (LoweringError, VerificationError) as error:
        raise _no_code(Path(path), str(error)) from None
    return print_launcher(program, problem.device.compute_capability)


def emit_halide(path: Path | str) -> str:
    """A module of Python that gives Halide the pipeline of a record, and its schedule; raises as `replay`."""
    recorded = record.read(Path(path))
    if recorded.target != "cpu":
        raise UnknownNameError(f"{path}: only schedules for a CPU are printed for Halide")
    problem, candidate = recorded_implementation(recorded, Path(path))
    if not isinstance(problem.kernel, PipelineFile):
        raise UnknownNameError(f"{path}: only pipelines have schedules for Halide")
    if has_bf16(problem.kernel.algorithm):
        raise UnknownNameError(f"{path}: Halide's Python package takes no bf16, which this pipeline has")
    assert isinstance(problem.device, CpuDevice)
    return schedule_text(problem.kernel, CandidateDecisions(candidate), problem.device.vector_bytes)


def recorded_implementation(recorded: Record, path: Path) -> tuple[Problem, Candidate]:
    """The problem of a record, and its decisions; raises as `replay` does."""
    problem = _posed(recorded, path, lambda event: None)
    return problem, _recorded_candidate(recorded, path, problem)


def _rebuilt(recorded: Record, path: Path) -> tuple[Problem, Lowered]:
    problem, candidate = recorded_implementation(recorded, path)
    evaluator = TARGETS[recorded.target].evaluator(problem.kernel, problem.device, lambda event: None)
    lowered = evaluator.lower(candidate)
    if isinstance(lowered, Outcome):
        raise _no_code(path, lowered.message)
    return problem, lowered


def _posed(recorded: Record, path: Path, on_event: Listener) -> Problem:
    target, device = recorded_machine(recorded.target, recorded.device, path)
    of = recorded.kernel
    kernel = check_recorded(of.path, of.text, of.sizes, target.kind)
    return pose(kernel, Path(recorded.space.path), device, on_event)


def _recorded_candidate(recorded: Record, path: Path, problem: Problem) -> Candidate:
    """The recorded decisions; raises `ChangedError` where the space of today refuses them."""
    try:
        candidate = decided(problem.instance, problem.root, recorded.as_decisions())
    except (ContradictionError, UnknownDecisionError) as error:
        raise ChangedError(
            f"{path}: its decisions are not possible in {recorded.space.path} of today: {error}"
        ) from None
    if not candidate.is_complete:
        raise ChangedError(f"{path}: its decisions leave others open in {recorded.space.path} of today")
    return candidate


def _no_code(path: Path, message: str) -> ChangedError:
    return ChangedError(f"{path}: no code can be made of its decisions: {message}")


def _changes(recorded: Record, problem: Problem) -> tuple[str, ...]:
    compiler, flags = TARGETS[recorded.target].compiler()
    then_and_now = {
        f"the space {recorded.space.path}": (recorded.space.digest, problem.space.digest),
        "the code generator": (recorded.code.generator, generator_digest()),
        f"the compiler, then {recorded.code.compiler}": (recorded.code.compiler, compiler),
        "the flags of the compiler": (recorded.code.flags, flags),
    }
    return tuple(what for what, (then, now) in then_and_now.items() if then != now)
