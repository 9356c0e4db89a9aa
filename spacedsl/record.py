"""The record of one implementation: everything that rebuilds its code, and what came of it.

In and out: a JSON file. `best.json` holds a `MeasuredRecord`, `wrong-*.json` the `FailedRecord` of an
implementation that is not what the kernel says; `verified` tells them apart. Decisions are held by stable
names, with the kernel's text and the hashes of everything that the code depends on, so that a replay can say
what has changed since. This module reads and writes; `spacedsl.api` rebuilds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spacedsl.diagnostics import Diagnostic, DiagnosticError, Source, Span
from spacedsl.engine.decision import Decision
from spacedsl.files import replace_text
from spacedsl.kernels.evaluation import Failure


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class KernelRecord(_Frozen):
    name: str
    path: str
    """Where the text came from: what `space:` in it is relative to. The text itself is not read again."""
    text: str
    sizes: dict[str, int]


class SpaceRecord(_Frozen):
    path: str
    digest: str
    """SHA-256 of the text of all its files."""


class CodeRecord(_Frozen):
    digest: str | None
    """SHA-256 of the code; None where none could be made."""
    generator: str
    """SHA-256 of the code generator's sources."""
    compiler: str
    flags: tuple[str, ...]


class DecisionRecord(_Frozen):
    choice: str
    objects: tuple[str, ...]
    values: tuple[str | int, ...] = Field(min_length=1)


class Record(_Frozen):
    """What rebuilds one implementation."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    kernel: KernelRecord
    space: SpaceRecord
    target: Literal["cpu", "cuda"]
    device: dict[str, Any]
    """The description that the space was instantiated with."""
    code: CodeRecord
    decisions: tuple[DecisionRecord, ...]

    def as_decisions(self) -> tuple[Decision, ...]:
        return tuple(Decision(d.choice, d.objects, d.values) for d in self.decisions)


class MeasuredRecord(Record):
    """An implementation that is right. Times are of one call, in nanoseconds."""

    time_ns: float = Field(gt=0)
    time_ci_ns: tuple[float, float]
    samples: int = Field(ge=0)
    """0 where the time is that of a model: no GPU has run it."""
    measured_on: str | None = None
    """The GPU that measured it, where that was another machine than the one that found it."""
    bound_ns: float = Field(ge=0)
    verified: Literal[True]
    """Code is timed only after its results were compared with the reference."""


class FailedRecord(Record):
    """An implementation that the space offers and that is wrong: it has no time, and is not to be used."""

    verified: Literal[False]
    failure: Failure
    message: str


def read(path: Path) -> MeasuredRecord | FailedRecord:
    """The record in a file; raises `DiagnosticError` where it is not one, `OSError` where there is none."""
    source = Source.read(path)
    try:
        document = json.loads(source.text)
    except json.JSONDecodeError as error:
        raise _wrong(source, error.pos, f"this is not JSON: {error.msg}") from None
    except ValueError:
        raise _wrong(source, 0, "this is not a record: a number has too many digits") from None
    except RecursionError:
        raise _wrong(source, 0, "this is not a record: it is nested too deeply") from None
    if not isinstance(document, dict) or "decisions" not in document:
        raise _wrong(source, 0, "this is JSON, but not the record of an implementation (best.json)")
    kind = FailedRecord if document.get("verified") is False else MeasuredRecord
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise _wrong(source, 0, f"this record is damaged: `{where}`: {first['msg']}") from None


def write(record: MeasuredRecord | FailedRecord, path: Path) -> None:
    """Writes the record; whoever reads the path at any moment sees an old or the new one, whole."""
    document = record.model_dump(mode="json", by_alias=True)
    decisions = ",\n".join(f"  {json.dumps(decision)}" for decision in document.pop("decisions"))
    head = json.dumps(document, indent=1).removesuffix("\n}")
    replace_text(path, f'{head},\n "decisions": [\n{decisions}\n ]\n}}\n')


def _wrong(source: Source, offset: int, message: str) -> DiagnosticError:
    offset = min(offset, max(len(source.text) - 1, 0))
    return DiagnosticError([Diagnostic("RC001", message, Span(source, offset, offset + 1))])
