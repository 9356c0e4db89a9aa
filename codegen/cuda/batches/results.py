"""What came back of an offline batch: the lines of `results.jsonl`, each at its place in the batch.

In: the path of the file, in the folder of its batch. Out: `BatchResults`, or diagnostics at the line that is
wrong. A last line that was cut off is left out: the batch goes on there. Nothing is written.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spacedsl.codegen.cuda.batches.folders import BATCH, DECISIONS, PROBLEM, code_path
from spacedsl.codegen.running.timing import summarise
from spacedsl.diagnostics import Diagnostic, DiagnosticError, Source, Span
from spacedsl.engine.decision import Decision
from spacedsl.kernels.evaluation import Failure, Outcome

_Model = TypeVar("_Model", bound=BaseModel)

Samples = Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1)]


class _Read(BaseModel):
    """Of what other programs may add, nothing is asked."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class MeasuredDevice(_Read):
    """As its driver describes it."""

    name: str
    compute_capability: str
    driver: str
    sms: int


class _DeviceLine(_Read):
    device: MeasuredDevice
    limits: dict[str, float]
    """What a launch costs (ns), and what memory and arithmetic gave at best (per ns)."""


class _TimedLine(_Read):
    problem: str
    digest: str
    warm_ns: Samples
    cold_ns: Samples
    sm_mhz: int | None


class _FailedLine(_Read):
    problem: str
    digest: str
    failure: Failure
    message: str


class Entry(_Read):
    """An implementation of a batch."""

    digest: str
    predicted_ns: float
    bound_ns: float


class _Problem(_Read):
    kernel: str
    sizes: dict[str, int]
    cache: Literal["warm", "cold"]
    runs: tuple[Path, ...]
    implementations: tuple[Entry, ...]


class _Batch(_Read):
    schema_version: Literal[2] = Field(alias="schema")
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """An implementation of a batch, and what became of it; `warm` and `cold`: the L2 cache."""

    entry: Entry
    warm: Outcome
    cold: Outcome


@dataclass(frozen=True, slots=True)
class ProblemResults:
    """What came back of one kernel."""

    name: str
    kernel: str
    sizes: Mapping[str, int]
    cache: Literal["warm", "cold"]
    """What the kernel's time is measured with."""
    runs: tuple[Path, ...]
    folder: Path
    asked: int
    """Implementations in the batch."""
    measured: tuple[Measured, ...]
    decisions: Mapping[str, tuple[Decision, ...]]
    """What each implementation of the space is made of, by its digest."""
    codes: Mapping[str, str]
    """Of those of a run that were right."""

    def outcome(self, measured: Measured) -> Outcome:
        return measured.warm if self.cache == "warm" else measured.cold


@dataclass(frozen=True, slots=True)
class BatchResults:
    device: MeasuredDevice
    limits: Mapping[str, float]
    problems: tuple[ProblemResults, ...]


def read_results(path: Path) -> BatchResults:
    """All of it; raises `DiagnosticError` (RC002) for the first line or file that is wrong, `OSError`."""
    source = Source.read(path)
    batch = _document(path.parent / BATCH, _Batch)
    problems = {name: _document(path.parent / name / PROBLEM, _Problem) for name in batch.problems}
    entries = {(name, e.digest): e for name, problem in problems.items() for e in problem.implementations}
    about: _DeviceLine | None = None
    found: dict[tuple[str, str], Measured] = {}
    for offset, line in _lines(source):
        if isinstance(line, _DeviceLine):
            if about is not None and line.device.name != about.device.name:
                raise _wrong(
                    source, offset, f"from here on {line.device.name}, and before {about.device.name}"
                )
            about = line
            continue
        if about is None:
            raise _wrong(source, offset, "a result before the line that says what the device is")
        entry = entries.get((line.problem, line.digest))
        if entry is None:
            message = f"`{line.problem}` of this batch has no implementation {line.digest[:12]}"
            raise _wrong(source, offset, message)
        found[line.problem, line.digest] = _measured(entry, line)
    if about is None:
        raise _wrong(source, 0, "no results: there is no line about a device")
    return BatchResults(
        about.device,
        about.limits,
        tuple(
            _results(path.parent / name, problem, [each for (of, _), each in found.items() if of == name])
            for name, problem in problems.items()
        ),
    )


def _results(folder: Path, problem: _Problem, measured: Sequence[Measured]) -> ProblemResults:
    # What is of no run is not taken back into one.
    made_of = _decisions(folder / DECISIONS) if problem.runs or (folder / DECISIONS).exists() else {}
    taken = [each for each in measured if problem.runs and each.entry.digest in made_of]
    return ProblemResults(
        folder.name,
        problem.kernel,
        problem.sizes,
        problem.cache,
        problem.runs,
        folder,
        len(problem.implementations),
        tuple(measured),
        made_of,
        {each.entry.digest: _code(folder, each) for each in taken if each.warm.is_valid},
    )


def _code(folder: Path, measured: Measured) -> str:
    return Source.read(folder / code_path(measured.entry.digest)).text


def _decisions(path: Path) -> dict[str, tuple[Decision, ...]]:
    """What each implementation is made of, by its digest."""
    packed = path.read_bytes()
    try:
        return {
            digest: tuple(
                Decision(choice, tuple(objects), tuple(values)) for choice, objects, values in made_of
            )
            for digest, made_of in json.loads(gzip.decompress(packed)).items()
        }
    except (OSError, EOFError, zlib.error, ValueError, TypeError, AttributeError, RecursionError):
        raise damaged(path, "this is not what `batch` writes: it is damaged") from None


def damaged(path: Path, message: str) -> DiagnosticError:
    """What is said of a file that is no text."""
    return _wrong(Source(str(path), ""), 0, message)


def _measured(entry: Entry, line: _TimedLine | _FailedLine) -> Measured:
    if isinstance(line, _FailedLine):
        failed = Outcome(None, line.failure, line.message)
        return Measured(entry, failed, failed)
    return Measured(entry, Outcome(summarise(line.warm_ns)), Outcome(summarise(line.cold_ns)))


def _lines(source: Source) -> Iterator[tuple[int, _DeviceLine | _TimedLine | _FailedLine]]:
    """Where each whole line begins, and what it says."""
    start = 0
    while (end := source.text.find("\n", start)) >= 0:
        yield start, _line(source, start, source.text[start:end])
        start = end + 1


def _line(source: Source, start: int, text: str) -> _DeviceLine | _TimedLine | _FailedLine:
    data = _json(source, start, text)
    keys = data if isinstance(data, dict) else {}
    if "device" in keys:
        return _valid(source, start, data, _DeviceLine)
    if "failure" in keys:
        return _valid(source, start, data, _FailedLine)
    return _valid(source, start, data, _TimedLine)


def _document(path: Path, model: type[_Model]) -> _Model:
    source = Source.read(path)
    return _valid(source, 0, _json(source, 0, source.text), model)


def _json(source: Source, start: int, text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise _wrong(source, start + error.pos, f"this is not JSON: {error.msg}") from None
    except ValueError:
        raise _wrong(source, start, "a number has too many digits") from None
    except RecursionError:
        raise _wrong(source, start, "this is nested too deeply") from None


def _valid(source: Source, start: int, data: object, model: type[_Model]) -> _Model:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        message = f"not what `run_batch.py` writes: {f'`{where}`: ' if where else ''}{first['msg']}"
        raise _wrong(source, start, message) from None


def _wrong(source: Source, offset: int, message: str) -> DiagnosticError:
    offset = min(offset, max(len(source.text) - 1, 0))
    return DiagnosticError([Diagnostic("RC002", message, Span(source, offset, offset + 1))])
