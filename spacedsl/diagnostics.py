"""Positions in source text, diagnostics about them, and their rendering under a caret.

In: a `Source` and what is wrong in it. Out: `Diagnostic` values, and their text for a person.
Every stage that reads a user's file reports through this module; nothing here prints.
"""

from __future__ import annotations

import codecs
import enum
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

LINE_END = re.compile(r"\r\n|\n|\r")
"""What ends a line of a file, whatever else counts as a line break elsewhere."""


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A named text. Equality is identity: one file that is read once is one source."""

    name: str
    text: str = field(repr=False)
    line_starts: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "line_starts", (0, *(m.end() for m in LINE_END.finditer(self.text))))

    @classmethod
    def read(cls, path: Path) -> Source:
        """The file's text as UTF-8; raises `DiagnosticError` (SP001) where it is not UTF-8.

        Raises `OSError` where the file cannot be read: the caller knows whether that is a wrong
        command line or a wrong `include`.
        """
        return cls.decode(str(path), path.read_bytes())

    @classmethod
    def decode(cls, name: str, data: bytes) -> Source:
        """The text that the bytes are in UTF-8; raises `DiagnosticError` (SP001) where they are none."""
        data = data.removeprefix(codecs.BOM_UTF8)
        try:
            return cls(name, data.decode("utf-8"))
        except UnicodeDecodeError as error:
            source = cls(name, data.decode("utf-8", "replace"))
            start = len(data[: error.start].decode("utf-8", "replace"))
            span = Span(source, start, start + 1)
            raise DiagnosticError([Diagnostic("SP001", "this file is not UTF-8 text", span)]) from None

    def location(self, offset: int) -> tuple[int, int]:
        """(line, column) of an offset, both counted from 1."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line_start(self, offset: int) -> int:
        """The offset of the first character of the line that an offset lies in."""
        return self.line_starts[bisect_right(self.line_starts, offset) - 1]

    def line(self, number: int) -> str:
        """The text of line `number` (from 1), without its end."""
        start = self.line_starts[number - 1]
        end = self.line_starts[number] if number < len(self.line_starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")


@dataclass(frozen=True, slots=True)
class Span:
    """The characters `start` (inclusive) to `end` (exclusive) of a source."""

    source: Source
    start: int
    end: int

    @property
    def line(self) -> int:
        return self.source.location(self.start)[0]

    @property
    def column(self) -> int:
        return self.source.location(self.start)[1]

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def to(self, other: Span) -> Span:
        """The smallest span that covers both; both lie in one source."""
        return Span(self.source, min(self.start, other.start), max(self.end, other.end))

    def __str__(self) -> str:
        line, column = self.source.location(self.start)
        return f"{self.source.name}:{line}:{column}"


class Severity(enum.StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message about one place.

    `code` is stable: SP.. for spaces, KF.. for kernel files, DV.. for devices, RC.. for records.
    """

    code: str
    message: str
    span: Span
    hint: str | None = None
    """What was expected, or the edit that repairs it."""
    severity: Severity = Severity.ERROR
    related: tuple[tuple[Span, str], ...] = ()
    """Further places that explain the message, each with its own words."""


class DiagnosticError(Exception):
    """One or more diagnostics that stop a stage; the command line shows them and exits with 1."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        super().__init__("\n".join(render(d) for d in self.diagnostics))

    def at(self, place: Span) -> DiagnosticError:
        """The same about a place from which what is wrong was taken."""
        return DiagnosticError([replace(d, span=place) for d in self.diagnostics])


def in_order(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Those of one source, in the order of their places."""
    return tuple(sorted(diagnostics, key=lambda d: d.span.start))


def render(diagnostic: Diagnostic) -> str:
    """The diagnostic as plain text: location, message, source line, caret, hint, related places."""
    message = _shortened(diagnostic.message)
    lines = [f"{diagnostic.span}: {diagnostic.severity} {diagnostic.code}: {message}"]
    lines += _excerpt(diagnostic.span)
    if diagnostic.hint is not None:
        lines.append(f"  = {_shortened(diagnostic.hint)}")
    for span, words in diagnostic.related:
        lines.append(f"{span}: {words}")
        lines += _excerpt(span)
    return "\n".join(lines)


_EXCERPT_CHARACTERS = 160

_LONG_NAME = re.compile(r"(\w{60})\w{60,}(\w{20})")


def _excerpt(span: Span) -> Sequence[str]:
    number, column = span.source.location(span.start)
    line = span.source.line(number)
    # Of a very long line, the part around the span. What would move a terminal's cursor is replaced.
    first = max(0, min(column - 1 - _EXCERPT_CHARACTERS // 2, len(line) - _EXCERPT_CHARACTERS))
    text = printable(line[first:][:_EXCERPT_CHARACTERS])
    before = text[: column - 1 - first]
    width = max(1, sum(map(_columns, text[len(before) :][: span.end - span.start])))
    margin = " " * len(str(number))
    # Tabs are kept in front of the caret, so that it stands under the right character.
    lead = "".join(c if c == "\t" else " " * _columns(c) for c in before)
    return [f" {number} | {text}", f" {margin} | {lead}{'^' * width}"]


def printable(text: str) -> str:
    """The text with a sign in place of each character that has no look of its own, but for tabs."""
    return "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in text)


def _columns(character: str) -> int:
    """How many columns of a terminal the character takes."""
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _shortened(words: str) -> str:
    """Without the middle of very long names."""
    return _LONG_NAME.sub(r"\1...\2", words)


def counted(number: int, noun: str) -> str:
    """`1 file`, `2,000 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
