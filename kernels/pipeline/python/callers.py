"""Where in a user's Python something happens, and errors that say so.

In: frames that are running, or that have ended with an exception. Out: places in source text, found only when
they are asked for. Frames of the packages of pipelines are never the user's.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import CodeType, TracebackType
from typing import TypeVar

from spacedsl.diagnostics import Diagnostic, DiagnosticError, Source, Span
from spacedsl.kernels.pipeline.typing import DefinitionError

Made = TypeVar("Made")

_OWN = f"{Path(__file__).parents[1]}{os.sep}"


class PipelineError(DiagnosticError):
    """What is wrong with a pipeline that Python builds, each at its place in the user's source."""


@dataclass(frozen=True, slots=True)
class Caller:
    """An instruction of a user's function."""

    code: CodeType
    instruction: int

    @classmethod
    def here(cls) -> Caller:
        """Of the innermost frame that is not of the packages of pipelines."""
        frame = sys._getframe()
        while frame.f_back is not None and _is_own(frame.f_code):
            frame = frame.f_back
        return cls(frame.f_code, frame.f_lasti)

    @classmethod
    def of(cls, trace: TracebackType | None, file: str) -> Caller | None:
        """The innermost frame of a file that an exception has passed; None where it has passed none."""
        found = None
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == file:
                found = cls(trace.tb_frame.f_code, trace.tb_lasti)
            trace = trace.tb_next
        return found

    def span(self) -> Span:
        """Its expression; of what has no source, such as lines that are typed in, an empty line."""
        line, last, column, end = next(islice(self.code.co_positions(), self.instruction // 2, None))
        lines = linecache.getlines(self.code.co_filename)
        first = line or self.code.co_firstlineno
        if not 0 < first <= len(lines) or last is None or last > len(lines):
            source = Source(self.code.co_filename, "\n" * (first - 1))
            return Span(source, first - 1, first - 1)
        source = Source(self.code.co_filename, "".join(lines))
        start = source.line_starts[first - 1] + _characters(lines[first - 1], column or 0)
        stop = source.line_starts[last - 1] + _characters(lines[last - 1], end)
        return Span(source, start, stop)


def _is_own(code: CodeType) -> bool:
    return code.co_filename.startswith(_OWN)


def _characters(line: str, nbytes: int | None) -> int:
    """How many characters so many bytes of a line are; all of them where it is not known how many bytes."""
    return len(line.rstrip()) if nbytes is None else len(line.encode()[:nbytes].decode())


def located(make: Callable[[], Made], caller: Caller | None = None) -> Made:
    """What `make` returns; what is wrong is said at the caller, by default the line that is running."""
    try:
        return make()
    except DefinitionError as error:
        raise failure(error, caller or Caller.here()) from None


def failure(error: DefinitionError, caller: Caller, *related: tuple[Caller, str]) -> PipelineError:
    """The error at a place."""
    places = tuple((other.span(), words) for other, words in related)
    return PipelineError([Diagnostic(error.code, str(error), caller.span(), error.hint, related=places)])
