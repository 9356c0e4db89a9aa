"""Implementations that were written down: rebuilt, measured again, printed, called.

In: the path of a record (`best.json`). Out: a `Replay`, C code, or a function on NumPy arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from spacedsl import record
from spacedsl.api.problem import ChangedError, Listener, Preparing, Problem, generator_digest, pose
from spacedsl.codegen.build import find_compiler
from spacedsl.codegen.evaluator import CpuEvaluator
from spacedsl.codegen.native import Function, build_function
from spacedsl.diagnostics import Source
from spacedsl.kernels.device import CpuDevice
from spacedsl.kernels.evaluation import Lowered, Outcome
from spacedsl.kernels.kernel_file import check_kernel
from spacedsl.record import Record
from spacedsl.search.run import ContradictionError, UnknownDecisionError, decided


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


def _rebuilt(recorded: Record, path: Path, on_event: Listener) -> tuple[Problem, Lowered, CpuEvaluator]:
    source = Source(str(path), recorded.kernel.text)
    kernel = check_kernel(source, Path(recorded.kernel.path), recorded.kernel.sizes)
    problem = pose(kernel, Path(recorded.space.path), _device(recorded, path), on_event)
    try:
        candidate = decided(problem.instance, problem.root, recorded.as_decisions())
    except (ContradictionError, UnknownDecisionError) as error:
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


def _device(recorded: Record, path: Path) -> CpuDevice:
    try:
        return CpuDevice.model_validate(recorded.device)
    except ValidationError as error:
        raise ChangedError(
            f"{path}: its `device` is no description of a machine: {error.errors()[0]['msg']}"
        ) from None
